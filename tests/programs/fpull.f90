! As pull.c.
program fpull
  implicit none
  include 'fpvm3.h'
  character(len=4000) :: file
  character(len=8) :: number, route
  character :: what(0:3)
  integer :: own, tid, tids(0:3), serial, done, old, buffer, info, error
  done = 0
  what = 'w'
  call get_command_argument(1, file)
  call get_command_argument(2, number)
  call get_command_argument(3, route)
  read (number, *) own
  call pvmfmytid(tid)
  if (tid < 0) stop 2
  if (route == 'direct') then
    call pvmfsetopt(PVMROUTE, PVMROUTEDIRECT, old)
  else
    call pvmfsetopt(PVMROUTE, PVMDONTROUTE, old)
  end if
  do
    serial = 0
    open (10, file=trim(file), status='old', action='read', iostat=error)
    if (error == 0) then
      read (10, *, iostat=error) serial, what, tids
      if (error /= 0) serial = 0
      close (10)
    end if
    if (serial > done) then
      if (what(own) == 'p' .or. what(own) == 's') call pull(tids(ieor(own, 1)))
      done = serial
    end if
    if (what(own) == 'c' .or. what(own) == 's') then
      call compute()
      call pvmfnrecv(-1, 1, buffer)
    else
      call pvmftrecv(-1, 1, 0, 10000, buffer)
    end if
    if (buffer > 0) call answer(buffer)
  end do

contains

  subroutine pull(other)
    integer, intent(in) :: other
    call pvmfinitsend(PVMDEFAULT, info)
    call pvmfsend(other, 1, info)
    if (info < 0) stop 1
    call pvmfrecv(other, 2, buffer)
    if (buffer < 0) stop 1
    open (11, file=trim(file)//'.'//trim(number)//'.new', status='replace', action='write')
    write (11, '(i0)') serial
    close (11)
    call rename(trim(file)//'.'//trim(number)//'.new', trim(file)//'.'//trim(number))
  end subroutine pull

  subroutine answer(message)
    integer, intent(in) :: message
    integer :: bytes, tag, from
    call pvmfbufinfo(message, bytes, tag, from, info)
    call pvmfinitsend(PVMDEFAULT, info)
    call pvmfsend(from, 2, info)
  end subroutine answer

  ! For a millisecond.
  subroutine compute()
    integer(kind=8) :: begin, time, rate
    call system_clock(begin, rate)
    do
      call system_clock(time)
      if (time < begin .or. time - begin >= rate / 1000) exit
    end do
  end subroutine compute
end program fpull
