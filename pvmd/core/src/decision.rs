//! What concerns decide on.

use super::config::Config;
use super::effect::Effects;
use super::event::Now;
use super::hosts::Hosts;
use super::loads::Loads;

/// What a concern's decisions rest on besides its state, and what follows from them.
#[derive(Debug)]
pub(crate) struct Decision<'a> {
    pub config: &'a Config,
    pub hosts: &'a Hosts,
    pub loads: &'a Loads,
    pub now: Now,
    pub out: &'a mut Effects,
}

impl<'a> Decision<'a> {
    pub fn new(
        (config, hosts, loads): (&'a Config, &'a Hosts, &'a Loads),
        now: Now,
        out: &'a mut Effects,
    ) -> Self {
        Self { config, hosts, loads, now, out }
    }
}
