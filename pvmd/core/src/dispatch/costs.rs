//! Messages about batches, counted at their homes as they pass.

use crate::Core;
use crate::addresses::SpawnId;
use pvm_wire::batch::BatchMsg;
use pvm_wire::codes::BATCH_TAG;
use pvm_wire::header::{EOM, SOM};
use pvm_wire::queue::PolicyMessages;
use pvm_wire::{HostIndex, MessageHeader, Tid};

impl Core {
    /// A message about a batch goes from one process to another. The home of the batch counts it, and no other host.
    pub(crate) fn count_batch_message(&mut self, src: Tid, dst: Tid, message: &BatchMsg) {
        let batch = message.batch();
        if batch.home == self.config.index {
            let is_local = src.host() == dst.host();
            let messages =
                PolicyMessages { between_hosts: u64::from(!is_local), at_home: u64::from(is_local) };
            self.home.count_messages(SpawnId(batch.number), messages);
        }
    }

    /// A task of this host says something to a daemon, or a daemon to the task: if that is a task manager, they speak of a batch.
    pub(crate) fn count_batch_fragment(&mut self, src: Tid, dst: Tid, flags: u8, data: &[u8]) {
        // A message about a batch that a manager sends, or is sent by a node, is a fragment.
        if flags & (SOM | EOM) == SOM | EOM
            && let Some((header, body)) = data.split_first_chunk()
            && MessageHeader::decode(header).tag == BATCH_TAG
            && let Ok(message) = BatchMsg::decode(body)
        {
            self.count_batch_message(src, dst, &message);
        }
    }

    /// Whether this is a task manager of this host.
    pub(crate) fn is_manager(&self, tid: Tid) -> bool {
        self.tasks.get(tid).is_some_and(|task| task.manager)
    }

    /// Another host's daemon says something to a task of this host.
    pub(crate) fn count_from_daemon(&mut self, from: HostIndex, dst: Tid, flags: u8, data: &[u8]) {
        if self.is_manager(dst) {
            self.count_batch_fragment(from.daemon(), dst, flags, data);
        }
    }
}
