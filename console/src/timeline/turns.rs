//! The history of turns on each host, as the daemons keep it.

use super::Host;
use super::rows::Moment;
use pvm_wire::coscheduling::{TeamUse, TurnHistory, TurnSpan};
use pvm3::{Task, Tid};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often daemons are asked: they forget what is some minutes old.
const EVERY: Duration = Duration::from_millis(500);
/// Shares are shown of times that are as long at least, in nanoseconds.
const WINDOW: Moment = 500_000_000;
/// Turns kept of all hosts together.
const TURNS_MAX: usize = 1 << 20;

/// The turns of all hosts.
#[derive(Debug, Default)]
pub struct Turns {
    hosts: BTreeMap<Tid, Track>,
    asked: Option<Instant>,
    count: usize,
}

#[derive(Debug, Default)]
struct Track {
    next: u64,
    turns: Vec<Turn>,
}

/// A turn, by this host's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its begin.
    pub begin: Moment,
    /// Its end.
    pub end: Moment,
    /// The team and the counters of the turn; its times are of the host's own clock.
    pub what: TurnSpan,
}

impl Turns {
    /// Asks the daemons of these hosts, unless that was done a moment ago. Of a host that is new here, what was before is left out.
    pub fn look(&mut self, task: &mut Task, hosts: &BTreeMap<Tid, Host>) {
        if self.asked.is_none_or(|asked| asked.elapsed() >= EVERY) {
            self.ask(task, hosts);
        }
    }

    /// Asks the daemons of these hosts.
    pub fn ask(&mut self, task: &mut Task, hosts: &BTreeMap<Tid, Host>) {
        if !task.daemon_is_ours() {
            return;
        }
        for (&tid, host) in hosts {
            let since = self.hosts.get(&tid).map_or(u64::MAX, |track| track.next);
            // A host that has left reports nothing more.
            if let Ok(history) = task.turn_history(tid, since) {
                let behind = host.behind.map_or(0, |clock| clock.micros.saturating_mul(1000));
                self.add(tid, history, behind);
            }
        }
        self.asked = Some(Instant::now());
    }

    fn add(&mut self, host: Tid, history: TurnHistory, behind: i64) {
        let here = |moment: u64| i64::try_from(moment).unwrap_or(Moment::MAX).saturating_add(behind);
        let track = self.hosts.entry(host).or_default();
        track.next = history.next;
        for what in history.spans {
            let turn = Turn { begin: here(what.begin), end: here(what.end), what };
            match track.turns.last_mut() {
                Some(last) if last.goes_on_with(&turn) => last.extend(&turn),
                _ if self.count >= TURNS_MAX || turn.end <= turn.begin => {}
                _ => {
                    self.count += 1;
                    track.turns.push(turn);
                }
            }
        }
    }

    /// The turns of each host that had some.
    pub fn finish(self) -> BTreeMap<Tid, Vec<Turn>> {
        self.hosts
            .into_iter()
            .filter(|(_, track)| !track.turns.is_empty())
            .map(|(tid, track)| (tid, track.turns))
            .collect()
    }
}

impl Turn {
    /// Whether the two are one turn that a request has cut.
    fn goes_on_with(&self, next: &Self) -> bool {
        let key = |turn: &Self| (turn.what.team.clone(), turn.what.epoch, turn.what.origin);
        self.end == next.begin && key(self) == key(next)
    }

    fn extend(&mut self, next: &Self) {
        self.end = next.end;
        self.what.old += next.what.old;
        self.what.unfair += next.what.unfair;
        add_uses(&mut self.what.uses, &next.what.uses);
    }
}

fn add_uses(all: &mut Vec<TeamUse>, more: &[TeamUse]) {
    for team in more {
        match all.iter_mut().find(|known| known.name == team.name) {
            Some(known) => known.add(team),
            None => all.push(team.clone()),
        }
    }
}

/// The teams' CPU use on a host in a time, by this host's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Its begin.
    pub begin: Moment,
    /// Its end.
    pub end: Moment,
    /// By teams.
    pub uses: Vec<TeamUse>,
}

/// Turns that follow on each other, put together to times in which each team may have had one.
pub fn windows(turns: &[Turn]) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::new();
    for turn in turns {
        match windows.last_mut() {
            Some(last) if last.end == turn.begin && last.end - last.begin < WINDOW => last.add(turn),
            _ => {
                let mut window = Window { begin: turn.begin, ..Window::default() };
                window.add(turn);
                windows.push(window);
            }
        }
    }
    windows
}

impl Window {
    fn add(&mut self, turn: &Turn) {
        self.end = turn.end;
        add_uses(&mut self.uses, &turn.what.uses);
    }

    /// Each team's part of what all have had, %: their processes, and the daemon for their messages.
    pub fn shares(&self) -> impl Iterator<Item = (&str, f64)> {
        let had = |team: &TeamUse| (team.used + team.overhead) as f64;
        let all = self.uses.iter().map(had).sum::<f64>().max(1.0);
        self.uses.iter().map(move |team| (&*team.name, had(team) / all * 100.0))
    }

    /// The time each team's processes wanted a processor over the time they had one; teams without any are left out.
    pub fn slowdowns(&self) -> impl Iterator<Item = (&str, f64)> {
        let ran = self.uses.iter().filter(|team| team.used > 0);
        ran.map(|team| (&*team.name, (team.used + team.waited) as f64 / team.used as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Tid = Tid::from_raw(0x40000);

    fn span(begin: u64, end: u64, team: &str, epoch: u64) -> TurnSpan {
        TurnSpan { begin, end, team: Some(team.to_owned()), epoch, old: 1, ..TurnSpan::default() }
    }

    #[test]
    fn turns_are_put_together_again_and_have_this_hosts_time() {
        let mut turns = Turns::default();
        let first = vec![span(10, 20, "a", 1), span(20, 25, "b", 2)];
        turns.add(HOST, TurnHistory { spans: first, next: 2 }, 100);
        let second =
            vec![span(25, 40, "b", 2), span(40, 40, "a", 3), span(40, 50, "a", 4), span(60, 70, "a", 4)];
        turns.add(HOST, TurnHistory { spans: second, next: 6 }, 100);
        assert_eq!(turns.hosts[&HOST].next, 6);
        let turns = turns.finish().remove(&HOST).unwrap();
        let times: Vec<_> = turns.iter().map(|turn| (turn.begin, turn.end, turn.what.old)).collect();
        assert_eq!(times, [(110, 120, 1), (120, 140, 2), (140, 150, 1), (160, 170, 1)]);
    }

    #[test]
    fn shares_are_those_of_some_turns_together() {
        let turn = |begin: Moment, end: Moment, name: &str, (used, overhead, waited): (u64, u64, u64)| Turn {
            begin: begin * 1_000_000,
            end: end * 1_000_000,
            what: TurnSpan {
                uses: vec![TeamUse { name: name.to_owned(), used, overhead, waited }],
                ..TurnSpan::default()
            },
        };
        let turns = [
            turn(0, 200, "a", (60, 20, 0)),
            turn(200, 400, "b", (20, 0, 60)),
            turn(400, 600, "a", (0, 0, 30)),
            turn(600, 800, "b", (0, 0, 9)),
            turn(900, 1000, "b", (50, 0, 0)),
        ];
        let windows = windows(&turns);
        let times: Vec<_> = windows.iter().map(|w| (w.begin / 1_000_000, w.end / 1_000_000)).collect();
        assert_eq!(times, [(0, 600), (600, 800), (900, 1000)]);
        assert_eq!(windows[0].shares().collect::<Vec<_>>(), [("a", 80.0), ("b", 20.0)]);
        assert_eq!(windows[0].slowdowns().collect::<Vec<_>>(), [("a", 1.5), ("b", 4.0)]);
        assert_eq!(windows[1].shares().collect::<Vec<_>>(), [("b", 0.0)]);
        assert_eq!(windows[1].slowdowns().count(), 0, "it has not run");
    }
}
