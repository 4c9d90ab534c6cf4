//! As home: from the request of a spawn to the first order.

use super::home::Home;
use super::placing::Placing;
use super::progress::{Call, Kind, Spawn};
use super::split_place;
use super::state::State;
use super::traffic::Traffic;
use crate::addresses::{Part, ReplyTo, SpawnId};
use crate::decision::Decision;
use crate::teams;
use pvm_sched::policy::Policy;
use pvm_wire::calls::CallError;
use pvm_wire::coscheduling::TEAM_VARIABLE;
use pvm_wire::limits::BATCH_MAX;
use pvm_wire::spawn::{Pair, SpawnRequest, TRAFFIC_VARIABLE, entry, flags};
use pvm_wire::{HostIndex, PvmError, Tid};
use std::ffi::OsStr;
use tracing::debug;

/// What is left of a request's demands when they were found to be well-formed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// From 1 to `BATCH_MAX`.
    pub count: u32,
    pub policy: Policy,
}

/// For how many tasks a request is: from 1 to [`BATCH_MAX`].
pub(crate) fn count_of(request: &SpawnRequest) -> Result<u32, PvmError> {
    match u32::try_from(request.count) {
        Ok(count) if (1..=BATCH_MAX as u32).contains(&count) => Ok(count),
        Ok(0) | Err(_) => Err(PvmError::BadParam),
        Ok(_) => Err(PvmError::OutOfRes),
    }
}

/// What a request demands, or the error of one that demands what cannot be. `machine` is the policy if it names none.
pub(super) fn demand(request: &SpawnRequest, machine: Policy) -> Result<Demand, CallError> {
    let count = count_of(request)?;
    let policy = match request.policy.as_str() {
        "" => machine,
        name => {
            let code = PvmError::NotFound.code();
            name.parse().map_err(|error| CallError { code, reason: format!("{error}") })?
        }
    };
    if let Some(pair) = request.traffic.iter().find(|pair| pair.a.max(pair.b) >= count || pair.a == pair.b) {
        let code = PvmError::BadParam.code();
        let reason = format!(
            "the traffic names tasks {} and {}: of {count} tasks it must name two, counted from 0",
            pair.a, pair.b
        );
        return Err(CallError { code, reason });
    }
    Ok(Demand { count, policy })
}

impl Home {
    /// TM_SPAWN, by a task of this team.
    pub fn on_spawn(
        &mut self,
        spawner: Tid,
        to: ReplyTo,
        mut request: SpawnRequest,
        team: &str,
        at: &mut Decision<'_>,
    ) {
        let demand = match demand(&request, at.config.policy) {
            Ok(demand) => demand,
            Err(error) => return at.out.refuse(to, error),
        };
        debug!(count = demand.count, file = %request.file.display(), place = %request.place.display(), "spawns");
        request.flags &= !flags::QUEUED;
        complete_environment(&mut request, team);
        let id = self.next_id();
        self.begin(id, spawner, request, Kind::Call(Call::new(to, demand.count)), demand, at);
    }

    /// Writes a spawn down, and has its tasks started: by one host if it names one and waits for the answer.
    pub(super) fn begin(
        &mut self,
        id: SpawnId,
        spawner: Tid,
        mut request: SpawnRequest,
        kind: Kind,
        Demand { count, policy }: Demand,
        at: &mut Decision<'_>,
    ) {
        let hosts = chosen_hosts(&request, at);
        let names_host = request.flags & (flags::HOST | flags::HOST_COMPLEMENT) == flags::HOST;
        let newcomers = request.flags & (flags::HOST | flags::ARCH) == 0;
        let has_agents = policy.has_agents();
        // Agents place tasks on any host.
        let policy = if newcomers || !has_agents { policy } else { Policy::ActivePulling };
        if has_agents {
            // The nodes tell their agents.
            policy.name().clone_into(&mut request.policy);
        }
        let traffic = self.expect_traffic(id, policy, count, &mut request);
        let nowhere = no_host_for(&request);
        let pinned = match (&hosts[..], &kind) {
            (&[host], Kind::Call(_)) if names_host => Some(host),
            _ => None,
        };
        let refused = hosts.is_empty() && matches!(kind, Kind::Call(_));
        let (state, placing) = match pinned {
            Some(_) => (State::Pinned, Placing::default()),
            None if refused => (State::Resting, Placing::default()),
            None => (State::Resting, Placing::new(hosts, newcomers, count, policy, at.now)),
        };
        let spawn = self.spawns.entry(id).or_insert(Spawn::new(spawner, request, state, kind, placing));
        spawn.placing.traffic = traffic;
        match pinned {
            Some(host) => spawn.order(id, host, (0, count), None, at.out),
            None if refused => {
                let all = Part { spawn: id, first: 0, count };
                self.refuse(all, None, PvmError::NoHost, &nowhere, at);
            }
            None => {
                self.costs.begun(policy);
                self.hand_out(id, 0, at);
            }
        }
    }
}

impl Home {
    /// What a spawn's tasks are expected to say to each other, if its policy wants to know: what the spawner has said, or what was counted
    /// earlier; then it is counted again.
    fn expect_traffic(
        &mut self,
        id: SpawnId,
        policy: Policy,
        count: u32,
        request: &mut SpawnRequest,
    ) -> Vec<Pair> {
        // Hosts need not know it.
        let told = std::mem::take(&mut request.traffic);
        if policy != Policy::GraphTheoretic || !told.is_empty() || !Traffic::is_counted(count) {
            return told;
        }
        request.env.push(entry(TRAFFIC_VARIABLE, "1"));
        let expected = self.traffic.expected(&request.file, count);
        self.traffic.begin(id, &request.file, count);
        expected
    }
}

/// Adds what tasks are told of where they run and of their team.
pub(super) fn complete_environment(request: &mut SpawnRequest, team: &str) {
    if let (_, Some(directory)) = split_place(&request.place) {
        let entry = entry("PVMSPAWNWD", directory);
        request.env.push(entry);
    }
    if teams::named_in(&request.env).is_none() {
        request.env.push(entry(TEAM_VARIABLE, team));
    }
}

/// The hosts a spawn may use (reference, section 5.1).
fn chosen_hosts(request: &SpawnRequest, at: &Decision<'_>) -> Vec<HostIndex> {
    let (place, _) = split_place(&request.place);
    let own = at.hosts.get(at.config.index).map(|entry| OsStr::new(&entry.name));
    let name = if place == "." { own.unwrap_or(place) } else { place };
    let complement = request.flags & flags::HOST_COMPLEMENT != 0;
    at.hosts
        .iter()
        .filter(|entry| {
            let chosen = match request.flags {
                f if f & flags::HOST != 0 => name == &*entry.name,
                f if f & flags::ARCH != 0 => place == &*entry.arch,
                _ => true,
            };
            chosen != complement
        })
        .map(|entry| entry.index)
        .collect()
}

/// Why no host is left for a spawn.
fn no_host_for(request: &SpawnRequest) -> String {
    let place = split_place(&request.place).0.display();
    let (wanted, all_but) = (request.flags, request.flags & flags::HOST_COMPLEMENT != 0);
    match wanted {
        _ if all_but => format!("the virtual machine has no host besides {place}"),
        wanted if wanted & flags::HOST != 0 => format!("the virtual machine has no host {place}"),
        wanted if wanted & flags::ARCH != 0 => {
            format!("the virtual machine has no host of architecture {place}")
        }
        _ => "the virtual machine has no host that could run it".to_owned(),
    }
}
