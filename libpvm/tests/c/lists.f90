! What the original's Fortran subroutines do not do: going through the mailbox's names. And a message handler.
program lists
  implicit none
  include 'fpvm3.h'
  integer :: me, id, i, names, entries, indices(9), owners(9), flags(9), info
  integer :: seconds, micros, ahead, ahead_micros, host
  character(len=20) :: name
  external handler

  call pvmfmytid(me)
  call pvmfinitsend(PVMDATADEFAULT, id)
  call pvmfputinfo('first', id, PVMMBOXMULTIINSTANCE, i)
  call pvmfputinfo('first', id, PVMMBOXMULTIINSTANCE, i)
  call pvmfputinfo('fast', id, PVMMBOXDEFAULT, i)
  names = -1
  do i = 1, 3
    call pvmfgetmboxinfo('f', name, names, entries, indices, owners, flags, info)
    print '(a, 4(1x, i0), 1x, l1)', name, names, entries, indices(entries), flags(1), owners(entries) == me
    print '(i0)', info
  end do
  call pvmfgetmboxinfo('nothing of this name', name, names, entries, indices, owners, flags, info)
  print '(i0, 1x, i0)', names, info

  call pvmftidtohost(me, host)
  call pvmfhostsync(host, seconds, micros, ahead, ahead_micros, info)
  print '(i0, 1x, l1)', info, seconds > 1000000 .and. ahead <= 1

  call pvmfaddmhf(-1, 77, 0, handler, id)
  print '(a, i0)', 'handler ', id
  call pvmfinitsend(PVMDATADEFAULT, i)
  call pvmfsend(me, 77, info)
  call pvmftrecv(-1, 78, 0, 300000, i)
  print '(i0)', i
  call pvmfdelmhf(id, info)
  print '(i0)', info
  call pvmfexit(info)
end program lists

! The buffer's id comes by value, as in C.
subroutine handler(id)
  implicit none
  integer, value :: id

  print '(a, l1)', 'handled ', id > 0
end subroutine handler
