//! `pvm sim`: the policies of `pvm-sched` in simulated machines, compared with the results of their papers.
//!
//! Everything is a function of its settings and a seed: integer time, one generator per run, no wall clock, and
//! logarithms from `libm`, so that a run gives the same bytes everywhere.
//!
//! - [`engine`]: events in the order of their times. [`random`]: numbers. [`workload`]: jobs.
//! - [`experiments`]: one module per experiment: its model, its settings, its report.
//! - [`pulling`] and [`jobs`]: a batch, and jobs of the queues, that are also run by daemons, so that both can be compared.
//! - [`kernel`]: Linux's scheduler, for nodes of several processors.
//! - [`stats`] and [`report`]: from runs to tables, CSV and SVG. [`cli`] and [`settings`]: the command line.

#![forbid(unsafe_code)]

pub mod cli;
pub mod engine;
pub mod experiments;
pub mod jobs;
pub mod kernel;
pub mod pulling;
pub mod random;
pub mod report;
pub mod settings;
pub mod stats;
pub mod workload;

pub use cli::run;
