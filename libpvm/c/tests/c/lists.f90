! What the original's Fortran subroutines do not do: going through the mailbox's names. And freeing contexts.
program lists
  implicit none
  include 'fpvm3.h'
  integer :: me, id, i, names, entries, indices(9), owners(9), flags(9), info
  character(len=20) :: name

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

  ! The original makes the context the current one.
  call pvmfnewcontext(i)
  call pvmffreecontext(i, info)
  print '(a, i0)', 'freed ', info
  call pvmffreecontext(i, info)
  print '(a, i0)', 'again ', info
  call pvmfgetcontext(i)
  print '(a, i0)', 'context ', i
  call pvmfexit(info)
end program lists
