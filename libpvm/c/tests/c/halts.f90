! The end of a virtual machine and the start of another, from Fortran.
program halts
  use, intrinsic :: iso_c_binding
  implicit none
  include 'fpvm3.h'
  integer :: me, info, old, hosts, formats, host, speed, tries
  character(len=40) :: name
  character(len=12) :: arch
  interface
    integer(c_int) function open_file(path, flags) bind(c, name='open')
      import :: c_int, c_char
      character(kind=c_char) :: path(*)
      integer(c_int), value :: flags
    end function open_file
    integer(c_int) function dup2(from, to) bind(c)
      import :: c_int
      integer(c_int), value :: from, to
    end function dup2
  end interface

  ! Why nobody can enrol is not the same, so nothing comes on standard error.
  info = dup2(open_file('/dev/null' // c_null_char, 1), 2)
  ! Without the signal that comes with the end.
  call signal(15, 1)
  call pvmfmytid(me)
  call pvmfsetopt(PVMAUTOERR, 0, old)
  call pvmfstartpvmd('-nlocalhost', 0, info)
  print '(a, i0)', 'started while one runs ', info
  call pvmfhalt(info)
  print '(a, i0)', 'halted ', info
  do tries = 1, 20
    hosts = -1
    call pvmfconfig(hosts, formats, host, name, arch, speed, info)
    if (info < 0) call pvmfexit(info)
    call pvmfmytid(me)
    if (me < 0) exit
    call pvmfsleep(1)
  end do
  print '(a, i0)', 'no machine: ', me
  call pvmfstartpvmd('-nlocalhost ', 1, info)
  print '(a, i0)', 'started ', info
  call pvmfmytid(me)
  print '(a, l1)', 'enrolled ', me > 0
  hosts = -1
  call pvmfconfig(hosts, formats, host, name, arch, speed, info)
  print '(i0, a, i0)', hosts, ' host, ', info
  call pvmfhalt(info)
  print '(a, i0)', 'halted ', info
end program halts
