//! What this host knows of the loads of all: measured here, heard as the master, or sent by it.

use crate::event::Sample;
use crate::load::HostLoad;
use pvm_sched::loads;
use pvm_wire::HostIndex;
use pvm_wire::loads::LoadVector;
use std::collections::BTreeSet;

/// The loads of hosts.
#[derive(Debug)]
pub(crate) struct Loads {
    known: loads::Loads<HostIndex>,
    /// By how many seconds local clocks are ahead of universal time.
    local_time: i32,
    /// Hosts whose loads the queues have not been told.
    for_queues: BTreeSet<HostIndex>,
}

impl Loads {
    pub fn new(own: HostIndex) -> Self {
        Self { known: loads::Loads::new(own), local_time: 0, for_queues: BTreeSet::new() }
    }

    pub fn local_time(&self) -> i32 {
        self.local_time
    }

    pub fn get(&self, host: HostIndex) -> Option<&LoadVector> {
        self.known.get(host)
    }

    /// This host's load: its vector, if the master is to be told.
    pub fn measured(
        &mut self,
        sample: &Sample,
        load: &HostLoad,
        (tasks, cores): (usize, u32),
    ) -> Option<LoadVector> {
        self.local_time = sample.local_time;
        let [cpu, others] = load.averages();
        let vector = LoadVector {
            run_queue: sample.run_queue.map(|mean| (mean * 100.0).round() as u32),
            cpu,
            others,
            memory: sample.memory,
            free: sample.free,
            users: sample.users,
            input: sample.input,
            tasks: u32::try_from(tasks).unwrap_or(u32::MAX),
            cores,
        };
        self.known.measured(vector).then_some(vector)
    }

    /// This host has this number of tasks: its vector, if the master is to be told at once.
    pub fn counted(&mut self, tasks: usize) -> Option<LoadVector> {
        self.known.counted(u32::try_from(tasks).unwrap_or(u32::MAX))
    }

    /// As the master: a host tells its load.
    pub fn heard(&mut self, host: HostIndex, vector: LoadVector) {
        self.known.heard(host, vector);
        self.for_queues.insert(host);
    }

    /// The master sends loads.
    pub fn sent(&mut self, vectors: Vec<(HostIndex, LoadVector)>) {
        self.known.sent(vectors);
    }

    /// As the master: what the other hosts are to be sent now.
    pub fn take_changed(&mut self) -> Vec<(HostIndex, LoadVector)> {
        self.known.take_changed()
    }

    /// As the master: whether there is something to be sent.
    pub fn has_changed(&self) -> bool {
        self.known.has_changed()
    }

    /// As the master: what the queues are to be told.
    pub fn for_queues(&mut self) -> Vec<(HostIndex, LoadVector)> {
        let hosts = std::mem::take(&mut self.for_queues);
        hosts.into_iter().filter_map(|host| Some((host, *self.known.get(host)?))).collect()
    }

    /// Hosts have joined. The queues forget what they were told of a host that had not.
    pub fn joined(&mut self, added: &[HostIndex]) {
        self.known.joined();
        self.for_queues.extend(added);
    }

    pub fn gone(&mut self, host: HostIndex) {
        self.known.gone(host);
        self.for_queues.remove(&host);
    }

    /// There is another master, which may be this host.
    pub fn new_master(&mut self) {
        self.known.new_master();
        self.for_queues.clear();
    }
}
