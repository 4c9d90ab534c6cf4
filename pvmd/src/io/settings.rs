//! What the environment says, read once. docs/settings.md lists the variables.

use crate::allocation::HostsFrom;
use crate::io::memory_watch::MemoryLimits;
use crate::io::room;
use crate::io::scope::Scope;
use pvm_sched::policy::{Policy, UnknownPolicy};
use pvm_wire::daemon::Blob;

use pvm_wire::limits::{MAILBOX_BYTES, MAILBOX_ENTRIES, QUEUE_HIGH, QUEUE_LEAST, SHARED_MAX};
use pvm_wire::owner::Ownership;
use pvm_wire::quantity;
use pvm_wire::turn_rules::{Coscheduling, NoMeans};
use pvmd_core::hostfile::{SLICES, SLOTS, SuccessionRule};
use pvmd_core::{Limits, Succession};
use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;
use tracing_subscriber::EnvFilter;

/// A variable that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{variable}={value}: {reason}")]
pub struct SettingError {
    variable: &'static str,
    value: String,
    reason: Cow<'static, str>,
}

/// Whose virtual machine: decides the names of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// `PVM_TMP`.
    pub tmp: PathBuf,
    /// The user.
    pub uid: u32,
    /// `PVM_VMID`, if set and not empty.
    pub vmid: Option<String>,
}

impl Place {
    /// `<tmp>/pvmd.<uid>[.<vmid>]`.
    pub fn address_file(&self) -> PathBuf {
        self.tmp.join(self.address_name())
    }

    /// Its name in the folder.
    pub fn address_name(&self) -> String {
        self.name("pvmd")
    }

    /// `<tmp>/pvml.<uid>[.<vmid>]`.
    pub fn log_file(&self) -> PathBuf {
        self.tmp.join(self.name("pvml"))
    }

    fn name(&self, kind: &str) -> String {
        let name = format!("{kind}.{}", self.uid);
        self.vmid.iter().fold(name, |name, vmid| format!("{name}.{vmid}"))
    }
}

/// The environment's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where files go.
    pub place: Place,
    /// `PVM_PATH`, else PVM's folders.
    pub search_path: String,
    /// `PVM_WD`, else `HOME`.
    pub directory: Option<String>,
    /// `PVM_DEBUGGER`, else `$PVM_ROOT/lib/debugger`.
    pub debugger: Option<String>,
    /// `PVM_RSH`: program and options that run a command on another host.
    pub rsh: Vec<String>,
    /// `PVM_DPATH`: the daemon's command on other hosts.
    pub daemon: Option<String>,
    /// `PVMHOSTFILE`.
    pub hostfile: Option<PathBuf>,
    /// `PVM_HOSTS_FROM`.
    pub hosts_from: HostsFrom,
    /// `PVMDLOGMAX`, bytes.
    pub log_max: u64,
    /// `PVMDDEBUG`.
    pub debug_mask: u32,
    /// `PVM_LOG`, a filter.
    pub log_filter: Option<String>,
    /// `PVM_TASK_TARGET`, P.
    pub task_target: u32,
    /// `PVM_TASK_MEMORY`, bytes.
    pub task_memory: Option<u64>,
    /// `PVM_TASK_SLOTS`, P of queued batches.
    pub task_slots: u32,
    /// `PVM_POLICY`.
    pub policy: Policy,
    /// The hostfile's `net=private`.
    pub private_network: bool,
    /// What the hostfile says of the owner.
    pub owner: Ownership,
    /// `PVM_TASK_LIMIT`.
    pub task_limit: u32,
    /// `PVM_HOST_TIMEOUT`.
    pub host_timeout: Duration,
    /// `PVM_CONNECT_TIMEOUT`.
    pub connect_timeout: Duration,
    /// `PVM_LINK_IDLE`.
    pub link_idle: Duration,
    /// `PVM_DEPUTIES`: most hosts that hold the master's state.
    pub deputies_max: usize,
    /// `PVM_WATCHED`: hosts of a machine in which the master looks closely at all others.
    pub watched_max: u32,
    /// `PVM_SUCCESSION`.
    pub succession: SuccessionRule,
    /// `PVM_START_TIMEOUT`.
    pub start_timeout: Duration,
    /// `PVM_STARTERS`.
    pub starters: usize,
    /// `PVM_START_TREE`.
    pub start_tree: bool,
    /// `PVM_QUEUE_BYTES`, `PVM_MAILBOX_ENTRIES`, `PVM_MAILBOX_BYTES`.
    pub limits: Limits,
    /// `PVM_SHM_MAX`.
    pub shared_max: u64,
    /// `PVM_COSCHEDULING`.
    pub coscheduling: Coscheduling,
    /// `PVM_MEMORY_LIMITS`.
    pub memory_limits: MemoryLimits,
    /// `PVM_SCOPE`.
    pub scope: Scope,
    /// `PVM_SLICE`.
    pub slice: Duration,
    /// `PVM_TASK_MANAGER`.
    pub manager: Option<OsString>,
    /// `PVM_DUMPABLE`.
    pub is_dumpable: bool,
    /// `PVM_QUEUES`, else `queues.toml` in the user's folder of settings, if it is there.
    pub queues: Option<PathBuf>,
    /// `PVM_STATE`, else the user's folder for such files: what outlives the machine.
    pub state: PathBuf,
}

/// Milliseconds: some hundred times what it takes to have the processor from somebody else, caches included.
const SLICE: u64 = 50;

/// Hosts that hold the master's state: the fewest of which one may be lost without proof that it has ended.
const DEPUTIES: usize = 3;

/// Hosts that one daemon looks at closely: their signs of life take a twentieth of a core there.
const WATCHED: u32 = 256;

/// Tasks per core that keep a host busy while some of them wait for messages.
const TASKS_PER_CORE: u32 = 4;

impl Settings {
    /// Sets how long a team has its processors, in milliseconds, if the hostfile says it.
    pub fn set_slice(&mut self, milliseconds: Option<u32>) {
        let given = milliseconds.filter(|&given| SLICES.contains(&u64::from(given)));
        self.slice = given.map_or(self.slice, |given| Duration::from_millis(given.into()));
    }

    /// Sets how many tasks this host asks for by itself, and runs of queued batches, if the hostfile says it.
    pub fn set_slots(&mut self, slots: Option<u32>) {
        if let Some(slots) = slots.filter(|slots| SLOTS.contains(slots)) {
            (self.task_target, self.task_slots) = (slots, slots);
        }
    }

    /// How the master is succeeded; `authority` is what its successors need of the machine's.
    pub fn succession(&self, authority: Vec<u8>) -> Succession {
        Succession {
            deputies_max: if self.succession == SuccessionRule::Off { 1 } else { self.deputies_max },
            takes_silent: self.succession == SuccessionRule::Silent,
            patience: self.host_timeout * 3 + Duration::from_secs(1),
            authority: Blob(authority.into()),
        }
    }

    /// From this process's environment.
    pub fn from_env() -> Result<Self, SettingError> {
        Ok(Self {
            place: Place {
                tmp: text("PVM_TMP")?.map_or_else(|| "/tmp".into(), PathBuf::from),
                uid: rustix::process::getuid().as_raw(),
                vmid: chosen("PVM_VMID", vmid)?,
            },
            search_path: text("PVM_PATH")?
                .unwrap_or_else(|| "$HOME/pvm3/bin/$PVM_ARCH:$PVM_ROOT/bin/$PVM_ARCH".to_owned()),
            directory: text("PVM_WD")?.or(text("HOME")?),
            debugger: text("PVM_DEBUGGER")?.or(text("PVM_ROOT")?.map(|root| format!("{root}/lib/debugger"))),
            rsh: rsh(text("PVM_RSH")?),
            daemon: text("PVM_DPATH")?,
            hostfile: text("PVMHOSTFILE")?.map(PathBuf::from),
            hosts_from: hosts_from()?,
            log_max: number("PVMDLOGMAX", 1_000_000, 0..=u64::MAX)?,
            debug_mask: chosen("PVMDDEBUG", |mask| {
                let reason =
                    "must be a number from 0 to 4294967295: decimal, octal (0…) or hexadecimal (0x…)";
                debug_mask(mask).ok_or(reason)
            })?,
            log_filter: chosen("PVM_LOG", log_filter)?,
            task_target: number("PVM_TASK_TARGET", cores().saturating_mul(TASKS_PER_CORE), 1..=1_000_000)?,
            task_memory: chosen("PVM_TASK_MEMORY", |size| {
                quantity::size(size).map(Some).map_err(|_| "must be a size such as 512K, 100M or 4G")
            })?,
            task_slots: number("PVM_TASK_SLOTS", cores(), 0..=1_000_000)?,
            policy: chosen("PVM_POLICY", |name| {
                name.parse().map_err(|unknown: UnknownPolicy| unknown.to_string())
            })?,
            owner: Ownership::default(),
            private_network: false,
            task_limit: number("PVM_TASK_LIMIT", room::tasks(), 1..=262_143)?,
            host_timeout: seconds("PVM_HOST_TIMEOUT", 3.0)?,
            connect_timeout: seconds("PVM_CONNECT_TIMEOUT", 30.0)?,
            link_idle: seconds("PVM_LINK_IDLE", 30.0)?,
            deputies_max: number("PVM_DEPUTIES", DEPUTIES, 1..=5)?,
            watched_max: number("PVM_WATCHED", WATCHED, 1..=4095)?,
            succession: chosen("PVM_SUCCESSION", |name| {
                SuccessionRule::named(name).ok_or("must be proved, silent or off")
            })?,
            start_timeout: seconds("PVM_START_TIMEOUT", 60.0)?,
            starters: number("PVM_STARTERS", 16, 1..=4096)?,
            start_tree: number("PVM_START_TREE", 1, 0..=1)? == 1,
            limits: Limits {
                queue_high: number("PVM_QUEUE_BYTES", QUEUE_HIGH, QUEUE_LEAST..=1 << 40)?,
                mailbox_entries: number("PVM_MAILBOX_ENTRIES", MAILBOX_ENTRIES, 1..=1 << 31)?,
                mailbox_bytes: number("PVM_MAILBOX_BYTES", MAILBOX_BYTES, 0..=1 << 40)?,
            },
            shared_max: number("PVM_SHM_MAX", SHARED_MAX, 0..=1 << 40)?,
            coscheduling: chosen("PVM_COSCHEDULING", |means| {
                means.parse().map_err(|reason: NoMeans| reason.to_string())
            })?,
            memory_limits: chosen("PVM_MEMORY_LIMITS", |limits| {
                limits.parse().map_err(|()| "must be auto, group or process")
            })?,
            scope: chosen("PVM_SCOPE", |scope| scope.parse().map_err(|()| "must be auto or none"))?,
            slice: number("PVM_SLICE", SLICE, SLICES).map(Duration::from_millis)?,
            is_dumpable: number("PVM_DUMPABLE", 0, 0..=1)? == 1,
            queues: queues()?,
            state: state()?,
            manager: std::env::var_os("PVM_TASK_MANAGER").filter(|value| !value.is_empty()),
        })
    }
}

/// A folder of the XDG base directory specification: that of a variable, else one below `HOME`.
fn user_folder(variable: &'static str, below_home: &str) -> Result<Option<PathBuf>, SettingError> {
    let given = text(variable)?.map(PathBuf::from).filter(|folder| folder.is_absolute());
    let home = text("HOME")?.map(|home| PathBuf::from(home).join(below_home));
    Ok(given.or(home).map(|folder| folder.join("pvm")))
}

/// Where the file of queues is, if there is one.
pub fn queues() -> Result<Option<PathBuf>, SettingError> {
    if let Some(path) = text("PVM_QUEUES")? {
        return Ok(Some(path.into()));
    }
    let usual = user_folder("XDG_CONFIG_HOME", ".config")?.map(|folder| folder.join("queues.toml"));
    Ok(usual.filter(|path| path.exists()))
}

fn state() -> Result<PathBuf, SettingError> {
    if let Some(path) = text("PVM_STATE")? {
        return Ok(path.into());
    }
    let usual = user_folder("XDG_STATE_HOME", ".local/state")?;
    Ok(usual.unwrap_or_else(|| "/var/tmp/pvm".into()))
}

/// Cores that this process may use. The answer takes several system calls.
pub fn cores() -> u32 {
    static CORES: OnceLock<u32> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32))
}

/// A debug mask as PVM writes it: decimal, octal with `0`, hexadecimal with `0x`.
pub fn debug_mask(text: &str) -> Option<u32> {
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u32::from_str_radix(digits, 16).ok();
    }
    match text.strip_prefix('0') {
        Some(digits) if !digits.is_empty() => u32::from_str_radix(digits, 8).ok(),
        _ => text.parse().ok(),
    }
}

/// Replaces `$NAME` and `${NAME}`; names that are not set stay as they are.
pub fn expand(text: &str, lookup: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let (name, length) = reference(after);
        match lookup(name).filter(|_| !name.is_empty()) {
            Some(value) => out.push_str(&value),
            None => out.push_str(&rest[at..=at + length]),
        }
        rest = &after[length..];
    }
    out.push_str(rest);
    out
}

/// The name that follows a `$`, and the bytes it takes, braces included.
fn reference(text: &str) -> (&str, usize) {
    if let Some((name, _)) = text.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
        return (name, name.len() + 2);
    }
    let end = text.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    (&text[..end], end)
}

/// The value of a variable, if set and not empty.
fn text(variable: &'static str) -> Result<Option<String>, SettingError> {
    match std::env::var(variable) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(value)) => {
            Err(error(variable, &value.to_string_lossy(), "must be text in UTF-8"))
        }
    }
}

fn vmid(value: &str) -> Result<Option<String>, &'static str> {
    if value.contains('/') || value.len() > 200 {
        return Err("becomes part of a file name: it must have no '/' and at most 200 bytes");
    }
    Ok(Some(value.to_owned()))
}

/// `PVM_HOSTS_FROM`.
///
/// # Errors
///
/// A value that names nothing.
pub fn hosts_from() -> Result<HostsFrom, SettingError> {
    chosen("PVM_HOSTS_FROM", str::parse::<HostsFrom>)
}

fn log_filter(filter: &str) -> Result<Option<String>, String> {
    match EnvFilter::try_new(filter) {
        Ok(_) => Ok(Some(filter.to_owned())),
        Err(cause) => Err(format!("must be a filter such as debug or pvmd_core::spawn=debug: {cause}")),
    }
}

/// ssh must never ask for anything: nobody is there to answer.
fn rsh(setting: Option<String>) -> Vec<String> {
    match setting {
        Some(command) => command.split_ascii_whitespace().map(str::to_owned).collect(),
        None => ["ssh", "-o", "BatchMode=yes"].map(str::to_owned).to_vec(),
    }
}

/// The value of a variable, parsed by `read`; the default if it is not set. An error of `read` is the reason that the user sees.
fn chosen<T: Default, R: Into<Cow<'static, str>>>(
    variable: &'static str,
    read: impl FnOnce(&str) -> Result<T, R>,
) -> Result<T, SettingError> {
    let Some(value) = text(variable)? else { return Ok(T::default()) };
    read(&value).map_err(|reason| error(variable, &value, reason))
}

fn number<T: FromStr + PartialOrd + Display>(
    variable: &'static str,
    default: T,
    range: RangeInclusive<T>,
) -> Result<T, SettingError> {
    in_range(variable, default, range, "a whole number")
}

fn seconds(variable: &'static str, default: f64) -> Result<Duration, SettingError> {
    in_range(variable, default, 0.1..=86_400.0, "a number of seconds").map(Duration::from_secs_f64)
}

/// What a variable says, `what` for people.
fn in_range<T: FromStr + PartialOrd + Display>(
    variable: &'static str,
    default: T,
    range: RangeInclusive<T>,
    what: &str,
) -> Result<T, SettingError> {
    let Some(value) = text(variable)? else { return Ok(default) };
    let number = value.parse().ok().filter(|number| range.contains(number));
    let (least, most) = (range.start(), range.end());
    number.ok_or_else(|| error(variable, &value, format!("must be {what} from {least} to {most}")))
}

fn error(variable: &'static str, value: &str, reason: impl Into<Cow<'static, str>>) -> SettingError {
    SettingError { variable, value: value.to_owned(), reason: reason.into() }
}

/// Whether a file can be executed by its owner, as PVM asks.
pub fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o100 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_pvms() {
        assert_eq!(debug_mask("0x10"), Some(16));
        assert_eq!(debug_mask("010"), Some(8));
        assert_eq!(debug_mask("10"), Some(10));
        assert_eq!(debug_mask("0"), Some(0));
        assert_eq!(debug_mask("-1"), None);
    }

    #[test]
    fn a_machine_without_succession_has_one_host_with_the_masters_state() {
        let mut settings = Settings::from_env().expect("an environment of settings");
        settings.deputies_max = 5;
        settings.host_timeout = Duration::from_secs(2);
        let seen = |rule| {
            let succession = Settings { succession: rule, ..settings.clone() }.succession(vec![7]);
            assert_eq!(
                (succession.patience, &succession.authority.0[..]),
                (Duration::from_secs(7), &[7][..])
            );
            (succession.deputies_max, succession.takes_silent)
        };
        let rules = SuccessionRule::ALL;
        assert_eq!(rules.map(seen), [(5, false), (5, true), (1, false)]);
    }

    #[test]
    fn names_are_replaced_when_they_are_set() {
        let lookup = |name: &str| (name == "A").then(|| "x".to_owned());
        assert_eq!(expand("$A/${A}b:$B/$A$", lookup), "x/xb:$B/x$");
        assert_eq!(expand("${A", lookup), "${A");
        assert_eq!(expand("é$A é${B}", lookup), "éx é${B}");
    }

    #[test]
    fn files_are_named_as_libpvm_looks_for_them() {
        let place = Place { tmp: "/t".into(), uid: 5, vmid: None };
        assert_eq!(place.address_file(), Path::new("/t/pvmd.5"));
        let place = Place { vmid: Some("v".into()), ..place };
        assert_eq!(place.log_file(), Path::new("/t/pvml.5.v"));
    }
}
