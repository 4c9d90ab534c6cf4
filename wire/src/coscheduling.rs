//! Teams of tasks that take turns: their names, and what a host says of them.

use crate::tid::Tid;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Environment variable by which a spawn says to which team its tasks belong; the daemon sets it if the spawner does not.
pub const TEAM_VARIABLE: &str = "PVM_TEAM";

/// Bytes of a team's name.
pub const TEAM_NAME_MAX: usize = 64;

/// Bits of a word that are a team's number, and those that are a host's.
const TEAM_BITS: u32 = 20;
const HOST_BITS: u32 = 12;

/// Whose turn it is on a host, and its epoch: all in one word, so that who reads it at any moment reads what belongs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// The lower half of the epoch's count.
    pub count: u32,
    /// The host that made it.
    pub origin: u16,
    /// Number of the team that has the turn; 0: all run.
    pub team: u32,
}

impl Turn {
    /// No team has this number.
    pub const NOBODY: u32 = (1 << TEAM_BITS) - 1;

    /// A team's number here. Two of very many teams may have the same.
    pub fn number(team: u32) -> u32 {
        if team == 0 { 0 } else { 1 + (team - 1) % (Self::NOBODY - 1) }
    }

    /// All in one.
    pub fn word(self) -> u64 {
        let origin = u64::from(self.origin) & ((1 << HOST_BITS) - 1);
        u64::from(self.count) << 32 | origin << TEAM_BITS | u64::from(self.team & Self::NOBODY)
    }

    /// What a word says.
    pub fn from_word(word: u64) -> Self {
        let origin = (word >> TEAM_BITS) as u32 & ((1 << HOST_BITS) - 1);
        Self { count: (word >> 32) as u32, origin: origin as u16, team: word as u32 & Self::NOBODY }
    }

    /// Whether a team has the turn; one without a number takes no turns and always has it.
    pub fn is_of(self, team: u32) -> bool {
        self.team == 0 || team == 0 || self.team == team
    }

    /// The same epoch, whoever has the turn.
    #[must_use]
    pub fn epoch(self) -> Self {
        Self { team: 0, ..self }
    }

    /// Whether its epoch is greater. Counts are compared by their distance: after the greatest comes zero.
    pub fn is_after(self, other: Self) -> bool {
        self.epoch().word().wrapping_sub(other.epoch().word()).cast_signed() > 0
    }

    /// The whole count, if it is near this one.
    pub fn whole_count(self, near: u64) -> u64 {
        let distance = self.count.wrapping_sub(near as u32).cast_signed();
        near.wrapping_add_signed(distance.into())
    }
}

/// Why a host takes turns at present, or does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// No means are to be used.
    #[default]
    Off,
    /// There is one team at most.
    OneTeam,
    /// There are as many processors as processes.
    CoresSuffice,
    /// No team computes, or a single one and the kernel serves the others as well.
    KernelSuffices,
    /// Processor time is left.
    TimeLeft,
    /// Teams share the processors, and the team with the least on its account has the turn.
    ByAccounts,
    /// Teams share the processors, and have them by the rows of the matrix.
    ByRows,
    /// The owner of the host is there, and its tasks are held.
    Owner,
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Off => "no means",
            Self::OneTeam => "one team",
            Self::CoresSuffice => "cores suffice",
            Self::KernelSuffices => "kernel suffices",
            Self::TimeLeft => "time left",
            Self::ByAccounts => "by accounts",
            Self::ByRows => "by rows",
            Self::Owner => "owner is there",
        })
    }
}

/// Turns on one host, since its daemon's start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnsReport {
    /// By what means teams that have not the turn are held; `none` if they are not.
    pub means: String,
    /// Microseconds that a team has the processor; 0: no turns are ever taken.
    pub slice: u64,
    /// Nanoseconds that it takes to wake another process.
    pub wake: u64,
    /// Nanoseconds that a task spins at most before it sleeps, if a task of its own host has the word.
    pub spin: u64,
    /// The same if one of another host has.
    pub far_spin: u64,
    /// Nanoseconds that the daemon spins at present before it sleeps.
    pub daemon_spin: u64,
    /// Whether turns are taken at present.
    pub is_shared: bool,
    /// Why, or why not.
    pub why: Why,
    /// The row of the machine's matrix that has its slice, while turns are taken by rows.
    pub row: Option<u32>,
    /// Count of the host's epoch.
    pub epoch: u64,
    /// Changes of the team that has the turn.
    pub switches: u64,
    /// Messages that changed nothing, their epoch being no greater.
    pub old: u64,
    /// Messages that changed nothing, their team having had more than its share.
    pub unfair: u64,
    /// Epochs taken over from messages.
    pub adopted: u64,
    /// Microseconds that teams had the turn because of messages.
    pub boost: u64,
    /// The teams that have tasks here.
    pub teams: Vec<TeamReport>,
}

/// A time in which nothing about turns has changed on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnSpan {
    /// Nanoseconds since 1970, by that host's clock.
    pub begin: u64,
    /// The same.
    pub end: u64,
    /// The team that had the turn. `None`: there was time for all, and all ran.
    pub team: Option<String>,
    /// Count of the epoch.
    pub epoch: u64,
    /// The host that made it; if it is another one, a message has brought it.
    pub origin: u32,
    /// Messages that changed nothing, their epoch being no greater.
    pub old: u64,
    /// Messages that changed nothing, their team having had more than its share.
    pub unfair: u64,
    /// Whether the team had the turn because of a message.
    pub is_boosted: bool,
    /// The row of the machine's matrix that had its slice.
    pub row: Option<u32>,
    /// What teams have used of the processors meanwhile; those that wanted none are left out.
    pub uses: Vec<TeamUse>,
}

/// What a team has had of a host's processors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamUse {
    /// Its name.
    pub name: String,
    /// Microseconds of CPU time of its processes.
    pub used: u64,
    /// Microseconds of the daemon's CPU time that it has spent on the team's messages.
    pub overhead: u64,
    /// Microseconds that its processes wanted a processor and had none.
    pub waited: u64,
}

impl TeamUse {
    /// The same team has had that, too.
    pub fn add(&mut self, more: &Self) {
        self.used = self.used.saturating_add(more.used);
        self.overhead = self.overhead.saturating_add(more.overhead);
        self.waited = self.waited.saturating_add(more.waited);
    }
}

/// What turns there have been on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnHistory {
    /// In their order. In between, nobody was held.
    pub spans: Vec<TurnSpan>,
    /// Number of the span that comes after these.
    pub next: u64,
}

/// A team on one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamReport {
    /// Its name.
    pub name: String,
    /// Whether its tasks may run now.
    pub runs: bool,
    /// Microseconds that its tasks wanted a processor and had none.
    pub waited: u64,
    /// Microseconds of the daemon's CPU time that it has spent on the team's messages while teams took turns.
    pub overhead: u64,
    /// Its tasks.
    pub tasks: Vec<TaskReport>,
}

/// A task of a team.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    /// Which.
    pub tid: Tid,
    /// Microseconds of CPU time that it has used.
    pub used: u64,
    /// Nanoseconds that it spins before it sleeps, as far as it has said.
    pub spin: Option<u64>,
    /// What it has sent, as far as is known: of a task with the original's library what went by the daemon.
    pub sent: Sent,
}

/// What a task has sent since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Messages, one for each receiver.
    pub messages: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
}

impl Sent {
    /// Counts messages and bytes: those of one message or of a part of one, once for each receiver.
    #[inline]
    pub fn count(&mut self, messages: usize, bytes: usize) {
        self.messages = self.messages.wrapping_add(messages as u64);
        self.bytes = self.bytes.wrapping_add(bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_one_word() {
        let turn = Turn { count: 0xfedc_ba98, origin: 4095, team: 77 };
        assert_eq!(Turn::from_word(turn.word()), turn);
        assert_eq!(Turn::from_word(0), Turn::default());
        assert_eq!(Turn::number(0), 0);
        for team in [1, 2, Turn::NOBODY - 1, Turn::NOBODY, Turn::NOBODY + 1, u32::MAX] {
            let number = Turn::number(team);
            assert!(number > 0 && number < Turn::NOBODY, "{team}: {number}");
        }
        assert!(turn.is_of(77) && turn.is_of(0) && !turn.is_of(78) && turn.epoch().is_of(78));
    }

    #[test]
    fn epochs_in_words_have_the_order_of_epochs() {
        let turn = |count, origin, team| Turn { count, origin, team };
        assert!(turn(8, 1, 1).is_after(turn(7, 4095, 9)));
        assert!(turn(7, 2, 1).is_after(turn(7, 1, 9)));
        assert!(!turn(7, 2, 9).is_after(turn(7, 2, 1)));
        assert!(turn(0, 1, 0).is_after(turn(u32::MAX, 4095, 0)), "after the greatest comes zero");
        assert!(!turn(u32::MAX, 4095, 0).is_after(turn(0, 1, 0)));
        assert_eq!(turn(3, 1, 0).whole_count((5 << 32) - 1), (5 << 32) + 3);
        assert_eq!(turn(u32::MAX, 1, 0).whole_count(5 << 32), (5 << 32) - 1);
        assert_eq!(turn(u32::MAX, 1, 0).whole_count(0), u64::MAX, "counts wrap");
    }
}
