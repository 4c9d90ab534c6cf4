! The Fortran subroutines: what they return, and that strings and arrays come through.
program calls
  implicit none
  include 'fpvm3.h'
  integer :: me, info, id, i, n, tag, tid, length, old, what
  integer :: seconds, micros, ahead, ahead_micros
  integer :: ints(6), got(6), tids(2), hosts, formats, speed, parent, host, flags
  integer(kind=2) :: shorts(3)
  integer(kind=8) :: longs(2)
  real(kind=4) :: reals(3)
  real(kind=8) :: doubles(4)
  complex(kind=4) :: complexes(2)
  complex(kind=8) :: dcomplexes(2)
  character(len=40) :: text, name
  character(len=12) :: arch
  character(len=300) :: long_text
  external handler

  call pvmfmytid(me)
  call show('mytid', merge(1, 0, me > 0))
  call pvmfsetopt(PVMAUTOERR, 0, old)
  call show('setopt', old)
  call pvmfgetopt(PVMAUTOERR, old)
  call show('getopt', old)
  call pvmfparent(tid)
  call show('parent', tid)
  call pvmfsiblings(n, 0, tid)
  call show('siblings', n)
  call show('only me', merge(1, 0, tid == me))
  call pvmfsiblings(n, 1, tid)
  call show('no second', tid)

  do what = PVMDATADEFAULT, PVMDATARAW
    call pvmfinitsend(what, id)
    call show('initsend', merge(1, 0, id > 0))
    ints = (/ 1, -2, 3, 4, 5, 6 /)
    call pvmfpack(INTEGER4, ints, 3, 2, info)
    call show('pack ints', info)
    shorts = (/ 7_2, -8_2, 9_2 /)
    call pvmfpack(INTEGER2, shorts, 3, 1, info)
    longs = (/ 100000_8, 2_8 /)
    call pvmfpack(INTEGER8, longs, 2, 1, info)
    reals = (/ 1.5, -2.5, 3.5 /)
    call pvmfpack(REAL4, reals, 3, 1, info)
    doubles = (/ 1.25d0, -2.25d0, 3.25d0, 1d300 /)
    call pvmfpack(REAL8, doubles, 4, 1, info)
    complexes = (/ (1.0, 2.0), (3.0, 4.0) /)
    call pvmfpack(COMPLEX8, complexes, 2, 1, info)
    dcomplexes = (/ (1.0d0, 2.0d0), (3.0d0, 4.5d0) /)
    call pvmfpack(COMPLEX16, dcomplexes, 2, 1, info)
    text = 'some text'
    call pvmfpack(STRING, text, len_trim(text), 1, info)
    call show('pack text', info)
    call pvmfpack(BYTE1, text, 3, 1, info)
    call show('pack bytes', info)
    call pvmfpack(77, ints, 1, 1, info)
    call show('pack what is not', info)
    call pvmfsend(me, 5, info)
    call show('send', info)
    call pvmfrecv(-1, 5, id)
    call show('recv', merge(1, 0, id > 0))
    call pvmfbufinfo(id, length, tag, tid, info)
    call show('bufinfo', info)
    call show('length', length)
    call show('tag', tag)
    call show('from me', merge(1, 0, tid == me))
    call pvmfunpack(INTEGER4, got, 3, 1, info)
    print *, got(1:3)
    call pvmfunpack(INTEGER2, shorts, 3, 1, info)
    print *, shorts
    call pvmfunpack(INTEGER8, longs, 2, 1, info)
    print *, longs
    call pvmfunpack(REAL4, reals, 3, 1, info)
    print *, reals
    call pvmfunpack(REAL8, doubles, 4, 1, info)
    print *, doubles
    call pvmfunpack(COMPLEX8, complexes, 2, 1, info)
    print *, complexes
    call pvmfunpack(COMPLEX16, dcomplexes, 2, 1, info)
    print *, dcomplexes
    text = ' '
    call pvmfunpack(STRING, text, 9, 1, info)
    print *, '<', text, '>'
    call pvmfunpack(BYTE1, text, 3, 1, info)
    print *, '<', text, '>'
    call pvmfunpack(INTEGER4, got, 1, 1, info)
    call show('unpack past the end', info)
  end do

  call pvmfmkbuf(PVMDATADEFAULT, id)
  call show('mkbuf', merge(1, 0, id > 0))
  call pvmfsetsbuf(id, old)
  call show('setsbuf', merge(1, 0, old > 0))
  call pvmfgetsbuf(n)
  call show('getsbuf', merge(1, 0, n == id))
  call pvmfsetrbuf(0, old)
  call show('setrbuf', merge(1, 0, old > 0))
  call pvmfgetrbuf(n)
  call show('getrbuf', n)
  call pvmffreebuf(id, info)
  call show('freebuf', info)
  call pvmffreebuf(id, info)
  call show('freebuf again', info)

  call pvmfpsend(me, 6, ints, 6, INTEGER4, info)
  call show('psend', info)
  call pvmfprecv(-1, 6, got, 6, INTEGER4, tid, tag, length, info)
  call show('precv', info)
  call show('tag', tag)
  call show('length', length)
  print *, got
  call pvmfnrecv(-1, 7, id)
  call show('nrecv', id)
  call pvmfprobe(-1, 7, id)
  call show('probe', id)
  call pvmftrecv(-1, 7, 0, 100000, id)
  call show('trecv', id)
  call pvmfinitsend(PVMDATADEFAULT, id)
  tids(1) = me
  tids(2) = me
  call pvmfmcast(2, tids, 8, info)
  call show('mcast', info)
  call pvmfsend(me, 9, info)
  call pvmftrecv(-1, -1, -1, 0, id)
  call show('trecv for ever', merge(1, 0, id > 0))

  hosts = -1
  call pvmfconfig(hosts, formats, host, name, arch, speed, info)
  call show('config', info)
  call show('hosts', hosts)
  call show('formats', formats)
  call show('speed', speed)
  print *, '<', arch, '>'
  call pvmfmstat(name, info)
  call show('mstat', info)
  call pvmfmstat('no-such-host   ', info)
  call show('mstat of none', info)
  call pvmfarchcode(arch, i)
  call show('archcode', i)
  call pvmftidtohost(me, i)
  call show('tidtohost', merge(1, 0, i == host))
  call pvmfpstat(me, info)
  call show('pstat', info)
  n = -1
  call pvmftasks(me, n, tid, parent, host, flags, name, info)
  call show('tasks', info)
  call show('task', n)
  call show('me', merge(1, 0, tid == me))
  call show('parent', parent)
  call show('flags', flags)
  print *, '<', name, '>'
  call pvmfspawn('nothing-of-this-name', PVMDEFAULT, '*', 2, tids, n)
  call show('spawn', n)
  print *, tids
  call pvmfspawn('nothing-of-this-name', PVMTASKHOST, 'no-such-host', 1, tids, n)
  call show('spawn nowhere', n)
  call show('code', tids(1))
  long_text = repeat('x', 300)
  call pvmfspawn(long_text, PVMDEFAULT, '*', 2, tids, n)
  call show('too long a name', n)
  i = me + 1000
  call pvmfnotify(PVMTASKEXIT, 10, 1, i, info)
  call show('notify', info)
  call pvmfrecv(-1, 10, id)
  call pvmfunpack(INTEGER4, n, 1, 1, info)
  call show('gone', merge(1, 0, n == i))
  call pvmfkill(i, info)
  call show('kill', info)
  call pvmfsendsig(-1, 3, info)
  call show('sendsig', info)

  call pvmfgetcontext(i)
  call show('getcontext', i)
  call pvmfnewcontext(i)
  call show('newcontext', merge(1, 0, i > 0))
  call pvmfsetcontext(i, old)
  call show('setcontext', old)
  call pvmfsetcontext(0, old)
  call show('setcontext back', merge(1, 0, i == old))
  call pvmfinitsend(PVMDATADEFAULT, id)
  call pvmfputinfo('a name', id, PVMMBOXDEFAULT, i)
  call show('putinfo', i)
  call pvmfrecvinfo('a name  ', 0, PVMMBOXDEFAULT, id)
  call show('recvinfo', merge(1, 0, id > 0))
  call pvmfdelinfo('a name', 0, PVMMBOXDEFAULT, info)
  call show('delinfo', info)
  call pvmfdelinfo('a name', 0, PVMMBOXDEFAULT, info)
  call show('delinfo again', info)
  call pvmfcatchout(1, info)
  call show('catchout', info)
  call pvmfcatchout(0, info)
  call show('catchout no more', info)
  call pvmfdelmhf(77, info)
  call show('delmhf', info)
  call pvmfperror('a prefix', info)
  call show('perror', info)
  call pvmfaddhost('localhost so=', info)
  call show('addhost', merge(1, 0, info < 0))
  call pvmfdelhost('no-such-host', info)
  call show('delhost', info)
  call pvmfhostsync(host, seconds, micros, ahead, ahead_micros, info)
  call show('hostsync', info)
  call show('a time', merge(1, 0, seconds > 1000000 .and. ahead <= 1))
  call pvmfhostsync(7 * 262144, seconds, micros, ahead, ahead_micros, info)
  call show('hostsync of none', info)
  call pvmfaddmhf(-1, 77, 0, i, handler, id)
  call show('addmhf', merge(1, 0, id > 0))
  call pvmfaddmhf(me, 77, 0, old, handler, i)
  call show('addmhf again', i)
  call pvmfinitsend(PVMDATADEFAULT, i)
  call pvmfsend(me, 77, info)
  call pvmftrecv(-1, 78, 0, 300000, i)
  call show('nothing but for the handler', i)
  call pvmfdelmhf(id, info)
  call show('delmhf', info)
  call pvmfsleep(0)
  call pvmfexit(info)
  call show('exit', info)

contains

  subroutine show(what_it_is, value)
    character(len=*), intent(in) :: what_it_is
    integer, intent(in) :: value

    print '(a, a, i0)', what_it_is, ' ', value
  end subroutine show
end program calls

! The buffer's id comes by value, as in C.
subroutine handler(id)
  implicit none
  integer, value :: id

  print '(a, l1)', 'handled ', id > 0
end subroutine handler
