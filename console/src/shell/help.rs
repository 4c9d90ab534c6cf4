//! Names, arguments and descriptions of the console's commands.

/// A command of the console, as `help` describes it.
pub struct Topic {
    /// Its name.
    pub name: &'static str,
    /// A short description.
    pub summary: &'static str,
    /// Its arguments.
    pub arguments: &'static str,
    /// More about it, whole lines.
    pub details: &'static str,
    /// How few and how many arguments it takes.
    pub counts: (usize, usize),
}

const MANY: usize = usize::MAX;

const fn topic(
    name: &'static str,
    counts: (usize, usize),
    arguments: &'static str,
    summary: &'static str,
    details: &'static str,
) -> Topic {
    Topic { name, summary, arguments, details, counts }
}

/// Every command, sorted by name.
pub const TOPICS: &[Topic] = &[
    topic(
        "add",
        (1, MANY),
        "hostname ...",
        "Add hosts to the virtual machine",
        "Quote a host with options: add \"node1 sp=2000 dx=/opt/pvm/bin/pvmd\"\n",
    ),
    topic("alias", (0, MANY), "[ name command [ arg ... ] ]", "Define or list command aliases", ""),
    topic(
        "batch",
        (0, MANY),
        "[ -l | id ... | -p | -c id ... | -w id ]",
        "List, cancel or watch batches of tasks",
        "-l        also show what each host was granted, and the terms of its last request\n\
         id ...    these alone, with the messages of their policy and its last decisions\n\
         -p        what each placement policy has cost: tasks, messages\n\
         -c id ... cancel: waiting tasks are dropped, running ones killed\n\
         -w id     show progress until it completes or the interrupt key is hit\n",
    ),
    topic(
        "conf",
        (0, 1),
        "[ -l ]",
        "Show the hosts of the virtual machine",
        "-l  also show how teams take turns on each host, the cost of waking a task, and how long tasks spin\n",
    ),
    topic("delete", (1, MANY), "hostname ...", "Remove hosts from the virtual machine", ""),
    topic("dump", (0, 0), "", "Show the whole state of this host's daemon", ""),
    topic("echo", (0, MANY), "[ arg ... ]", "Print the arguments", ""),
    topic(
        "export",
        (0, MANY),
        "[ name ... ]",
        "Name environment variables that spawned tasks inherit",
        "Without names, list the exported variables.\n",
    ),
    topic("getopt", (0, 1), "[ option ]", "Show PVM's options of the console", ""),
    topic("halt", (0, 0), "", "End the virtual machine and the console", ""),
    topic("help", (0, 1), "[ command ]", "Describe a command", ""),
    topic("history", (0, 1), "[ count ]", "Show the previous command lines, or the last COUNT of them", ""),
    topic("id", (0, 0), "", "Print the console's task id", ""),
    topic(
        "jobs",
        (0, 1),
        "[ -l ]",
        "List jobs (tasks spawned with ->)",
        "-l  also list their tasks, as ps does\n",
    ),
    topic("kill", (1, MANY), "[ -c ] tid ...", "Kill tasks", "-c  kill the tasks' children, not the tasks\n"),
    topic(
        "move",
        (1, 2),
        "tid [ hostname ]",
        "Move a task to another host",
        "Without a host, to the one that has most room. The task moves in its next call that receives, if its\n\
         program saves its state.\n",
    ),
    topic("mstat", (1, MANY), "hostname ...", "Show whether hosts are up", ""),
    topic("names", (0, 1), "[ pattern ]", "List the entries of the mailbox", ""),
    topic(
        "ps",
        (0, MANY),
        "[ -alx ] [ -h tid ] [ -n name ]",
        "List tasks",
        "-a      on all hosts (default: on this host)\n\
         -hTID   on the host with this id\n\
         -nNAME  on the host of this name\n\
         -l      also show parent and process id\n\
         -x      also list consoles and tasks that are enrolling\n\
         FLAG: f child of a daemon, c connected, a enrolling, o leaving\n",
    ),
    topic("pstat", (1, MANY), "tid ...", "Show whether tasks are running", ""),
    topic("put", (3, 3), "name flags word", "Put an entry into the mailbox", ""),
    topic("quit", (0, 0), "", "Leave the console; the virtual machine continues", ""),
    topic(
        "reset",
        (0, 3),
        "[ info [ class [ index ] ] ]",
        "Kill all tasks except the console",
        "info  kill no tasks, only remove entries of exited tasks from the mailbox\n",
    ),
    topic("setenv", (0, MANY), "[ name [ value ... ] ]", "Show or set environment variables", ""),
    topic("setopt", (2, 2), "option value", "Set one of PVM's options of the console", ""),
    topic(
        "sig",
        (2, MANY),
        "signal tid ...",
        "Send a signal to tasks",
        "The signal is a number or a name: 15, TERM and SIGTERM are the same.\n",
    ),
    topic(
        "spawn",
        (1, MANY),
        "[ option ... ] file [ arg ... ]",
        "Start tasks",
        "-COUNT       number of tasks (default: 1)\n\
         -host        on this host (. is the local one); --host=ADDRESS if it starts with a digit\n\
         -ARCH        on hosts of this architecture\n\
         -~host       on all hosts except this one; -~ARCH likewise\n\
         -:DIR        in this working directory; also after any of the above: -host:DIR\n\
         -?           under the debugger\n\
         -+           as a queued batch: tasks start as hosts have free slots (see \"help batch\")\n\
         -%POLICY     placed by this policy: active-pulling, round-robin, proportional,\n\
         \x20            lightly-loaded, local, sender-initiated, receiver-initiated,\n\
         \x20            bidding, up-down, hierarchical, graph-theoretic, coallocation\n\
         -=TEAM       as members of this team: tasks that want to run at the same time\n\
         ->           output to the console\n\
         ->FILE       output to a file; ->>FILE appends\n\
         -@           trace events (see \"help trace\") to the console; -@FILE to a file\n",
    ),
    topic(
        "trace",
        (0, MANY),
        "[ [ + | - ] event ... | buf [ bytes ] | opt [ full | time | count ] ]",
        "Show or select the events that tasks spawned with -@ report",
        "+ event ...  add these; * stands for all\n\
         - event ...  remove these\n\
         xpvm         only those that XPVM shows\n\
         buf bytes    buffer size of a task before it sends events\n\
         opt full     every event; time or count: totals at the end\n",
    ),
    topic("unalias", (1, MANY), "name ...", "Remove aliases", ""),
    topic("unexport", (1, MANY), "name ...", "Remove variables from the export list", ""),
    topic("version", (0, 0), "", "Show the version of PVM", ""),
];

/// The command of this name.
pub fn find(name: &str) -> Option<&'static Topic> {
    TOPICS.iter().find(|topic| topic.name == name)
}

/// The text of `help NAME`, or of `help`.
pub fn text(name: Option<&str>) -> String {
    match name.map(|name| (name, find(name))) {
        None => overview(),
        Some((_, Some(topic))) => topic.describe(),
        Some((name, None)) => format!("{name}: not found\n"),
    }
}

fn overview() -> String {
    let lines: Vec<String> =
        TOPICS.iter().map(|topic| format!("  {:<11} {}\n", topic.name, topic.summary)).collect();
    format!("Commands are (see also \"help command\"):\n{}", lines.concat())
}

impl Topic {
    fn describe(&self) -> String {
        let Self { name, summary, details, .. } = self;
        format!("{name:<11} {summary}\n{}\n{details}", self.syntax())
    }

    /// Its name and arguments.
    pub fn syntax(&self) -> String {
        format!("Syntax:  {} {}", self.name, self.arguments).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_sorted_and_described() {
        assert!(TOPICS.is_sorted_by(|a, b| a.name < b.name));
        assert!(TOPICS.iter().all(|topic| !topic.summary.is_empty() && topic.counts.0 <= topic.counts.1));
        assert!(TOPICS.iter().all(|topic| topic.details.is_empty() || topic.details.ends_with('\n')));
    }

    #[test]
    fn a_topic_shows_its_syntax() {
        assert_eq!(text(Some("id")), "id          Print the console's task id\nSyntax:  id\n");
        assert!(text(Some("spawn")).contains("Syntax:  spawn [ option ... ] file [ arg ... ]\n-COUNT"));
        assert_eq!(text(Some("bogus")), "bogus: not found\n");
        assert_eq!(text(None).lines().count(), TOPICS.len() + 1);
    }
}
