! Groups in Fortran: every subroutine, by a task that is alone in its groups.
      program groups
      include 'fpvm3.h'
      integer mytid, info, inst, tid, n
      integer values(3), back(3)
      double precision reals(2), other(2)
      complex single(1)
      external PvmMax, PvmMin, PvmSum, PvmProduct, mine
      character*40 longname

      longname = 'a name that is longer than any group may have'
      call pvmfmytid(mytid)
      call pvmfsetopt(PVMAUTOERR, 0, info)
      call pvmfjoingroup('f ', inst)
      print *, 'joined', inst
      call pvmfjoingroup('f', inst)
      print *, 'again', inst
      call pvmfjoingroup(longname, inst)
      print *, 'too long', inst
      call pvmfjoingroup(' ', inst)
      print *, 'no name', inst
      call pvmfgsize('f', n)
      print *, 'size', n
      call pvmfgettid('f', 0, tid)
      print *, 'tid', tid .eq. mytid
      call pvmfgettid('f', 1, tid)
      print *, 'no such tid', tid
      call pvmfgetinst('f', mytid, inst)
      print *, 'instance', inst
      call pvmfgetinst('none', mytid, inst)
      print *, 'no such group', inst
      call pvmfbarrier('f', 1, info)
      print *, 'barrier', info
      call pvmfbarrier('f', -1, info)
      print *, 'barrier', info
      call pvmfinitsend(PVMDATADEFAULT, info)
      call pvmfbcast('f', 5, info)
      print *, 'broadcast', info

      values(1) = 3
      values(2) = -4
      values(3) = 5
      call pvmfreduce(PvmSum, values, 3, INTEGER4, 6, 'f', 0, info)
      print *, 'sum', info, values
      call pvmfreduce(PvmMax, values, 3, INTEGER4, 6, 'f', 0, info)
      print *, 'max', info, values
      call pvmfreduce(mine, values, 3, INTEGER4, 6, 'f', 0, info)
      print *, 'mine', info, values
      call pvmfreduce(PvmSum, values, 3, INTEGER4, 6, 'f', 1, info)
      print *, 'no such root', info
      call pvmfreduce(PvmSum, values, 0, INTEGER4, 6, 'f', 0, info)
      print *, 'no elements', info
      call pvmfgather(back, values, 3, INTEGER4, 7, 'f', 0, info)
      print *, 'gather', info, back
      reals(1) = 1.5
      reals(2) = -2.5
      call pvmfscatter(other, reals, 2, REAL8, 8, 'f', 0, info)
      print *, 'scatter', info, other

! The functions themselves.
      back(1) = 10
      back(2) = -10
      back(3) = 0
      call PvmMax(INTEGER4, values, back, 3, info)
      print *, 'max', info, values
      call PvmMin(INTEGER4, values, back, 2, info)
      print *, 'min', info, values
      call PvmSum(REAL8, reals, other, 2, info)
      print *, 'sum', info, reals
      call PvmProduct(REAL8, reals, other, 2, info)
      print *, 'product', info, reals
      single(1) = (1.0, 2.0)
      call PvmProduct(COMPLEX8, single, single, 1, info)
      print *, 'product', info, single

      call pvmffreezegroup('f', 1, info)
      print *, 'freeze', info
      call pvmffreezegroup('f', 1, info)
      print *, 'again', info
      call pvmflvgroup('f', info)
      print *, 'left', info
      call pvmflvgroup('f', info)
      print *, 'again', info
      call pvmfexit(info)
      end

      subroutine mine(kind, x, y, n, info)
      integer kind, n, info, i
      integer x(n), y(n)
      do i = 1, n
         x(i) = x(i) - y(i)
      end do
      info = 0
      end
