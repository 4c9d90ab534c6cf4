//! How busy the cores of this host are, and by whom.

use crate::event::Now;
use pvm_sched::loads::Averages;

/// Readings of the load, and how many programs ran while it was measured.
#[derive(Debug, Default)]
pub(crate) struct HostLoad {
    /// As last read.
    busy_cores: f64,
    /// The most programs at a time in the interval that was read.
    most_running: usize,
    /// And in the one that goes on.
    peak: usize,
    /// When the load was last read.
    read_at: Option<Now>,
    /// The parts of all cores that were busy, and busy with others than tasks.
    busy: Averages,
    others: Averages,
}

impl HostLoad {
    /// The number of programs that run now or are about to.
    pub fn note_running(&mut self, running: usize) {
        self.peak = self.peak.max(running);
    }

    /// How busy the cores were since the last reading, with work of any program.
    pub fn read(&mut self, busy_cores: f64, running: usize, cores: u32, now: Now) {
        self.busy_cores = if busy_cores.is_finite() { busy_cores } else { 0.0 };
        self.most_running = std::mem::replace(&mut self.peak, running).max(running);
        let seconds = self.read_at.map_or(0.0, |before| now.saturating_sub(before).as_secs_f64());
        self.read_at = Some(now);
        self.busy.observe(self.busy_cores / f64::from(cores.max(1)), seconds);
        self.others.observe(self.outside(cores), seconds);
    }

    /// The averages of the parts of all cores that were busy, and busy with others than tasks, in thousandths.
    pub fn averages(&self) -> [[u16; 3]; 2] {
        [self.busy, self.others].map(|of| of.means().map(|part| (part * 1000.0).round() as u16))
    }

    pub fn busy_cores(&self) -> f64 {
        self.busy_cores
    }

    /// The part of this number of cores that other programs keep busy.
    pub fn outside(&self, cores: u32) -> f64 {
        // Each program may account for one busy core; what is busy beyond that is not ours.
        let busy = (self.busy_cores - self.most_running as f64).max(0.0);
        busy / f64::from(cores.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_of_the_interval_accounts_for_one_core() {
        let (mut load, now) = (HostLoad::default(), Now::ZERO);
        let second = Now::from_secs(1);
        load.note_running(3);
        load.note_running(1);
        load.read(4.0, 1, 2, now);
        assert_eq!((load.busy_cores(), load.outside(2)), (4.0, 0.5));
        load.read(4.0, 0, 2, now + second);
        assert_eq!((load.busy_cores(), load.outside(2)), (4.0, 1.5), "one ran when the interval began");
        load.read(4.0, 0, 2, now + 60 * second);
        assert_eq!(load.averages()[0], [2000; 3]);
        assert_eq!((load.busy_cores(), load.outside(2)), (4.0, 2.0));
        load.read(f64::NAN, 0, 2, now + 61 * second);
        assert_eq!((load.busy_cores(), load.outside(0)), (0.0, 0.0));
    }
}
