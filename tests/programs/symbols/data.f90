! As data.c, for Fortran: module variables, arrays from 1 whose first index changes fastest.
module shared
  implicit none
  type cell
    integer(8) :: hits
    integer(8) :: misses
  end type
  integer(8) :: counter = 0
  real(8) :: grid(4, 3) = 0
  type(cell) :: cells(5)
contains
  subroutine step(i)
    integer, intent(in) :: i
    counter = counter + i
    grid(i, 2) = grid(i, 2) + counter
    cells(i)%misses = counter
  end subroutine
end module

program data
  use shared
  call step(command_argument_count() + 1)
  print *, grid(1, 2), cells(1)%misses
end program
