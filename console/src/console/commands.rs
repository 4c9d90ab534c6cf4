//! The console's commands; `help.rs` has their arguments.

use super::{Console, Next, Outcome, TICK, mailbox, options, trace};
use crate::progress::Progress;
use crate::shell::batches::{self, BatchCommand};
use crate::shell::tables::{self, HostRow, TaskRow};
use crate::shell::{help, ps};
use anyhow::{Result, bail};
use pvm_wire::codes::task_flags;
use pvm_wire::coscheduling::TurnsReport;
use pvm3::{HostState, PvmError, Scope, Task, TaskInfo, Tid};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// The version of PVM whose console this is.
const VERSION: &str = "3.4.6";

/// In this time tasks that wait answer their daemon.
const ANSWER: Duration = Duration::from_millis(50);

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
            "delete" => self.delete(args)?,
            "dump" => self.task.daemon_state()?,
            "echo" => args.join(" ") + "\n",
            "export" => self.export(args),
            "getopt" => options::get(self.task.engine().options(), args.first().map(String::as_str)),
            "help" => help::text(args.first().map(String::as_str)),
            "id" => format!("{}\n", self.task.tid()),
            "jobs" => self.jobs(args)?,
            "kill" => self.kill(args)?,
            "mstat" => self.mstat(args)?,
            "names" => mailbox::names(&mut self.task, args.first().map_or("", String::as_str))?,
            "ps" => self.ps(args)?,
            "pstat" => self.pstat(args)?,
            "put" => self.put(args)?,
            "reset" => {
                mailbox::reset(&mut self.task, reset_scope(args)?)?;
                String::new()
            }
            "setenv" => self.setenv(args),
            "setopt" => options::set(self.task.engine().options_mut(), &args[0], &args[1]),
            "sig" => self.signal(args)?,
            "spawn" => self.spawn(args)?,
            "trace" => trace::command(self.task.engine().options_mut(), args)?,
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
        let results = self.task.add_hosts(args)?;
        let mut rows = Vec::new();
        for (arg, result) in args.iter().zip(results) {
            let name = arg.split_whitespace().next().unwrap_or_default().to_owned();
            let result = result.map(|host| host.tid.raw()).map_err(|failure| {
                match failure.reason.strip_prefix(&format!("{name}: ")) {
                    Some(reason) => reason.to_owned(),
                    None => failure.reason,
                }
            });
            self.known.extend(&result);
            rows.push((name, result));
        }
        Ok(tables::added(&rows))
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
        match batches::parse(args)? {
            BatchCommand::List { long } => {
                let batches = self.task.batches()?;
                Ok(batches::table(&batches, long, &self.host_names()?))
            }
            BatchCommand::Cancel(ids) => {
                ids.into_iter().try_for_each(|id| self.task.cancel_batch(id))?;
                Ok(String::new())
            }
            BatchCommand::Watch(id) => self.watch_batch(id),
        }
    }

    fn watch_batch(&mut self, id: i32) -> Result<String> {
        if !self.task.batches()?.iter().any(|batch| batch.id == id) {
            bail!("batch: {id:x}: there is no such batch");
        }
        let mut progress = Progress::new(Some(id));
        self.interrupted.store(false, Ordering::SeqCst);
        while progress.look(&mut self.task)? {
            if self.interrupted.load(Ordering::SeqCst) || self.terminated.load(Ordering::SeqCst) {
                break;
            }
            thread::sleep(TICK);
        }
        let batches = self.task.batches()?;
        let batch: Vec<_> = batches.into_iter().filter(|batch| batch.id == id).collect();
        Ok(batches::table(&batch, false, &BTreeMap::new()))
    }

    pub(super) fn host_names(&mut self) -> Result<BTreeMap<Tid, String>> {
        let hosts = self.task.hosts()?;
        Ok(hosts.into_iter().map(|host| (host.tid, host.name)).collect())
    }

    fn conf(&mut self, args: &[String]) -> Result<String> {
        let is_long = match args {
            [] => false,
            [option] if option == "-l" => true,
            _ => bail!("conf: {}: no such option (try \"help conf\")", args[0]),
        };
        let hosts = host_rows(&mut self.task)?;
        let mut formats: Vec<u32> = hosts.iter().map(|host| host.signature).collect();
        formats.sort_unstable();
        formats.dedup();
        let mut text = tables::configuration(formats.len(), &hosts);
        if is_long {
            // Who is asked for the first time asks its tasks, which answer soon if they do not compute.
            self.turns(&hosts);
            thread::sleep(ANSWER);
            text.push_str(&tables::turns(&self.turns(&hosts)));
        }
        Ok(text)
    }

    /// How teams take turns on these hosts; one that goes meanwhile is left out.
    fn turns(&mut self, hosts: &[HostRow]) -> Vec<(String, TurnsReport)> {
        let report = |host: &HostRow| {
            let report = self.task.turns(Tid::from_raw(host.tid)).ok()?;
            Some((host.name.clone(), report))
        };
        hosts.iter().filter_map(report).collect()
    }

    fn delete(&mut self, args: &[String]) -> Result<String> {
        let results = self.task.delete_hosts(args)?;
        let results = results.into_iter().map(|result| result.map_err(|error| error.to_string()));
        Ok(tables::deleted(&args.iter().cloned().zip(results).collect::<Vec<_>>()))
    }

    fn export(&mut self, args: &[String]) -> String {
        if args.is_empty() {
            return format!("PVM_EXPORT={}\n", self.environment.export_list());
        }
        self.environment.export(args);
        String::new()
    }

    fn jobs(&mut self, args: &[String]) -> Result<String> {
        let long = match args.first().map(String::as_str) {
            None => false,
            Some("-l") => true,
            Some(other) => bail!("jobs: {other}: no such option (try \"help jobs\")"),
        };
        let mut text = String::new();
        let jobs: Vec<_> = self.jobs.list().collect();
        for (number, tids) in jobs {
            let _ = write!(text, " {number}:");
            if long {
                text.push('\n');
                let mut tasks = self.task.tasks(Scope::All)?;
                tasks.retain(|task| tids.contains(&task.tid));
                text.push_str(&self.task_table(tasks, true)?);
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
            let tasks = self.task.tasks(Scope::All)?;
            let is_child = |task: &&TaskInfo| task.parent.is_some_and(|parent| targets.contains(&parent));
            targets = tasks.iter().filter(is_child).map(|task| task.tid).collect();
        }
        targets.into_iter().try_for_each(|tid| self.task.kill(tid))?;
        Ok(String::new())
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

    fn ps(&mut self, args: &[String]) -> Result<String> {
        let options = ps::parse(args)?;
        let scope = match &options.which {
            ps::Which::Here => Scope::Host(self.task.tid().to_host()),
            ps::Which::Everywhere => Scope::All,
            ps::Which::Tid(tid) => Scope::Host(Tid::from_raw(*tid)),
            ps::Which::Name(name) => {
                let hosts = self.task.hosts()?;
                match hosts.iter().find(|host| host.name == *name) {
                    Some(host) => Scope::Host(host.tid),
                    None => bail!("unknown host {name}"),
                }
            }
        };
        let own = self.task.tid();
        let mut tasks = self.task.tasks(scope)?;
        let half_way = |task: &TaskInfo| task.flags & task_flags::AUTH != 0 || task.flags == 0;
        tasks.retain(|task| options.special || task.tid != own && !half_way(task));
        self.task_table(tasks, options.long)
    }

    fn task_table(&mut self, tasks: Vec<TaskInfo>, long: bool) -> Result<String> {
        let names = self.host_names()?;
        let row = |task: TaskInfo| TaskRow {
            host: names.get(&task.host).cloned().unwrap_or_else(|| task.host.to_string()),
            tid: task.tid.raw(),
            parent: task.parent.map_or(0, Tid::raw),
            pid: task.pid,
            flags: task.flags,
            command: task.name.display().to_string(),
        };
        let rows: Vec<TaskRow> = tasks.into_iter().map(row).collect();
        Ok(tables::tasks(&rows, long, self.task.tid().raw()))
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
        let Ok(flags) = args[1].parse() else { bail!("put: {}: flags are a number", args[1]) };
        mailbox::put(&mut self.task, &args[0], flags, 0)?;
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
        let Some((number, tids)) = args.split_first() else { bail!("sig: wrong #args") };
        let Ok(number) = number.parse() else { bail!("sig: {number}: a signal is a number") };
        let tids = tids.iter().map(|tid| parse_tid(tid)).collect::<Result<Vec<_>>>()?;
        tids.into_iter().try_for_each(|tid| self.task.signal(tid, number))?;
        Ok(String::new())
    }
}

/// The hosts, as tables show them.
pub(super) fn host_rows(task: &mut Task) -> Result<Vec<HostRow>> {
    let row = |host: pvm3::HostInfo| HostRow {
        name: host.name,
        tid: host.tid.raw(),
        arch: host.arch,
        speed: host.speed,
        signature: host.signature,
    };
    Ok(task.hosts()?.into_iter().map(row).collect())
}

/// The arguments of `reset`.
fn reset_scope(args: &[String]) -> Result<mailbox::Scope<'_>> {
    let all = mailbox::Scope { kill: true, class: "", index: -1 };
    match args {
        [] => Ok(all),
        [info, rest @ ..] if info == "info" => {
            let class = rest.first().map_or("", String::as_str);
            let Ok(index) = rest.get(1).map_or(Ok(-1), |index| index.parse()) else {
                bail!("reset: {}: an index is a number", rest[1]);
            };
            Ok(mailbox::Scope { kill: false, class, index })
        }
        [other, ..] => bail!("\"{other}\" arg to reset not valid"),
    }
}

/// A task id: hexadecimal, with or without its `t`.
fn parse_tid(text: &str) -> Result<Tid> {
    let digits = text.strip_prefix('t').unwrap_or(text);
    match u32::from_str_radix(digits.strip_prefix("0x").unwrap_or(digits), 16).map(Tid::from_bits) {
        Ok(tid) if tid.is_task() => Ok(tid),
        _ => bail!("{text}: not a task id"),
    }
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

    #[test]
    fn task_ids_are_hexadecimal() {
        for text in ["t40002", "40002", "0x40002"] {
            assert_eq!(parse_tid(text).unwrap(), Tid::from_raw(0x40002));
        }
        for text in ["zz", "", "t", "40000", "80040000", "-1"] {
            assert!(parse_tid(text).is_err(), "{text}");
        }
    }
}
