//! The C and the Fortran interface of PVM 3.4 over the engine: names, arguments, results and errors are PVM's.
//!
//! Every function follows one pattern: its arguments are made safe values at the edge ([`memory`]), the work is done
//! on the library's one [`state`] by safe code, and the result becomes a C integer, `pvm_errno` and a line on
//! standard error ([`errors`]). A panic, which is
//! a mistake of the library's, ends the program at this edge: nothing is known of the library's state then.
//!
//! Where it differs from the original on purpose: negative longs survive the default encoding; a failure is printed
//! once, with the reason where no daemon can be reached; `pvm_putinfo` of what is no buffer fails instead of hanging;
//! `pvmffreecontext` frees and `pvmfgetmboxinfo` goes from name to name; a message that a signal handler sends ends
//! the wait for it.
//!
//! PVM is not made for several threads in one task: calls of two threads follow one another, but only one of them may
//! receive. Signal handlers can call the library while the program waits for a message.

mod at_exit;
mod buffer_calls;
mod buffer_table;
mod buffers;
mod config;
mod context;
mod control;
mod daemon;
mod errors;
mod events;
mod fork;
mod fortran;
mod group_hosts;
mod groups;
mod handlers;
mod hosts;
mod inbox;
mod internals;
mod jobs;
mod lock;
mod mailbox;
mod memory;
mod migration;
mod names;
mod nested;
mod notify;
mod options;
mod output;
mod pack;
mod packets;
mod receive;
mod reductions;
mod search;
mod send;
mod services;
mod sized;
mod spawn;
mod state;
mod timeline;
mod tracepoints;
mod tracing;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod varargs;
mod wait;
