//! Three hosts, in network namespaces joined by veth, and the contenders between them.

use crate::lab::{Job, Mpi, Side, words};
use crate::part::Ask;
use anyhow::{Context, Result};
use pvm_tests::{Installation, Network};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Pairs are on the first two.
const HOSTS: usize = 3;

/// Hosts for each PVM; those of ours are everybody else's, too.
pub struct Remote {
    /// This project.
    pub ours: Side,
    /// The same, with a network that the hostfile declares private.
    pub private: Side,
    /// The original PVM, if it is installed.
    pub original: Option<Side>,
    /// The program for the limits.
    limits: PathBuf,
    /// The other end for plain connections.
    server: Child,
    port: String,
    // After the machines, which need them to the end.
    network: Network,
    _private_network: Network,
    _original_network: Option<Network>,
}

impl Remote {
    /// Starts it; `None` (with a line that says so) where that is not possible.
    pub fn open(ours: &Installation, original: Option<&Installation>, folder: &Path) -> Result<Option<Self>> {
        let check = "hosts with a network between them";
        let Some(network) = Network::of(HOSTS, ours, check) else { return Ok(None) };
        let Some(private_network) = Network::of(2, ours, check) else { return Ok(None) };
        let private =
            Side::start(ours, &folder.join("remote-private"), Some(&private_network), "net=private")?;
        let ours = Side::start(ours, &folder.join("remote"), Some(&network), "")?;
        let original_network = original.and_then(|original| Network::of(HOSTS, original, check));
        let original = original.zip(original_network.as_ref());
        let original = original.map(|(original, network)| {
            Side::start(original, &folder.join("remote-original"), Some(network), "")
        });
        let original = original.transpose()?;
        let limits = folder.join("limits");
        let mut command = network.namespace(1).command(&limits);
        let mut server = command.args(["serve", "0"]).stdout(Stdio::piped()).spawn()?;
        let mut port = String::new();
        let printed = server.stdout.as_mut().context("the server has no output")?;
        BufReader::new(printed).read_line(&mut port)?;
        let port = port.trim().to_owned();
        Ok(Some(Self {
            ours,
            private,
            original,
            limits,
            server,
            port,
            network,
            _private_network: private_network,
            _original_network: original_network,
        }))
    }

    /// A plain connection between the hosts.
    pub fn tcp(&self, job: Job, ask: Ask) -> Command {
        let mut command = self.network.namespace(0).command(&self.limits);
        command.args(["tcp", &job.seconds(ask), &self.network.address(1), &self.port]).args(words(ask.xs));
        command
    }

    /// Open MPI, with a process on each of two hosts.
    pub fn mpi(&self, mpi: Mpi, job: Job, ask: Ask) -> Command {
        let hosts = [0, 1].map(|host| self.network.address(host));
        let mut command = self.mpi_between(&hosts);
        command.args(["-n", "2"]);
        mpi.add_program(&mut command, job, ask);
        command
    }

    /// Open MPI, with one process that may start others on all hosts.
    pub fn mpi_spawning(&self, mpi: Mpi, job: Job, ask: Ask) -> Command {
        let hosts = self.all_hosts(1);
        let mut command = self.mpi_between(&hosts);
        // The number of its processes is not known.
        command.args(["-n", "1", "--oversubscribe"]);
        mpi.add_program(&mut command, job, ask);
        command
    }

    /// Open MPI, with processes on all hosts in turn.
    pub fn mpi_everywhere(&self, processes: u64, mpi: Mpi, job: Job, ask: Ask) -> Command {
        let hosts = self.all_hosts(processes.div_ceil(HOSTS as u64));
        let mut command = self.mpi_between(&hosts);
        command.args(["-n", &processes.to_string(), "--map-by", "node", "--oversubscribe"]);
        command.args(["--mca", "mpi_yield_when_idle", "1"]);
        mpi.add_program(&mut command, job, ask);
        command
    }

    fn all_hosts(&self, slots: u64) -> Vec<String> {
        (0..HOSTS).map(|host| format!("{}:{slots}", self.network.address(host))).collect()
    }

    /// `mpirun` on these hosts. Its processes talk by TCP within a host, too: with shared memory it crashes in network namespaces.
    fn mpi_between(&self, hosts: &[String]) -> Command {
        let mut command = self.network.namespace(0).command(Path::new("mpirun"));
        // Each host would bind its process to the first core, which here is the same one.
        command.args(["--allow-run-as-root", "--bind-to", "none", "-H", &hosts.join(",")]);
        command.args(["--mca", "plm_rsh_agent"]);
        command.arg(self.network.ssh());
        for (name, value) in
            [("btl", "tcp,self"), ("btl_tcp_if_include", "eth0"), ("oob_tcp_if_include", "eth0")]
        {
            command.args(["--mca", name, value]);
        }
        command
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
