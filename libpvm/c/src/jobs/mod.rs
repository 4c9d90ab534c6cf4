//! Jobs of the machine's queues: `pvm_submitjob` and the other calls about jobs of `pvm3x.h`.

mod reason;
mod records;
mod request;

use super::memory::{CList, Lists, Out, numbers, store_all};
use super::sized::SizedStruct;
use super::state::{Failure, Outcome, State, call};
use pvm_wire::calls::Request as _;
use pvm_wire::calls::jobs::AskJobs;
use pvm_wire::jobs::{JobAnswer, JobCall, JobId};
use pvm_wire::limits::{REQUEST_MAX, STRINGS_MAX};
use pvm_wire::{PvmError, error};
pub use records::{JobInfo, QueueInfo};
use request::JobSpec;
use std::cell::Cell;
use std::ffi::{c_int, c_longlong};
use std::ptr::null_mut;

/// Most jobs that a call names.
const IDS_MAX: usize = STRINGS_MAX;

/// Sets the defaults of a request.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_initjob(job: SizedStruct<'_, JobSpec<'static>>, size: usize) -> c_int {
    about_jobs("pvm_initjob", |_| job.set(size, &JobSpec::new(size)).map(|()| 0))
}

/// Submits a job. Returns its number.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_submitjob(job: SizedStruct<'_, JobSpec<'_>>) -> c_longlong {
    let request = job.read().and_then(|job| job.request());
    let number = Cell::new(0);
    let code = about_jobs("pvm_submitjob", |state| {
        let call = JobCall::Submit(Box::new(request?));
        // A longer one would end the connection.
        if AskJobs(call.clone()).encode().len() > REQUEST_MAX {
            let text = format!("the request has more than {REQUEST_MAX} bytes");
            return Err(Failure::explained(PvmError::BadParam, text));
        }
        let JobAnswer::Submitted(id) = ask(state, call)? else { return Err(wrong_kind()) };
        number.set(c_longlong::try_from(id.0).map_err(|_| PvmError::Overflow)?);
        Ok(0)
    });
    if code < 0 { code.into() } else { number.get() }
}

/// Lists jobs: these, or all that have not ended.
///
/// # Safety
/// `ids` is NULL or has `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_jobs(
    ids: *const c_longlong,
    count: c_int,
    first: Out<'_, *mut JobInfo>,
) -> c_int {
    // SAFETY: NULL, or `count` numbers.
    let ids = unsafe { self::ids(ids, count, 0) };
    list("pvm_jobs", ids.map(JobCall::list), first, |lists| &mut lists.jobs)
}

/// Lists jobs that have ended, the latest first.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_jobhistory(most: c_int, first: Out<'_, *mut JobInfo>) -> c_int {
    let most = u32::try_from(most).map_err(|_| PvmError::BadParam.into());
    list("pvm_jobhistory", most.map(|most| JobCall::History { skip: 0, most }), first, |lists| {
        &mut lists.ended_jobs
    })
}

/// Waits until jobs have ended, and lists them.
///
/// # Safety
/// As [`pvm_jobs`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_waitjobs(
    ids: *const c_longlong,
    count: c_int,
    first: Out<'_, *mut JobInfo>,
) -> c_int {
    // SAFETY: NULL, or `count` numbers.
    let ids = unsafe { self::ids(ids, count, 1) };
    list("pvm_waitjobs", ids.map(JobCall::Wait), first, |lists| &mut lists.waited_jobs)
}

/// Lists the queues.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_queues(first: Out<'_, *mut QueueInfo>) -> c_int {
    first.set(null_mut());
    about_jobs("pvm_queues", |state| {
        let JobAnswer::Queues(queues) = ask(state, JobCall::Queues)? else { return Err(wrong_kind()) };
        if first.is_wanted() {
            state.lists.queues = records::queues(&queues);
            first.set(state.lists.queues.linked(|queue| &mut queue.next));
        }
        Ok(queues.len() as c_int)
    })
}

/// Ends jobs.
///
/// # Safety
/// `ids` is NULL or has `count` numbers; `results` is NULL or has room for as many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_canceljobs(ids: *const c_longlong, count: c_int, results: *mut c_int) -> c_int {
    // SAFETY: this function's own promise.
    unsafe { change("pvm_canceljobs", JobCall::Cancel, ids, count, results) }
}

/// Starts no more tasks of jobs.
///
/// # Safety
/// As [`pvm_canceljobs`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_holdjobs(ids: *const c_longlong, count: c_int, results: *mut c_int) -> c_int {
    // SAFETY: this function's own promise.
    unsafe { change("pvm_holdjobs", JobCall::Hold, ids, count, results) }
}

/// Starts tasks of held jobs again.
///
/// # Safety
/// As [`pvm_canceljobs`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_releasejobs(ids: *const c_longlong, count: c_int, results: *mut c_int) -> c_int {
    // SAFETY: this function's own promise.
    unsafe { change("pvm_releasejobs", JobCall::Release, ids, count, results) }
}

/// The frame of these calls: [`call`], and the reason of a failure for `pvm_jobreason`.
fn about_jobs(name: &str, body: impl FnOnce(&mut State) -> Outcome) -> c_int {
    reason::set("");
    let noted = |failure: &Failure| failure.detail.iter().for_each(|detail| reason::set(detail.to_string()));
    let code = call(name, |state| body(state).inspect_err(noted));
    if code < 0 && reason::get().is_empty() {
        reason::set(error::text(code));
    }
    code
}

fn ask(state: &mut State, call: JobCall) -> Result<JobAnswer, Failure> {
    match state.ask(&AskJobs(call))? {
        JobAnswer::Refused(reason) => Err(Failure::explained(PvmError::Denied, reason)),
        answer => Ok(answer),
    }
}

fn wrong_kind() -> Failure {
    Failure::explained(PvmError::DSysErr, "the daemon's answer about jobs is of the wrong kind")
}

/// Asks for jobs, and hands them out if the program wants them. A program that looks at no result finds an empty list.
fn list(
    name: &str,
    call: Result<JobCall, Failure>,
    first: Out<'_, *mut JobInfo>,
    place: fn(&mut Lists) -> &mut CList<JobInfo>,
) -> c_int {
    first.set(null_mut());
    about_jobs(name, |state| {
        let jobs = call?.all_jobs(|call| ask(state, call))?.ok_or_else(wrong_kind)?;
        if first.is_wanted() {
            let kept = place(&mut state.lists);
            *kept = records::jobs(&jobs);
            first.set(kept.linked(|job| &mut job.next));
        }
        Ok(jobs.len() as c_int)
    })
}

/// Changes jobs. Returns for how many this was not refused.
///
/// # Safety
/// `ids` is NULL or has `count` numbers; `results` is NULL or has room for as many.
unsafe fn change(
    name: &str,
    change: fn(Vec<JobId>) -> JobCall,
    ids: *const c_longlong,
    count: c_int,
    results: *mut c_int,
) -> c_int {
    // SAFETY: NULL, or `count` numbers.
    let ids = unsafe { self::ids(ids, count, 1) };
    about_jobs(name, |state| {
        let ids = ids?;
        let asked = ids.len();
        let JobAnswer::Changed(changed) = ask(state, change(ids))? else { return Err(wrong_kind()) };
        if changed.len() != asked {
            return Err(wrong_kind());
        }
        let code =
            |result: &Result<bool, String>| result.as_ref().map_or(PvmError::Denied.code(), |&it| it.into());
        let codes: Vec<c_int> = changed.iter().map(code).collect();
        // SAFETY: NULL, or room for `count` numbers, and there is one for each job.
        unsafe { store_all(results, &codes) };
        let refusals: Vec<String> = changed.into_iter().filter_map(Result::err).collect();
        reason::set(refusals.join("\n"));
        Ok((asked - refusals.len()) as c_int)
    })
}

/// Numbers of jobs, at least `least` of them.
///
/// # Safety
/// `pointer` is NULL or has `count` numbers.
unsafe fn ids(pointer: *const c_longlong, count: c_int, least: usize) -> Result<Vec<JobId>, Failure> {
    let wrong = |text: String| Failure::explained(PvmError::BadParam, text);
    if !usize::try_from(count).is_ok_and(|count| (least..=IDS_MAX).contains(&count)) {
        return Err(wrong(format!("a call names {least} to {IDS_MAX} jobs, not {count}")));
    }
    // SAFETY: the caller's promise.
    let numbers =
        unsafe { numbers(pointer, count) }.map_err(|_| wrong("there is no list of jobs".to_owned()))?;
    let id = |number| u64::try_from(number).ok().filter(|&id| id > 0).map(JobId);
    let known = |number| id(number).ok_or_else(|| wrong(format!("there is no job {number}")));
    numbers.into_iter().map(known).collect()
}
