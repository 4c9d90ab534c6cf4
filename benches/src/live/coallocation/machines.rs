//! The machines: three clusters joined by a star of slow links, and the ideal one, which knows of no clusters and has no network.

use super::orders::{CLUSTERS, Ended, OUTPUT, Order, Submissions};
use super::predict::{bits, link, mixed_hosts, queue, speed};
use crate::lab;
use crate::program;
use anyhow::{Context, Result, anyhow, ensure};
use pvm_sched::coallocation::Strategy;
use pvm_tests::machine::{Machine, Plan};
use pvm_tests::network::Setting;
use pvm_tests::quota::Quota;
use pvm_tests::{Installation, Network, peers};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Cores of a slot of the fastest cluster: all slots together have less than this computer's two.
pub const CORES: f64 = 0.11;

/// Microseconds after which the quota of a slot of the fastest cluster begins anew; where slots are slower it is as much longer, as no quota
/// may be less than a millisecond.
const PERIOD: f64 = 10_000.0;

/// More than any run takes.
const LIMIT: Duration = Duration::from_secs(600);

const CHECK: &str = "co-allocation on clusters";

/// Control groups for all slots.
pub struct Slots {
    /// By cluster.
    groups: Vec<Vec<Quota>>,
    /// A file for each host, with its slots.
    folder: TempDir,
}

impl Slots {
    /// Makes them; `None` (with a line that says so) where there are no control groups to be had.
    pub fn open() -> Result<Option<Self>> {
        let of = |at: usize| -> Result<Vec<Quota>, String> {
            let cluster = &CLUSTERS[at];
            let name = |slot| format!("{}-{slot}", cluster.name);
            let group = |slot| Quota::new(&name(slot), CORES / cluster.factor, PERIOD * cluster.factor);
            (0..cluster.slots).map(group).collect()
        };
        match (0..CLUSTERS.len()).map(of).collect::<Result<_, _>>() {
            Ok(groups) => Ok(Some(Self { groups, folder: TempDir::with_prefix("pvm-slots-")? })),
            Err(error) => {
                peers::unchecked(CHECK, &format!("no control group can be made: {error}"));
                Ok(None)
            }
        }
    }

    /// A host has all slots of a cluster.
    fn note(&self, host: &str, cluster: usize) -> Result<()> {
        let lines = self.groups[cluster].iter().map(|group| format!("{}\n", group.path().display()));
        Ok(fs::write(self.folder.path().join(host), lines.collect::<String>())?)
    }
}

/// A machine, and where jobs are submitted.
pub struct Clusters {
    machine: Machine,
    homes: Vec<String>,
    // After the machine, which needs it to the end.
    network: Option<Network>,
}

impl Clusters {
    /// Three clusters, of one host each, joined by links in network namespaces; `None` (with a line that says so) where there are none to be had.
    pub fn star(ours: &Installation, slots: &Slots) -> Result<Option<Self>> {
        let variables = vec![COSCHEDULING.map(str::to_owned).into()];
        let setting = Setting { variables, ..Setting::default() };
        let Some(network) = Network::with(setting, CLUSTERS.len() + 1, ours, CHECK) else { return Ok(None) };
        // The master is at the centre, and runs no jobs.
        let mut hosts = format!("* net=private\n{} sp=1 slots=1\n", network.address(0));
        for (at, cluster) in CLUSTERS.iter().enumerate() {
            let (name, count, speed) = (cluster.name, cluster.slots, speed(at, cluster.slots));
            let options = format!("cluster={name} slots={count} sp={speed}");
            let _ =
                writeln!(hosts, "{}\nlink={name} bw={}kbit", network.line(at + 1, &options), link() / 1000);
            slots.note(network.name(at + 1), at)?;
        }
        let plan = Plan::of(ours).network(&network).name(&network.address(0)).hostfile(&hosts);
        let names = CLUSTERS.map(|cluster| format!("\"@{}\"", cluster.name)).join(", ");
        let queues = Strategy::REAL.map(|strategy| {
            let name = queue(strategy);
            format!("[[queue]]\nname = \"{name}\"\ncoallocation = \"{name}\"\nhosts = [{names}]\n")
        });
        let machine = start(plan, &queues.concat(), slots, CLUSTERS.len() + 1)?;
        for at in 1..=CLUSTERS.len() {
            if let Err(reason) = network.limit_connections(at, link()) {
                peers::unchecked(CHECK, &reason);
                return Ok(None);
            }
        }
        let homes = (1..=CLUSTERS.len()).map(|at| network.name(at).to_owned()).collect();
        Ok(Some(Self { machine, homes, network: Some(network) }))
    }

    /// As many slots of the same speeds, each a host, as if all were one cluster.
    pub fn ideal(ours: &Installation, slots: &Slots) -> Result<Self> {
        let mut hosts = "* via=local\nh1 sp=1 slots=1\n".to_owned();
        let mixed = mixed_hosts();
        for (number, &at) in mixed.iter().enumerate() {
            let name = format!("slot{number}");
            let _ = writeln!(hosts, "{name} sp={} slots=1", speed(at, 1));
            slots.note(&name, at)?;
        }
        // One starts after the other, so that they are numbered as they stand there.
        let plan = Plan::of(ours).name("h1").hostfile(&hosts).variable("PVM_STARTERS", "1");
        let queues = format!("[[queue]]\nname = \"{}\"\nhosts = [\"slot*\"]\n", queue(Strategy::Idea));
        let machine = start(plan, &queues, slots, mixed.len() + 1)?;
        Ok(Self { machine, homes: vec!["h1".to_owned()], network: None })
    }

    /// Runs all jobs; `BWBN` is in scaled Mbit/s.
    pub fn run(
        &self,
        program: &Path,
        slots: &Slots,
        (strategy, bwbn): (Strategy, f64),
        orders: &[Order],
    ) -> Result<Vec<Ended>> {
        let homes = &self.homes;
        let submissions = Submissions {
            queue: queue(strategy),
            homes: homes.clone(),
            folder: slots.folder.path().to_owned(),
            bandwidth: if self.network.is_some() { bits(bwbn) } else { 0 },
            cores: CORES,
            orders: orders
                .iter()
                .map(|order| Order { home: order.home.min(homes.len() - 1), ..*order })
                .collect(),
        };
        let file = slots.folder.path().join("submissions.json");
        fs::write(&file, serde_json::to_string(&submissions)?)?;
        let said = || fs::read_to_string(slots.folder.path().join(OUTPUT)).unwrap_or_default();
        let printed = program::output(self.machine.command(program).arg("submit").arg(&file), LIMIT);
        let printed = printed.with_context(|| format!("output of tasks: {:?}", said().trim()))?;
        let mut ended: Vec<Ended> = serde_json::from_str(&printed).context(printed.clone())?;
        ended.sort_by_key(|ended| ended.place);
        ensure!(ended.len() == orders.len(), "{} of {} jobs have ended", ended.len(), orders.len());
        if let Some(bad) = ended.iter().find(|ended| !ended.failure.is_empty()) {
            let order = &orders[bad.place];
            return Err(anyhow!("{order:?} has not ended well: {}; {}", bad.failure, said().trim()));
        }
        Ok(ended)
    }
}

/// The kernel alone decides who runs: the groups of the slots are not the daemons' to change.
const COSCHEDULING: [&str; 2] = ["PVM_COSCHEDULING", "implicit"];

fn start(plan: Plan, queues: &str, slots: &Slots, hosts: usize) -> Result<Machine> {
    let state = TempDir::new_in(slots.folder.path())?.keep();
    let file = state.join("queues.toml");
    fs::write(&file, queues)?;
    let [name, means] = COSCHEDULING;
    let plan = plan.variable(name, means).variable("PVM_QUEUES", &file).variable("PVM_STATE", &state);
    lab::start_hosts(plan, hosts)
}
