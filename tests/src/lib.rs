//! Test support for all crates, and whole-system tests of PVM: many processes, many hosts, and the original PVM 3.4 as a peer.
//!
//! This crate links nothing of the project, so every crate's tests can use it, with what cargo has built beside them. Its own
//! tests install the project as a user would (`make install`), start its programs, and look at what they print, leave behind
//! and answer. So the same tests can be asked of the original:
//!
//! ```sh
//! cargo test -p pvm-tests                                          # this project
//! PVM_TEST_INSTALLATION=debian cargo test -p pvm-tests             # Debian's PVM 3.4.6, to try the tests themselves
//! PVM_TEST_INSTALLATION=/opt/pvm cargo test -p pvm-tests           # what is installed there, nothing is built
//! PVM_TEST_FULL=1 cargo test -p pvm-tests                          # a missing peer or privilege is a failure
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`install`] | which PVM is tested; building and installing ours |
//! | [`built`] | what cargo has built beside the tests of a crate |
//! | [`plan`] | the description of a virtual machine, and its start |
//! | [`machine`] | a running virtual machine, of which nothing is left afterwards |
//! | [`console`] | the `pvm` console through a pipe |
//! | [`network`] | hosts in network namespaces, each with an sshd |
//! | [`pods`] | pods of Kubernetes, imitated by namespaces |
//! | [`program`] | a process whose output is awaited line by line |
//! | [`programs`] | C and Fortran programs, compiled against a chosen PVM |
//! | [`scene`] | programs that act together, and what they say made comparable |
//! | [`job_scene`] | a machine to which jobs are submitted |
//! | [`run`] | `pvm run` |
//! | [`browser`] | a headless Chromium, driven by WebDriver |
//! | [`slurm`] | a Slurm cluster of three nodes on this machine |
//! | [`peers`] | what a test needs from the machine it runs on |
//! | [`control_groups`] | control groups of version 2, whatever the machine has |
//! | [`quota`] | control groups that have a part of the processors |
//! | [`wait`], [`process`] | conditions with deadlines; processes found by their environment |
#![forbid(unsafe_code)]

pub mod browser;
pub mod built;
pub mod console;
pub mod control_groups;
pub mod install;
pub mod job_scene;
pub mod machine;
pub mod network;
pub mod peers;
pub mod plan;
pub mod pods;
pub mod process;
pub mod program;
pub mod programs;
pub mod quota;
pub mod run;
pub mod scene;
pub mod slurm;
pub mod wait;

pub use console::Console;
pub use install::Installation;
pub use machine::Machine;
pub use network::Network;
pub use program::Program;

/// The placement policies of agents.
pub const AGENT_POLICIES: [&str; 8] = [
    "local",
    "sender-initiated",
    "receiver-initiated",
    "bidding",
    "up-down",
    "hierarchical",
    "graph-theoretic",
    "coallocation",
];
