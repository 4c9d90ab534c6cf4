//! Co-allocation over clusters: jobs of fixed width that may span clusters of different speed.
//!
//! Zhang Weizhe, Tian Zhihong, Zhang Hongli, He Hui, Liu Wenmao, *Multi-Cluster Co-Allocation Scheduling Algorithms in
//! Virtual Computing Environment*, Journal of Software 18(8), 2007. Clusters are joined by a star of links; a job gets
//! its nodes exclusively, all at once, and releases them together.
//!
//! | symbol | meaning | here |
//! |---|---|---|
//! | `h_j` | heterogeneity factor of cluster j; 2 takes twice as long as 1 | [`Site::factor`] |
//! | `T_E` | execution time, equation 2 | [`model::execution_time`] |
//! | `BW_k^j` | what job k asks of link j, equation 4 | [`model::link_demand`] |
//! | `CF^j` | congestion factor of link j, equation 5 | [`model::congestion_factor`] |
//! | `FF` | flex factor of a job, equation 6 | [`model::flex_factor`] |
//! | `T_C^Re` | communication time that remains, equation 7 | [`model::remaining_communication`] |
//!
//! [`Strategy`] is the paper's algorithm 2 with its keys and baselines; [`Line`] the waiting queue of algorithm 1; [`Progress`] a job's
//! remaining time. The queues of a machine place parallel jobs by these ([`crate::queues`]), and `pvm sim coallocation` does.

pub mod line;
pub mod model;
mod progress;
mod strategy;

pub use line::{Line, Position};
pub use progress::Progress;
pub use strategy::{Share, Site, Strategy};
