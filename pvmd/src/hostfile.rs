//! PVM's hostfile: which hosts make up a virtual machine, and how each is started.

/// How a host's daemon is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Via {
    /// By ssh (or what `PVM_RSH` names).
    #[default]
    Ssh,
    /// As one more daemon on this machine, under a host name of its own.
    Local,
}

/// The options of a line; what is not given is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct HostOptions {
    /// `lo=`: login name.
    pub login: Option<String>,
    /// `so=`: start options for a hoster, `pw` or `ms`.
    pub start: Option<String>,
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
}

/// One host of a hostfile, or one string given to `pvm_addhosts`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
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
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Hostfile {
    /// The hosts, in order, defaults of the `*` lines above them filled in.
    pub hosts: Vec<HostSpec>,
    /// The last `*` line's options, for hosts that are not in the file.
    pub defaults: HostOptions,
}
