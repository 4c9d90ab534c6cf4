//! Starting tasks: what the core does as home of spawns and as node.

mod home;
mod managers;
mod node;
mod notices;
mod pulling;
mod queue;
