//! Hosts, as the answers to requests of tasks show them.

use pvm_wire::calls::hosts::{AddHosts, HostList, HostRecord};
use pvm_wire::calls::{Call, CallError};
use pvm_wire::daemon::{AddResult, HostEntry};

/// A host as the answers to TM_CONFIG and TM_ADDHOST show it.
pub(crate) fn host_record(entry: &HostEntry) -> HostRecord {
    HostRecord {
        tid: entry.index.host_tid().raw(),
        name: entry.name.clone(),
        arch: entry.arch.clone(),
        speed: entry.speed,
        signature: entry.signature,
    }
}

pub(crate) fn encode_added(results: Result<Vec<AddResult>, i32>) -> Vec<u8> {
    match results {
        Err(code) => CallError { code, reason: String::new() }.encode(),
        Ok(results) => AddHosts::encode_reply(&add_results(&results)),
    }
}

/// The answer to TM_ADDHOST. As in PVM, only the codes of those that failed; the reasons stand behind.
fn add_results(results: &[AddResult]) -> HostList {
    let mut list = start_up_results(results);
    for failed in list.hosts.iter_mut().filter(|host| host.tid < 0) {
        failed.name.clear();
    }
    list
}

/// The results of starting the hostfile's hosts: with the names, which the asker may not know.
pub(crate) fn start_up_results(results: &[AddResult]) -> HostList {
    let hosts = results.iter().map(|result| match result {
        AddResult::Added(entry) => host_record(entry),
        AddResult::Failed { name, code, .. } => {
            HostRecord { tid: *code, name: name.clone(), arch: String::new(), speed: 0, signature: 0 }
        }
    });
    let reasons = results.iter().map(|result| match result {
        AddResult::Added(_) => String::new(),
        AddResult::Failed { reason, .. } => reason.clone(),
    });
    HostList { formats: 0, hosts: hosts.collect(), reasons: reasons.collect() }
}
