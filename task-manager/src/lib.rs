//! The per-batch process that nodes pull tasks from.
//!
//! A daemon that has a batch to place starts a task manager and tells it of the batch; nodes ask the manager for tasks,
//! and it tells the daemon who gets how many. It holds no truth of its own: if it dies, another goes on with what is
//! left. [`machine`] is all it decides, [`run`] carries messages to and from it.
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

/// As [`run`]; each message, with its sender, and the answers to it are shown before they are sent.
pub fn run_observed(
    args: impl IntoIterator<Item = OsString>,
    observe: impl FnMut(Tid, &BatchMsg, &Answers),
) -> ExitCode {
    let args = [OsString::from("pvm-task-manager")].into_iter().chain(args);
    if let Err(told) = Arguments::try_parse_from(args) {
        let _ = told.print();
        return ExitCode::from(told.exit_code() as u8);
    }
    match Task::enrol() {
        Ok(task) => {
            // The only way out is the loss of the daemon, and then nobody is left who could be told.
            let _ = serve(task, observe);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("pvm-task-manager: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Messages, and to whom.
pub type Answers = [(Tid, BatchMsg)];

fn serve(mut task: Task, mut observe: impl FnMut(Tid, &BatchMsg, &Answers)) -> Result<(), Error> {
    let mut machine = Machine::default();
    loop {
        let message = task.next_message()?;
        let Some(said) = said(&message) else { continue };
        let answers = machine.on_message(message.src, said.clone());
        observe(message.src, &said, &answers);
        for (to, answer) in answers {
            match answer.encode() {
                Ok(body) => task.send_message(to, BATCH_TAG, CONTEXT, body)?,
                // What it prints is in the daemon's log.
                Err(error) => eprintln!("cannot send a message to {to}: {error}"),
            }
        }
    }
}

/// Only daemons have a say in batches.
fn said(message: &Message) -> Option<BatchMsg> {
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
    fn only_what_daemons_say_of_batches_is_heard() {
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
        for unheard in [
            message(task, BATCH_TAG, body.clone()),
            message(Tid::MY_DAEMON, 1, body.clone()),
            message(Tid::MY_DAEMON, BATCH_TAG, body[..body.len() - 1].to_vec()),
            message(Tid::MY_DAEMON, BATCH_TAG, vec![0xff; 100]),
        ] {
            assert_eq!(said(&unheard), None);
        }
        assert_eq!(said(&message(Tid::MY_DAEMON, BATCH_TAG, body)), Some(place));
    }
}
