//! What concerns decide upon.

use super::config::Config;
use super::effect::Effects;
use super::hosts::Hosts;

/// What a concern's decisions rest on besides its state, and what follows from them.
#[derive(Debug)]
pub(crate) struct Decision<'a> {
    pub config: &'a Config,
    pub hosts: &'a Hosts,
    pub out: &'a mut Effects,
}
