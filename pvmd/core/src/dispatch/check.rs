//! What must hold of a daemon's state between any two events; simulators check it after each.

use crate::addresses::TeamId;
use crate::tasks::{ConnState, Origin, Report, Task};
use crate::timers::Timer;
use crate::{Core, Life};
use std::collections::{BTreeMap, BTreeSet};

impl Core {
    /// Whether the tables agree with each other and with themselves; says what does not.
    pub fn check(&self) -> Result<(), String> {
        if !self.out.actions.is_empty() || !self.out.loopback.is_empty() || !self.out.commands.is_empty() {
            return Err("something is left to be done".to_owned());
        }
        self.tasks.check()?;
        self.tasks.iter().try_for_each(|task| self.check_task(task))?;
        self.check_conns()?;
        self.check_links()?;
        self.check_requests()?;
        self.rows.check()?;
        self.check_teams()
    }

    fn check_task(&self, task: &Task) -> Result<(), String> {
        let tid = task.tid;
        let claims = [
            (self.hosts.lives_here(tid), "is another host's"),
            (
                task.conn.is_none_or(|conn| {
                    self.tasks.conns.get(&conn).is_some_and(|conn| conn.tid() == Some(tid))
                }),
                "has a connection that is not its own",
            ),
            (task.conn.is_none() || task.enrolled, "is connected without having enrolled"),
            (task.backlog.is_empty() || !task.enrolled, "has enrolled, and fragments wait for that"),
            (
                !matches!(task.report, Report::Start { exec, .. } if self.node.exec(exec).is_none()),
                "is started for an operation that is over",
            ),
            (
                task.report.job().is_none_or(|job_task| self.jobs.is_running(job_task, tid)),
                "is a job's and not known as such",
            ),
            (
                task.ended.is_none() || self.out.timers.is_set(Timer::ExitGrace(tid)),
                "waits for a timer that is not set",
            ),
        ];
        first_false(&claims).map_or(Ok(()), |what| Err(format!("task {tid} {what}: {task:?}")))
    }

    fn check_conns(&self) -> Result<(), String> {
        for (&id, conn) in &self.tasks.conns {
            let is_known = match conn.state {
                ConnState::Enrolled(tid) => self.tasks.get(tid).is_some_and(|task| task.conn == Some(id)),
                ConnState::Inherited(tid) => self.tasks.get(tid).is_some_and(|task| task.channel == Some(id)),
                _ => true,
            };
            if !is_known {
                return Err(format!("connection {} is of no task: {conn:?}", id.0));
            }
        }
        Ok(())
    }

    /// Requests wait only for daemons that can answer, or whose loss the master has still to announce. A newcomer that loses its
    /// master ends, and with it whatever waited.
    fn check_requests(&self) -> Result<(), String> {
        if self.life == Life::Ending {
            return Ok(());
        }
        let is_reached = |host| self.hosts.links.contains_key(&host) || self.hosts.known(host).is_some();
        let lost =
            self.pending.requests.values().find(|(host, _)| host.is_some_and(|host| !is_reached(host)));
        lost.map_or(Ok(()), |lost| Err(format!("an answer is awaited from a host that is out: {lost:?}")))
    }

    /// There are links to members, to hosts that are to be members, and on the master to newcomers.
    fn check_links(&self) -> Result<(), String> {
        let mut links = self.hosts.links.keys();
        let stranger = links.find(|host| !self.is_welcome(**host) || **host == self.config.index);
        stranger.map_or(Ok(()), |host| Err(format!("there is a link to host {host}, which is no member")))
    }

    /// The scheduler's processes are those of the tasks that take turns; teams have the tasks that say so.
    fn check_teams(&self) -> Result<(), String> {
        let scheduler = &self.teams.scheduler;
        scheduler.check()?;
        let members: BTreeSet<(TeamId, i32)> =
            scheduler.teams().flat_map(|(team, pids, _)| pids.iter().map(move |&pid| (team, pid))).collect();
        let of = |task: &Task| (task.team, task.pid);
        let children = self.tasks.iter().filter(|task| task.origin == Origin::Child && !task.manager);
        let children: BTreeSet<(TeamId, i32)> = children.map(of).collect();
        if let Some(stranger) = members.difference(&children).next() {
            return Err(format!("no task has the process that takes turns: {stranger:?}"));
        }
        if self.owners.is_own_here() && !members.is_empty() {
            return Err(format!("the owner is there, and these take turns: {members:?}"));
        }
        if self.config.slice.is_some() && !self.owners.is_own_here() {
            // A task may enrol before its start is known.
            let is_started = |task: &Task| match task.report {
                Report::Start { .. } => false,
                Report::Job(job_task) => task.takes_turns() && self.jobs.has_started(job_task),
                Report::Nothing | Report::End(_) | Report::Leaving(_) => task.takes_turns(),
            };
            let missing = self.tasks.iter().find(|task| is_started(task) && !members.contains(&of(task)));
            if let Some(task) = missing {
                return Err(format!("a task does not take turns: {task:?}"));
            }
        }
        let mut sizes: BTreeMap<TeamId, usize> = BTreeMap::new();
        for task in self.tasks.iter().filter(|task| task.team != TeamId::default()) {
            *sizes.entry(task.team).or_default() += 1;
        }
        if sizes != self.teams.sizes() {
            return Err(format!(
                "teams have {sizes:?} tasks, and are thought to have {:?}",
                self.teams.sizes()
            ));
        }
        let forgotten = scheduler.totals().keys().find(|team| !sizes.contains_key(team));
        forgotten.map_or(Ok(()), |team| Err(format!("an account is kept of {team:?}, which is gone")))
    }
}

fn first_false(claims: &[(bool, &'static str)]) -> Option<&'static str> {
    claims.iter().find(|(holds, _)| !holds).map(|&(_, claim)| claim)
}
