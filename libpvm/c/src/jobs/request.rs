//! What a C program submits: `struct pvmjobspec`, checked member by member.

use super::ids;
use crate::memory::{Text, Texts};
use crate::sized::Grows;
use crate::state::Failure;
use pvm_wire::PvmError;
use pvm_wire::jobs::{Expectation, JOB_TASKS_MAX, JobRequest, TaskProgram, Tasks};
use std::ffi::{OsStr, OsString, c_int, c_longlong};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `struct pvmjobspec`. What its members point to stays as it is during the call that is given it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct JobSpec<'a> {
    size: usize,
    name: Text<'a>,
    user: Text<'a>,
    queue: Text<'a>,
    program: Text<'a>,
    args: Texts<'a>,
    env: Texts<'a>,
    directory: Text<'a>,
    output: Text<'a>,
    first: c_int,
    count: c_int,
    at_once: c_int,
    width: c_int,
    slots: c_int,
    restarts: c_int,
    held: c_int,
    after_count: c_int,
    after: *const c_longlong,
    hosts: Texts<'a>,
    time: c_longlong,
    memory: c_longlong,
    bandwidth: c_longlong,
    run: c_longlong,
    communication: c_longlong,
}

// SAFETY: the layout is C's, and 0 is NULL or a number.
unsafe impl Grows for JobSpec<'_> {
    const LEAST: usize = 136;
}

// The layout is that of the header.
const _: () = assert!(size_of::<JobSpec<'_>>() == 160);

impl JobSpec<'static> {
    /// One task that fills one slot.
    pub fn new(size: usize) -> Self {
        let (no_text, no_texts) = (Text::NULL, Texts::NULL);
        Self {
            size,
            name: no_text,
            user: no_text,
            queue: no_text,
            program: no_text,
            args: no_texts,
            env: no_texts,
            directory: no_text,
            output: no_text,
            first: 0,
            count: 1,
            at_once: 0,
            width: 0,
            slots: 1,
            restarts: 0,
            held: 0,
            after_count: 0,
            after: std::ptr::null(),
            hosts: no_texts,
            time: 0,
            memory: 0,
            bandwidth: 0,
            run: 0,
            communication: 0,
        }
    }
}

impl JobSpec<'_> {
    /// What is asked for.
    pub fn request(&self) -> Result<JobRequest, Failure> {
        let file = self.program.os_text_or_empty()?;
        if file.is_empty() {
            return Err(wrong("js_program names no program"));
        }
        // A name without a slash is searched for by each host.
        let file = if file.as_bytes().contains(&b'/') { absolute(file)? } else { file.to_owned() };
        let user = text("js_user", self.user)?.map_or_else(pvm_engine::login_name, str::to_owned);
        let defaults = JobRequest::new(&file, user, absolute(self.directory.os_text_or_empty()?)?);
        let output = self.output.os_text_or_empty()?;
        let program = TaskProgram {
            args: self.args.os_texts()?,
            env: environment(self.env)?,
            output: (!output.is_empty()).then(|| output.to_owned()),
            slots: number("js_slots", self.slots, 1, JOB_TASKS_MAX)?,
            time: limit("js_time", self.time)?,
            memory: limit("js_memory", self.memory)?,
            ..defaults.program
        };
        // SAFETY: the structure's members give the count of numbers there.
        let after = unsafe { ids(self.after, self.after_count, 0) }?;
        Ok(JobRequest {
            name: text("js_name", self.name)?.map_or(defaults.name, str::to_owned),
            queue: text("js_queue", self.queue)?.map(str::to_owned),
            tasks: self.tasks()?,
            program,
            hosts: hosts(self.hosts)?,
            after,
            restarts: number("js_restarts", self.restarts, 0, u32::MAX)?,
            is_held: self.held != 0,
            user: defaults.user,
            origin: None,
            expectation: Expectation {
                bandwidth: limit("js_bandwidth", self.bandwidth)?.unwrap_or(0),
                run: limit("js_expect", self.run)?,
                communication: limit("js_communication", self.communication)?,
            },
        })
    }

    fn tasks(&self) -> Result<Tasks, Failure> {
        let width = number("js_width", self.width, 0, JOB_TASKS_MAX)?;
        let first = number("js_first", self.first, 0, u32::MAX)?;
        let count = number("js_count", self.count, 1, JOB_TASKS_MAX)?;
        let at_once = number("js_atonce", self.at_once, 0, u32::MAX)?;
        if width == 0 {
            return Ok(Tasks::Array { first, count, at_once: Some(at_once).filter(|&most| most > 0) });
        }
        if (first, count, at_once) != (0, 1, 0) {
            return Err(wrong(
                "js_width is of a parallel program, js_first, js_count and js_atonce are of an array",
            ));
        }
        Ok(Tasks::Rigid(width))
    }
}

fn wrong(text: impl Into<String>) -> Failure {
    Failure::explained(PvmError::BadParam, text)
}

/// A text of a member; NULL and an empty one are none.
fn text<'a>(member: &str, text: Text<'a>) -> Result<Option<&'a str>, Failure> {
    let text = text.text_or_empty().map_err(|_| wrong(format!("{member} is no text in UTF-8")))?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

fn number(member: &str, value: c_int, least: u32, most: u32) -> Result<u32, Failure> {
    let good = u32::try_from(value).ok().filter(|value| (least..=most).contains(value));
    let range = if most == u32::MAX { format!("{least} or more") } else { format!("{least} to {most}") };
    good.ok_or_else(|| wrong(format!("{member} is {value}, and has to be {range}")))
}

/// A limit; 0 is none.
fn limit(member: &str, value: c_longlong) -> Result<Option<u64>, Failure> {
    let limit =
        u64::try_from(value).map_err(|_| wrong(format!("{member} is {value}, and has to be 0 or more")))?;
    Ok(Some(limit).filter(|&limit| limit > 0))
}

fn environment(env: Texts<'_>) -> Result<Vec<OsString>, Failure> {
    let env = env.os_texts()?;
    let is_variable = |entry: &OsString| entry.as_bytes().iter().position(|&byte| byte == b'=') > Some(0);
    match env.iter().find(|entry| !is_variable(entry)) {
        Some(entry) => Err(wrong(format!("js_env has {}, which is no NAME=value", entry.display()))),
        None => Ok(env),
    }
}

fn hosts(hosts: Texts<'_>) -> Result<Vec<String>, Failure> {
    let name = |host: OsString| host.into_string().ok().filter(|name| !name.is_empty());
    let names = hosts.os_texts()?.into_iter().map(name);
    names.collect::<Option<_>>().ok_or_else(|| wrong("js_hosts has what is no name of a host"))
}

/// A path from the root: hosts know nothing of this task's folder.
fn absolute(path: &OsStr) -> Result<OsString, Failure> {
    if Path::new(path).is_absolute() {
        return Ok(path.to_owned());
    }
    let here = std::env::current_dir().map_err(|error| {
        wrong(format!("the current folder, by which js_dir and js_program are found, cannot be: {error}"))
    })?;
    Ok(if path.is_empty() { here } else { here.join(path) }.into_os_string())
}
