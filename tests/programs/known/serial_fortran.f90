! As serial.c, in Fortran: OpenMP threads that take turns by a schedule of one iteration at a time in
! order, and work on common arrays: whole-array operations, reductions, strided sections.
!
! Usage: serial_fortran THREADS STEPS SEED
program serial_fortran
  use omp_lib
  use iso_c_binding
  implicit none
  integer, parameter :: n = 512
  real(8), target :: a(n), b(n)
  real(4), target :: m(16, 32)
  integer(4), target :: k(n)
  integer(4) :: places(64), place
  common /arena/ a, b, m, k
  integer :: threads, steps, step
  integer(8) :: seed
  real(8) :: total
  character(len=16) :: text
  threads = 4
  steps = 100
  seed = 1
  if (command_argument_count() > 0) then
    call get_command_argument(1, text)
    read (text, *) threads
  end if
  if (command_argument_count() > 1) then
    call get_command_argument(2, text)
    read (text, *) steps
  end if
  if (command_argument_count() > 2) then
    call get_command_argument(3, text)
    read (text, *) seed
  end if
  places = [(1 + mod(place*37, 101), place=1, 64)]
  call omp_set_num_threads(threads)
  total = 0
  !$omp parallel do ordered schedule(static, 1) private(step)
  do step = 1, steps
    !$omp ordered
    call work(step, seed, total)
    !$omp end ordered
  end do
  print '(a, z16.16, a, i0)', 'region arena 0x', transfer(c_loc(a), 0_8), ' ', 8*2*n + 4*16*32 + 4*n
  print '(a, es14.6)', 'checksum ', total
contains
  subroutine work(step, seed, total)
    integer, intent(in) :: step
    integer(8), intent(in) :: seed
    real(8), intent(inout) :: total
    integer :: i, at
    at = 1 + int(mod(int(step, 8)*7919_8*seed + 13_8*seed, 300_8))
    select case (mod(step*7 + int(seed), 10))
    case (0)
      a(at:at + 40) = b(at:at + 40)*0.5d0 + 1
    case (1)
      total = total + sum(a(at:at + 100))
    case (2)
      b(at:n:7) = real(step, 8)
    case (3)
      m(:, 1 + mod(at, 30)) = m(:, 2 + mod(at, 30)) + 1
    case (4)
      do i = at, at + 60
        k(i) = k(i) + ieor(i, step)
      end do
    case (5)
      total = total + maxval(k(at:at + 30))
    case (6)
      total = total + sum(a(at + places(1:64)))
    case (7)
      do i = 1, 64
        if (places(i) > 50) b(at + i) = a(at + places(i)) + 1
      end do
    case (8)
      m(3, 1:32:3) = 2.5
    case default
      a(at) = a(at + 1) + dot_product(a(at:at + 20), b(at:at + 20))
    end select
  end subroutine work
end program serial_fortran
