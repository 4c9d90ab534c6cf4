//! A daemon's core to throw things at.

use pvm_wire::HostIndex;
use pvmd_core::hostfile::Hostfile;
use pvmd_core::{Config, Core, Hosting, Limits};
use std::net::Ipv4Addr;
use std::time::Duration;

/// The daemon of this host, just started.
pub fn started(index: HostIndex) -> Core {
    let config = Config {
        index,
        name: format!("node{index}"),
        arch: "LINUX64".into(),
        speed: None,
        capability: 1000.0,
        cores: 2,
        task_target: 4,
        slots: 2,
        policy: pvmd_core::Policy::default(),
        private_network: false,
        task_limit: 100,
        address: Some(Ipv4Addr::LOCALHOST.into()),
        hostfile: Hostfile::default(),
        seed: 1,
        host_timeout: Duration::from_secs(3),
        epoch: Duration::from_secs(1_000_000),
        debug_mask: 0,
        hosting: Hosting { timeout: Duration::from_secs(60), ..Hosting::default() },
        limits: Limits::default(),
        slice: Some(Duration::from_millis(50)),
        wake_time: Duration::from_micros(5),
    };
    let mut core = Core::new(config, Duration::ZERO);
    core.start(Duration::ZERO);
    core
}
