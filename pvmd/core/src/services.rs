//! Tasks that stand in for a part of the daemons' work, as in PVM: a resource manager, which decides where tasks and hosts
//! go; a tasker, which starts this host's tasks; a hoster, which starts daemons on other hosts (reference, sections 4.6 and 4.8).

use pvm_wire::{PvmError, Tid};

/// The tasks that stand in.
#[derive(Debug, Default)]
pub(crate) struct Services {
    /// The resource manager, whom tasks of this host ask in place of their daemon.
    pub scheduler: Option<Tid>,
    /// The task that starts this host's tasks.
    pub tasker: Option<Tid>,
}

/// Gives a post to a task, or takes it away: one task has it at a time, and only that task can give it up.
pub(crate) fn take_post(post: &mut Option<Tid>, tid: Tid, register: bool) -> Result<(), PvmError> {
    match (register, *post) {
        (true, Some(_)) => Err(PvmError::Already),
        (false, holder) if holder != Some(tid) => Err(PvmError::NoTask),
        _ => {
            *post = register.then_some(tid);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_post_has_one_holder_who_alone_can_give_it_up() {
        let [one, two] = [1, 2].map(|local| pvm_wire::HostIndex::MASTER.task(local));
        let mut post = None;
        assert_eq!(take_post(&mut post, one, false), Err(PvmError::NoTask));
        assert_eq!(take_post(&mut post, one, true), Ok(()));
        assert_eq!(take_post(&mut post, two, true), Err(PvmError::Already));
        assert_eq!(take_post(&mut post, two, false), Err(PvmError::NoTask));
        assert_eq!((take_post(&mut post, one, false), post), (Ok(()), None));
    }
}
