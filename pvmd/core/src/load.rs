//! How busy the cores of this host are, and by whom.

/// Readings of the load, and how many programs ran while it was measured.
#[derive(Debug, Default)]
pub(crate) struct HostLoad {
    /// As last read.
    busy_cores: f64,
    /// The most programs at a time in the interval that was read.
    most_running: usize,
    /// And in the one that goes on.
    peak: usize,
}

impl HostLoad {
    /// The number of programs that run now or are about to.
    pub fn note_running(&mut self, running: usize) {
        self.peak = self.peak.max(running);
    }

    /// How busy the cores were since the last reading, with work of any program.
    pub fn read(&mut self, busy_cores: f64, running: usize) {
        self.busy_cores = if busy_cores.is_finite() { busy_cores } else { 0.0 };
        self.most_running = std::mem::replace(&mut self.peak, running).max(running);
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
        let mut load = HostLoad::default();
        load.note_running(3);
        load.note_running(1);
        load.read(4.0, 1);
        assert_eq!((load.busy_cores(), load.outside(2)), (4.0, 0.5));
        load.read(4.0, 0);
        assert_eq!((load.busy_cores(), load.outside(2)), (4.0, 1.5), "one ran when the interval began");
        load.read(4.0, 0);
        assert_eq!((load.busy_cores(), load.outside(2)), (4.0, 2.0));
        load.read(f64::NAN, 0);
        assert_eq!((load.busy_cores(), load.outside(0)), (0.0, 0.0));
    }
}
