//! The same jobs in a simulation: the scheduler that daemons have, and its model of co-allocation as the time that jobs take.

use super::exchanges::Flows;
use super::orders::{CLUSTERS, COMMUNICATION, LINK, MEGABIT, Order};
use anyhow::Result;
use pvm_sched::coallocation::Strategy;
use pvm_sched::queues::{Demand, Host, Queue, Rules, Scheduler, Spread, Start, Width};
use pvm_sim::experiments::coallocation::model;
use pvm_sim::workload::Job;
use std::collections::BTreeMap;

/// The run of a job. Times are milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// When it was submitted.
    pub submitted: u64,
    /// When it started.
    pub started: u64,
    /// When it ended.
    pub ended: u64,
    /// Whether it spanned clusters.
    pub spans: bool,
}

/// `BWBN` in bits per second.
pub fn bits(bwbn: f64) -> u64 {
    (bwbn * MEGABIT).round() as u64
}

/// The bandwidth of each link in bits per second.
pub fn link() -> u64 {
    (LINK * MEGABIT).round() as u64
}

/// The name of the queue of a strategy.
pub fn queue(strategy: Strategy) -> String {
    strategy.name().to_lowercase()
}

/// Hosts of one slot for the ideal machine: the cluster of each. The clusters take turns, so that none comes before another one.
pub fn mixed_hosts() -> Vec<usize> {
    let place = |(at, slot): (usize, u32)| (f64::from(slot) + 0.5) / f64::from(CLUSTERS[at].slots);
    let mut all: Vec<(usize, u32)> = CLUSTERS
        .iter()
        .enumerate()
        .flat_map(|(at, cluster)| (0..cluster.slots).map(move |slot| (at, slot)))
        .collect();
    all.sort_by(|&a, &b| place(a).total_cmp(&place(b)));
    all.into_iter().map(|(at, _)| at).collect()
}

/// How long jobs take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// By the paper's model, as daemons predict it.
    Paper,
    /// A job uses links only while it exchanges messages.
    Exchanges,
}

/// What becomes of the jobs by a strategy; `BWBN` is in scaled Mbit/s. Each job ends `late` milliseconds later than by the model. If that is
/// more than none, its tasks are reported one after the other, and each report is followed by a decision, as on daemons.
pub fn predict(
    (model, late): (Model, u64),
    strategy: Strategy,
    bwbn: f64,
    orders: &[Order],
) -> Result<Vec<Times>> {
    let mut machine = Machine::new((model, late), strategy, bwbn, orders);
    let mut next = 0;
    loop {
        let submission = orders.get(next).map(|order| order.submit);
        let end = machine.running.keys().filter_map(|&place| machine.end(place)).min();
        let Some(now) = submission.into_iter().chain(end).min() else { return Ok(machine.times) };
        for place in machine.ended(now) {
            machine.take_away(place, now);
        }
        while orders.get(next).is_some_and(|order| order.submit <= now) {
            machine.submit(next, now)?;
            next += 1;
        }
        machine.decide(now);
    }
}

struct Running {
    /// Its tasks by host.
    parts: Vec<(usize, u32)>,
    /// When it ends, if that is not the scheduler's to say.
    end: Option<u64>,
}

struct Machine<'o> {
    orders: &'o [Order],
    times: Vec<Times>,
    scheduler: Scheduler<usize>,
    queue: String,
    bandwidth: u64,
    /// Of the ideal machine, the cluster of each host.
    mixed: Option<Vec<usize>>,
    /// If the model is not the scheduler's.
    flows: Option<Flows>,
    late: u64,
    running: BTreeMap<usize, Running>,
}

impl<'o> Machine<'o> {
    fn new((model, late): (Model, u64), strategy: Strategy, bwbn: f64, orders: &'o [Order]) -> Self {
        let coallocation = Strategy::REAL.contains(&strategy).then_some(strategy);
        let name = queue(strategy);
        let queues = vec![Queue { coallocation, ..Queue::open(&name) }];
        let mut scheduler = Scheduler::new(queues, Rules::default());
        let host = |name: String, at: usize, slots: u32, cluster| Host {
            name,
            arch: String::new(),
            capability: f64::from(speed(at, slots)),
            slots,
            cluster,
        };
        let mixed = coallocation.is_none().then(mixed_hosts);
        if let Some(hosts) = &mixed {
            for (number, &at) in hosts.iter().enumerate() {
                scheduler.host_joined(number, host(format!("h{number}"), at, 1, None));
            }
        } else {
            for (at, cluster) in CLUSTERS.iter().enumerate() {
                let name = cluster.name.to_owned();
                scheduler.host_joined(at, host(name.clone(), at, cluster.slots, Some(name)));
            }
            scheduler.set_links(CLUSTERS.iter().map(|of| (of.name.to_owned(), Some(link()))).collect());
        }
        let flows = (model == Model::Exchanges).then(Flows::default);
        Self {
            orders,
            times: vec![Times::default(); orders.len()],
            scheduler,
            queue: name,
            bandwidth: bits(bwbn),
            mixed,
            flows,
            late,
            running: BTreeMap::new(),
        }
    }

    fn submit(&mut self, place: usize, now: u64) -> Result<()> {
        let order = &self.orders[place];
        self.times[place].submitted = now;
        let home = CLUSTERS.get(order.home).filter(|_| self.mixed.is_none());
        let demand = Demand {
            width: Width::Rigid(order.width),
            slots: 1,
            time: None,
            memory: None,
            hosts: Vec::new(),
            bandwidth: self.bandwidth,
            home: home.map(|cluster| cluster.name.to_owned()),
        };
        let (queue, demand) = self.scheduler.admit(Some(&self.queue), "user", &demand)?;
        self.scheduler.submit(place as u64, queue, "user", demand, order.width, now);
        Ok(())
    }

    /// Starts what can start.
    fn decide(&mut self, now: u64) {
        for start in self.scheduler.next(now) {
            self.start(start, now);
        }
    }

    fn start(&mut self, start: Start<usize>, now: u64) {
        let place = start.job as usize;
        let order = &self.orders[place];
        let communication = (order.run as f64 * COMMUNICATION).round() as u64;
        self.scheduler.expect_run(start.job, order.run, communication);
        // Its network is free, and it knows of no clusters, whose speeds tell all the same.
        let slowest = |mixed: &Vec<usize>| {
            let factors = start.parts.iter().map(|&(host, _)| CLUSTERS[mixed[host]].factor);
            factors.fold(0.0, f64::max)
        };
        let end = self.mixed.as_ref().map(|mixed| now + (order.run as f64 * slowest(mixed)).round() as u64);
        let spread = self.scheduler.spread(start.job);
        if let (Some(flows), Some(spread)) = (&mut self.flows, spread) {
            flows.start(place, spread, self.bandwidth, order.run, now);
        }
        let times = &mut self.times[place];
        (times.started, times.spans) = (now, spread.is_some_and(Spread::spans));
        self.running.insert(place, Running { parts: start.parts, end });
    }

    /// When a job ends as things are.
    fn end(&self, place: usize) -> Option<u64> {
        let own = self.running.get(&place)?.end;
        let own = own.or_else(|| self.flows.as_ref().and_then(|flows| flows.end_of(place)));
        let end = own.or_else(|| self.scheduler.spread(place as u64).and_then(Spread::end))?;
        Some(end.saturating_add(self.late))
    }

    fn ended(&self, now: u64) -> Vec<usize> {
        let is_over = |place: &usize| self.end(*place).is_some_and(|end| end <= now);
        self.running.keys().copied().filter(is_over).collect()
    }

    fn take_away(&mut self, place: usize, now: u64) {
        let Some(running) = self.running.remove(&place) else { return };
        self.times[place].ended = now;
        if let Some(flows) = &mut self.flows {
            flows.end(place, now);
        }
        for (host, count) in running.parts {
            for _ in 0..count {
                self.scheduler.task_ended(place as u64, host, None, false, now);
                if self.late > 0 {
                    self.decide(now);
                }
            }
        }
    }
}

/// The speed of a host of a cluster, as a hostfile has it: that of its slots together.
pub fn speed(cluster: usize, slots: u32) -> u32 {
    (1000.0 / CLUSTERS[cluster].factor).round() as u32 * slots
}

/// The makespan in seconds in `pvm sim coallocation`, which starts jobs by the paper's frame.
pub fn framed(seed: u64, strategy: Strategy, bwbn: f64, orders: &[Order]) -> Result<f64> {
    let cluster =
        |of: super::orders::Cluster| model::Cluster { nodes: of.slots, factor: of.factor, bandwidth: LINK };
    let setting = model::Setting {
        clusters: CLUSTERS.map(cluster).to_vec(),
        strategy,
        bwbn,
        communication: COMMUNICATION,
        mtbf: f64::INFINITY,
        repair: 0.0,
    };
    let job = |order: &Order| {
        let run = order.run as f64 / 1000.0;
        Job { submit: order.submit as f64 / 1000.0, run, estimate: run, width: order.width, user: 0 }
    };
    Ok(model::simulate(&setting, seed, orders.iter().map(job))?.makespan)
}

#[cfg(test)]
mod tests {
    use super::super::orders::{orders, slots};
    use super::*;

    fn order(submit: u64, width: u32, home: usize) -> Order {
        Order { submit, run: 1000, width, home }
    }

    #[test]
    fn a_job_takes_the_time_of_the_model() {
        let alone = |strategy, bwbn, width| {
            predict((Model::Paper, 0), strategy, bwbn, &[order(5, width, 0)]).expect("admitted")[0]
        };
        let times = alone(Strategy::Bfnp, 200.0, 12);
        assert_eq!(times, Times { submitted: 5, started: 5, ended: 1005, spans: false });
        // Fourteen slots are of two clusters: twice the time, and communication; 24 / 13 of BWBN use each link.
        assert_eq!(alone(Strategy::Bfnp, 1.0, 14).ended, 5 + 2700);
        let stretched = 2000.0 + 700.0 * (200.0 * 24.0 / 13.0) / LINK;
        let ended = alone(Strategy::Bfnp, 200.0, 14).ended;
        assert!(ended.abs_diff(5 + stretched.round() as u64) <= 1, "{ended}");
        let late = predict((Model::Paper, 30), Strategy::Scca, 1.0, &[order(0, 1, 0)]).expect("admitted")[0];
        assert_eq!(late.ended, 1030);
    }

    #[test]
    fn links_are_free_while_jobs_compute() {
        // Each of two jobs of 8 tasks in two clusters would use a third of a link half of the time.
        let jobs = [order(0, 14, 0), order(1, 4, 0)];
        let of = |model, bwbn| predict((model, 0), Strategy::Bfnp, bwbn, &jobs).expect("admitted")[0].ended;
        // The first job's link carries twice as much as the job asks for, and no other job uses it.
        assert_eq!([Model::Paper, Model::Exchanges].map(|model| of(model, 1.0)), [2700, 2700]);
        // Alone, a job has the link to itself in either model.
        let alone =
            |model| predict((model, 0), Strategy::Bfnp, 200.0, &jobs[..1]).expect("admitted")[0].ended;
        assert_eq!(alone(Model::Paper), alone(Model::Exchanges));
        // Both use the middle cluster's link, but seldom at once.
        assert!(of(Model::Exchanges, 12.0) <= of(Model::Paper, 12.0));
    }

    #[test]
    fn the_ideal_machine_has_no_clusters_and_no_network() {
        let hosts = mixed_hosts();
        assert_eq!(hosts.len(), slots() as usize);
        let among_first = |cluster| hosts[..9].iter().filter(|&&at| at == cluster).count();
        assert_eq!([0, 1, 2].map(among_first), [6, 2, 1]);
        let times =
            predict((Model::Paper, 0), Strategy::Idea, 200.0, &[order(0, 18, 0)]).expect("admitted")[0];
        assert_eq!(times, Times { submitted: 0, started: 0, ended: 4000, spans: false });
    }

    #[test]
    fn jobs_that_may_not_move_wait_at_home() {
        let jobs = [order(0, 2, 2), order(1, 2, 2)];
        let [first, second] =
            predict((Model::Paper, 0), Strategy::NoShare, 1.0, &jobs).expect("admitted")[..]
        else {
            panic!()
        };
        assert_eq!((first.ended, second.started, second.ended), (4000, 4000, 8000));
        let [_, second] = predict((Model::Paper, 0), Strategy::Scca, 1.0, &jobs).expect("admitted")[..]
        else {
            panic!()
        };
        assert_eq!((second.started, second.ended), (1, 1001), "the largest cluster has room");
    }

    #[test]
    fn all_jobs_end_and_never_use_more_than_there_is() {
        let orders = orders(1, 60, 10_000.0);
        for strategy in Strategy::ALL {
            let paper = predict((Model::Paper, 0), strategy, 80.0, &orders).expect("admitted");
            let exchanges = predict((Model::Exchanges, 0), strategy, 80.0, &orders).expect("admitted");
            for (at, times) in
                paper.iter().map(|at| (at, &paper)).chain(exchanges.iter().map(|at| (at, &exchanges)))
            {
                let both = times.iter().zip(&orders);
                let beside = both.filter(|(of, _)| of.started <= at.started && at.started < of.ended);
                let used: u32 = beside.map(|(_, order)| order.width).sum();
                assert!(used <= slots() && at.ended > at.started && at.started >= at.submitted, "{strategy}");
            }
            assert!(framed(1, strategy, 80.0, &orders).is_ok_and(|makespan| makespan > 0.0));
        }
    }

    /// Ends of tasks are reported one by one on daemons. Jobs that took each slot at once would come to be in all clusters, and the makespan
    /// would be 2.8 times as long.
    #[test]
    fn ends_one_by_one_do_not_scatter_jobs_over_clusters() {
        let makespan = |late: u64, seed: u64| -> u64 {
            let orders = orders(seed, 100, 10_000.0);
            let times = predict((Model::Paper, late), Strategy::Bfnp, 200.0, &orders).expect("admitted");
            times.iter().map(|times| times.ended).max().unwrap_or(0)
        };
        let sum = |late| (1..=10).map(|seed| makespan(late, seed)).sum::<u64>();
        let (together, one_by_one) = (sum(0), sum(68));
        assert!(one_by_one < 2 * together, "{one_by_one} ms, together {together} ms");
    }
}
