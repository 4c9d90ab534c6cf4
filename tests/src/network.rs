//! Hosts in network namespaces of their own, joined by a bridge, each with a real sshd.
//!
//! The bridge is in a namespace too, so nothing is visible outside, and any number of networks can use the same
//! addresses side by side. The hosts share the file system; what must differ from host to host (home, folder for
//! PVM's files) is set by each host's sshd.

use std::env;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::install::Installation;
use crate::peers::{self, Peer};
use crate::{process as processes, wait};

const NAMES: [&str; 8] = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"];

/// A network of hosts. The first is meant for the master, and needs no sshd.
pub struct Network {
    hub: Namespace,
    hosts: Vec<Host>,
    installation: Installation,
    setting: Setting,
    folder: TempDir,
}

/// Further properties of its hosts.
#[derive(Debug, Clone, Default)]
pub struct Setting {
    /// The number of the only processor that each has, or none for all; so have hosts beyond these.
    pub processors: Vec<Option<usize>>,
    /// Bytes of the longest packets that each can send and take, 1500 where nothing is said.
    pub mtus: Vec<u32>,
    /// More variables in the environment of what ssh starts.
    pub variables: Vec<(String, String)>,
    /// Nothing runs on them but what tests start.
    pub without_sshd: bool,
}

/// A network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    name: String,
    /// The only processor for what runs in it.
    processor: Option<usize>,
}

struct Host {
    namespace: Namespace,
    sshd: Option<Child>,
}

impl Network {
    /// A network of `count` hosts, on all but the first of which ssh starts programs of this installation; `None` (with a
    /// line that says so) where that is not possible.
    #[track_caller]
    pub fn of(count: usize, installation: &Installation, check: &str) -> Option<Self> {
        Self::with(Setting::default(), count, installation, check)
    }

    /// As [`Network::of`], of other hosts.
    #[track_caller]
    pub fn with(setting: Setting, count: usize, installation: &Installation, check: &str) -> Option<Self> {
        peers::require(&[Peer::Namespaces, Peer::Ssh], check)?;
        assert!((1..=NAMES.len()).contains(&count), "there are names for {} hosts", NAMES.len());
        let folder = TempDir::with_prefix("pvm-net-").expect("a temporary folder can be made");
        let hub = Namespace::make(None);
        hub.ip("link add br0 type bridge");
        hub.ip("link set br0 up");
        let mut network =
            Self { hub, hosts: Vec::new(), installation: installation.clone(), setting, folder };
        network.write_keys();
        for index in 0..count {
            network.add_host(index);
        }
        Some(network)
    }

    /// How many hosts there are.
    pub fn count(&self) -> usize {
        self.hosts.len()
    }

    /// Where the master runs.
    pub fn master(&self) -> Namespace {
        self.hosts[0].namespace.clone()
    }

    /// Where a host is, for commands that need no daemon.
    pub fn namespace(&self, index: usize) -> Namespace {
        self.hosts[index].namespace.clone()
    }

    /// Address of a host, also the master's name.
    pub fn address(&self, index: usize) -> String {
        address(index)
    }

    /// A host's name in the hostfile.
    pub fn name(&self, index: usize) -> &'static str {
        NAMES[index]
    }

    /// A host's line for a hostfile or for `add`, with more options.
    pub fn line(&self, index: usize, options: &str) -> String {
        format!("{} ip={} dx={} {options}", NAMES[index], address(index), self.installation.pvmd().display())
    }

    /// Folder for PVM's files on a host that is not the master.
    pub fn tmp(&self, index: usize) -> PathBuf {
        self.folder.path().join(NAMES[index])
    }

    /// The variables of all processes that are started over ssh.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The variables with which the master's daemon reaches the others: an `ssh` that knows our keys.
    pub fn variables(&self) -> Vec<(String, String)> {
        let path = env::var("PATH").unwrap_or_default();
        let mut variables = vec![("PATH".to_owned(), format!("{}:{path}", self.bin().display()))];
        if !self.installation.is_ours {
            variables.push(("PVM_RSH".to_owned(), self.ssh().display().to_string()));
        }
        variables
    }

    /// The program that is `ssh` on this network.
    pub fn ssh(&self) -> PathBuf {
        self.bin().join("ssh")
    }

    /// Pulls a host's cable.
    pub fn cut(&self, index: usize) {
        self.hub.ip(&format!("link set v{index} down"));
    }

    /// Plugs it in again.
    pub fn heal(&self, index: usize) {
        self.hub.ip(&format!("link set v{index} up"));
    }

    /// Limits what a host can send, and what can be sent to it: a rate for tc(8), such as `20mbit`.
    pub fn limit(&self, index: usize, rate: &str) {
        for (namespace, device) in
            [(&self.hub, format!("v{index}")), (&self.hosts[index].namespace, "eth0".to_owned())]
        {
            // A queue of a tenth of a second, as links of that speed have.
            let words = format!("qdisc replace dev {device} root tbf rate {rate} burst 16kb latency 100ms");
            namespace.tries("tc", &words).unwrap_or_else(|reason| panic!("{reason}"));
        }
    }

    /// Limits what connections (TCP) carry from and to a host, in bits per second each way, by token buckets at both ends of its cable. What
    /// has to wait waits in line, and nothing is thrown away. Datagrams, by which daemons talk, pass by. What `tc` or `ip` says if it cannot be.
    pub fn limit_connections(&self, index: usize, bits: u64) -> Result<(), String> {
        let Host { namespace, .. } = &self.hosts[index];
        self.hub.limit_connections(&format!("v{index}"), bits)?;
        namespace.limit_connections("eth0", bits)?;
        // A packet of 64 KiB at once would fill a slow link for long.
        namespace.tries("ip", "link set eth0 gso_max_segs 1 gso_max_size 1500")?;
        // Packets that wait in line for long are not lost.
        let own = address(index);
        let route =
            format!("route change 10.77.0.0/24 dev eth0 proto kernel scope link src {own} rto_min 3s");
        namespace.tries("ip", &route)
    }

    /// Kills what runs on a host, its sshd excepted: what ssh has started, and the sessions in which it runs. New ones can begin.
    pub fn end_sessions(&self, index: usize) {
        let host = &self.hosts[index];
        let sshd = host.sshd.as_ref().and_then(|sshd| i32::try_from(sshd.id()).ok());
        for pid in host.namespace.pids().into_iter().filter(|pid| Some(*pid) != sshd) {
            processes::signal(pid, Signal::KILL);
        }
    }

    fn bin(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// One key for the client, one for all hosts, and an `ssh` that uses them.
    fn write_keys(&self) {
        for name in ["client", "host"] {
            let mut keygen = Command::new("ssh-keygen");
            run(keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"]).arg(self.file(name)));
        }
        let host_key = fs::read_to_string(self.file("host.pub")).expect("ssh-keygen wrote the key");
        fs::write(self.file("known_hosts"), format!("* {host_key}"))
            .expect("the temporary folder is writable");
        let settings = format!(
            "User root\nIdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\nStrictHostKeyChecking yes\n\
             LogLevel ERROR\nConnectTimeout 10\n",
            self.file("client").display(),
            self.file("known_hosts").display(),
        );
        fs::write(self.file("ssh_config"), settings).expect("the temporary folder is writable");
        fs::create_dir(self.bin()).expect("the temporary folder is writable");
        let script =
            format!("#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n", self.file("ssh_config").display());
        fs::write(self.ssh(), script).expect("the temporary folder is writable");
        fs::set_permissions(self.ssh(), Permissions::from_mode(0o755)).expect("the script is ours");
    }

    fn add_host(&mut self, index: usize) {
        let namespace = Namespace::make(self.setting.processors.get(index).copied().flatten());
        self.hosts.push(Host { namespace: namespace.clone(), sshd: None });
        self.hub.ip(&format!("link add v{index} type veth peer name eth0 netns {}", namespace.name));
        if let Some(mtu) = self.setting.mtus.get(index) {
            self.hub.ip(&format!("link set v{index} mtu {mtu}"));
            namespace.ip(&format!("link set eth0 mtu {mtu}"));
        }
        self.hub.ip(&format!("link set v{index} master br0 up"));
        namespace.ip(&format!("addr add {}/24 dev eth0", address(index)));
        namespace.ip("link set eth0 up");
        namespace.ip("link set lo up");
        if index > 0 && !self.setting.without_sshd {
            self.hosts[index].sshd = Some(self.start_sshd(index, &namespace));
        }
    }

    fn start_sshd(&self, index: usize, namespace: &Namespace) -> Child {
        // sshd wants this folder for its unprivileged half.
        fs::create_dir_all("/run/sshd").expect("/run/sshd can be made");
        fs::create_dir_all(self.tmp(index)).expect("the temporary folder is writable");
        let config = self.file(&format!("sshd_config.{index}"));
        fs::write(&config, self.sshd_config(index)).expect("the temporary folder is writable");
        let log =
            File::create(self.file(&format!("sshd.{index}.log"))).expect("the temporary folder is writable");
        let mut command = namespace.command(Path::new("/usr/sbin/sshd"));
        let child = command
            .args(["-D", "-e", "-f"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let child = child.spawn().expect("sshd can be started");
        wait::becomes_true("sshd listens", || {
            let table = fs::read_to_string(format!("/proc/{}/net/tcp", child.id())).unwrap_or_default();
            // Local port 22, state 0A: listening.
            table.lines().any(|line| line.contains(":0016 00000000:0000 0A"))
        });
        child
    }

    fn sshd_config(&self, index: usize) -> String {
        let tmp = self.tmp(index);
        let mut variables = vec![
            format!("HOME={}", tmp.display()),
            format!("PVM_TMP={}", tmp.display()),
            format!("LD_LIBRARY_PATH={}", self.installation.library().display()),
            format!("PVM_TASK_TARGET={}", crate::plan::TASK_TARGET),
            "PVM_ALLOW_ROOT=1".to_owned(),
            // Hosts reach each other as the master reaches them.
            format!("PATH={}:/usr/local/bin:/usr/bin:/bin", self.bin().display()),
        ];
        variables.extend(self.setting.variables.iter().map(|(name, value)| format!("{name}={value}")));
        variables.extend(self.installation.root().map(|root| format!("PVM_ROOT={}", root.display())));
        format!(
            "ListenAddress {}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\nStrictModes no\n\
             PermitRootLogin prohibit-password\nPasswordAuthentication no\nMaxStartups 100\nSetEnv {}\n",
            address(index),
            self.file("host").display(),
            self.file("client.pub").display(),
            variables.join(" "),
        )
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in &mut self.hosts {
            if let Some(sshd) = &mut host.sshd {
                let _ = sshd.kill();
                let _ = sshd.wait();
            }
            host.namespace.remove();
        }
        self.hub.remove();
    }
}

impl Namespace {
    /// A command that runs in it.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = match self.processor {
            None => Command::new("nsenter"),
            Some(processor) => {
                let mut command = Command::new("taskset");
                command.args(["-c", &processor.to_string(), "nsenter"]);
                command
            }
        };
        // `ip netns exec` would hide the control groups, too.
        command.arg(format!("--net=/run/netns/{}", self.name)).arg(program);
        command
    }

    fn make(processor: Option<usize>) -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let name = format!("pvmt{}-{}", process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        run(Command::new("ip").args(["netns", "add", &name]));
        Self { name, processor }
    }

    fn ip(&self, words: &str) {
        run(Command::new("ip").args(["-n", &self.name]).args(words.split_whitespace()));
    }

    /// What `ip` or `tc` does in it; its message if it fails.
    fn tries(&self, program: &str, words: &str) -> Result<(), String> {
        let mut command = Command::new(program);
        command.args(["-n", &self.name]).args(words.split_whitespace());
        let output = command.output().map_err(|error| format!("cannot start {program}: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(format!("{program} {words}: {}", said.trim())) }
    }

    /// Limits what connections send by a device.
    fn limit_connections(&self, device: &str, bits: u64) -> Result<(), String> {
        let tc = |words: &str| self.tries("tc", words);
        tc(&format!("qdisc replace dev {device} root handle 1: htb default 10 r2q 1000"))?;
        tc(&format!("class replace dev {device} parent 1: classid 1:10 htb rate 10gbit quantum 60000"))?;
        let bucket = format!("rate {bits}bit ceil {bits}bit burst 6kb cburst 6kb quantum 3000");
        tc(&format!("class replace dev {device} parent 1: classid 1:20 htb {bucket}"))?;
        tc(&format!("qdisc replace dev {device} parent 1:20 handle 20: pfifo limit 100000"))?;
        tc(&format!(
            "filter replace dev {device} parent 1: protocol ip u32 match ip protocol 6 0xff flowid 1:20"
        ))
    }

    /// The processes in it.
    fn pids(&self) -> Vec<i32> {
        let pids = Command::new("ip").args(["netns", "pids", &self.name]).output();
        let pids =
            pids.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        pids.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }

    fn remove(&self) {
        for pid in self.pids() {
            processes::signal(pid, Signal::KILL);
        }
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

fn address(index: usize) -> String {
    format!("10.77.0.{}", index + 1)
}

#[track_caller]
fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
