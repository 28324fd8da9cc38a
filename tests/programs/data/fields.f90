! Allocatable arrays that the initial thread fills; each thread of the team works on its columns.
program fields
    use omp_lib
    implicit none
    integer, parameter :: n = 256
    real(8), allocatable :: a(:, :), b(:, :)
    integer :: i, j, step
    allocate(a(n, n), b(n, n))
    do j = 1, n
        do i = 1, n
            a(i, j) = mod(i + j, 7)
            b(i, j) = 0
        end do
    end do
    do step = 1, 4
        !$omp parallel do schedule(static) num_threads(4)
        do j = 2, n - 1
            do i = 2, n - 1
                b(i, j) = 0.25d0 * (a(i - 1, j) + a(i + 1, j) + a(i, j - 1) + a(i, j + 1))
            end do
        end do
        !$omp parallel do schedule(static) num_threads(4)
        do j = 2, n - 1
            do i = 2, n - 1
                a(i, j) = b(i, j)
            end do
        end do
    end do
    print '(a, f0.3)', 'sum ', sum(a)
    deallocate(a, b)
end program fields
