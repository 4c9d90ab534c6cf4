//! Task ids: PVM's 32-bit addresses of tasks, daemons and multicast groups.

use serde::{Deserialize, Serialize};
use std::fmt;

const DAEMON: u32 = 0x8000_0000;
const MULTICAST: u32 = 0x4000_0000;
const HOST: u32 = 0x3ffc_0000;
const LOCAL: u32 = 0x0003_ffff;
const HOST_SHIFT: u32 = 18;

/// The highest local part a task id can carry.
pub const LOCAL_MAX: u32 = LOCAL;

/// The number of a host in the host table: 1 is the master, 0 is no host, 4095 the highest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
pub struct HostIndex(u16);

impl HostIndex {
    /// The highest index that fits into a task id.
    pub const MAX: Self = Self(4095);
    /// The host on which the virtual machine was started.
    pub const MASTER: Self = Self(1);

    /// An index, if it is within 1…4095.
    pub fn new(index: u32) -> Option<Self> {
        (1..=4095).contains(&index).then_some(Self(index as u16))
    }

    /// The index as a number.
    pub fn get(self) -> u32 {
        u32::from(self.0)
    }

    /// What programs see as the "host tid": the index in its place, without the daemon bit (`pvm_tidtohost`).
    pub fn host_tid(self) -> Tid {
        Tid(self.get() << HOST_SHIFT)
    }

    /// The address of the daemon of this host.
    pub fn daemon(self) -> Tid {
        Tid(DAEMON | self.get() << HOST_SHIFT)
    }

    /// The `local`-th task of this host.
    pub fn task(self, local: u32) -> Tid {
        Tid(self.get() << HOST_SHIFT | (local & LOCAL))
    }
}

impl fmt::Debug for HostIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "h{}", self.0)
    }
}

impl fmt::Display for HostIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A task id: one bit "daemon", one bit "multicast", 12 bits host index, 18 bits local part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
pub struct Tid(u32);

impl Tid {
    /// No task: the destination of the answer to an enrolment, the parent of a task nobody spawned.
    pub const NONE: Self = Self(0);
    /// "My own daemon", whatever host it is on.
    pub const MY_DAEMON: Self = Self(DAEMON);
    /// The source of a task that has no id yet; in receive calls, any sender.
    pub const ANY: Self = Self(u32::MAX);

    /// The id with these bits.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The id as C programs hold it.
    #[inline]
    pub const fn from_raw(raw: i32) -> Self {
        Self(raw as u32)
    }

    /// The bits, as they go onto the wire.
    #[inline]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The id as C programs hold it: a negative number is a daemon.
    #[inline]
    pub const fn raw(self) -> i32 {
        self.0 as i32
    }

    /// Whether it has the form of a task's id (its host field may be 0: such a task exists nowhere).
    #[inline]
    pub const fn is_task(self) -> bool {
        self.0 & (DAEMON | MULTICAST) == 0 && self.0 & LOCAL != 0
    }

    /// Whether it addresses a daemon.
    #[inline]
    pub const fn is_daemon(self) -> bool {
        self.0 & DAEMON != 0 && self.0 & MULTICAST == 0 && self.0 & LOCAL == 0
    }

    /// Whether it has the form in which programs name a host: an index and nothing else.
    pub const fn is_host(self) -> bool {
        self.0 & !HOST == 0 && self.0 != 0
    }

    /// Whether it is a multicast address.
    pub const fn is_multicast(self) -> bool {
        self.0 & MULTICAST != 0 && self.0 & DAEMON == 0
    }

    /// The host field, if it is not 0.
    #[inline]
    pub fn host(self) -> Option<HostIndex> {
        HostIndex::new((self.0 & HOST) >> HOST_SHIFT)
    }

    /// The local part.
    pub const fn local(self) -> u32 {
        self.0 & LOCAL
    }

    /// The one multicast address that a task has.
    #[must_use]
    pub const fn multicast(self) -> Self {
        Self(self.0 | MULTICAST)
    }

    /// `pvm_tidtohost`: the host field alone, unchecked.
    #[must_use]
    pub const fn to_host(self) -> Self {
        Self(self.0 & HOST)
    }
}

impl fmt::Debug for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{:x}", self.0)
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{:x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_are_pvms() {
        let h1 = HostIndex::MASTER;
        assert_eq!(h1.host_tid().bits(), 0x40000);
        assert_eq!(h1.daemon().bits(), 0x8004_0000);
        assert_eq!(h1.task(2).bits(), 0x40002);
        assert_eq!(h1.task(2).multicast().bits(), 0x4004_0002);
        assert_eq!(HostIndex::MAX.task(LOCAL_MAX).bits(), 0x3fff_ffff);
        assert!(Tid::from_raw(0x40002).is_task());
        assert!(Tid::from_raw(2).is_task(), "a host field of 0 still has the form of a task");
        assert!(!Tid::from_raw(0x40000).is_task());
        assert!(Tid::from_raw(0x40000).is_host());
        assert!(Tid::MY_DAEMON.is_daemon());
        assert!(!Tid::ANY.is_task() && !Tid::ANY.is_daemon() && !Tid::ANY.is_multicast());
        assert_eq!(Tid::from_raw(0x8_0003).host(), HostIndex::new(2));
        assert_eq!(Tid::from_raw(3).host(), None);
        assert_eq!(HostIndex::new(0), None);
        assert_eq!(HostIndex::new(4096), None);
    }
}
