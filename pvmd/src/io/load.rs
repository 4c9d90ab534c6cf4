//! How busy the host is: what others run here leaves less room for tasks.

use crate::io::driver::Input;
use crate::io::terminals;
use pvmd_core::event::{Event, Sample};
use std::time::Duration;
use sysinfo::System;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tracing::warn;

/// Between two readings of the cores' use.
const INTERVAL: Duration = Duration::from_secs(1);
/// Readings of the cores' use to one of the rest.
const READINGS: u32 = 5;

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
    for reading in 0.. {
        if reading % READINGS == 0 && input.send(Event::Sampled(sample(&mut system)).into()).await.is_err() {
            return;
        }
        ticks.tick().await;
        system.refresh_cpu_usage();
        let busy_cores = f64::from(system.global_cpu_usage()) / 100.0 * system.cpus().len() as f64;
        if input.send(Event::Load { busy_cores }.into()).await.is_err() {
            return;
        }
    }
}

fn sample(system: &mut System) -> Sample {
    system.refresh_memory();
    let mean = System::load_average().map_or([0.0; 3], |mean| [mean.one, mean.five, mean.fifteen]);
    let terminals = terminals::look();
    Sample {
        run_queue: mean,
        memory: system.total_memory(),
        free: system.available_memory(),
        users: terminals.users,
        input: terminals.input,
        local_time: jiff::Zoned::now().offset().seconds(),
    }
}
