program hello
  implicit none
  include 'fpvm3.h'
  integer, parameter :: workers = 4, greeting = 1
  integer :: me, parent, who, started, info, i, tids(workers)
  character(len=256) :: self

  call pvmfmytid(me)
  call pvmfparent(parent)
  if (parent < 0) then
    ! Started by hand: the parent.
    call get_command_argument(0, self)
    call pvmfspawn(self, PVMTASKDEFAULT, '*', workers, tids, started)
    do i = 1, started
      call pvmfrecv(-1, greeting, info)
      call pvmfunpack(INTEGER4, who, 1, 1, info)
      print '(a,z0)', 'hello from t', who
    end do
  else
    ! Started by pvmfspawn: a worker.
    call pvmfinitsend(PVMDATADEFAULT, info)
    call pvmfpack(INTEGER4, me, 1, 1, info)
    call pvmfsend(parent, greeting, info)
  end if
  call pvmfexit(info)
end program
