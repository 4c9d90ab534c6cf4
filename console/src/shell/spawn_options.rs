//! The arguments of the console's `spawn`.

use pvm_wire::limits::BATCH_MAX;
use std::path::PathBuf;

/// On which hosts.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Place {
    /// Any.
    #[default]
    Anywhere,
    /// The host of this name.
    Host(String),
    /// The hosts of this architecture.
    Arch(String),
}

/// Where the output of the tasks goes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum JobOutput {
    /// Into the master's log.
    #[default]
    Log,
    /// To the console.
    Console,
    /// Into a file.
    File {
        /// Its path.
        path: PathBuf,
        /// Whether what is in it stays.
        append: bool,
    },
}

/// A parsed `spawn` command.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SpawnCommand {
    /// How many tasks.
    pub count: usize,
    /// On which hosts.
    pub place: Place,
    /// On all hosts but those.
    pub complement: bool,
    /// The tasks' working directory.
    pub directory: Option<String>,
    /// Under the debugger script.
    pub debug: bool,
    /// As a queued batch.
    pub queued: bool,
    /// Placed by this policy.
    pub policy: Option<String>,
    /// As members of this team.
    pub team: Option<String>,
    /// Where the output goes.
    pub output: JobOutput,
    /// Where the trace goes, if the tasks are traced.
    pub trace: Option<JobOutput>,
    /// The program.
    pub file: String,
    /// Its arguments.
    pub args: Vec<String>,
}

/// An error in a `spawn` command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpawnSyntax {
    /// Options, but no program.
    #[error("spawn: no program to start (try \"help spawn\")")]
    NoFile,
    /// A count that is none.
    #[error(
        "spawn: {0}: a count is a number from 1 to {BATCH_MAX} (a host named by its address: --host={0})"
    )]
    Count(String),
    /// A queued batch whose output is wanted here.
    #[error("spawn: -+ and -> cannot be combined: the tasks of a queued batch are not known yet")]
    QueuedJob,
    /// An option that is none.
    #[error("spawn: {0}: no such option (try \"help spawn\")")]
    Unknown(String),
}

/// Reads the words after `spawn`.
pub fn parse(words: &[String]) -> Result<SpawnCommand, SpawnSyntax> {
    let mut command = SpawnCommand { count: 1, ..SpawnCommand::default() };
    let mut words = words.iter();
    for word in words.by_ref() {
        let Some(option) = word.strip_prefix('-') else {
            command.file.clone_from(word);
            command.args = words.cloned().collect();
            if command.queued && command.output != JobOutput::Log {
                return Err(SpawnSyntax::QueuedJob);
            }
            return Ok(command);
        };
        command.option(option)?;
    }
    Err(SpawnSyntax::NoFile)
}

impl SpawnCommand {
    /// One option, without its dash.
    fn option(&mut self, option: &str) -> Result<(), SpawnSyntax> {
        if let Some(path) = option.strip_prefix('>') {
            self.output = output(path);
            return Ok(());
        }
        if let Some(path) = option.strip_prefix('@') {
            self.trace = Some(output(path));
            return Ok(());
        }
        if let Some(policy) = option.strip_prefix('%') {
            self.policy = Some(policy.to_owned());
            return Ok(());
        }
        if let Some(team) = option.strip_prefix('=').filter(|team| !team.is_empty()) {
            self.team = Some(team.to_owned());
            return Ok(());
        }
        if option == "+" {
            self.queued = true;
            return Ok(());
        }
        let (what, directory) = match option.split_once(':') {
            Some((what, directory)) => (what, Some(directory)),
            None => (option, None),
        };
        if let Some(directory) = directory.filter(|directory| !directory.is_empty()) {
            self.directory = Some(directory.to_owned());
        }
        let what = match what.strip_prefix('~') {
            Some(rest) => {
                self.complement = true;
                rest
            }
            None => what,
        };
        self.choice(option, what)
    }

    fn choice(&mut self, option: &str, what: &str) -> Result<(), SpawnSyntax> {
        if let Some(host) = what.strip_prefix("-host=") {
            self.place = Place::Host(host.to_owned());
            return Ok(());
        }
        match what.chars().next() {
            None if option.is_empty() => Err(SpawnSyntax::Unknown("-".into())),
            None => Ok(()),
            Some('?') => {
                self.debug = true;
                Ok(())
            }
            Some('0'..='9') => {
                let count = what.parse().ok().filter(|count| (1..=BATCH_MAX).contains(count));
                self.count = count.ok_or_else(|| SpawnSyntax::Count(what.to_owned()))?;
                Ok(())
            }
            Some(c) if c.is_ascii_uppercase() => {
                self.place = Place::Arch(what.to_owned());
                Ok(())
            }
            Some(c) if c.is_lowercase() || c == '.' => {
                self.place = Place::Host(what.to_owned());
                Ok(())
            }
            Some(_) => Err(SpawnSyntax::Unknown(format!("-{option}"))),
        }
    }
}

fn output(path: &str) -> JobOutput {
    match (path, path.strip_prefix('>')) {
        ("", _) => JobOutput::Console,
        (_, Some(path)) => JobOutput::File { path: path.into(), append: true },
        (path, None) => JobOutput::File { path: path.into(), append: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::words::split;

    fn spawn(line: &str) -> SpawnCommand {
        parse(&split(line).unwrap()).unwrap()
    }

    fn refusal(line: &str) -> SpawnSyntax {
        parse(&split(line).unwrap()).unwrap_err()
    }

    #[test]
    fn batches_may_be_queued_and_policies_chosen() {
        let command = spawn("-9 -+ -%round-robin prog");
        assert_eq!(
            (command.count, command.queued, command.policy.as_deref()),
            (9, true, Some("round-robin"))
        );
        assert_eq!(refusal("-+ -> prog"), SpawnSyntax::QueuedJob);
    }

    #[test]
    fn a_team_is_named() {
        let command = spawn("-3 -=red prog");
        assert_eq!((command.count, command.team.as_deref()), (3, Some("red")));
        assert_eq!(refusal("-= prog"), SpawnSyntax::Unknown("-=".into()));
    }

    #[test]
    fn a_program_alone_is_one_task_anywhere() {
        let command = spawn("prog -4 x");
        assert_eq!((command.count, command.file.as_str()), (1, "prog"));
        assert_eq!(command.args, ["-4", "x"]);
        assert_eq!((command.place, command.output), (Place::Anywhere, JobOutput::Log));
    }

    #[test]
    fn places() {
        assert_eq!(spawn("-node1 p").place, Place::Host("node1".into()));
        assert_eq!(spawn("-. p").place, Place::Host(".".into()));
        assert_eq!(spawn("--host=127.0.0.3 p").place, Place::Host("127.0.0.3".into()));
        assert_eq!(spawn("-LINUX64 p").place, Place::Arch("LINUX64".into()));
        let others = spawn("-~node1 -8 p");
        assert_eq!((others.complement, others.count), (true, 8));
        assert_eq!(others.place, Place::Host("node1".into()));
    }

    #[test]
    fn a_directory_may_follow_any_of_them() {
        for line in ["-node1:/tmp p", "-LINUX64:/tmp p", "-:/tmp p", "--host=1.2.3.4:/tmp p", "-3:/tmp p"] {
            assert_eq!(spawn(line).directory.as_deref(), Some("/tmp"), "{line}");
        }
        assert_eq!(spawn("-node1:a:b p").directory.as_deref(), Some("a:b"));
        assert_eq!(spawn("-3:/tmp p").count, 3);
        assert_eq!(spawn("-: p").directory, None);
    }

    #[test]
    fn output_goes_to_the_console_or_a_file() {
        assert_eq!(spawn("-> p").output, JobOutput::Console);
        assert_eq!(spawn("->o:1 p").output, JobOutput::File { path: "o:1".into(), append: false });
        assert_eq!(spawn("->>o p").output, JobOutput::File { path: "o".into(), append: true });
    }

    #[test]
    fn a_trace_goes_to_the_console_or_a_file() {
        assert_eq!(spawn("-@ p").trace, Some(JobOutput::Console));
        assert_eq!(spawn("-@f p").trace, Some(JobOutput::File { path: "f".into(), append: false }));
        assert_eq!(spawn("p -@").trace, None);
    }

    #[test]
    fn the_debugger_is_a_question() {
        assert!(spawn("-? p").debug);
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(refusal("-2"), SpawnSyntax::NoFile);
        assert_eq!(refusal(""), SpawnSyntax::NoFile);
        assert_eq!(refusal("-0 p"), SpawnSyntax::Count("0".into()));
        assert_eq!(refusal("-127.0.0.3 p"), SpawnSyntax::Count("127.0.0.3".into()));
        assert_eq!(refusal("-99999999999 p"), SpawnSyntax::Count("99999999999".into()));
        assert_eq!(refusal("-!f p"), SpawnSyntax::Unknown("-!f".into()));
        assert_eq!(refusal("- p"), SpawnSyntax::Unknown("-".into()));
    }
}
