//! The tables of `pvm top`.

use super::table::{Cell, Column, Table, number, short, text};
use crate::shell::tables::{counted, in_micros};
use crate::view::{Host, State, TaskRates, TaskRow, Team, View};
use pvm3::QueueRecord;
use std::fmt::Write as _;
use std::time::Duration;

const HOSTS: &[Column] = &[
    text("HOST", 16, "the host's name"),
    number("TASKS", 6, "its tasks"),
    number("CPU%", 6, "busy part of all its cores together"),
    number("OTHERS%", 7, "the part that is busy with programs outside this virtual machine"),
    number("MEM%", 6, "memory in use"),
    number("FREE", 7, "bytes of memory that a new program can have"),
    number("LOAD", 6, "processes that run or want to, mean of one minute"),
    number("MSG/s", 8, "messages that its tasks send per second, one for each receiver"),
    number("BYTE/s", 8, "bytes that its tasks send per second"),
];

const QUEUES: &[Column] = &[
    text("QUEUE", 16, "the queue's name"),
    text("STATE", 8, "whether it accepts jobs"),
    number("WAITING", 8, "jobs that wait"),
    number("RUNNING", 8, "slots that its jobs use"),
    number("PRIORITY", 8, "queues with a greater number come first"),
    number("HOSTS", 6, "number of its hosts; -: all"),
];

// Of a task.
const TID: Column = text("TID", 8, "the task's identifier");
const HOST: Column = text("HOST", 16, "its host");
const CPU: Column = number("CPU%", 6, "its CPU time; 100: one core");
const COMMAND: Column = text("COMMAND", 24, "its program");
const STATE: Column = text(
    "STATE",
    8,
    "runs; waits: another team has the turn; started: has not enrolled, and need not; enrols; leaves",
);

const TASKS: &[Column] = &[
    TID,
    HOST,
    text("TEAM", 16, "its team: tasks that want to run at the same time"),
    STATE,
    CPU,
    number("MSG/s", 8, "messages that it sends per second, one for each receiver"),
    number("BYTE/s", 8, "bytes that it sends per second"),
    number("PID", 7, "its process"),
    COMMAND,
];

const TURNS: &[Column] = &[
    text("HOST", 16, "the host's name"),
    text(
        "TURNS BY",
        10,
        "how teams without the turn are held; -: the cores suffice for all, so there are no turns",
    ),
    text(
        "WHY",
        16,
        "why turns are taken, by the accounts of teams or by the rows of the machine's matrix; or why not: one team, as many cores as processes, a kernel that serves all as well, processor time that is left, or an owner who is there",
    ),
    number("ROW", 4, "the row of the matrix that has its slice"),
    number("SLICE", 7, "how long a team has the turn"),
    number("EPOCH", 8, "count of the turns; a message with a greater one can change the turn here"),
    number("SWITCH/s", 9, "changes of the turn per second"),
    number("ADOPT/s", 8, "changes per second that a message from another host has made"),
    number(
        "STALE/s",
        8,
        "messages per second whose epoch is no greater than this host's: they change nothing",
    ),
    number(
        "REFUSED/s",
        9,
        "messages per second that change nothing because their team has had more than its share",
    ),
    number("BOOST%", 7, "time in which a team had the turn because of a message"),
];

const TEAMS: &[Column] = &[
    text("TEAM", 16, "the team's name: tasks that want to run at the same time"),
    number("TASKS", 6, "its tasks"),
    number("HOSTS", 6, "hosts that have some of them"),
    number("TURN", 6, "hosts on which it has the turn now"),
    number("CPU%", 7, "CPU time of its tasks; 100: one core"),
    number("DAEMONS%", 8, "the daemons' CPU time for its messages; 100: one core"),
    number("SHARE%", 6, "its part of all teams' CPU time"),
    number("SLOWDOWN", 8, "time it takes for what it would take alone: 2 is twice as long"),
];

const SPINS: &[Column] = &[
    TID,
    HOST,
    text("TEAM", 16, "its team"),
    STATE,
    CPU,
    number("SPIN", 8, "how long it polls for a message before it sleeps"),
    COMMAND,
];

/// The tables of the first screen.
pub fn overview(view: &View) -> Vec<Table> {
    let hosts = view.hosts.iter().map(host).collect();
    let mut tables = vec![Table { title: "Hosts", columns: HOSTS, rows: hosts }];
    // Each machine has a queue, which most people never use.
    if view.queues.len() > 1 || view.queues.iter().any(|queue| queue.waiting + queue.running > 0) {
        let queues = view.queues.iter().map(queue).collect();
        tables.push(Table { title: "Queues", columns: QUEUES, rows: queues });
    }
    let tasks = view.tasks.iter().map(|row| task(view, row)).collect();
    tables.push(Table { title: "Tasks", columns: TASKS, rows: tasks });
    tables
}

/// The tables of the second screen.
pub fn coscheduling(view: &View) -> Vec<Table> {
    let all: u64 = view.teams.iter().map(|team| team.rates.cpu + team.rates.overhead).sum();
    let rows = [
        view.hosts.iter().map(turns).collect(),
        view.teams.iter().map(|row| team(row, all)).collect(),
        view.tasks.iter().map(|row| spin(view, row)).collect(),
    ];
    let of = |(rows, (title, columns))| Table { title, columns, rows };
    rows.into_iter().zip([("Turns", TURNS), ("Teams", TEAMS), ("Tasks", SPINS)]).map(of).collect()
}

/// What is said above all tables.
pub fn summary(view: &View) -> String {
    let mut total = TaskRates::default();
    view.hosts.iter().for_each(|host| total.add(host.rates));
    let mut text = format!(
        "{}, {}; CPU of tasks {:.1} cores; {} messages/s, {}B/s",
        counted(view.hosts.len(), "host"),
        counted(view.tasks.len(), "task"),
        total.cpu as f64 / 1000.0,
        short(total.messages as f64),
        short(total.bytes as f64),
    );
    if let Some(gone) = view.gone.last() {
        let more = view.gone.len() - 1;
        let _ = write!(text, "; gone: {}", Cell::text(&gone.name).text);
        if more > 0 {
            let _ = write!(text, " and {more} more");
        }
    }
    text
}

fn quantity(value: Option<u64>) -> Cell {
    Cell::number(value.map(|value| value as f64), short)
}

fn host(host: &Host) -> Vec<Cell> {
    let load = host.load.as_ref();
    let part = |used: u64, all: u64| (used * 1000).checked_div(all);
    let rates = host.turns.is_some().then_some(host.rates);
    vec![
        Cell::text(&host.info.name),
        Cell::count(host.tasks),
        Cell::percent(load.map(|load| load.cpu[0].into())),
        Cell::percent(load.map(|load| load.others[0].into())),
        Cell::percent(load.and_then(|load| part(load.memory.saturating_sub(load.free), load.memory))),
        quantity(load.map(|load| load.free)),
        Cell::number(load.map(|load| f64::from(load.run_queue[0]) / 100.0), |value| format!("{value:.2}")),
        quantity(rates.map(|rates| rates.messages)),
        quantity(rates.map(|rates| rates.bytes)),
    ]
}

fn queue(queue: &QueueRecord) -> Vec<Cell> {
    let hosts = Some(queue.hosts.len()).filter(|&count| count > 0);
    vec![
        Cell::text(&queue.name),
        Cell::text(if queue.is_open { "open" } else { "closed" }),
        Cell::number(Some(f64::from(queue.waiting)), |value| value.to_string()),
        Cell::number(Some(f64::from(queue.running)), |value| value.to_string()),
        Cell::number(Some(f64::from(queue.priority)), |value| value.to_string()),
        Cell::number(hosts.map(|count| count as f64), |value| value.to_string()),
    ]
}

/// The row of a task: its identity and its usage, then these cells, then its program.
fn of_task(view: &View, task: &TaskRow, cells: impl IntoIterator<Item = Cell>) -> Vec<Cell> {
    let host = task.host.and_then(|at| view.hosts.get(at)).map_or("-", |host| &host.info.name);
    let state = match task.state {
        State::Starts => "started",
        State::Enrols => "enrols",
        State::Runs => "runs",
        State::Waits => "waits",
        State::Leaves => "leaves",
    };
    let texts = [&task.info.tid.to_string(), host, &task.team, state].map(Cell::text).into_iter();
    let rest = std::iter::once(Cell::percent(task.rates.map(|rates| rates.cpu))).chain(cells);
    texts.chain(rest).chain([Cell::text(&task.info.name.to_string_lossy())]).collect()
}

fn task(view: &View, task: &TaskRow) -> Vec<Cell> {
    let cells = [
        quantity(task.rates.map(|rates| rates.messages)),
        quantity(task.rates.map(|rates| rates.bytes)),
        Cell::number(Some(f64::from(task.info.pid)), |pid| pid.to_string()),
    ];
    of_task(view, task, cells)
}

fn turns(host: &Host) -> Vec<Cell> {
    let known = host.turns.as_ref();
    let rates = known.map(|_| host.turn_rates);
    let micros = |micros: f64| format!("{:?}", Duration::from_micros(micros as u64));
    vec![
        Cell::text(&host.info.name),
        Cell::text(known.filter(|turns| turns.is_shared).map_or("-", |turns| &turns.means)),
        Cell::text(&known.map_or_else(|| "-".to_owned(), |turns| turns.why.to_string())),
        Cell::number(known.and_then(|turns| turns.row).map(f64::from), |row| format!("{row:.0}")),
        Cell::number(known.map(|turns| turns.slice as f64), micros),
        Cell::number(known.map(|turns| turns.epoch as f64), |count| format!("{count:.0}")),
        Cell::rate(rates.map(|rates| rates.switches)),
        Cell::rate(rates.map(|rates| rates.adopted)),
        Cell::rate(rates.map(|rates| rates.stale)),
        Cell::rate(rates.map(|rates| rates.refused)),
        Cell::rate(rates.map(|rates| rates.boosted * 100.0)),
    ]
}

fn team(team: &Team, all: u64) -> Vec<Cell> {
    let rates = team.rates;
    let share = ((rates.cpu + rates.overhead) * 1000).checked_div(all);
    let slowdown = (rates.cpu > 0).then(|| (rates.cpu + rates.waited) as f64 / rates.cpu as f64);
    vec![
        Cell::text(&team.name),
        Cell::count(team.tasks),
        Cell::count(team.hosts),
        Cell::count(team.running),
        Cell::percent(Some(rates.cpu)),
        Cell::percent(Some(rates.overhead)),
        Cell::percent(Some(share.unwrap_or(0))),
        Cell::number(slowdown, |value| format!("{value:.2}")),
    ]
}

fn spin(view: &View, task: &TaskRow) -> Vec<Cell> {
    let spin = Cell::number(task.spin.map(|nanos| nanos as f64), |nanos| in_micros(nanos as u64));
    of_task(view, task, [spin])
}
