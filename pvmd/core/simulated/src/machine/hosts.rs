//! Hosts and the links between them.

use super::{Happening, Host, Machine, Tasks};
use crate::daemon::{HOST_TIMEOUT, started_host};
use crate::network::Packet;
use pvm_wire::codes::DAEMON_PROTOCOL;
use pvm_wire::daemon::DaemonMsg;
use pvm_wire::slave::{Fingerprint, HostedLine};
use pvm_wire::{HostIndex, PvmError};
use pvmd_core::event::{Event, StartFailure, StartedHost};
use pvmd_core::hostfile::{HostSpec, Hostfile};
use std::time::Duration;

impl<T: Tasks> Machine<T> {
    pub(super) fn start_host(&mut self, master: HostIndex, index: HostIndex, spec: &HostSpec) {
        self.count_start(master);
        if let Some(reason) = self.draw_failure() {
            let is_passing = self.random.below(2) == 0;
            let result = Err(StartFailure { error: PvmError::CantStart, reason, is_passing });
            return self
                .later(1000..2_000_000, Happening::Started(master, Event::HostStarted { index, result }));
        }
        let (when, event) = self.prepare_host(master, index, spec);
        self.at(when, Happening::Started(master, event));
    }

    /// A host starts a daemon that waits for the master.
    pub(super) fn start_daemon(&mut self, by: HostIndex, index: HostIndex) {
        self.count_start(by);
        let line = HostedLine { protocol: DAEMON_PROTOCOL, port: 1, fingerprint: Fingerprint([0; 32]) };
        let answer = self.draw_failure().map_or(Ok(line.to_string()), Err);
        self.later(1000..300_000, Happening::Started(by, Event::DaemonStarted { index, answer }));
    }

    /// The daemon that waited for the master begins.
    pub(super) fn boot_host(&mut self, master: HostIndex, index: HostIndex, spec: &HostSpec) {
        let (when, event) = self.prepare_host(master, index, spec);
        self.at(when, Happening::Event(master, event));
    }

    fn count_start(&mut self, by: HostIndex) {
        let count = self.starting.entry(by).or_default();
        *count += 1;
        self.starting_most = self.starting_most.max(*count);
    }

    fn draw_failure(&mut self) -> Option<String> {
        (self.setup.fails && self.random.below(20) == 0).then(|| "it does not start".to_owned())
    }

    /// Schedules the begin of a daemon. Returns the event that tells the master, and its time.
    fn prepare_host(&mut self, master: HostIndex, index: HostIndex, spec: &HostSpec) -> (Duration, Event) {
        let capability = spec.options.speed.unwrap_or(1000);
        let boots = self.now + self.random.micros(1000..300_000);
        self.at(boots, Happening::Boot(index, master, spec.name.clone(), capability));
        if self.setup.fails && self.random.below(20) == 0 {
            let dies = boots + self.random.micros(1..2_000_000);
            self.at(dies, Happening::Vanish(index));
        }
        let (capability, task_limit) = (f64::from(capability), self.setup.task_limit);
        let started = StartedHost { capability, task_limit, ..started_host() };
        let when = boots + self.random.micros(1000..200_000);
        (when, Event::HostStarted { index, result: Ok(started) })
    }

    pub(super) fn boot(&mut self, host: HostIndex, master: HostIndex, name: String, capability: u32) {
        if !self.abandoned.contains(&host) && self.hosts.contains_key(&master) {
            self.check_place(master, &name);
            self.add_daemon(host, master, name, capability, Hostfile::default());
        }
    }

    /// A daemon cannot start while another of its name still has its files. The master waits for its end, unless it has lost it.
    fn check_place(&mut self, master: HostIndex, name: &str) {
        // A master does not know what another has started that is lost.
        let is_own = |host: &Host| host.starter == master;
        let has_files = |host: &Host| is_own(host) && host.name == name && host.exiting && !host.cleared;
        let is_lost = |index| self.unsteady.contains(&(master, index));
        let mut others = self.hosts.iter().filter(|(index, host)| has_files(host) && !is_lost(**index));
        if let Some((index, _)) = others.next() {
            let text = format!("a daemon of {name} starts while host {index} of that name is ending");
            self.fault(text);
        }
    }

    /// The daemon ends, and its tasks with it.
    pub(super) fn exit(&mut self, host: HostIndex) {
        if let Some(found) = self.hosts.get_mut(&host) {
            found.exiting = true;
        }
        self.processes.retain(|_, process| process.host != host);
        self.later(1..1_500_000, Happening::Cleared(host));
    }

    /// Its files are gone; its links are closed after what was sent.
    pub(super) fn cleared(&mut self, host: HostIndex) {
        let Some(found) = self.hosts.get_mut(&host) else { return };
        found.cleared = true;
        for other in self.net.others(host) {
            self.send(host, other, Packet::Close);
        }
        self.later(1..500_000, Happening::Vanish(host));
    }

    /// A host is gone, with all its processes; the others notice after a while.
    pub fn vanish(&mut self, host: HostIndex) {
        if self.hosts.remove(&host).is_none() {
            return;
        }
        self.processes.retain(|_, process| process.host != host);
        for other in self.net.others(host) {
            let link = self.net.end(other, host).number;
            let is_cut = self.net.is_cut(host, other) || self.net.is_cut(other, host);
            let pace = u64::from(self.pace(other, host));
            if is_cut || self.off.contains(&host) {
                self.later(1_500_000 * pace..2_250_000 * pace, Happening::Silent(other, host, link));
                self.later(2_250_000 * pace..3_000_000 * pace, Happening::Lost(other, host, link));
            } else {
                self.later(10_000..1_500_000 * pace, Happening::Refused(other, host, link));
            }
        }
        self.net.remove(host);
    }

    /// Sends a packet over a link.
    pub(super) fn send(&mut self, from: HostIndex, to: HostIndex, packet: Packet) {
        let earliest = self.now + self.random.micros(50..5000);
        if let Some((when, packet)) = self.net.send(from, to, packet, earliest) {
            let link = self.net.end(from, to).number;
            self.at(when, Happening::Arrival(from, to, link, packet));
        }
    }

    pub(super) fn arrive(&mut self, from: HostIndex, to: HostIndex, link: u64, packet: Packet) {
        if self.net.open_link(to, from) != Some(link) {
            return;
        }
        match packet {
            Packet::Message(message) => {
                // A link takes no more than its daemon may queue, so that what is on its way has a bound.
                if let DaemonMsg::Data { data, .. } = &message {
                    self.later(1..100, Happening::Acknowledged(from, to, data.len()));
                }
                let heard = self.heard.entry(to).or_default();
                heard.messages += 1;
                let head = message.frame_head().map_or(0, |head| head.len());
                heard.bytes += (head + message.data().len()) as u64;
                self.feed(to, Event::PeerMessage { host: from, message });
            }
            Packet::Close => self.lose(to, from, link, "it closed the link", false),
        }
    }

    /// Data have arrived. The acknowledgement is delayed while the link back is cut.
    pub(super) fn acknowledged(&mut self, from: HostIndex, to: HostIndex, bytes: usize) {
        if self.net.is_cut(to, from) {
            return self.later(10_000..50_000, Happening::Acknowledged(from, to, bytes));
        }
        self.feed(from, Event::PeerDrained { host: to, bytes });
    }

    pub(super) fn dialled(&mut self, from: HostIndex, to: HostIndex) {
        if !self.net.dials.contains(&(from, to)) {
            return;
        }
        // Of two that dial each other, the one with the higher index makes the link. A host that has not heard yet that the
        // link before was left lets the other wait.
        let is_crossed = from < to && self.net.dials.contains(&(to, from));
        if is_crossed || self.net.is_open(to, from) {
            return self.later(200..5000, Happening::Dialled(from, to));
        }
        if self.net.is_parted(from, to)
            || !self.hosts.contains_key(&to)
            || self.setup.fails && self.random.below(60) == 0
        {
            return self.later(1_000_000..9_000_000, Happening::DialFailed(from, to));
        }
        self.net.dials.remove(&(from, to));
        let (here, there) = (self.random.micros(0..5000), self.random.micros(0..5000));
        let (here, there) = (self.now + here, self.now + there);
        self.net.establish((from, here), (to, there));
        self.at(here, Happening::Linked(from, to));
        self.at(there, Happening::Linked(to, from));
    }

    pub(super) fn linked(&mut self, host: HostIndex, other: HostIndex) {
        self.net.dials.remove(&(host, other));
        self.paces.remove(&(host, other));
        let end = self.net.end(host, other);
        end.known = true;
        if end.open {
            self.feed(host, Event::PeerLinked { host: other });
        }
    }

    pub(super) fn unlink(&mut self, host: HostIndex, other: HostIndex) {
        self.net.dials.remove(&(host, other));
        // A link whose news is on its way to the daemon cannot be called back.
        if self.net.end(host, other).known {
            self.send(host, other, Packet::Close);
            self.net.end(host, other).open = false;
        }
    }

    pub(super) fn lose(
        &mut self,
        host: HostIndex,
        other: HostIndex,
        link: u64,
        reason: &str,
        has_ended: bool,
    ) {
        if self.net.open_link(host, other) == Some(link) {
            self.net.end(host, other).open = false;
            // The other end hears nothing from now on.
            self.later(10_000..3_000_000, Happening::Lost(other, host, link));
            self.feed(host, Event::PeerLost { host: other, reason: reason.to_owned(), has_ended });
        }
    }

    /// What the first sends does not get through for a while.
    pub fn cut(&mut self, from: HostIndex, to: HostIndex, time: Duration) {
        let Some(number) = self.net.cut(from, to) else { return };
        self.at(self.now + time, Happening::Heal(from, to, number));
        let (link, pace) = (self.net.end(to, from).number, self.pace(to, from));
        if time > HOST_TIMEOUT * 3 / 4 * pace {
            let pace = u64::from(pace);
            self.later(1_500_000 * pace..2_250_000 * pace, Happening::Silent(to, from, link));
        }
        if time > HOST_TIMEOUT * pace {
            // The receiver hears nothing and gives up, and then the sender hears nothing.
            let pace = u64::from(pace);
            self.later(2_500_000 * pace..3_000_000 * pace, Happening::Lost(to, from, link));
        }
    }

    fn pace(&self, host: HostIndex, other: HostIndex) -> u32 {
        self.paces.get(&(host, other)).copied().unwrap_or(1)
    }

    /// A daemon checks a link at another rate from now on.
    pub(super) fn watch(&mut self, host: HostIndex, other: HostIndex, pace: u32) {
        self.paces.insert((host, other), pace);
        if let (1, Some(link)) = (pace, self.net.open_link(host, other)) {
            self.later(2_250_000..3_000_000, Happening::Looked(host, other, link));
        }
    }

    pub(super) fn looked(&mut self, host: HostIndex, other: HostIndex, link: u64) {
        let is_silent = !self.hosts.contains_key(&other) || self.net.is_cut(other, host);
        if is_silent && self.pace(host, other) == 1 {
            self.unsteady.extend([(host, other), (other, host)]);
            self.lose(host, other, link, "it is silent", false);
        }
    }

    pub(super) fn silent(&mut self, host: HostIndex, other: HostIndex, link: u64) {
        if self.net.open_link(host, other) == Some(link) {
            self.feed(host, Event::PeerSilent { host: other });
        }
    }

    /// What was held back gets through, if that cut (or any) holds.
    pub fn heal(&mut self, from: HostIndex, to: HostIndex, number: Option<u64>) {
        for packet in self.net.heal(from, to, number) {
            let earliest = self.now + self.random.micros(50..5000);
            let when = self.net.arrival(from, to, earliest);
            let link = self.net.end(from, to).number;
            self.at(when, Happening::Arrival(from, to, link, packet));
        }
    }
}
