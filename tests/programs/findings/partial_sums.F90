! The energy of a field; each thread adds to its element of an allocatable array.
program partial_sums
    use omp_lib
    implicit none
    integer :: threads, k, round, rounds, self
    real(8), allocatable :: field(:), partial(:)
    real(8) :: energy
    character(len=32) :: word

    threads = 4
    rounds = 100
    if (command_argument_count() >= 1) then
        call get_command_argument(1, word)
        read (word, *) threads
    end if
    if (command_argument_count() >= 2) then
        call get_command_argument(2, word)
        read (word, *) rounds
    end if
    call omp_set_num_threads(threads)

    allocate (field(1000000))
    allocate (partial(threads)) ! @alloc
    partial = 0
    do k = 1, size(field)
        field(k) = mod(k, 13) * 0.5d0
    end do

    energy = 0
#ifdef FIXED
    !$omp parallel private(k, round) reduction(+:energy)
    do round = 1, rounds
        !$omp do
        do k = 1, size(field)
            energy = energy + field(k)*field(k)
        end do
        !$omp end do
    end do
    !$omp end parallel
#else
    !$omp parallel private(self, k, round)
    self = omp_get_thread_num() + 1
    do round = 1, rounds
        !$omp do
        do k = 1, size(field)
            partial(self) = partial(self) + field(k)*field(k) ! @add
        end do
        !$omp end do
    end do
    !$omp end parallel
    energy = sum(partial)
#endif
    print '(f0.2)', energy
end program
