//! Jobs of the virtual machine's queues.

use crate::{Error, Result, Task};
use pvm_wire::PvmError;
use pvm_wire::calls::jobs::AskJobs;
use pvm_wire::calls::loads::ListLoads;
use pvm_wire::jobs::{
    ClusterRecord, Expected, HostCluster, JobAnswer, JobCall, JobId, JobRecord, JobRequest, QueueRecord,
    WantedList,
};
use pvm_wire::loads::LoadRecord;
use std::result;

/// Jobs, which outlive the program that submits them.
impl Task {
    /// Submits a job. It is on disk when its number is returned.
    ///
    /// [`PvmError::Denied`]: it can never run, and the text of the error says why; or it cannot be written to disk.
    pub fn submit(&mut self, job: JobRequest) -> Result<JobId> {
        let call = JobCall::Submit(Box::new(job));
        let JobAnswer::Submitted(id) = self.ask_jobs(call)? else { return Err(wrong_kind()) };
        Ok(id)
    }

    /// These jobs; without any, all that have not ended. [`PvmError::Denied`]: one of them does not exist.
    pub fn jobs(&mut self, ids: &[JobId]) -> Result<Vec<JobRecord>> {
        self.job_records(JobCall::list(ids.to_vec()))
    }

    /// Jobs that have ended, the latest first, `most` at most.
    pub fn job_history(&mut self, most: u32) -> Result<Vec<JobRecord>> {
        self.job_records(JobCall::History { skip: 0, most })
    }

    /// Waits until all of these jobs have ended. [`PvmError::Denied`]: one of them does not exist.
    pub fn wait_for_jobs(&mut self, ids: &[JobId]) -> Result<Vec<JobRecord>> {
        self.job_records(JobCall::Wait(ids.to_vec()))
    }

    /// Lends a job to another virtual machine: it does not run here any more when the call returns. `pvm peer`'s exchange is who calls
    /// this. [`PvmError::Denied`]: the job may not be lent ([`JobRecord::may_be_lent`]), or is lent to another one.
    pub fn lend_job(&mut self, job: JobId, peer: &str) -> Result<JobRequest> {
        let call = JobCall::Lend { job, peer: peer.to_owned() };
        let JobAnswer::Lent(request) = self.ask_jobs(call)? else { return Err(wrong_kind()) };
        Ok(*request)
    }

    /// Says which number a lent job has there.
    pub fn note_lent_job(&mut self, job: JobId, number: JobId) -> Result<()> {
        self.ask_jobs(JobCall::NoteLent { job, number }).map(drop)
    }

    /// A lent job has ended there as the record says; without one it was not taken, and waits here again.
    pub fn give_back_job(&mut self, job: JobId, record: Option<JobRecord>) -> Result<()> {
        self.ask_jobs(JobCall::GiveBack { job, record: record.map(Box::new) }).map(drop)
    }

    /// The jobs that are lent to a machine, a thousand at most, and the hundred oldest that may be lent.
    pub fn jobs_to_exchange(&mut self, peer: &str) -> Result<Vec<JobRecord>> {
        self.job_records(JobCall::Exchange { peer: peer.to_owned() })
    }

    /// Slots that are free and that no job of the machine waits for.
    pub fn room_for_jobs(&mut self) -> Result<u32> {
        let JobAnswer::Room(slots) = self.ask_jobs(JobCall::Room)? else { return Err(wrong_kind()) };
        Ok(slots)
    }

    /// What waits for room that further hosts would have, of all queues or of one, a thousand jobs at most; and the free slots of each host.
    ///
    /// With `expected`, jobs are admitted for a minute as if these hosts were there: a program that adds hosts when jobs want them
    /// asks again and again. `pvm autoscale` does.
    pub fn wanted_by_jobs(&mut self, queue: Option<&str>, expected: Option<Expected>) -> Result<WantedList> {
        let call = JobCall::Wanted { queue: queue.map(str::to_owned), expected };
        let JobAnswer::Wanted(list) = self.ask_jobs(call)? else { return Err(wrong_kind()) };
        Ok(list)
    }

    /// Ends jobs: running tasks get SIGTERM, and SIGKILL five seconds later. For each whether it was not cancelled before, or why it
    /// cannot be.
    pub fn cancel_jobs(&mut self, ids: &[JobId]) -> Result<Vec<result::Result<bool, String>>> {
        self.change_jobs(JobCall::Cancel(ids.to_vec()))
    }

    /// Starts no more tasks of jobs. For each whether it was not held before, or why it cannot be.
    pub fn hold_jobs(&mut self, ids: &[JobId]) -> Result<Vec<result::Result<bool, String>>> {
        self.change_jobs(JobCall::Hold(ids.to_vec()))
    }

    /// Starts tasks of held jobs again. For each whether it was held, or why it cannot be released.
    pub fn release_jobs(&mut self, ids: &[JobId]) -> Result<Vec<result::Result<bool, String>>> {
        self.change_jobs(JobCall::Release(ids.to_vec()))
    }

    /// The queues.
    pub fn queues(&mut self) -> Result<Vec<QueueRecord>> {
        let JobAnswer::Queues(queues) = self.ask_jobs(JobCall::Queues)? else { return Err(wrong_kind()) };
        Ok(queues)
    }

    /// Has the master read the file of queues again; its queues. [`PvmError::Denied`]: something is wrong with the file, which the text
    /// of the error says. The queues of before stay then.
    pub fn reload_queues(&mut self) -> Result<Vec<QueueRecord>> {
        let JobAnswer::Queues(queues) = self.ask_jobs(JobCall::Reload)? else { return Err(wrong_kind()) };
        Ok(queues)
    }

    /// The clusters of the file of queues, with the hosts that have their properties now.
    pub fn clusters(&mut self) -> Result<Vec<ClusterRecord>> {
        let call = JobCall::Clusters;
        let JobAnswer::Clusters(clusters) = self.ask_jobs(call)? else { return Err(wrong_kind()) };
        Ok(clusters)
    }

    /// The clusters of hosts (`cluster=` of the hostfile), how much of them is free, and how congested their links are.
    pub fn host_clusters(&mut self) -> Result<Vec<HostCluster>> {
        let call = JobCall::HostClusters;
        let JobAnswer::HostClusters(clusters) = self.ask_jobs(call)? else { return Err(wrong_kind()) };
        Ok(clusters)
    }

    /// The loads of all hosts, as the host of this task has heard of them: averages over 1, 5 and 15 minutes. A load that has changed
    /// noticeably is heard of within a few seconds, in a machine of thousands of hosts within minutes.
    pub fn loads(&mut self) -> Result<Vec<LoadRecord>> {
        Ok(self.engine.call(&ListLoads {})?.0)
    }

    fn job_records(&mut self, call: JobCall) -> Result<Vec<JobRecord>> {
        call.all_jobs(|call| self.ask_jobs(call))?.ok_or_else(wrong_kind)
    }

    fn change_jobs(&mut self, call: JobCall) -> Result<Vec<result::Result<bool, String>>> {
        let JobAnswer::Changed(changed) = self.ask_jobs(call)? else { return Err(wrong_kind()) };
        Ok(changed)
    }

    fn ask_jobs(&mut self, call: JobCall) -> Result<JobAnswer> {
        match self.engine.call(&AskJobs(call))? {
            JobAnswer::Refused(reason) => Err(Error::new(PvmError::Denied, reason)),
            answer => Ok(answer),
        }
    }
}

fn wrong_kind() -> Error {
    Error::new(PvmError::DSysErr, "the daemon's answer about jobs is of the wrong kind")
}
