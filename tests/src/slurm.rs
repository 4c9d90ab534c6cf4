//! A Slurm cluster on this machine: its real daemons, of three nodes `n1` to `n3` with two cores each.
//!
//! The nodes share this machine's files; what must differ from node to node is set by [`Cluster::daemon`]. The names of the nodes are
//! known only in the mount namespace in which all runs.

use crate::install::Installation;
use crate::peers::{self, Peer};
use crate::program::Program;
use crate::{process, wait};
use rustix::process::Signal;
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The nodes' names.
pub const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// A cluster, all of whose processes end with it.
pub struct Cluster {
    folder: TempDir,
    installation: Installation,
}

/// Starts the daemons. `$1` is the folder.
const START: &str = r#"
set -e
{ cat /etc/hosts; echo; printf '127.0.9.%d n%d\n' 1 1 2 2 3 3; } > "$1/hosts"
mount --make-rprivate /
mount --bind "$1/hosts" /etc/hosts
munged --force --key-file="$1/munge.key" --socket="$1/munge.socket" --pid-file="$1/munge.pid" \
    --log-file="$1/munge.log" --seed-file="$1/munge.seed"
export SLURM_CONF="$1/slurm.conf"
slurmctld
for node in n1 n2 n3; do slurmd -N $node; done
"#;

impl Cluster {
    /// A cluster whose nodes are idle; `None` (with a line that says so) where that is not possible.
    #[track_caller]
    pub fn start(installation: &Installation, check: &str) -> Option<Self> {
        peers::require(&[Peer::Slurm, Peer::Mount, Peer::Root], check)?;
        let folder = TempDir::with_prefix("pvm-slurm-").expect("a temporary folder can be made");
        let cluster = Self { folder, installation: installation.clone() };
        cluster.write_files();
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", START, "sh"]).arg(cluster.path());
        command.env("PVM_TEST_CLUSTER", cluster.path());
        let ended = Program::run(&mut command);
        assert!(ended.status.success(), "the cluster does not start: {ended:#?}");
        wait::becomes_true("three idle nodes", || {
            Program::run(cluster.command("sinfo").args(["-h", "-t", "idle", "-o", "%D"])).stdout.trim() == "3"
        });
        Some(cluster)
    }

    /// The folder of its files, and of what jobs write.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write_files(&self) {
        let write = |name: &str, text: &str, mode: u32| {
            let path = self.path().join(name);
            fs::write(&path, text).expect("a file can be written");
            fs::set_permissions(path, Permissions::from_mode(mode)).expect("its mode can be set");
        };
        for name in ["state", "spool", "run", "login"] {
            fs::create_dir(self.path().join(name)).expect("a folder can be made");
        }
        // Any bytes will do, if there are enough.
        write("munge.key", &self.path().display().to_string().repeat(64), 0o600);
        write("slurm.conf", &self.configuration(), 0o644);
        let pvm = self.installation.pvm();
        // The nodes share this machine's folders, so each has its own for PVM's files.
        let daemon = format!(
            "#!/bin/sh\nexport PVM_TMP='{folder}'/$SLURMD_NODENAME\nmkdir -p \"$PVM_TMP\"\nexec '{pvm}' daemon \"$@\"\n",
            folder = self.path().display(),
            pvm = pvm.display()
        );
        write("daemon", &daemon, 0o755);
    }

    fn configuration(&self) -> String {
        let uname = rustix::system::uname();
        let host = uname.nodename().to_string_lossy();
        let host = host.split('.').next().unwrap_or_default();
        let sockets: Vec<TcpListener> =
            (0..4).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
        let ports: Vec<u16> =
            sockets.iter().map(|socket| socket.local_addr().expect("a port").port()).collect();
        let folder = self.path().display();
        let node = |(node, port): (&&str, &u16)| {
            format!("NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2\n")
        };
        let nodes = NODES.iter().zip(&ports[1..]).map(node).collect::<Vec<_>>().concat();
        format!(
            "ClusterName=pvm\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={port}\nSlurmUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={folder}/munge.socket\n\
             CryptoType=crypto/munge\nStateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool/%n\n\
             SlurmctldPidFile={folder}/run/slurmctld.pid\nSlurmdPidFile={folder}/run/%n.pid\n\
             SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/%n.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nReturnToService=2\n\
             SelectType=select/cons_tres\nMpiDefault=none\nKillWait=2\n\
             {nodes}PartitionName=all Nodes=ALL Default=YES State=UP\n",
            port = ports[0],
        )
    }

    /// One of Slurm's commands.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.env("SLURM_CONF", self.path().join("slurm.conf")).current_dir(self.path());
        command
    }

    /// `pvm` with these arguments where jobs are submitted from: beside the nodes, with files of its own for a virtual machine.
    pub fn at_login(&self, args: &[&str]) -> Command {
        let daemon = fs::read_to_string(self.path().join("run/slurmctld.pid")).expect("slurmctld runs");
        let mut command = self.command("nsenter");
        command.args(["--mount", "--target", daemon.trim()]).arg(format!("--wd={}", self.path().display()));
        command.arg(self.installation.pvm()).args(args);
        self.set_environment(&mut command);
        let own = self.path().join("login");
        command.env("PVM_TMP", &own).env("PVM_STATE", own).env("PVM_VMID", "login");
        command
    }

    fn set_environment(&self, command: &mut Command) {
        let bin = self.installation.pvm();
        let bin = bin.parent().expect("it is in a folder").display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{bin}:{path}")).env("PVM_DPATH", self.path().join("daemon"));
        command.env("LD_LIBRARY_PATH", self.installation.library()).env("PVM_ALLOW_ROOT", "1");
        for variable in ["PVM_TMP", "PVM_VMID", "PVMSOCK", "PVM_HOSTS_FROM", "PVMHOSTFILE"] {
            command.env_remove(variable);
        }
    }

    /// Submits a shell script that has `pvm` on its path; the job's number.
    #[track_caller]
    pub fn submit(&self, options: &[&str], script: &str) -> String {
        let file = self.path().join("job.sh");
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a file can be written");
        let mut command = self.command("sbatch");
        command.args(["--parsable", "--output=%j.out"]).args(options).arg(file);
        self.set_environment(&mut command);
        let ended = Program::run(&mut command);
        ended.expect_success();
        ended.stdout.trim().to_owned()
    }

    /// The output of a job until now.
    pub fn output(&self, job: &str) -> String {
        fs::read_to_string(self.path().join(format!("{job}.out"))).unwrap_or_default()
    }

    /// Waits until no job is left.
    #[track_caller]
    pub fn wait_for_jobs(&self) {
        wait::becomes_true("the end of all jobs", || {
            Program::run(self.command("squeue").arg("-h")).stdout.trim().is_empty()
        });
    }

    /// Runs a script on three nodes; what it wrote.
    #[track_caller]
    pub fn run(&self, script: &str) -> String {
        let job = self.submit(&["-N3"], script);
        self.wait_for_jobs();
        self.output(&job)
    }

    /// The processes that jobs have left.
    pub fn left(&self) -> Vec<process::Process> {
        let of_jobs = process::with_environment(Path::new("SLURM_JOB_ID="));
        let here = process::with_environment(self.path());
        of_jobs.into_iter().filter(|process| here.contains(process)).collect()
    }

    /// The command that runs a daemon on a node with files of its own.
    pub fn daemon(&self) -> PathBuf {
        self.path().join("daemon")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "slurmctld: {}",
                fs::read_to_string(self.path().join("slurmctld.log")).unwrap_or_default()
            );
        }
        // Its daemons have the folder in their environment or are known by their files.
        for signal in [Signal::TERM, Signal::KILL] {
            for left in process::with_environment(self.path()) {
                process::signal(left.pid, signal);
            }
            let ended = || process::with_environment(self.path()).is_empty().then_some(());
            if wait::until(std::time::Duration::from_secs(5), ended).is_some() {
                return;
            }
        }
    }
}
