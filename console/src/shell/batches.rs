//! Batches, as the console and `pvm run` show them.

use pvm_wire::HostIndex;
use pvm3::{BatchDecision, BatchRecord, PolicyMessages, PolicyTally, Tid};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// A `batch` command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchCommand {
    /// A list; with each node's exchanges if `long`.
    List {
        /// Whether nodes are shown.
        long: bool,
    },
    /// These alone, with each node's exchanges, the messages and the last decisions.
    Show(Vec<i32>),
    /// What policies have cost.
    Policies,
    /// The end of these.
    Cancel(Vec<i32>),
    /// A bar until this one is over.
    Watch(i32),
}

/// An error in a `batch` command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchSyntax {
    /// There is a word that is no option.
    #[error("batch: {0}: no such option (try \"help batch\")")]
    Unknown(String),
    /// There is no batch where one belongs.
    #[error("batch: {0} needs a batch's id")]
    Missing(String),
    /// A word that is no batch's id.
    #[error("batch: {0}: not the id of a batch")]
    NoId(String),
}

/// Reads the words after `batch`.
pub fn parse(words: &[String]) -> Result<BatchCommand, BatchSyntax> {
    let Some((option, ids)) = words.split_first() else { return Ok(BatchCommand::List { long: false }) };
    if id(option).is_ok() {
        return words.iter().map(|word| id(word)).collect::<Result<_, _>>().map(BatchCommand::Show);
    }
    let ids = ids.iter().map(|word| id(word)).collect::<Result<Vec<_>, _>>()?;
    match (option.as_str(), &ids[..]) {
        ("-l", []) => Ok(BatchCommand::List { long: true }),
        ("-p", []) => Ok(BatchCommand::Policies),
        ("-c", [_, ..]) => Ok(BatchCommand::Cancel(ids)),
        ("-w", &[id]) => Ok(BatchCommand::Watch(id)),
        ("-c" | "-w", []) => Err(BatchSyntax::Missing(option.clone())),
        _ => Err(BatchSyntax::Unknown(option.clone())),
    }
}

/// A batch's id: hexadecimal, as tables show it.
pub fn id(word: &str) -> Result<i32, BatchSyntax> {
    let digits = word.trim_start_matches("0x");
    i32::from_str_radix(digits, 16)
        .ok()
        .filter(|&id| id > 0)
        .ok_or_else(|| BatchSyntax::NoId(word.to_owned()))
}

/// Tasks of a batch that have ended, with or without success.
pub fn over(batch: &BatchRecord) -> u32 {
    batch.done + batch.failed + batch.cancelled
}

/// The table of `batch`; `long` has a line per node with the quantities of its last exchange by the formula, and how often and
/// how much it was given in all.
pub fn table(batches: &[BatchRecord], long: bool, hosts: &BTreeMap<Tid, String>) -> String {
    let mut text = format!(
        "{:>8} {:>8} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>14}  COMMAND\n",
        "BATCH", "PTID", "TASKS", "WAIT", "RUN", "DONE", "FAIL", "CANCEL", "RETRIES", "POLICY"
    );
    for batch in batches {
        let id = if batch.id == 0 { "(spawn)".to_owned() } else { format!("{:x}", batch.id) };
        let BatchRecord { total, waiting, running, done, failed, cancelled, restarts, policy, .. } = batch;
        let _ = write!(text, "{id:>8} {:>8x} {total:>7} {waiting:>7} {running:>7}", batch.parent.bits());
        let _ = writeln!(
            text,
            " {done:>7} {failed:>7} {cancelled:>7} {restarts:>7} {policy:>14}  {}",
            batch.file.display()
        );
        if long {
            nodes(&mut text, batch, hosts);
        }
    }
    text
}

/// A batch with all that is known of its placement: its line and its nodes' lines, its messages, its last decisions.
pub fn details(batch: &BatchRecord, hosts: &BTreeMap<Tid, String>) -> String {
    let mut text = table(std::slice::from_ref(batch), true, hosts);
    let PolicyMessages { between_hosts, at_home } = batch.messages;
    let given: u64 = batch.nodes.iter().map(|node| node.given).sum();
    let _ = write!(text, "messages: {between_hosts} between hosts, {at_home} on the home's host");
    if given > 0 {
        let _ = write!(text, "; {:.2} for each task given", batch.messages.all() as f64 / given as f64);
    }
    text.push('\n');
    if !batch.decisions.is_empty() {
        let _ = writeln!(text, "{:>12} {:>11} {:>7}", "AFTER", "HOST", "TASKS");
    }
    for &BatchDecision { after, host, count } in &batch.decisions {
        let after = Duration::from_micros(after).as_secs_f64();
        let _ = writeln!(text, "{after:>10.6} s {:>11} {count:>7}", name(host, hosts));
    }
    text
}

/// The table of `batch -p`: a line for each policy that was used, over all hosts.
pub fn policies(tallies: &[PolicyTally]) -> String {
    let mut sums: BTreeMap<&str, PolicySum> = BTreeMap::new();
    for tally in tallies {
        let sum = sums.entry(&tally.policy).or_default();
        sum.batches += tally.batches;
        sum.given += tally.given;
        sum.messages.add(tally.messages);
    }
    let mut text = format!(
        "{:>18} {:>8} {:>9} {:>14} {:>9} {:>9}\n",
        "POLICY", "BATCHES", "TASKS", "BETWEEN HOSTS", "AT HOME", "PER TASK"
    );
    for (policy, PolicySum { batches, given, messages }) in sums {
        let PolicyMessages { between_hosts, at_home } = messages;
        let _ = write!(text, "{policy:>18} {batches:>8} {given:>9} {between_hosts:>14} {at_home:>9}");
        let _ = match given {
            0 => writeln!(text, " {:>9}", "-"),
            _ => writeln!(text, " {:>9.2}", messages.all() as f64 / given as f64),
        };
    }
    text
}

/// What a policy has cost on all hosts.
#[derive(Debug, Default)]
struct PolicySum {
    batches: u64,
    given: u64,
    messages: PolicyMessages,
}

fn name(host: HostIndex, hosts: &BTreeMap<Tid, String>) -> String {
    hosts.get(&host.host_tid()).cloned().unwrap_or_else(|| host.to_string())
}

fn nodes(text: &mut String, batch: &BatchRecord, hosts: &BTreeMap<Tid, String>) {
    let _ = writeln!(
        text,
        "{:>24} {:>6} {:>6} {:>6} {:>7} {:>5} {:>9} {:>9} {:>6} {:>7}",
        "HOST", "P", "P_c", "N_a", "T_c", "N_c", "C_i", "C_A", "TIMES", "SUM N"
    );
    for node in &batch.nodes {
        let name = name(node.host, hosts);
        let _ = write!(text, "{name:>24}");
        let _ = match node.last {
            Some(last) => write!(
                text,
                " {:>6} {:>6} {:>6} {:>7} {:>5} {:>9.0} {:>9.0}",
                last.p, last.p_c, last.n_a, last.t_c, last.n_c, last.c_i, last.c_a
            ),
            None => {
                write!(text, " {:>6} {:>6} {:>6} {:>7} {:>5} {:>9} {:>9}", "-", "-", "-", "-", "-", "-", "-")
            }
        };
        let _ = writeln!(text, " {:>6} {:>7}", node.exchanges, node.given);
    }
}

/// How far a batch is, in a line: `placed` are those that nodes have been given. `ended` came to their end within `time`.
pub fn line(batch: &BatchRecord, ended: u32, time: Duration) -> String {
    let BatchRecord { total, running, done, failed, .. } = batch;
    let placed = total.saturating_sub(batch.waiting);
    let rate = f64::from(ended) / time.as_secs_f64().max(0.001);
    let mut text = format!("{placed} of {total} placed, {running} running, {done} done, {failed} failed");
    if batch.cancelled > 0 {
        let _ = write!(text, ", {} cancelled", batch.cancelled);
    }
    if ended > 0 {
        let _ = write!(text, ", {rate:.1}/s");
    }
    let rest = total.saturating_sub(over(batch));
    if ended > 0 && rest > 0 {
        let _ = write!(text, ", {:.0} s left", f64::from(rest) / rate);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::words::split;
    use pvm_wire::batch::Terms;
    use pvm3::NodeTally;

    fn batch() -> BatchRecord {
        let last = Terms { p: 2, p_c: 1, n_a: 1, t_c: 60, n_c: 1, c_i: 2000.0, c_a: 1500.4 };
        BatchRecord {
            id: 0x40001,
            parent: Tid::from_bits(0x40002),
            file: "worker".into(),
            policy: "active-pulling".into(),
            total: 100,
            waiting: 59,
            running: 2,
            done: 38,
            failed: 1,
            cancelled: 0,
            restarts: 3,
            nodes: vec![NodeTally { host: HostIndex::MASTER, exchanges: 40, given: 41, last: Some(last) }],
            messages: PolicyMessages { between_hosts: 60, at_home: 22 },
            decisions: vec![
                BatchDecision { after: 1_500, host: HostIndex::MASTER, count: 1 },
                BatchDecision { after: 2_000_000, host: HostIndex::new(7).unwrap(), count: 2 },
            ],
        }
    }

    #[test]
    fn words_are_read() {
        let parse = |line: &str| parse(&split(line).unwrap());
        assert_eq!(parse(""), Ok(BatchCommand::List { long: false }));
        assert_eq!(parse("-l"), Ok(BatchCommand::List { long: true }));
        assert_eq!(parse("-c 40001 0x40002"), Ok(BatchCommand::Cancel(vec![0x40001, 0x40002])));
        assert_eq!(parse("-w 40001"), Ok(BatchCommand::Watch(0x40001)));
        assert_eq!(parse("40001 40002"), Ok(BatchCommand::Show(vec![0x40001, 0x40002])));
        assert_eq!(parse("-p"), Ok(BatchCommand::Policies));
        assert_eq!(parse("-p 40001"), Err(BatchSyntax::Unknown("-p".into())));
        assert_eq!(parse("40001 zz"), Err(BatchSyntax::NoId("zz".into())));
        assert_eq!(parse("-c"), Err(BatchSyntax::Missing("-c".into())));
        assert_eq!(parse("-c zz"), Err(BatchSyntax::NoId("zz".into())));
        assert_eq!(parse("-c -1"), Err(BatchSyntax::NoId("-1".into())));
        assert_eq!(parse("-w 1 2"), Err(BatchSyntax::Unknown("-w".into())));
        assert_eq!(parse("x"), Err(BatchSyntax::Unknown("x".into())));
    }

    #[test]
    fn a_batch_is_a_line_and_its_nodes_are_more() {
        let hosts = BTreeMap::from([(HostIndex::MASTER.host_tid(), "alpha".to_owned())]);
        let head = "   BATCH     PTID   TASKS    WAIT     RUN    DONE    FAIL  CANCEL RETRIES         POLICY  COMMAND\n";
        let row = "   40001    40002     100      59       2      38       1       0       3 active-pulling  worker\n";
        assert_eq!(table(&[batch()], false, &hosts), [head, row].concat());
        let nodes = "                    HOST      P    P_c    N_a     T_c   N_c       C_i       C_A  TIMES   SUM N\n                   alpha      2      1      1      60     1      2000      1500     40      41\n";
        assert_eq!(table(&[batch()], true, &hosts), [head, row, nodes].concat());
    }

    #[test]
    fn a_batch_alone_has_its_messages_and_decisions() {
        let hosts = BTreeMap::from([(HostIndex::MASTER.host_tid(), "alpha".to_owned())]);
        let told = details(&batch(), &hosts);
        let rest = told.strip_prefix(&table(&[batch()], true, &hosts)).expect("its lines in the table first");
        let expected = "messages: 60 between hosts, 22 on the home's host; 2.00 for each task given\n       AFTER        HOST   TASKS\n  0.001500 s       alpha       1\n  2.000000 s           7       2\n";
        assert_eq!(rest, expected);
        let waits = BatchRecord { nodes: Vec::new(), decisions: Vec::new(), ..batch() };
        assert!(details(&waits, &hosts).ends_with("messages: 60 between hosts, 22 on the home's host\n"));
    }

    #[test]
    fn what_policies_cost_is_added_up_over_hosts() {
        let tally = |host, given| PolicyTally {
            host: HostIndex::new(host).unwrap(),
            policy: "bidding".into(),
            batches: 1,
            given,
            messages: PolicyMessages { between_hosts: 3, at_home: 0 },
        };
        let head = "            POLICY  BATCHES     TASKS  BETWEEN HOSTS   AT HOME  PER TASK\n";
        let row = "           bidding        2         4              6         0      1.50\n";
        assert_eq!(policies(&[tally(1, 4), tally(2, 0)]), [head, row].concat());
        let idle = "           bidding        1         0              3         0         -\n";
        assert_eq!(policies(&[tally(1, 0)]), [head, idle].concat());
    }

    #[test]
    fn progress_in_a_line() {
        let second = Duration::from_secs(1);
        assert_eq!(line(&batch(), 0, second), "41 of 100 placed, 2 running, 38 done, 1 failed");
        assert_eq!(
            line(&batch(), 20, 2 * second),
            "41 of 100 placed, 2 running, 38 done, 1 failed, 10.0/s, 6 s left"
        );
        let over = BatchRecord { waiting: 0, running: 0, cancelled: 61, ..batch() };
        assert_eq!(
            line(&over, 100, second),
            "100 of 100 placed, 0 running, 38 done, 1 failed, 61 cancelled, 100.0/s"
        );
    }
}
