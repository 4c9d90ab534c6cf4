//! Placement and coscheduling policies: values in, decisions out. No I/O, no clock, no randomness but what is passed in, so the daemon,
//! the task manager and a simulation call the same code.
//!
//! - [`pulling`]: nodes ask for the tasks of a batch, a manager hands them out. This is how a spawn is placed.
//! - [`placement`]: policies that divide a batch among nodes at once, among them PVM's own; [`divided`] carries them out.
//! - [`task_manager`]: the state machine of the process that runs such a policy for a batch.
//! - [`policy`]: which policies there are, by name, and the interface through which any of them is run.
//! - [`allocation`]: six ways to find a processor for a new process.
//! - [`queues`]: queues that jobs are submitted to: admission, fair share, backfilling.
//! - [`autoscale`]: when nodes of a batch system are requested for work that waits, and given back.
//! - [`coallocation`]: jobs that span clusters of different speed.
//! - [`dasic`]: coscheduling that follows the workstations that come and go.
//! - [`coscheduling`]: teams that take turns on a host, and messages that bring their receivers' teams onto the processor.
//! - [`loads`]: load vectors, the election of the master that gathers them, virtual clusters.
//! - [`room`]: the host to which a task goes that leaves another one.
//!
//! A host is any `H: Copy + Ord`: only [`task_manager`] and what simulates it depend on how hosts are named on the wire.

#![forbid(unsafe_code)]

pub mod allocation;
pub mod autoscale;
pub mod coallocation;
pub mod coscheduling;
pub mod dasic;
pub mod divided;
pub mod loads;
pub mod placement;
pub mod policy;
pub mod pulling;
pub mod queues;
pub mod room;
pub mod task_manager;
