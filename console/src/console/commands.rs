//! The console's commands; `help.rs` has their arguments.

use super::{Console, Next, Outcome, mailbox, options, trace};
use crate::commands;
use crate::shell::batches::{self, BatchCommand};
use crate::shell::{help, ps, signals, tables, words};
use anyhow::{Context, Result, bail};
use pvm3::{HostState, MailboxFlags, PvmError, Scope, Tid};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// The version of PVM whose console this is.
const VERSION: &str = "3.4.6";

impl Console {
    /// Carries out a command whose number of arguments is right.
    pub(super) fn command(&mut self, name: &str, args: &[String]) -> Outcome {
        let text = match name {
            "quit" => return Ok((String::new(), Next::Quit)),
            "halt" => {
                self.task.halt()?;
                return Ok((String::new(), Next::Halted));
            }
            "add" => self.add(args)?,
            "alias" => self.alias(args),
            "batch" => self.batch(args)?,
            "conf" => self.conf(args)?,
            "delete" => commands::delete(&mut self.task, args)?.text,
            "dump" => self.task.daemon_state()?,
            "echo" => args.join(" ") + "\n",
            "export" => self.export(args),
            "getopt" => self.getopt(args),
            "help" => help::text(args.first().map(String::as_str)),
            "history" => self.history(args)?,
            "id" => format!("{}\n", self.task.tid()),
            "jobs" => self.jobs(args)?,
            "kill" => self.kill(args)?,
            "move" => self.move_task(args)?,
            "mstat" => self.mstat(args)?,
            "names" => mailbox::names(&mut self.task, args.first().map_or("", String::as_str))?,
            "ps" => commands::tasks(&mut self.task, &ps::parse(args)?)?.text,
            "pstat" => self.pstat(args)?,
            "put" => self.put(args)?,
            "reset" => {
                mailbox::reset(&mut self.task, reset_scope(args)?)?;
                String::new()
            }
            "setenv" => self.setenv(args),
            "setopt" => self.setopt(&args[0], &args[1])?,
            "sig" => self.signal(args)?,
            "spawn" => self.spawn(args)?,
            "trace" => trace::command(self.task.options_mut(), args)?,
            "unalias" => {
                for name in args {
                    self.aliases.forget(name);
                }
                String::new()
            }
            "unexport" => {
                self.environment.unexport(args);
                String::new()
            }
            "version" => format!("{VERSION}\n"),
            _ => bail!("{name}: not found"),
        };
        Ok((text, Next::Prompt))
    }

    fn add(&mut self, args: &[String]) -> Result<String> {
        let (report, added) = commands::add(&mut self.task, args)?;
        self.known.extend(added);
        Ok(report.text)
    }

    fn alias(&mut self, args: &[String]) -> String {
        match args {
            [] | [_] => self.aliases.list(),
            [name, meaning @ ..] => {
                self.aliases.define(name.clone(), meaning.to_vec());
                String::new()
            }
        }
    }

    fn batch(&mut self, args: &[String]) -> Result<String> {
        let report = match batches::parse(args)? {
            BatchCommand::List { long } => commands::batches(&mut self.task, long)?,
            BatchCommand::Show(ids) => commands::batches_of(&mut self.task, &ids)?,
            BatchCommand::Policies => commands::policies(&mut self.task)?,
            BatchCommand::Cancel(ids) => commands::cancel(&mut self.task, &ids)?,
            BatchCommand::Watch(id) => {
                self.interrupted.store(false, Ordering::SeqCst);
                let is_set = |flag: &AtomicBool| flag.load(Ordering::SeqCst);
                let (interrupted, terminated) = (&self.interrupted, &self.terminated);
                commands::watch(&mut self.task, id, || is_set(interrupted) || is_set(terminated))?
            }
        };
        Ok(report.text)
    }

    fn conf(&mut self, args: &[String]) -> Result<String> {
        let is_long = match args {
            [] => false,
            [option] if option == "-l" => true,
            _ => bail!("conf: {}: no such option (try \"help conf\")", args[0]),
        };
        Ok(commands::hosts(&mut self.task, is_long)?.text)
    }

    fn export(&mut self, args: &[String]) -> String {
        if args.is_empty() {
            return format!("PVM_EXPORT={}\n", self.environment.export_list());
        }
        self.environment.export(args);
        String::new()
    }

    fn getopt(&mut self, args: &[String]) -> String {
        let name = args.first().map(String::as_str);
        let mut text = match name {
            Some(options::NO_RESET) => String::new(),
            name => options::get(self.task.options(), name),
        };
        if name.is_none_or(|name| name == options::NO_RESET) {
            let value = i32::from(self.is_spared);
            let _ = writeln!(text, "{} Currently Set to {value}", options::NO_RESET);
        }
        text
    }

    fn setopt(&mut self, name: &str, value: &str) -> Result<String> {
        if name != options::NO_RESET {
            return Ok(options::set(self.task.options_mut(), name, value));
        }
        let Ok(value) = value.parse::<i32>() else { bail!("{value}: not a number") };
        let (before, now) = (self.is_spared, value != 0);
        match (before, now) {
            (false, true) => mailbox::spare_from_reset(&mut self.task)?,
            (true, false) => mailbox::spare_no_more(&mut self.task)?,
            _ => {}
        }
        self.is_spared = now;
        Ok(format!("{name} Changed from {} to {}\n", i32::from(before), i32::from(now)))
    }

    fn history(&self, args: &[String]) -> Result<String> {
        let count = match args.first().map(|count| count.parse()) {
            None => usize::MAX,
            Some(Ok(count)) => count,
            Some(Err(_)) => bail!("history: {}: not a number of lines", args[0]),
        };
        let mut text = String::new();
        self.words.with(|words| {
            let first = words.history.len().saturating_sub(count);
            for (number, line) in words.history.iter().enumerate().skip(first) {
                let _ = writeln!(text, "{:>5}  {line}", number + 1);
            }
        });
        Ok(text)
    }

    fn jobs(&mut self, args: &[String]) -> Result<String> {
        let long = match args.first().map(String::as_str) {
            None => false,
            Some("-l") => true,
            Some(other) => bail!("jobs: {other}: no such option (try \"help jobs\")"),
        };
        let mut text = if long { tables::task_head(false) } else { String::new() };
        let jobs: Vec<_> = self.jobs.list().collect();
        for (number, tids) in jobs {
            let _ = write!(text, "{number}:");
            if long {
                text.push('\n');
                let mut tasks = self.task.tasks(Scope::All)?;
                tasks.retain(|task| tids.contains(&task.tid));
                let rows = commands::task_rows(&mut self.task, tasks)?;
                text.push_str(&tables::task_lines(&rows, false, self.task.tid().raw()));
            } else {
                for tid in tids {
                    let _ = write!(text, " {tid}");
                }
                text.push('\n');
            }
        }
        Ok(text)
    }

    fn kill(&mut self, args: &[String]) -> Result<String> {
        let (children, tids) = match args {
            [option, tids @ ..] if option == "-c" => (true, tids),
            tids => (false, tids),
        };
        let mut targets = tids.iter().map(|tid| parse_tid(tid)).collect::<Result<Vec<_>>>()?;
        if children {
            targets = commands::children_of(&mut self.task, &targets)?;
        }
        Ok(commands::end(&mut self.task, &targets)?.text)
    }

    fn move_task(&mut self, args: &[String]) -> Result<String> {
        let host = args.get(1).map(String::as_str);
        Ok(commands::move_task(&mut self.task, parse_tid(&args[0])?, host)?.text)
    }

    fn mstat(&mut self, args: &[String]) -> Result<String> {
        let mut text = String::new();
        for name in args {
            let status = match self.task.host_status(name)? {
                HostState::Running => "ok",
                HostState::Unknown => PvmError::NoHost.text(),
                HostState::Failed => PvmError::HostFail.text(),
            };
            text.push_str(&tables::host_status(name, status));
        }
        Ok(text)
    }

    fn pstat(&mut self, args: &[String]) -> Result<String> {
        let mut text = String::new();
        for arg in args {
            let tid = parse_tid(arg)?;
            let status = if self.task.is_running(tid)? { "run" } else { PvmError::NoTask.text() };
            text.push_str(&tables::task_status(tid.raw(), status));
        }
        Ok(text)
    }

    fn put(&mut self, args: &[String]) -> Result<String> {
        let Ok(flags) = args[1].parse() else { bail!("put: {}: not a number", args[1]) };
        mailbox::put(&mut self.task, &args[0], MailboxFlags::from_bits(flags), 0)?;
        Ok(String::new())
    }

    fn setenv(&mut self, args: &[String]) -> String {
        match args {
            [] => self.environment.list(),
            [name] => self.environment.get(name).map(|value| format!("{value}\n")).unwrap_or_default(),
            [name, value @ ..] => {
                self.environment.set(name, value.join(" "));
                String::new()
            }
        }
    }

    fn signal(&mut self, args: &[String]) -> Result<String> {
        let Some((signal, tids)) = args.split_first() else { bail!("sig: no signal") };
        let signal = signals::parse(signal)?;
        let tids = tids.iter().map(|tid| parse_tid(tid)).collect::<Result<Vec<_>>>()?;
        Ok(commands::send_signal(&mut self.task, &tids, signal)?.text)
    }
}

/// The arguments of `reset`.
fn reset_scope(args: &[String]) -> Result<mailbox::Scope<'_>> {
    let all = mailbox::Scope { kill: true, class: "", index: -1 };
    match args {
        [] => Ok(all),
        [info, rest @ ..] if info == "info" => {
            let class = rest.first().map_or("", String::as_str);
            let Ok(index) = rest.get(1).map_or(Ok(-1), |index| index.parse()) else {
                bail!("reset: {}: not a number", rest[1]);
            };
            Ok(mailbox::Scope { kill: false, class, index })
        }
        [other, ..] => bail!("\"{other}\" arg to reset not valid"),
    }
}

fn parse_tid(text: &str) -> Result<Tid> {
    words::tid(text).with_context(|| format!("{text}: not a task id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reset_ends_tasks_unless_it_is_about_the_mailbox() {
        let scope = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            reset_scope(&words).map(|scope| (scope.kill, scope.class.to_owned(), scope.index))
        };
        assert_eq!(scope("").unwrap(), (true, String::new(), -1));
        assert_eq!(scope("info").unwrap(), (false, String::new(), -1));
        assert_eq!(scope("info class 3").unwrap(), (false, "class".to_owned(), 3));
        assert_eq!(scope("zz").unwrap_err().to_string(), "\"zz\" arg to reset not valid");
        assert!(scope("info class x").is_err());
    }
}
