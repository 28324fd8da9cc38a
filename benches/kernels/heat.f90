! Heat in a plate, rows of a two-dimensional grid shared out by OpenMP, and the largest change of
! each step by reduction. Usage: heat THREADS SCALE
program heat
  use omp_lib
  implicit none
  integer, parameter :: n = 768
  real(8), allocatable :: now(:, :), next(:, :)
  real(8) :: change
  integer :: i, j, step, steps, threads, scale
  character(len=16) :: text
  threads = 2
  scale = 1
  if (command_argument_count() > 0) then
    call get_command_argument(1, text)
    read (text, *) threads
  end if
  if (command_argument_count() > 1) then
    call get_command_argument(2, text)
    read (text, *) scale
  end if
  call omp_set_num_threads(threads)
  allocate (now(n, n), next(n, n))
  now = 0
  now(:, 1) = 100
  next = now
  steps = 200*scale
  do step = 1, steps
    change = 0
    !$omp parallel do schedule(static) private(i) reduction(max:change)
    do j = 2, n - 1
      do i = 2, n - 1
        next(i, j) = 0.25d0*(now(i - 1, j) + now(i + 1, j) + now(i, j - 1) + now(i, j + 1))
        change = max(change, abs(next(i, j) - now(i, j)))
      end do
    end do
    !$omp parallel do schedule(static) private(i)
    do j = 2, n - 1
      do i = 2, n - 1
        now(i, j) = next(i, j)
      end do
    end do
  end do
  print '(f12.6, f14.6)', change, sum(now)
end program heat
