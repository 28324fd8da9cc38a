! NAS MG: V-cycles over grids from 64 points a side to 4: residual, smoothing, coarser, finer, each a
! sweep over neighbours, planes shared out by OpenMP; the finest grid is periodic. Usage: mg THREADS SCALE
module levels
  implicit none
  integer, parameter :: finest = 6
  type grid
    real(8), allocatable :: u(:, :, :), r(:, :, :)
  end type grid
  type(grid) :: level(2:finest)
  real(8), allocatable :: v(:, :, :)
contains
  ! The planes around the grid are those of the opposite sides.
  subroutine wrap(a, n)
    integer, intent(in) :: n
    real(8), intent(inout) :: a(0:n + 1, 0:n + 1, 0:n + 1)
    integer :: k
    !$omp parallel do
    do k = 1, n
      a(0, 1:n, k) = a(n, 1:n, k)
      a(n + 1, 1:n, k) = a(1, 1:n, k)
      a(:, 0, k) = a(:, n, k)
      a(:, n + 1, k) = a(:, 1, k)
    end do
    a(:, :, 0) = a(:, :, n)
    a(:, :, n + 1) = a(:, :, 1)
  end subroutine wrap

  ! out = from + c0 * u + c1 * its six neighbours + c2 * its twelve neighbours along edges
  subroutine sweep(u, from, out, n, c0, c1, c2)
    integer, intent(in) :: n
    real(8), intent(in) :: u(0:n + 1, 0:n + 1, 0:n + 1), c0, c1, c2
    real(8), intent(in) :: from(0:n + 1, 0:n + 1, 0:n + 1)
    real(8), intent(inout) :: out(0:n + 1, 0:n + 1, 0:n + 1)
    real(8) :: faces(0:n + 1), edges(0:n + 1)
    integer :: i, j, k
    !$omp parallel do private(i, j, faces, edges)
    do k = 1, n
      do j = 1, n
        do i = 0, n + 1
          faces(i) = u(i, j - 1, k) + u(i, j + 1, k) + u(i, j, k - 1) + u(i, j, k + 1)
          edges(i) = u(i, j - 1, k - 1) + u(i, j + 1, k - 1) + u(i, j - 1, k + 1) + u(i, j + 1, k + 1)
        end do
        do i = 1, n
          out(i, j, k) = from(i, j, k) + c0*u(i, j, k) + c1*(u(i - 1, j, k) + u(i + 1, j, k) + faces(i)) &
                         + c2*(edges(i) + faces(i - 1) + faces(i + 1))
        end do
      end do
    end do
    call wrap(out, n)
  end subroutine sweep

  subroutine coarsen(fine, coarse, n)
    integer, intent(in) :: n
    real(8), intent(in) :: fine(0:2*n + 1, 0:2*n + 1, 0:2*n + 1)
    real(8), intent(out) :: coarse(0:n + 1, 0:n + 1, 0:n + 1)
    integer :: i, j, k
    !$omp parallel do private(i, j)
    do k = 1, n
      do j = 1, n
        do i = 1, n
          coarse(i, j, k) = 0.5d0*fine(2*i, 2*j, 2*k) + 0.0833d0*(fine(2*i - 1, 2*j, 2*k) + &
                            fine(2*i + 1, 2*j, 2*k) + fine(2*i, 2*j - 1, 2*k) + fine(2*i, 2*j + 1, 2*k) + &
                            fine(2*i, 2*j, 2*k - 1) + fine(2*i, 2*j, 2*k + 1))
        end do
      end do
    end do
    call wrap(coarse, n)
  end subroutine coarsen

  subroutine refine(coarse, fine, n)
    integer, intent(in) :: n
    real(8), intent(in) :: coarse(0:n + 1, 0:n + 1, 0:n + 1)
    real(8), intent(inout) :: fine(0:2*n + 1, 0:2*n + 1, 0:2*n + 1)
    integer :: i, j, k, dj, dk
    !$omp parallel do private(i, j, dj, dk)
    do k = 1, n
      do dk = 0, 1
        do j = 1, n
          do dj = 0, 1
            do i = 1, n
              fine(2*i, 2*j - dj, 2*k - dk) = fine(2*i, 2*j - dj, 2*k - dk) + 0.25d0* &
                (coarse(i, j, k) + coarse(i, j - dj, k) + coarse(i, j, k - dk) + coarse(i, j - dj, k - dk))
              fine(2*i - 1, 2*j - dj, 2*k - dk) = fine(2*i - 1, 2*j - dj, 2*k - dk) + 0.125d0* &
                (coarse(i, j, k) + coarse(i - 1, j, k) + coarse(i, j - dj, k) + coarse(i - 1, j - dj, k) + &
                 coarse(i, j, k - dk) + coarse(i - 1, j, k - dk) + coarse(i, j - dj, k - dk) + &
                 coarse(i - 1, j - dj, k - dk))
            end do
          end do
        end do
      end do
    end do
    call wrap(fine, 2*n)
  end subroutine refine
end module levels

program mg
  use omp_lib
  use levels
  implicit none
  integer :: l, n, k, cycle, threads, scale
  real(8) :: norm
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
  do l = 2, finest
    n = 2**l
    allocate (level(l)%u(0:n + 1, 0:n + 1, 0:n + 1), level(l)%r(0:n + 1, 0:n + 1, 0:n + 1))
    level(l)%u = 0
    level(l)%r = 0
  end do
  n = 2**finest
  allocate (v(0:n + 1, 0:n + 1, 0:n + 1))
  v = 0
  do k = 1, 10
    v(mod(7*k, n) + 1, mod(13*k, n) + 1, mod(29*k, n) + 1) = 1
    v(mod(11*k, n) + 1, mod(17*k, n) + 1, mod(37*k, n) + 1) = -1
  end do
  call wrap(v, n)
  do cycle = 1, 240*scale
    call sweep(level(finest)%u, v, level(finest)%r, n, 2.6667d0, -0.1667d0, -0.0833d0)
    do l = finest, 3, -1
      call coarsen(level(l)%r, level(l - 1)%r, 2**(l - 1))
      level(l - 1)%u = 0
    end do
    call sweep(level(2)%r, level(2)%u, level(2)%u, 4, -0.2d0, -0.02d0, 0d0)
    do l = 3, finest
      call refine(level(l - 1)%u, level(l)%u, 2**(l - 1))
      call sweep(level(l)%r, level(l)%u, level(l)%u, 2**l, -0.2d0, -0.02d0, 0d0)
    end do
  end do
  norm = 0
  !$omp parallel do reduction(+:norm)
  do k = 1, n
    norm = norm + sum(level(finest)%r(1:n, 1:n, k)**2)
  end do
  print '(es14.6)', sqrt(norm)
end program mg
