//! What the core does about each event: it has the concerns decide, and carries out what follows.

mod agents;
mod arrivals;
mod carry_out;
mod census;
mod certificates;
mod check;
mod costs;
mod departures;
mod dump;
mod enrol;
mod exchange;
mod hosts;
mod jobs;
mod links;
mod loads;
mod moves;
mod neighbours;
mod output;
mod owners;
mod peers;
mod probing;
mod requests;
mod routing;
mod rows;
mod services;
mod spans;
mod spawn;
mod succession;
mod teams;
mod turns;
mod watching;

pub(crate) use jobs::Tending;
