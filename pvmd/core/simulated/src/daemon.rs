//! A daemon's core whose state is checked after every event.

use pvm_sched::queues::{Configuration, Queue};
use pvm_wire::HostIndex;
use pvm_wire::encoding::DataSignature;
use pvm_wire::owner::{Held, OwnerRule, Ownership};
use pvmd_core::event::{Action, Event, StartedHost};
use pvmd_core::hostfile::{HostOptions, HostSpec, Hostfile, Link, Via};
use pvmd_core::{Config, Core, Hosting, Limits, Policy, Saved, Succession};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::time::Duration;

/// Time for which a host may be silent.
pub const HOST_TIMEOUT: Duration = Duration::from_secs(3);

/// Settings of the daemon `node{index}`.
pub fn config(index: HostIndex) -> Config {
    Config {
        index,
        master: HostIndex::MASTER,
        name: format!("node{index}"),
        arch: "LINUX64".into(),
        speed: None,
        capability: 1000.0,
        cores: 2,
        task_target: 4,
        task_memory: None,
        slots: 2,
        policy: Policy::default(),
        owner: Ownership { rule: OwnerRule::Run("owner".into()), held: Held::Stopped },
        private_network: false,
        task_limit: 100,
        address: Some(Ipv4Addr::new(10, 0, 0, 1).into()),
        hostfile: Hostfile::default(),
        link_idle: Duration::from_secs(30),
        seed: 1,
        epoch: Duration::from_secs(1_000_000),
        debug_mask: 0,
        slice: None,
        has_rows: false,
        wake_time: Duration::from_micros(3),
        hosting: Hosting { timeout: Duration::from_secs(60), ..Hosting::default() },
        succession: Succession::default(),
        watched_max: 256,
        host_timeout: HOST_TIMEOUT,
        limits: Limits::default(),
        cluster: None,
        queues: queues(),
        saved: Saved::default(),
        stamp: None,
    }
}

/// A hostfile's line.
pub fn spec(name: String, speed: u32, via: Via) -> HostSpec {
    let cluster = cluster_of(&name).map(str::to_owned);
    let options = HostOptions { via: Some(via), speed: Some(speed), cluster, ..HostOptions::default() };
    HostSpec { name, options, start: true, shared_address: false }
}

/// The cluster of a host of this name: every third host is in none.
pub fn cluster_of(name: &str) -> Option<&'static str> {
    let number = name.trim_start_matches(|letter: char| !letter.is_ascii_digit()).parse::<u32>();
    [None, Some("near"), Some("far")][number.map_or(0, |number| number as usize % 3)]
}

/// The links of these clusters, one of which is in a domain of its own.
pub fn links() -> Vec<Link> {
    let link = |cluster: &str, domain: Option<&str>| Link {
        cluster: cluster.to_owned(),
        bandwidth: Some(1_000_000_000),
        domain: domain.map(str::to_owned),
    };
    vec![link("near", None), link("far", Some("elsewhere"))]
}

/// What a new daemon says of itself.
pub fn started_host() -> StartedHost {
    StartedHost {
        arch: "LINUX64".into(),
        signature: DataSignature::NATIVE.0,
        capability: 1000.0,
        task_limit: 50,
        address: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 7),
    }
}

/// Tasks and links that a check may look at for each event.
const CHECKED: usize = 4;

/// A core that panics when events leave it in a state that must not be.
///
/// A daemon with few tasks and links is looked at after every event, one with many after some events, so that a check costs each
/// event no more than a few of them. What is wrong in its tables stays there until it is seen.
pub struct Daemon {
    core: Core,
    /// Tasks and links at the last check, and events since.
    size: usize,
    unchecked: usize,
}

impl Daemon {
    /// The core, and what it does at its start.
    pub fn new(config: Config, now: Duration) -> (Self, Vec<Action>) {
        let mut core = Core::new(config, now);
        let actions = core.start(now);
        (Self { core, size: 0, unchecked: 0 }, actions)
    }

    /// An event.
    pub fn handle(&mut self, event: Event, now: Duration) -> Vec<Action> {
        let actions = self.core.handle(event, now);
        self.check();
        actions
    }

    /// Its timer.
    pub fn handle_timeout(&mut self, now: Duration) -> Vec<Action> {
        let actions = self.core.handle_timeout(now);
        self.check();
        actions
    }

    fn check(&mut self) {
        self.unchecked += 1;
        if self.unchecked * CHECKED < self.size {
            return;
        }
        let census = self.core.census();
        (self.size, self.unchecked) = (census.tasks + census.links, 0);
        if let Err(fault) = self.core.check() {
            panic!("host {}: {fault}", self.core.index());
        }
    }
}

impl Deref for Daemon {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

/// The queues of simulated machines: one whose jobs end the tasks of the other.
pub fn queues() -> Configuration {
    let preempts = vec!["default".to_owned()];
    let urgent = Queue { priority: 1, preempts, ..Queue::open("urgent") };
    vec![Queue::open("default"), urgent].into()
}
