//! tokio around the core: sockets, processes, links, timers and the log, turned into events and made from actions.
//!
//! | module | subject |
//! |---|---|
//! | [`settings`] | what the environment and the command line say |
//! | [`driver`], [`polling`] | the loop: events in, actions out; how it waits for them |
//! | [`clock`] | timers |
//! | [`task_socket`], [`auth`] | tasks' connections; the files by which they prove themselves |
//! | [`process`] | starting, watching and reaping children, and their output; in `launch`, how the kernel starts one |
//! | [`family`] | the processes that tasks start, which end with them |
//! | [`tls`], [`link`] | the machine's certificates; QUIC between daemons, in `calling` how a link comes about, and in `fair_queue` who is next there, in `outlet` who need not wait |
//! | [`endpoints`], [`packet_filter`] | the UDP ports of links, and who can reach them; what strangers send that must not be answered |
//! | [`probe`] | whether a daemon that says nothing has ended |
//! | [`udp_socket`], [`watched`] | the socket of the links, and in `alarm` how they use timers; sockets that the system watches only in the directions in which the daemon waits |
//! | [`starter`], [`slave`] | starting daemons on other hosts; being started |
//! | [`introduction`] | a place for daemons that somebody else has started |
//! | [`address_file`], [`log`] | files that others look for; the log, in `log_file` its two files, and in `log_repeats` lines that repeat themselves |
//! | [`capability`], [`load`], [`terminals`], [`wake_time`] | `C_i`; how busy the host is, in `busy_cores` those of its cores that the daemon may use, and who sits at it; how long waking takes |
//! | [`dispatcher`], [`guardian`] | teams that take turns, and in `weights` by control groups; who lets tasks go when the daemon is no more |
//! | [`owner_signs`], [`owner_hold`] | what tells of the host's owner; holding all that tasks run while the owner is there |
//! | `memory_group` | control groups of tasks whose memory is limited |
//! | `memory_watch` | tasks whose processes together have more memory than they may |
//! | [`control_group`] | this process's control group |
//! | [`queues_file`], [`job_store`] | the queues that jobs are submitted to; jobs on disk |
//! | [`page`] | whose turn it is, for tasks to read |
//! | [`descriptors`] | descriptors that travel with messages |
//! | [`loan_pool`] | long bodies that tasks read where the daemon has put them |

pub mod address_file;
mod alarm;
mod attempt;
pub mod auth;
mod busy_cores;
pub mod calling;
pub mod capability;
#[cfg(test)]
mod captured_log;
pub mod clock;
pub mod control_group;
pub mod descriptors;
pub mod dispatcher;
pub mod driver;
pub mod endpoints;
mod fair_queue;
pub mod family;
pub mod guardian;
pub mod introduction;
pub mod job_store;
pub mod link;
pub mod load;
pub mod loan_pool;
mod local_time;
pub mod log;
pub mod log_file;
mod log_repeats;
mod memory_group;
mod memory_watch;
mod outlet;
pub mod own_host;
pub mod owner_hold;
pub mod owner_signs;
pub mod packet_filter;
pub mod page;
pub mod polling;
pub mod probe;
pub mod process;
pub mod queues_file;
mod room;
pub mod scope;
pub mod settings;
pub mod slave;
pub mod starter;
pub mod task_socket;
pub mod terminals;
pub mod tls;
pub mod udp_socket;
pub mod wake_time;
pub mod watched;
mod weights;
