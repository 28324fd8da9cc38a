! NAS SP: systems with five diagonals along all lines of a three-dimensional grid, in one direction after the
! other; in the last one every line crosses what all threads have written. Usage: sp THREADS SCALE
program sp
  use omp_lib
  implicit none
  integer, parameter :: n = 40, m = 5
  real(8), allocatable :: u(:, :, :, :), right(:, :, :, :)
  real(8) :: norm
  integer :: i, j, k, step, threads, scale
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
  allocate (u(m, n, n, n), right(m, n, n, n))
  do k = 1, n
    do j = 1, n
      do i = 1, n
        u(:, i, j, k) = 1 + 0.01d0*mod(i*j + k, 13)
      end do
    end do
  end do
  right = 0
  do step = 1, 70*scale
    !$omp parallel private(i, j, k)
    !$omp do
    do k = 2, n - 1
      do j = 2, n - 1
        do i = 2, n - 1
          right(:, i, j, k) = 0.02d0*(u(:, i - 1, j, k) + u(:, i + 1, j, k) + u(:, i, j - 1, k) + &
                              u(:, i, j + 1, k) + u(:, i, j, k - 1) + u(:, i, j, k + 1) - 6*u(:, i, j, k))
        end do
      end do
    end do
    !$omp do
    do k = 2, n - 1
      do j = 2, n - 1
        call solve(right(:, :, j, k), u(1, :, j, k))
      end do
    end do
    !$omp do
    do k = 2, n - 1
      do i = 2, n - 1
        call solve(right(:, i, :, k), u(1, i, :, k))
      end do
    end do
    !$omp do
    do j = 2, n - 1
      do i = 2, n - 1
        call solve(right(:, i, j, :), u(1, i, j, :))
      end do
    end do
    !$omp do
    do k = 2, n - 1
      u(:, :, :, k) = u(:, :, :, k) + right(:, :, :, k)
    end do
    !$omp end parallel
  end do
  norm = 0
  do k = 1, n
    norm = norm + sum(right(:, :, :, k)**2)
  end do
  print '(es14.6, f14.6)', sqrt(norm), u(3, n/2, n/2, n/2)
contains
  ! Elimination without pivots, then substitution.
  subroutine solve(r, speed)
    real(8), intent(inout) :: r(m, n)
    real(8), intent(in) :: speed(n)
    real(8) :: left(-2:2, n), factor
    integer :: l, d
    do l = 1, n
      left(:, l) = [0.01d0, -0.1d0*speed(l), 1.5d0, -0.1d0*speed(l), 0.01d0]
    end do
    do l = 1, n - 1
      do d = 1, min(2, n - l)
        factor = left(-d, l + d)/left(0, l)
        left(-d + 1, l + d) = left(-d + 1, l + d) - factor*left(1, l)
        if (d == 1) left(1, l + d) = left(1, l + d) - factor*left(2, l)
        if (d == 2) left(0, l + d) = left(0, l + d) - factor*left(2, l)
        r(:, l + d) = r(:, l + d) - factor*r(:, l)
      end do
    end do
    do l = n, 1, -1
      do d = 1, min(2, n - l)
        r(:, l) = r(:, l) - left(d, l)*r(:, l + d)
      end do
      r(:, l) = r(:, l)/left(0, l)
    end do
  end subroutine solve
end program sp
