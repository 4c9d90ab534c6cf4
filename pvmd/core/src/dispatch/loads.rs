//! Loads of hosts: this one's to the master, the master's to all, and to whoever asks.

use crate::Core;
use crate::addresses::ReplyTo;
use crate::event::{Action, Sample};
use crate::timers::Timer;
use pvm_sched::loads::apart;
use pvm_wire::HostIndex;
use pvm_wire::calls::loads::{ListLoads, LoadList};
use pvm_wire::daemon::DaemonMsg;
use pvm_wire::loads::{LoadRecord, LoadVector};

/// Tasks whose memory is measured at a time.
const MEASURED: usize = 32;

impl Core {
    /// The load of this host was read.
    pub(crate) fn on_sampled(&mut self, sample: &Sample) {
        if self.node.memory.read(sample, self.tasks.running()) {
            let running = self.tasks.iter().filter(|task| !task.manager && task.pid > 1).map(|task| task.pid);
            // Of some, if there are many: the mean is wanted, and not at the cost of the tasks.
            let apart = (self.tasks.running() / MEASURED).max(1);
            let pids = running.step_by(apart).take(MEASURED).collect();
            self.out.act(Action::MeasureMemory { pids });
        }
        let counts = (self.own_tasks(), self.config.cores);
        if let Some(vector) = self.loads.measured(sample, &self.node.load, counts) {
            self.tell_load(vector);
        }
    }

    /// Tells the master if the number of this host's tasks has changed.
    pub(crate) fn tell_count(&mut self) {
        let tasks = self.own_tasks();
        if let Some(vector) = self.loads.counted(tasks) {
            self.tell_load(vector);
        }
    }

    fn own_tasks(&self) -> usize {
        self.tasks.iter().filter(|task| task.can_be_held()).count()
    }

    fn tell_load(&mut self, vector: LoadVector) {
        match self.hosts.master() {
            Some(master) if master == self.config.index => self.on_load_told(master, vector),
            Some(master) => self.tell(master, DaemonMsg::Load(vector)),
            // The next one is told of it.
            None => {}
        }
    }

    /// As the master: a host tells its load.
    pub(crate) fn on_load_told(&mut self, host: HostIndex, vector: LoadVector) {
        if self.is_master() && self.hosts.contains(host) {
            self.loads.heard(host, vector);
            self.room.heard(host);
            self.pass_loads_on();
        }
    }

    /// Members have joined: they know no loads.
    pub(crate) fn loads_of_members(&mut self, added: &[HostIndex]) {
        self.loads.joined(added);
        self.pass_loads_on();
        let own = self.config.index;
        // The master took no load from a host that was no member, and an idle host measures the same again, which it does not tell.
        if added.contains(&own)
            && let Some(&vector) = self.loads.get(own)
        {
            self.tell_load(vector);
        }
    }

    /// As the master: sends what has changed to all, unless that has just been done.
    pub(crate) fn pass_loads_on(&mut self) {
        if !self.is_master() || !self.loads.has_changed() || self.out.timers.is_set(Timer::Loads) {
            return;
        }
        self.set_timer(apart(self.hosts.members().len()), Timer::Loads);
        let vectors = self.loads.take_changed();
        self.effects(|_, out| out.push(crate::effect::Effect::TellMembers(DaemonMsg::Loads(vectors))));
    }

    pub(crate) fn on_list_loads(&mut self, to: ReplyTo) {
        let record = |host: HostIndex, name: &str| {
            let load = self.loads.get(host).copied();
            LoadRecord { host: name.to_owned(), load }
        };
        let records = self.hosts.iter().map(|entry| record(entry.index, &entry.name)).collect();
        self.reply_to::<ListLoads>(to, &LoadList(records));
    }
}
