//! Pods of a Kubernetes StatefulSet, imitated by namespaces.
//!
//! Each has a network, a host name, processes and folders of its own, and runs the command of `packaging/kubernetes/pvm.yaml` as the
//! user, with the variables, and with the key that the manifest says. What is installed is in `/usr/local`. The addresses that a
//! headless Service has are in `/etc/hosts`.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::install::{Installation, workspace};
use crate::network::{Network, Setting};
use crate::peers::{self, Peer};
use crate::process as processes;
use crate::program::{Ended, Program};
use crate::wait;

/// Where what is installed is in a pod: every system has this folder.
const PREFIX: &str = "/usr/local";

/// Makes the pod around a command: $1 folder of the test, $2 name, $3 prefix, $4 folder of the key, $5 user, then the command. A
/// Secret's files belong to root and the pod's group; an `emptyDir` can be written by all.
const MAKE_POD: &str = r#"
set -eu
folder=$1 key=$4 user=$5
hostname "$2"
mount --bind "$3" /usr/local
for name in hosts passwd group; do mount --bind "$folder/$name" "/etc/$name"; done
for name in /run /home /var/lib; do mount -t tmpfs none "$name"; done
mkdir -p /home/pvm /var/lib/pvm "$key"
if [ -e "$folder/$2.key" ]; then cp -p "$folder/$2.key" "$key/ssh-privatekey"; fi
chown "$user:$user" /home/pvm
chmod 777 /var/lib/pvm
mount -t tmpfs -o mode=1777 none /tmp
mount -t proc none /proc
cd /home/pvm
shift 5
exec "$@"
"#;

/// What a pod of the manifest is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    text: String,
}

/// What a pod finds as the key of ssh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// The key of all pods.
    Right,
    /// There is no Secret, or it is not mounted.
    Missing,
    /// Only root can read it.
    OfRoot,
    /// The public half, by mistake.
    Public,
}

/// A set of pods on a network of their own.
pub struct Pods {
    manifest: Manifest,
    prefix: PathBuf,
    running: BTreeMap<usize, Program>,
    network: Network,
    folder: TempDir,
}

impl Manifest {
    /// That of this project.
    pub fn read() -> Self {
        let path = workspace().join("packaging/kubernetes/pvm.yaml");
        Self { text: fs::read_to_string(path).expect("the manifest can be read") }
    }

    /// All of it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What stands behind the first `name`, up to the end of the value.
    #[track_caller]
    pub fn after(&self, name: &str) -> &str {
        let found = self.text.split_once(name).map(|(_, rest)| rest.trim_start_matches([' ', '[', '"']));
        let value = found.and_then(|rest| rest.split(['\n', ',', ']', '}', '"']).next());
        value.unwrap_or_else(|| panic!("the manifest has no {name}"))
    }

    /// The variables that it sets to a value.
    pub fn variables(&self) -> Vec<(&str, &str)> {
        let lines = self.text.lines().filter_map(|line| line.trim().strip_prefix("- {name: "));
        lines.filter_map(|line| line.strip_suffix('}')?.split_once(", value: ")).collect()
    }
}

impl Pods {
    /// Room for `count` pods; `None` (with a line that says so) where that is not possible.
    #[track_caller]
    pub fn of(count: usize, installation: &Installation, check: &str) -> Option<Self> {
        peers::require(&[Peer::Root, Peer::Mount], check)?;
        let setting = Setting { without_sshd: true, ..Setting::default() };
        let network = Network::with(setting, count, installation, check)?;
        let folder = TempDir::with_prefix("pvm-pods-").expect("a temporary folder can be made");
        let prefix = installation.root().and_then(|root| Some(root.parent()?.parent()?.to_owned()));
        let prefix = prefix.expect("what is installed has a prefix");
        let pods = Self { manifest: Manifest::read(), prefix, running: BTreeMap::new(), network, folder };
        let user = pods.user();
        pods.write("passwd", &format!("root:x:0:0::/root:/bin/sh\npvm:x:{user}:{user}::/home/pvm:/bin/sh\n"));
        pods.write("group", &format!("root:x:0:\npvm:x:{user}:\n"));
        pods.write("hosts", "127.0.0.1 localhost\n");
        let keygen = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(pods.file("key"))
            .status();
        assert!(keygen.is_ok_and(|status| status.success()), "ssh-keygen makes a key");
        Some(pods)
    }

    /// Gives the name of the Service the addresses of these pods.
    pub fn publish(&self, pods: &[usize]) {
        let service = self.manifest.after("serviceName:");
        let lines: Vec<String> =
            pods.iter().map(|index| format!("{} {service}\n", self.network.address(*index))).collect();
        // The same file: it is mounted.
        self.write("hosts", &format!("127.0.0.1 localhost\n{}", lines.concat()));
    }

    /// Starts a pod.
    #[track_caller]
    pub fn start(&mut self, index: usize) {
        let pod = self.pod(index, Key::Right, "");
        self.running.insert(index, pod);
    }

    /// Runs a pod that is expected to end by itself, with another value of a variable (`NAME=value`) or none.
    #[track_caller]
    pub fn run(&self, index: usize, key: Key, variable: &str) -> Ended {
        self.pod(index, key, variable).end()
    }

    fn pod(&self, index: usize, key: Key, variable: &str) -> Program {
        let name = name(index);
        let file = self.file(&format!("{name}.key"));
        let _ = fs::remove_file(&file);
        let source = if key == Key::Public { "key.pub" } else { "key" };
        if key != Key::Missing {
            fs::copy(self.file(source), &file).expect("the temporary folder is writable");
            let mode = if key == Key::OfRoot { 0o400 } else { 0o440 };
            fs::set_permissions(&file, Permissions::from_mode(mode)).expect("the file is ours");
            std::os::unix::fs::chown(&file, Some(0), Some(self.user())).expect("root gives files away");
        }
        let mut command = self.network.namespace(index).command(Path::new("unshare"));
        command.args(["--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "sh", "-c", MAKE_POD]);
        command.arg("pod").arg(self.folder.path()).arg(name).arg(&self.prefix);
        command.arg(self.manifest.after("name: key, mountPath:")).arg(self.user().to_string());
        command.args(self.as_user(index)).args(Some(variable).filter(|text| !text.is_empty()));
        command.arg(self.manifest.after("command:").replacen("/usr", PREFIX, 1));
        Program::start(&mut command)
    }

    /// A command in a running pod, as `kubectl exec` has it.
    #[track_caller]
    pub fn command(&self, index: usize, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.first_process(index).to_string(), "--all", "--wd"]);
        command.args(self.as_user(index)).args(words);
        command
    }

    /// Runs such a command, which must succeed. What it says.
    #[track_caller]
    pub fn exec(&self, index: usize, words: &[&str]) -> String {
        let ended = Program::run(&mut self.command(index, words));
        ended.expect_success();
        ended.stdout
    }

    /// The names of the hosts that a pod knows, in the order in which they became members; none if it is in no virtual machine.
    pub fn hosts(&self, index: usize) -> Vec<String> {
        let said = Program::run(&mut self.command(index, &["pvm", "conf"])).stdout;
        said.lines().skip(2).filter_map(|row| row.split_whitespace().next().map(str::to_owned)).collect()
    }

    /// The pod whose daemon is the master, as a pod knows it: that of the oldest member.
    #[track_caller]
    pub fn master(&self, index: usize) -> usize {
        let first = self.hosts(index).into_iter().next().expect("it is in a virtual machine");
        let number = first.rsplit('-').next().and_then(|number| number.parse().ok());
        number.expect("names of pods end in a number")
    }

    /// Waits until exactly these pods are the hosts of one virtual machine, as each of them sees it.
    #[track_caller]
    pub fn await_machine(&self, of: &[usize]) {
        let names: Vec<String> = of.iter().map(|index| name(*index)).collect();
        for index in of {
            let is_so = wait::holds(|| {
                let mut hosts = self.hosts(*index);
                hosts.sort_unstable();
                hosts == names
            });
            assert!(is_so, "pod {index} has {:?} and not {names:?}:\n{}", self.hosts(*index), self.said());
        }
    }

    /// What a pod has said since it was started.
    pub fn log(&self, index: usize) -> String {
        let pod = &self.running[&index];
        pod.stderr() + &pod.stdout()
    }

    /// The process of a pod's daemon in the pod, by the log.
    #[track_caller]
    pub fn daemon(&self, index: usize) -> String {
        let log = self.log(index);
        let line = log.lines().rev().find(|line| line.contains(" ready version="));
        let pid = line.and_then(|line| line.split_once(" pid=")?.1.split(' ').next());
        pid.unwrap_or_else(|| panic!("pod {index} has no daemon:\n{log}")).to_owned()
    }

    /// The loss of a node: nothing of the pod runs any more, and nothing answers at its address.
    pub fn lose(&mut self, index: usize) {
        self.network.cut(index);
        self.running.remove(&index);
        self.network.end_sessions(index);
    }

    /// The node is there again, without the pod.
    pub fn heal(&self, index: usize) {
        self.network.heal(index);
    }

    /// Deletes a pod: SIGTERM to its first process, and the wait for its end.
    #[track_caller]
    pub fn delete(&mut self, index: usize) -> Ended {
        processes::signal(self.first_process(index), rustix::process::Signal::TERM);
        self.running.remove(&index).expect("the pod runs").end()
    }

    /// What all pods have said.
    pub fn said(&self) -> String {
        let logs = self.running.keys().map(|index| format!("--- pod {index}\n{}", self.log(*index)));
        logs.collect::<Vec<_>>().concat()
    }

    #[track_caller]
    fn first_process(&self, index: usize) -> i32 {
        let unshare = self.running[&index].pid();
        wait::eventually("the first process of a pod", || {
            processes::children(unshare).first().map(|process| process.pid)
        })
    }

    /// The words by which a command is run as the container's user, with the container's variables.
    fn as_user(&self, index: usize) -> Vec<String> {
        let user = self.user();
        let mut words: Vec<String> = format!(
            "setpriv --reuid {user} --regid {user} --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
             env -i PATH={PREFIX}/bin:/usr/bin:/bin HOME=/home/pvm POD_IP={} PVM_TASK_TARGET={}",
            self.network.address(index),
            crate::plan::TASK_TARGET,
        )
        .split_whitespace()
        .map(str::to_owned)
        .collect();
        words.extend(self.manifest.variables().iter().map(|(name, value)| format!("{name}={value}")));
        words
    }

    fn user(&self) -> u32 {
        self.manifest.after("runAsUser:").parse().expect("the user is a number")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).expect("the temporary folder is writable");
    }
}

/// The name of a pod of the set.
pub fn name(index: usize) -> String {
    format!("pvm-{index}")
}
