! Counts how often a random walk comes back to 0; the counts are an array of a module.
module counts
    implicit none
    integer(8), volatile, save :: returns(16) = 0
contains
    subroutine walk(self, steps)
        integer, intent(in) :: self
        integer(8), intent(in) :: steps
        integer(8) :: step, state, place
        integer(8) :: own
        state = self
        place = 0
        own = 0
        do step = 1, steps
            state = mod(state*48271_8, 2147483647_8)
            place = place + 2*mod(state, 2_8) - 1
#ifdef FIXED
            if (mod(place, 4_8) == 0) own = own + 1
#else
            if (mod(place, 4_8) == 0) returns(self) = returns(self) + 1 ! @count
#endif
        end do
        returns(self) = returns(self) + own
    end subroutine
end module

program module_counts
    use counts
    use omp_lib
    implicit none
    integer :: threads, k
    integer(8) :: steps
    character(len=32) :: word

    threads = 4
    steps = 40000000_8
    if (command_argument_count() >= 1) then
        call get_command_argument(1, word)
        read (word, *) threads
    end if
    if (command_argument_count() >= 2) then
        call get_command_argument(2, word)
        read (word, *) steps
    end if
    call omp_set_num_threads(threads)
    !$omp parallel do
    do k = 1, threads
        call walk(k, steps)
    end do
    !$omp end parallel do
    print *, sum(returns)
end program
