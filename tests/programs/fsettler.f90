! As settler.c, without a group.
module own
  implicit none
  integer :: total = 0, moves = 0
end module own

integer function save_own()
  use own
  implicit none
  include 'fpvm3.h'
  integer :: info
  call pvmfpack(INTEGER4, total, 1, 1, info)
  call pvmfpack(INTEGER4, moves, 1, 1, info)
  save_own = info
end function save_own

integer function restore_own()
  use own
  implicit none
  include 'fpvm3.h'
  integer :: info
  call pvmfunpack(INTEGER4, total, 1, 1, info)
  call pvmfunpack(INTEGER4, moves, 1, 1, info)
  restore_own = info
end function restore_own

program fsettler
  use own
  implicit none
  include 'fpvm3.h'
  integer, external :: save_own, restore_own
  integer :: tid, was, buffer, info, bytes, tag, from, number
  call pvmfmytid(tid)
  call pvmfmigratable(save_own, restore_own, was)
  if (tid < 0 .or. was < 0) stop 1
  if (was == 1) moves = moves + 1
  do
    call pvmfrecv(-1, 1, buffer)
    call pvmfbufinfo(buffer, bytes, tag, from, info)
    call pvmfunpack(INTEGER4, number, 1, 1, info)
    total = total + number
    call pvmfinitsend(PVMDEFAULT, info)
    call pvmfpack(INTEGER4, total, 1, 1, info)
    call pvmfpack(INTEGER4, moves, 1, 1, info)
    call pvmfsend(from, 1, info)
  end do
end program fsettler
