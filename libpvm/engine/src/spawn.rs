//! Spawning, and the siblings of a task.

use super::{Engine, Payload, xdr_header};
use crate::{Error, Result};
use pvm_wire::body::BodyWriter;
use pvm_wire::codes::{CONTEXT_TC, Tc};
use pvm_wire::spawn::{SpawnReply, SpawnRequest, entry};
use pvm_wire::{PvmError, Tid};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

impl Engine {
    /// Spawns tasks: per task its tid, or the code of the error why it could not be started; and the reasons. The started
    /// tasks get the list of their siblings.
    pub fn spawn(&mut self, request: &SpawnRequest) -> Result<SpawnReply> {
        if request.count < 1 {
            return Err(Error::new(PvmError::BadParam, "a spawn needs a count of at least 1"));
        }
        let reply = self.call(request)?;
        let started = reply.results.iter().filter(|&&tid| tid > 0);
        let tasks: Vec<Tid> = started.map(|&tid| Tid::from_raw(tid)).collect();
        self.send_sibling_list(&tasks)?;
        Ok(reply)
    }

    fn send_sibling_list(&mut self, tasks: &[Tid]) -> Result<()> {
        let list = BodyWriter::new().int(tasks.len() as i32).ints(tasks.iter().map(|tid| tid.raw())).finish();
        self.multicast(tasks, xdr_header(Tc::Siblings.tag(), CONTEXT_TC, 0), Payload::Parts(&[&list]))
    }

    /// The environment entries that every spawned task gets from its spawner: trace settings, context, and what
    /// `PVM_EXPORT` names.
    pub fn child_environment(&self) -> Vec<OsString> {
        let options = &self.options;
        let mut env: Vec<OsString> = [
            format!("PVMTMASK={}", options.child_trace_mask),
            format!("PVMTRCBUF={}", options.child_trace_buffer),
            format!("PVMTRCOPT={}", options.child_trace_options),
            format!("PVMCTX=0x{:x}", self.context),
        ]
        .map(OsString::from)
        .to_vec();
        env.extend(self.recorder_environment().map(OsString::from));
        if let Some(names) = std::env::var_os("PVM_EXPORT") {
            let exported = |name: &OsStr| std::env::var_os(name).map(|value| entry(name, value));
            env.push(entry("PVM_EXPORT", &names));
            let names = names.as_bytes().split(|&byte| byte == b':').map(OsStr::from_bytes);
            env.extend(names.filter(|name| !name.is_empty()).filter_map(exported));
        }
        env
    }

    /// The tasks spawned together with this one, in the spawn's order, itself included; waits for the spawner to
    /// send the list. A task that nobody spawned is its only sibling.
    pub fn siblings(&mut self) -> Result<Vec<Tid>> {
        loop {
            if let Some(siblings) = &self.siblings {
                return Ok(siblings.clone());
            }
            if self.identity.parent == 0 {
                return Ok(vec![self.tid()]);
            }
            self.take_in(None)?;
        }
    }
}
