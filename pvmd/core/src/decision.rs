//! What concerns decide on.

use super::config::Config;
use super::effect::Effects;
use super::event::Now;
use super::hosts::Hosts;
use super::loads::Loads;
use super::owners::Owners;

/// What a concern's decisions rest on besides its state, and what follows from them.
#[derive(Debug)]
pub(crate) struct Decision<'a> {
    pub config: &'a Config,
    pub hosts: &'a Hosts,
    pub loads: &'a Loads,
    pub owners: &'a Owners,
    pub now: Now,
    pub out: &'a mut Effects,
}

impl<'a> Decision<'a> {
    pub fn new(
        (config, hosts, loads, owners): (&'a Config, &'a Hosts, &'a Loads, &'a Owners),
        now: Now,
        out: &'a mut Effects,
    ) -> Self {
        Self { config, hosts, loads, owners, now, out }
    }
}
