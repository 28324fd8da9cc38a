! Allocatable arrays of Fortran.
module store
  type particle
    real(8) :: place(3)
    integer(8) :: hits
  end type particle
  type(particle), allocatable :: shared(:)
end module store

subroutine to_module(n)
  use store
  integer :: n
  allocate (shared(n))
  shared(1)%hits = n
end subroutine to_module

subroutine to_local(n)
  integer :: n
  real(8), allocatable :: grid(:, :)
  allocate (grid(n, n))
  grid = 1.0
  print *, sum(grid)
end subroutine to_local

program allocated
  use store
  call to_module(4)
  call to_local(4)
  print *, shared(1)%hits
end program allocated
