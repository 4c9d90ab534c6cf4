//! The per-batch process that nodes pull tasks from.
//!
//! A daemon that has a batch to place starts a task manager and sends it the batch; nodes ask the manager for tasks,
//! and it sends the daemon the grants. Its state can be lost: if it dies, another one goes on with the tasks that are not
//! granted. [`machine`] makes all decisions, [`run`] carries messages to and from it.
#![forbid(unsafe_code)]

pub use pvm_sched::task_manager as machine;

use clap::Parser;
use machine::Machine;
use pvm_wire::batch::BatchMsg;
use pvm_wire::codes::BATCH_TAG;
use pvm3::{Error, Message, Task, Tid};
use std::ffi::OsString;
use std::process::ExitCode;

/// Context of batch messages: that of programs without one of their own.
const CONTEXT: i32 = 0;

/// Divide the tasks of a spawn among the hosts (internal: started by the daemon)
#[derive(Debug, Parser)]
#[command(name = "pvm-task-manager", version, after_help = EXAMPLES)]
struct Arguments {}

const EXAMPLES: &str = "Examples:
  PVM_TASK_MANAGER=/opt/pvm/bin/pvm-task-manager pvmd      a daemon that uses this executable
Started by hand, it joins the virtual machine that runs here and is not used.";

/// Serves batches until the daemon is gone.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    run_observed(args, |_, _, _| ())
}

/// As [`run`]; `observe` gets each message, with its sender, and the answers to it before they are sent.
pub fn run_observed(
    args: impl IntoIterator<Item = OsString>,
    observe: impl FnMut(Tid, &BatchMsg, &Answers),
) -> ExitCode {
    let args = [OsString::from("pvm-task-manager")].into_iter().chain(args);
    if let Err(error) = Arguments::try_parse_from(args) {
        let _ = error.print();
        return ExitCode::from(error.exit_code() as u8);
    }
    match Task::enrol() {
        Ok(task) => {
            // The loop ends only with the loss of the daemon; then there is nobody to report it to.
            let _ = serve(task, observe);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("pvm-task-manager: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Messages with their receivers.
pub type Answers = [(Tid, BatchMsg)];

fn serve(mut task: Task, mut observe: impl FnMut(Tid, &BatchMsg, &Answers)) -> Result<(), Error> {
    let mut machine = Machine::default();
    loop {
        let message = task.next_message()?;
        let Some(content) = batch_message(&message) else { continue };
        let answers = machine.on_message(message.src, content.clone());
        observe(message.src, &content, &answers);
        for (to, answer) in answers {
            match answer.encode() {
                Ok(body) => task.send_message(to, BATCH_TAG, CONTEXT, body)?,
                // Its standard error goes to the daemon's log.
                Err(error) => eprintln!("cannot send a message to {to}: {error}"),
            }
        }
    }
}

/// The batch message in a message; `None` if it is invalid or not from a daemon.
fn batch_message(message: &Message) -> Option<BatchMsg> {
    if message.header.tag != BATCH_TAG || !message.src.is_daemon() {
        return None;
    }
    BatchMsg::decode(&message.body)
        .inspect_err(|error| eprintln!("invalid message from {}: {error}", message.src))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm_wire::batch::BatchId;
    use pvm_wire::{HostIndex, MessageHeader};

    fn message(src: Tid, tag: i32, body: Vec<u8>) -> Message {
        let header = MessageHeader { tag, ..MessageHeader::default() };
        Message { src, dst: Tid::NONE, header, body: body.into() }
    }

    #[test]
    fn only_batch_messages_of_daemons_are_accepted() {
        let batch = BatchId { home: HostIndex::MASTER, number: 1 };
        let place = BatchMsg::Place {
            batch,
            count: 1,
            nodes: vec![],
            soft: true,
            policy: String::new(),
            last: batch.home,
            own: None,
        };
        let body = place.encode().expect("it can be encoded");
        let task = HostIndex::MASTER.task(1);
        for ignored in [
            message(task, BATCH_TAG, body.clone()),
            message(Tid::MY_DAEMON, 1, body.clone()),
            message(Tid::MY_DAEMON, BATCH_TAG, body[..body.len() - 1].to_vec()),
            message(Tid::MY_DAEMON, BATCH_TAG, vec![0xff; 100]),
        ] {
            assert_eq!(batch_message(&ignored), None);
        }
        assert_eq!(batch_message(&message(Tid::MY_DAEMON, BATCH_TAG, body)), Some(place));
    }
}
