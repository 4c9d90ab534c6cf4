//! The benchmark: this PVM side by side with the original, Open MPI and the machine's own limits, in one run.
//!
//! What is measured is done by small programs in `programs` (and `src/bin/rust.rs`), which print an x (a size or a
//! number of tasks) and the seconds that one took. All contenders take turns, round after round, so that whatever
//! else the machine does hits all alike.
//!
//! - [`part`]: what a part is and how it is run; [`parts`]: the parts there are.
//! - [`lab`]: the contenders, ready to be run, and [`remote`], on hosts with a network, and [`uneven`], on hosts of unequal speed; [`program`]: running one and reading its results.
//! - [`coscheduling`]: programs that share hosts, which is no comparison side by side.
//! - [`dasic`]: teams on workstations that owners lend and take back.
//! - [`scale`]: what many hosts cost, which is no comparison side by side either.
//! - [`policies`]: all placement policies on hosts that share this computer.
//! - [`waiting`]: what many waiting jobs cost.
//! - [`live`]: daemons compared with the simulator.
//! - [`jobs`]: jobs of a workload. [`hyperqueue`]: a peer that runs jobs.
//! - [`owner`]: what a program of the owner loses on a host that was lent.
//! - [`compute`]: work for processors.
//! - [`numbers`]: what tasks of a batch count by; [`slot`]: how many of them sleep at a time;
//!   [`stamp`]: times of several processes.
//! - [`report`]: from rounds to tables, plots and JSON; [`cli`]: the command line.
//! - [`tune`]: values of one of this product's constants side by side.
#![forbid(unsafe_code)]

pub mod cli;
pub mod compute;
pub mod coscheduling;
pub mod dasic;
pub mod hyperqueue;
pub mod jobs;
pub mod lab;
pub mod live;
pub mod numbers;
pub mod owner;
pub mod part;
pub mod parts;
pub mod policies;
pub mod program;
pub mod remote;
pub mod report;
pub mod scale;
pub mod slot;
pub mod stamp;
pub mod tune;
pub mod uneven;
pub mod waiting;
