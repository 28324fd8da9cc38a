! Patterns with known truth on OpenMP in Fortran: whole-array operations on page-aligned regions.
! The definitions are those of patterns.h; here writers never change, so that every round but the
! first also invalidates what was read. Participants are threads 0 to N-1.
module patterns
    use iso_c_binding
    implicit none

    interface
        function aligned_alloc(alignment, bytes) bind(c)
            import :: c_ptr, c_size_t
            integer(c_size_t), value :: alignment, bytes
            type(c_ptr) :: aligned_alloc
        end function
    end interface

contains

    ! Whether participant p reads the region of participant q.
    logical function reads(name, n, p, q)
        character(len=*), intent(in) :: name
        integer, intent(in) :: n, p, q
        select case (name)
        case ('pairs')
            reads = mod(p, 2) == 1 .and. q == p - 1
        case ('ring')
            reads = q == mod(p + n - 1, n)
        case ('reduction')
            reads = p == 0 .and. q /= 0
        case ('neighbours')
            reads = abs(p - q) == 1
        case ('all-to-all')
            reads = p /= q
        case ('private')
            reads = p == q
        case default
            stop 2
        end select
    end function

    subroutine print_expected(name, n, rounds, blocks)
        character(len=*), intent(in) :: name
        integer, intent(in) :: n, rounds
        integer(c_int64_t), intent(in) :: blocks
        integer :: p, q
        do q = 0, n - 1
            do p = 0, n - 1
                if (p == q .or. .not. reads(name, n, p, q)) cycle
                print '(a,i0,a,i0,a,i0)', 'expect raw ', q, ' ', p, ' ', rounds * blocks
                print '(a,i0,a,i0,a,i0)', 'expect invalidation ', q, ' ', p, ' ', &
                    (rounds - 1) * blocks
            end do
        end do
    end subroutine

end module

program known
    use omp_lib
    use patterns
    implicit none
    character(len=32) :: argument, name
    integer :: numbers(4), i, n, rounds, round, p, q
    integer(c_size_t) :: words
    real(c_double), pointer :: regions(:, :)
    real(c_double), allocatable :: sums(:)
    real(c_double) :: total

    call get_command_argument(1, name)
    do i = 1, 4
        call get_command_argument(i + 1, argument)
        read (argument, *) numbers(i)
    end do
    n = numbers(1)
    rounds = numbers(2)
    words = int(numbers(3), c_size_t) * 128
    call c_f_pointer(aligned_alloc(4096_c_size_t, words * 8 * n), regions, [int(words), n])
    allocate (sums(0:n - 1))

    call omp_set_dynamic(.false.)
    !$omp parallel num_threads(n) private(p, q, round, total)
    p = omp_get_thread_num()
    total = 0
    do round = 1, rounds
        regions(:, p + 1) = real(round * (p + 1), c_double)
        !$omp barrier
        do q = 0, n - 1
            if (reads(trim(name), n, p, q)) total = total + sum(regions(:, q + 1))
        end do
        !$omp barrier
    end do
    sums(p) = total
    !$omp end parallel

    do p = 0, n - 1
        print '(a,i0,a,f0.1)', 'checksum ', p, ' ', sums(p)
    end do
    call print_expected(trim(name), n, rounds, int(words, c_int64_t) * 8 / numbers(4))
end program
