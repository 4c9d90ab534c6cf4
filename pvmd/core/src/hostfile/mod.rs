//! PVM's hostfile: which hosts make up a virtual machine, and how each is started.

mod clusters;
mod foreign;
pub mod nodelist;
mod parse;
mod repeats;
mod values;

pub use clusters::Link;
pub use parse::{HostfileError, MISTAKES_MAX, SLICES, parse_host};
pub use values::SLOTS;

use pvm_sched::policy::Policy;
use pvm_wire::owner::{Held, OwnerRule, Ownership};
use pvm_wire::turn_rules::Coscheduling;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a host's daemon is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Via {
    /// By ssh (or what `PVM_RSH` names).
    #[default]
    Ssh,
    /// As one more daemon on this machine, under a host name of its own.
    Local,
    /// By Slurm's `srun`, as a step of the job in which the master runs, or of another one ([`HostOptions::job`]).
    Srun,
    /// By LSF's `blaunch`.
    Blaunch,
    /// By Grid Engine's `qrsh -inherit`.
    Qrsh,
}

impl Via {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Ssh, Self::Local, Self::Srun, Self::Blaunch, Self::Qrsh];

    /// Its name in a hostfile.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ssh => "ssh",
            Self::Local => "local",
            Self::Srun => "srun",
            Self::Blaunch => "blaunch",
            Self::Qrsh => "qrsh",
        }
    }

    /// Whether the launcher belongs to a batch system: it ends all that it has started when it ends.
    pub fn is_of_batch_system(self) -> bool {
        matches!(self, Self::Srun | Self::Blaunch | Self::Qrsh)
    }
}

/// Who can get at the network between a host and others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Network {
    /// Anybody: what tasks send each other directly is sealed.
    #[default]
    Open,
    /// Nobody else: two hosts that both say so do without.
    Private,
}

/// When another host takes the place of a master that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum SuccessionRule {
    /// When the other hosts that hold its state are a majority; of two hosts when the master's daemon is proved to have ended.
    #[default]
    Proved,
    /// As that; of two hosts also when the master is silent, although it may live.
    Silent,
    /// Never: the machine ends with its master.
    Off,
}

impl SuccessionRule {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Proved, Self::Silent, Self::Off];

    /// Its name in a hostfile.
    pub fn name(self) -> &'static str {
        match self {
            Self::Proved => "proved",
            Self::Silent => "silent",
            Self::Off => "off",
        }
    }

    /// That of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }
}

/// The options of a line; what is not given is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostOptions {
    /// `lo=`: login name.
    pub login: Option<String>,
    /// `so=`: start options, of which PVM knows `pw` (ask for a password) and `ms` (started by hand).
    pub start_options: Option<String>,
    /// `dx=`: the daemon's command on that host.
    pub daemon: Option<String>,
    /// `ep=`: search path for programs.
    pub exec_path: Option<String>,
    /// `wd=`: working directory.
    pub working_directory: Option<String>,
    /// `sp=`: speed, and the capability `C_i`.
    pub speed: Option<u32>,
    /// `bx=`: debugger script.
    pub debugger: Option<String>,
    /// `ip=`: name or address used in place of the host's name to reach it.
    pub address: Option<String>,
    /// `id=`: `PVM_VMID` on that host.
    pub vmid: Option<String>,
    /// `via=`: how it is started (this system's own option).
    pub via: Option<Via>,
    /// `net=`: who can get at the network between it and others (this system's own option).
    pub network: Option<Network>,
    /// `slice=`: milliseconds for which a team has its processors (this system's own option).
    pub slice: Option<u32>,
    /// `coscheduling=`: how teams take turns there (this system's own option).
    pub coscheduling: Option<Coscheduling>,
    /// `policy=`: what places batches of its tasks that name no policy (this system's own option).
    pub policy: Option<Policy>,
    /// `succession=`: when another host takes the place of the master, if this host is that (this system's own option).
    pub succession: Option<SuccessionRule>,
    /// `slots=`: how many tasks it is to run at a time (as in other systems' hostfiles).
    pub slots: Option<u32>,
    /// `owner=`: what tells that its owner is there (this system's own option).
    pub owner: Option<OwnerRule>,
    /// `held=`: what is done with tasks meanwhile (this system's own option).
    pub held: Option<Held>,
    /// `job=`: the number of the Slurm job to which it belongs, if that is not the master's (this system's own option).
    pub job: Option<u64>,
    /// `cluster=`: the cluster that it belongs to, whose hosts share a link to all others (this system's own option).
    pub cluster: Option<String>,
}

/// One host of a hostfile, or one string given to `pvm_addhosts`.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostSpec {
    /// Its name in the virtual machine.
    pub name: String,
    /// Its options.
    pub options: HostOptions,
    /// Whether it is started with the machine (no `&` in front).
    pub start: bool,
    /// Whether it may share an address with another host (`$` in front).
    pub shared_address: bool,
}

/// A whole hostfile.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Hostfile {
    /// The hosts, in order, defaults of the `*` lines above them filled in.
    pub hosts: Vec<HostSpec>,
    /// The last `*` line's options, for hosts that are not in the file.
    pub defaults: HostOptions,
    /// The links of clusters.
    pub links: Vec<Link>,
}

impl HostSpec {
    /// The name or address by which it is resolved and reached.
    pub fn target(&self) -> &str {
        self.options.address.as_deref().unwrap_or(&self.name)
    }

    /// The program and arguments that run a command on this host, up to that command.
    pub fn reached_by(&self, rsh: &[String]) -> Vec<String> {
        let login = self.options.login.iter().flat_map(|login| ["-l", login]);
        let words = rsh.iter().map(String::as_str).chain(login).chain([self.target()]);
        words.map(str::to_owned).collect()
    }
}

impl HostOptions {
    /// What is said of the owner.
    pub fn ownership(&self) -> Ownership {
        Ownership { rule: self.owner.clone().unwrap_or_default(), held: self.held.unwrap_or_default() }
    }

    /// These options; those not given are `other`'s.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        let pick = |mine: Option<String>, other: &Option<String>| mine.or_else(|| other.clone());
        Self {
            login: pick(self.login, &other.login),
            start_options: pick(self.start_options, &other.start_options),
            daemon: pick(self.daemon, &other.daemon),
            exec_path: pick(self.exec_path, &other.exec_path),
            working_directory: pick(self.working_directory, &other.working_directory),
            speed: self.speed.or(other.speed),
            debugger: pick(self.debugger, &other.debugger),
            address: pick(self.address, &other.address),
            vmid: pick(self.vmid, &other.vmid),
            via: self.via.or(other.via),
            network: self.network.or(other.network),
            slice: self.slice.or(other.slice),
            coscheduling: self.coscheduling.or(other.coscheduling),
            policy: self.policy.or(other.policy),
            succession: self.succession.or(other.succession),
            slots: self.slots.or(other.slots),
            owner: self.owner.or_else(|| other.owner.clone()),
            held: self.held.or(other.held),
            job: self.job.or(other.job),
            cluster: pick(self.cluster, &other.cluster),
        }
    }
}

impl Hostfile {
    /// Whether any line has `sp=`: then hosts without it have PVM's 1000.
    pub fn gives_speeds(&self) -> bool {
        self.hosts.iter().any(|spec| spec.options.speed.is_some()) || self.defaults.speed.is_some()
    }

    /// A host to be added later, with what the file says of a host of this name, or else of hosts that are not in it.
    /// What the host's own text says goes first.
    #[must_use]
    pub fn complete(&self, spec: HostSpec) -> HostSpec {
        match self.hosts.iter().find(|host| host.name == spec.name) {
            Some(host) => HostSpec {
                options: spec.options.or(&host.options),
                shared_address: spec.shared_address || host.shared_address,
                ..spec
            },
            None => HostSpec { options: spec.options.or(&self.defaults), ..spec },
        }
    }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Private => "private",
        })
    }
}

/// The options as a hostfile has them, each with a blank in front.
impl fmt::Display for HostOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = self.policy.map(Policy::name);
        let (succession, held) = (self.succession.map(SuccessionRule::name), self.held.map(Held::name));
        let options = [
            ("lo", shown(self.login.as_ref())),
            ("so", shown(self.start_options.as_ref())),
            ("dx", shown(self.daemon.as_ref())),
            ("ep", shown(self.exec_path.as_ref())),
            ("wd", shown(self.working_directory.as_ref())),
            ("bx", shown(self.debugger.as_ref())),
            ("ip", shown(self.address.as_ref())),
            ("id", shown(self.vmid.as_ref())),
            ("cluster", shown(self.cluster.as_ref())),
            ("sp", shown(self.speed.as_ref())),
            ("via", shown(self.via.as_ref())),
            ("net", shown(self.network.as_ref())),
            ("slice", shown(self.slice.as_ref())),
            ("coscheduling", shown(self.coscheduling.as_ref())),
            ("policy", shown(policy.as_ref())),
            ("succession", shown(succession.as_ref())),
            ("owner", shown(self.owner.as_ref())),
            ("held", shown(held.as_ref())),
            ("job", shown(self.job.as_ref())),
            ("slots", shown(self.slots.as_ref())),
        ];
        for (key, value) in options {
            if let Some(value) = value {
                write!(f, " {key}={value}")?;
            }
        }
        Ok(())
    }
}

fn shown<T: fmt::Display>(value: Option<&T>) -> Option<&dyn fmt::Display> {
    value.map(|value| value as &dyn fmt::Display)
}

/// The host as a line of a hostfile.
impl fmt::Display for HostSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = if self.start { "" } else { "& " };
        let shared = if self.shared_address { "$ " } else { "" };
        write!(f, "{start}{shared}{}{}", self.name, self.options)
    }
}
