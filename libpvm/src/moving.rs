//! Moving to another host while the program runs.

use crate::task::Task;
use pvm_engine::{Error, Result, Saved};
use pvm_wire::{PvmError, Tid, codec};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::{Arc, Mutex, TryLockError};

/// Tasks that move. A task that has said what it saves can be moved to another host: by `pvm move`, by its host's owner, or by any task.
/// The daemon starts its program there again, with the same arguments. That process gets what the task has saved, and is the task from
/// then on: its id, its parent, its groups and the messages for it are the same. No other task need know.
///
/// A task moves in calls that receive messages ([`Task::recv`], [`Task::try_recv`], [`Task::recv_timeout`], [`Task::probe`],
/// [`Task::next_message`] and its neighbours), before they take one or while they wait, and in [`Task::may_move`]. The call does not return then, and the process
/// ends. The program goes on elsewhere with its first line, and finds its state in [`Task::on_move`].
impl Task {
    /// From now on this task can be moved. `state` is what it takes along: all that the program needs to go on. The program changes it under its
    /// lock, and does not hold the lock in calls in which the task may move, or it does not move there. In a process that goes on with a task that has
    /// moved, the state is the one that was saved, not the argument.
    ///
    /// The library takes along options, the context, the ids of siblings, and messages that were not received. The program does again
    /// what needs functions or descriptors: [`Task::collect_output`], threads, files, connections. A task that does a part of the daemons' work, as
    /// a [`crate::Tasker`] does, is not moved.
    ///
    /// [`PvmError::NotImpl`]: the daemon is the original PVM's. [`PvmError::Already`]: the task has said this before.
    /// [`PvmError::BadMsg`]: what was saved is not of this type.
    ///
    /// ```no_run
    /// # fn main() -> pvm3::Result<()> {
    /// let mut task = pvm3::Task::enrol()?;
    /// // The sum, and how many numbers are in it.
    /// let state = task.on_move((0.0, 0_u64))?;
    /// loop {
    ///     let number: f64 = task.recv(pvm3::Any, 1)?.get_one()?;
    ///     let mut state = state.lock().expect("no thread has panicked");
    ///     state.0 += number;
    ///     state.1 += 1;
    /// }
    /// # }
    /// ```
    pub fn on_move<S>(&mut self, state: S) -> Result<Arc<Mutex<S>>>
    where
        S: Serialize + DeserializeOwned + Send + 'static,
    {
        if self.engine.is_movable() {
            return Err(Error::new(PvmError::Already, "this task has said before what it saves"));
        }
        let state = match self.engine.take_saved() {
            Some(saved) => codec::decode_large(&saved).map_err(|error| {
                Error::new(PvmError::BadMsg, format!("the state of this task cannot be read: {error}"))
            })?,
            None => state,
        };
        let state = Arc::new(Mutex::new(state));
        let kept = state.clone();
        self.engine.make_movable(Some(Box::new(move || save(&kept))))?;
        Ok(state)
    }

    /// Whether this process goes on with a task that has moved.
    ///
    /// ```no_run
    /// # let mut task = pvm3::Task::enrol()?;
    /// if !task.has_moved() {
    ///     println!("started on host {:?}", task.tid().host());
    /// }
    /// # Ok::<(), pvm3::Error>(())
    /// ```
    pub fn has_moved(&self) -> bool {
        self.engine.has_moved()
    }

    /// Moves, if this task is to be moved and can be now. For programs that compute for long without receiving. It looks for messages, which takes
    /// about as long as a call of the system.
    ///
    /// ```no_run
    /// # let mut task = pvm3::Task::enrol()?;
    /// let state = task.on_move(0_u64)?;
    /// for step in 0.. {
    ///     *state.lock().expect("no thread has panicked") = step;
    ///     task.may_move()?;
    /// }
    /// # Ok::<(), pvm3::Error>(())
    /// ```
    pub fn may_move(&mut self) -> Result<()> {
        self.engine.move_here()
    }

    /// Moves a task to a host ([`crate::HostInfo::tid`]), or to the one that has most room; returns the host when the task lives there.
    ///
    /// A task can move itself. The call only asks for it then, and returns the argument, or [`Tid::NONE`] if no host was named: the task moves in the
    /// next call in which it can, and goes on where it is if no host takes it.
    ///
    /// [`PvmError::NoTask`]: there is no such task. [`PvmError::NoHost`]: there is no such host. [`PvmError::OutOfRes`]: there is no other host,
    /// or its owner is there. [`PvmError::NotImpl`]: the task has not said what it saves, or is of a job. [`PvmError::HostFail`]: a host was
    /// lost, or the task could not go within a minute; it goes on where it is.
    ///
    /// ```no_run
    /// # let mut task = pvm3::Task::enrol()?;
    /// let worker = task.spawn("worker").start()?.tids[0];
    /// let host = task.move_task(worker, None)?;
    /// println!("{worker} lives on {host} now");
    /// # Ok::<(), pvm3::Error>(())
    /// ```
    pub fn move_task(&mut self, tid: Tid, host: Option<Tid>) -> Result<Tid> {
        self.engine.move_task(tid, host)
    }
}

/// The state as bytes, if no other thread uses it.
fn save<S: Serialize>(state: &Mutex<S>) -> Saved {
    match state.try_lock() {
        Ok(state) => match codec::encode_large(&*state) {
            Ok(bytes) => Saved::State(bytes),
            Err(error) => Saved::Failed(format!("its state cannot be saved: {error}")),
        },
        Err(TryLockError::WouldBlock) => Saved::InUse,
        Err(TryLockError::Poisoned(_)) => {
            Saved::Failed("a thread has panicked while it changed the state".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_saved_unless_it_is_in_use() {
        let state = Arc::new(Mutex::new((7, "text".to_owned())));
        let Saved::State(bytes) = save(&state) else { panic!("it can be saved") };
        assert_eq!(codec::decode_large::<(i32, String)>(&bytes).unwrap(), (7, "text".to_owned()));
        let guard = state.lock().unwrap();
        assert!(matches!(save(&state), Saved::InUse));
        drop(guard);
        let other = state.clone();
        let panicked = std::thread::spawn(move || {
            let _guard = other.lock().unwrap();
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panicked.join().is_err());
        assert!(matches!(save(&state), Saved::Failed(_)));
    }
}
