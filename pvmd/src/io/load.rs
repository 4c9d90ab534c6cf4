//! How busy the host is: what others run here leaves less room for tasks.

use crate::io::driver::Input;
use pvmd_core::event::Event;
use std::time::Duration;
use sysinfo::System;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tracing::warn;

/// Between two readings.
const INTERVAL: Duration = Duration::from_secs(1);

/// Reads the load for ever.
pub async fn watch(input: mpsc::Sender<Input>) {
    let mut system = match System::new() {
        Ok(system) => system,
        Err(error) => return warn!(%error, "the load of this host cannot be read: it counts as none"),
    };
    system.refresh_cpu_usage();
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick comes at once, when there is nothing to compare with.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        system.refresh_cpu_usage();
        let busy_cores = f64::from(system.global_cpu_usage()) / 100.0 * system.cpus().len() as f64;
        if input.send(Event::Load { busy_cores }.into()).await.is_err() {
            return;
        }
    }
}
