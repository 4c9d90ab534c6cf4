! hello.f90 - a program that starts a copy of itself elsewhere and gets a number back.
!
! Build:  gfortran -o hello hello.f90 $(pkg-config --cflags --libs pvm3)
! Run:    pvm run ./hello
!         or, while a daemon runs (start one with `pvm`):  ./hello
!
! Master and worker are one program: the one that has no parent is the master.

program hello
  implicit none
  include 'fpvm3.h'

  integer, parameter :: greeting = 1
  integer :: mytid, parent, info

  call pvmfmytid(mytid)
  if (mytid < 0) stop 1

  call pvmfparent(parent)
  if (parent == PvmNoParent) then
    call ask
  else
    call greet
  end if
  call pvmfexit(info)

contains

  ! The worker: send its task id.
  subroutine greet
    integer :: bufid

    call pvmfinitsend(PVMDATADEFAULT, bufid)
    call pvmfpack(INTEGER4, mytid, 1, 1, info)
    call pvmfsend(parent, greeting, info)
  end subroutine greet

  ! The master: start a worker, wait for what it says.
  subroutine ask
    character(len=256) :: myself
    integer :: tids(1), started, bufid, theirs

    call own_path(myself)
    call pvmfspawn(myself, PVMTASKDEFAULT, '*', 1, tids, started)
    if (started /= 1) then
      print '(3a,i0)', 'cannot start ', trim(myself), ': error ', tids(1)
      call pvmfexit(info)
      stop 1
    end if

    call pvmfrecv(tids(1), greeting, bufid)
    call pvmfunpack(INTEGER4, theirs, 1, 1, info)
    print '(a,z0)', 'hello from task t', theirs
  end subroutine ask

  ! The daemons start programs by their full path; a bare name is looked up in their own search path.
  subroutine own_path(path)
    character(len=*), intent(out) :: path
    character(len=len(path)) :: name, folder

    call get_command_argument(0, name)
    call get_environment_variable('PWD', folder)
    path = name
    if (index(name, '/') > 1) path = trim(folder) // '/' // name
  end subroutine own_path

end program hello
