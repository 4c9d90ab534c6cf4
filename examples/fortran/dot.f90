! dot.f90 - a dot product, each worker with its part of the two vectors.
!
! Build:  gfortran -fallow-argument-mismatch -o dot dot.f90 $(pkg-config --cflags --libs pvm3)
! Run:    pvm run --hosts 4 ./dot
!         or, while a daemon runs:  ./dot
!
! -fallow-argument-mismatch, because pvmfpack takes a variable of any type, which gfortran else takes for a mistake.

program dot
  implicit none
  include 'fpvm3.h'

  integer, parameter :: n = 100000, workers = 4, vectors = 1, result = 2
  integer :: mytid, parent, info

  call pvmfmytid(mytid)
  if (mytid < 0) stop 1

  call pvmfparent(parent)
  if (parent == PvmNoParent) then
    call distribute
  else
    call multiply
  end if
  call pvmfexit(info)

contains

  ! The worker: receive two vectors, send back their product.
  subroutine multiply
    double precision, allocatable :: x(:), y(:)
    double precision :: part(1)
    integer :: length(1), bufid

    call pvmfrecv(parent, vectors, bufid)
    call pvmfunpack(INTEGER4, length, 1, 1, info)
    allocate (x(length(1)), y(length(1)))
    call pvmfunpack(REAL8, x, length(1), 1, info)
    call pvmfunpack(REAL8, y, length(1), 1, info)

    part(1) = dot_product(x, y)
    call pvmfinitsend(PVMDATADEFAULT, bufid)
    call pvmfpack(REAL8, part, 1, 1, info)
    call pvmfsend(parent, result, info)
  end subroutine multiply

  ! The master: start the workers, send each its part, add what comes back.
  subroutine distribute
    double precision :: x(n), y(n), part(1), total
    character(len=256) :: myself
    integer :: tids(workers), started, i

    do i = 1, n
      x(i) = i
      y(i) = 2.0d0 / n
    end do

    call own_path(myself)
    call pvmfspawn(myself, PVMTASKDEFAULT, '*', workers, tids, started)
    if (started < 1) then
      print '(3a,i0)', 'cannot start ', trim(myself), ': error ', tids(1)
      call pvmfexit(info)
      stop 1
    end if

    do i = 1, started
      call send_part(tids(i), x, y, (i - 1) * n / started + 1, i * n / started)
    end do

    total = 0
    do i = 1, started
      call pvmfrecv(-1, result, info)
      call pvmfunpack(REAL8, part, 1, 1, info)
      total = total + part(1)
    end do
    print '(i0,a,f12.2,a,f12.2)', started, ' workers: ', total, ', here alone: ', dot_product(x, y)
  end subroutine distribute

  subroutine send_part(tid, x, y, first, last)
    integer, intent(in) :: tid, first, last
    double precision, intent(in) :: x(n), y(n)
    integer :: length(1), bufid

    length(1) = last - first + 1
    call pvmfinitsend(PVMDATADEFAULT, bufid)
    call pvmfpack(INTEGER4, length, 1, 1, info)
    call pvmfpack(REAL8, x(first:last), length(1), 1, info)
    call pvmfpack(REAL8, y(first:last), length(1), 1, info)
    call pvmfsend(tid, vectors, info)
  end subroutine send_part

  ! The daemons start programs by their full path; a bare name is looked up in their own search path.
  subroutine own_path(path)
    character(len=*), intent(out) :: path
    character(len=len(path)) :: name, folder

    call get_command_argument(0, name)
    call get_environment_variable('PWD', folder)
    path = name
    if (index(name, '/') > 1) path = trim(folder) // '/' // name
  end subroutine own_path

end program dot
