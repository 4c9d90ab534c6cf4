//! Teams of two tasks that compute and exchange messages, on workstations that owners lend and take back.
//!
//! Workstations 0 and 1 are one processor, 2 and 3 another one. At any time one of each two is lent, so that a team has both processors; tasks move
//! when owners change. The program prints a [`Record`] as JSON.

use benches::compute;
use benches::dasic::{BETWEEN, Change, Moved, Record, Return, TeamRecord, Turn};
use benches::stamp::{Stamp, now};
use clap::Parser;
use pvm_wire::owner::OwnerSaid;
use pvm3::{Any, Pack, Task, Tid};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// To a task: its partner. To the leader: to end.
const BEGIN: i32 = 1;
const STOP: i32 = 2;
/// Between partners: the exchange.
const DATA: i32 = 3;
/// To the parent: exchanges so far and when; a move.
const COUNT: i32 = 4;
const MOVED: i32 = 5;
/// To the parent: a task has exited.
const EXIT: i32 = 6;

/// Workstations that are lent at first.
const LENT: [usize; 2] = [0, 2];

/// The leader of a team tells how far it is as often as that.
const COUNTED: Duration = Duration::from_millis(50);
/// The parent asks for what turns there have been as often as that.
const ASKED: Duration = Duration::from_millis(400);
/// Time from the start of all teams until their exchanges count.
const MARGIN: Duration = Duration::from_millis(700);
/// Longer than any task takes to end.
const LIMIT: Duration = Duration::from_secs(10);

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

#[derive(Parser)]
struct Arguments {
    /// Changes of owners, as a JSON list
    #[arg(long, default_value = "[]")]
    changes: String,
    /// Seconds that count
    #[arg(long)]
    seconds: f64,
    /// Whether tasks spin while they wait
    #[arg(long)]
    spin: bool,
    /// Microseconds of work between two exchanges, for each team
    #[arg(long, value_delimiter = ',')]
    grains: Vec<u32>,
    /// Steps of work in a microsecond; measured if it is not given
    #[arg(long)]
    speed: Option<f64>,
    /// The four workstations
    #[arg(long, value_delimiter = ',')]
    hosts: Vec<String>,
    /// A task of a team: its number there
    #[arg(long)]
    member: Option<u32>,
}

fn main() -> Outcome {
    let arguments = Arguments::parse();
    let mut task = Task::enrol()?;
    if let Some(member) = arguments.member {
        let steps =
            f64::from(arguments.grains[0]) * arguments.speed.ok_or("a member has to know the speed")?;
        Member::new(&mut task, member, steps as u64, arguments.spin)?.work(&mut task)?;
    } else {
        let record = Starter::new(&mut task, &arguments)?.run(&mut task)?;
        println!("{}", serde_json::to_string(&record)?);
    }
    Ok(task.exit()?)
}

/// Steps in a microsecond: the most of several tries.
fn measure_speed() -> f64 {
    const STEPS: u64 = 1_000_000;
    let speed = |_| {
        let start = Instant::now();
        compute::steps(STEPS);
        STEPS as f64 / start.elapsed().as_secs_f64() / 1e6
    };
    (0..20).map(speed).fold(0.0, f64::max)
}

/// What a task takes along when it moves.
#[derive(Default, Serialize, Deserialize)]
struct State {
    partner: i32,
    count: u64,
    /// It has sent for this exchange, and waits.
    has_sent: bool,
    is_last: bool,
    saved: Stamp,
}

/// A task of a team.
struct Member {
    state: Arc<Mutex<State>>,
    parent: Tid,
    leads: bool,
    steps: u64,
    spins: bool,
    told: Instant,
}

impl Member {
    fn new(task: &mut Task, number: u32, steps: u64, spins: bool) -> Outcome<Self> {
        let parent = task.parent().ok_or("a member has a parent")?;
        let state = task.on_move(State::default())?;
        if task.has_moved() {
            let saved = state.lock().expect("no thread has panicked").saved.0;
            let mut pack = Pack::new();
            pack.put(&[saved as i64, now() as i64])?;
            task.send(parent, MOVED, &pack)?;
        }
        let told = Instant::now();
        Ok(Self { state, parent, leads: number == 0, steps, spins, told })
    }

    /// The lock is never held in calls in which the task can move.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread has panicked")
    }

    fn work(&mut self, task: &mut Task) -> Outcome {
        if self.state().partner == 0 {
            let partner = task.recv(self.parent, BEGIN)?.get_one()?;
            self.state().partner = partner;
        }
        let partner = Tid::from_raw(self.state().partner);
        loop {
            if !self.state().has_sent {
                compute::steps(self.steps);
                let is_last = self.leads && self.is_over(task)?;
                let mut pack = Pack::raw();
                pack.put(&[i32::from(is_last)])?;
                task.send(partner, DATA, &pack)?;
                let mut state = self.state();
                (state.has_sent, state.is_last) = (true, is_last);
            }
            let is_last: i32 = self.answer(task, partner)?.get_one()?;
            let mut state = self.state();
            state.has_sent = false;
            state.count += 1;
            if state.is_last || is_last != 0 {
                return Ok(());
            }
        }
    }

    fn answer(&self, task: &mut Task, partner: Tid) -> pvm3::Result<pvm3::Received> {
        if self.spins {
            loop {
                if let Some(message) = task.try_recv(partner, DATA)? {
                    return Ok(message);
                }
            }
        }
        task.recv(partner, DATA)
    }

    /// Tells the parent from time to time how far the team is, and looks whether it is to end.
    fn is_over(&mut self, task: &mut Task) -> Outcome<bool> {
        if self.told.elapsed() < COUNTED {
            return Ok(false);
        }
        self.told = Instant::now();
        let mut pack = Pack::new();
        pack.put(&[self.state().count as i64, now() as i64])?;
        task.send(self.parent, COUNT, &pack)?;
        Ok(task.try_recv(self.parent, STOP)?.is_some())
    }
}

/// A team, as its parent sees it.
struct Team {
    name: String,
    tids: Vec<Tid>,
    /// Exchanges, and when.
    counts: Vec<(u64, u64)>,
    moves: Vec<Moved>,
}

/// The turns of a workstation.
struct Watched {
    tid: Tid,
    next: u64,
    turns: Vec<Turn>,
}

/// What starts the teams, and says which owners are there.
struct Starter {
    changes: Vec<Change>,
    seconds: Duration,
    teams: Vec<Team>,
    hosts: Vec<Watched>,
    returns: Vec<Return>,
}

impl Starter {
    fn new(task: &mut Task, arguments: &Arguments) -> Outcome<Self> {
        let known = task.hosts()?;
        let tid = |name: &String| {
            let host = known.iter().find(|host| host.name == *name);
            host.map(|host| host.tid).ok_or_else(|| format!("no host {name}"))
        };
        let tids: Vec<Tid> = arguments.hosts.iter().map(tid).collect::<Result<_, _>>()?;
        // Of all others the owners are there.
        for host in &known {
            let is_lent = LENT.iter().any(|&lent| tids.get(lent) == Some(&host.tid));
            task.owner(host.tid, Some(if is_lent { OwnerSaid::Gone } else { OwnerSaid::Here }))?;
        }
        let speed = arguments.speed.unwrap_or_else(measure_speed);
        let mut teams = Vec::new();
        for grain in &arguments.grains {
            teams.push(start_team(task, arguments, *grain, speed)?);
        }
        let hosts = tids.into_iter().map(|tid| Watched { tid, next: 0, turns: Vec::new() }).collect();
        Ok(Self {
            changes: serde_json::from_str(&arguments.changes)?,
            seconds: Duration::try_from_secs_f64(arguments.seconds)?,
            teams,
            hosts,
            returns: Vec::new(),
        })
    }

    fn run(mut self, task: &mut Task) -> Outcome<Record> {
        for team in &self.teams {
            for (number, &tid) in team.tids.iter().enumerate() {
                let mut pack = Pack::new();
                pack.put(&[team.tids[1 - number].raw()])?;
                task.send(tid, BEGIN, &pack)?;
            }
        }
        let begun = Instant::now();
        self.watch(task, begun + MARGIN)?;
        let begin = now();
        let first = Instant::now();
        // A return follows each leave.
        for change in std::mem::take(&mut self.changes) {
            let at = first + Duration::try_from_secs_f64(change.at)?;
            self.watch(task, at)?;
            self.say(task, change.lent, OwnerSaid::Gone)?;
            self.watch(task, at + Duration::try_from_secs_f64(BETWEEN)?)?;
            self.say(task, change.returned, OwnerSaid::Here)?;
        }
        self.watch(task, first + self.seconds)?;
        let end = now();
        self.stop(task)?;
        let of = |team: &Team| TeamRecord { rate: team.rate(begin, end), moves: team.moves.clone() };
        Ok(Record {
            begin,
            end,
            teams: self.teams.iter().map(of).collect(),
            returns: self.returns,
            turns: self.hosts.into_iter().map(|host| host.turns).collect(),
        })
    }

    fn say(&mut self, task: &mut Task, host: usize, said: OwnerSaid) -> Outcome {
        let at = now();
        task.owner(self.hosts[host].tid, Some(said))?;
        if said == OwnerSaid::Here {
            self.returns.push(Return { host, at, left: None });
        } else if let Some(last) = self.returns.iter_mut().rfind(|it| it.host == host) {
            last.left = Some(at);
        }
        Ok(())
    }

    /// Hears what teams tell, up to a time.
    fn watch(&mut self, task: &mut Task, end: Instant) -> Outcome {
        let mut asked = Instant::now();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if asked <= Instant::now() || left.is_zero() {
                self.ask_for_turns(task)?;
                asked = Instant::now() + ASKED;
            }
            if left.is_zero() {
                return Ok(());
            }
            if let Some(mut message) = task.recv_timeout(Any, Any, left.min(ASKED))? {
                let (sender, tag) = (message.source(), message.tag());
                if tag == EXIT {
                    return Err("a task has ended too early".into());
                }
                let [one, other] = message.get::<i64>(2)?[..] else { return Err("two numbers".into()) };
                let team = self.teams.iter_mut().find(|team| team.tids.contains(&sender)).ok_or("a team")?;
                match tag {
                    COUNT => team.counts.push((one as u64, other as u64)),
                    MOVED => team.moves.push(Moved { saved: one as u64, restored: other as u64 }),
                    _ => return Err(format!("a message with the tag {tag}").into()),
                }
            }
        }
    }

    fn ask_for_turns(&mut self, task: &mut Task) -> Outcome {
        for host in &mut self.hosts {
            let history = task.turn_history(host.tid, host.next)?;
            host.next = history.next;
            for span in history.spans {
                let team = span.team.and_then(|name| self.teams.iter().position(|team| team.name == name));
                host.turns.push(Turn { begin: span.begin, end: span.end, team });
            }
        }
        Ok(())
    }

    /// Ends all teams.
    fn stop(&mut self, task: &mut Task) -> Outcome {
        let mut left: Vec<Tid> = self.teams.iter().flat_map(|team| team.tids.clone()).collect();
        for team in &self.teams {
            task.send(team.tids[0], STOP, &Pack::new())?;
        }
        while !left.is_empty() {
            let message = task.recv_timeout(Any, Any, LIMIT)?;
            let mut message = message.ok_or_else(|| format!("{left:?} do not end"))?;
            if message.tag() == EXIT {
                let tid: i32 = message.get_one()?;
                left.retain(|known| known.raw() != tid);
            }
        }
        Ok(())
    }
}

fn start_team(task: &mut Task, arguments: &Arguments, grain: u32, speed: f64) -> Outcome<Team> {
    let name = format!("grain-{grain}");
    let mut tids = Vec::new();
    for (number, lent) in LENT.into_iter().enumerate() {
        let mut words: Vec<OsString> = vec!["--member".into(), number.to_string().into()];
        words.extend(["--grains".into(), grain.to_string().into(), "--seconds".into(), "0".into()]);
        words.extend(["--speed".into(), speed.to_string().into()]);
        words.extend(arguments.spin.then(|| "--spin".into()));
        let host = arguments.hosts.get(lent).ok_or("four hosts are needed")?;
        let spawn = task.spawn(std::env::current_exe()?).args(words).team(&name).on_host(host);
        let spawned = spawn.start()?;
        let tid = spawned.tids.first().ok_or_else(|| format!("no task on {host}: {:?}", spawned.failed))?;
        tids.push(*tid);
    }
    task.notify_exit(&tids, EXIT)?;
    Ok(Team { name, tids, counts: Vec::new(), moves: Vec::new() })
}

impl Team {
    /// Exchanges in a second, between the first and the last count in this time.
    fn rate(&self, begin: u64, end: u64) -> f64 {
        let mut counts = self.counts.iter().filter(|(_, time)| (begin..=end).contains(time));
        let Some(&(from, since)) = counts.next() else { return 0.0 };
        let &(to, until) = counts.next_back().unwrap_or(&(from, since));
        (to - from) as f64 * 1e9 / (until - since).max(1) as f64
    }
}
