//! How busy the host is: what others run here leaves less room for tasks.

use crate::io::busy_cores::BusyCores;
use crate::io::clock::Clock;
use crate::io::driver::Input;
use crate::io::local_time;
use crate::io::terminals::Looks;
use pvmd_core::event::{Event, Sample};
use std::time::{Duration, Instant};
use sysinfo::System;
use tokio::sync::mpsc;
use tracing::warn;

/// Between two readings of the cores' use, at least.
const INTERVAL: Duration = Duration::from_secs(1);
/// How much later a reading may be, to go along with something else that the daemon does from time to time.
const LATENESS: Duration = Duration::from_millis(750);
/// Readings of the cores' use to one of the rest.
const READINGS: u32 = 5;

/// Reads the load for ever.
pub async fn watch(clock: Clock, input: mpsc::Sender<Input>) {
    let opened = System::new().map_err(|error| error.to_string());
    let opened = opened.and_then(|system| {
        let cores = BusyCores::of_this_process().map_err(|error| format!("the allowed cores: {error}"))?;
        Ok((system, cores))
    });
    let (mut system, mut cores) = match opened {
        Ok(opened) => opened,
        Err(error) => return warn!(%error, "the load of this host cannot be read: it counts as none"),
    };
    system.refresh_cpu_usage();
    let mut looks = Looks::default();
    for reading in 0.. {
        if reading % READINGS == 0
            && input.send(Event::Sampled(sample(&mut system, &mut looks)).into()).await.is_err()
        {
            return;
        }
        clock.sleep_until(Instant::now() + INTERVAL, LATENESS).await;
        let busy_cores = cores.read(&mut system);
        if input.send(Event::Load { busy_cores }.into()).await.is_err() {
            return;
        }
    }
}

fn sample(system: &mut System, looks: &mut Looks) -> Sample {
    system.refresh_memory();
    let mean = System::load_average().map_or([0.0; 3], |mean| [mean.one, mean.five, mean.fifteen]);
    let terminals = looks.look();
    Sample {
        run_queue: mean,
        memory: system.total_memory(),
        free: system.available_memory(),
        users: terminals.users,
        input: terminals.input,
        local_time: local_time::now().offset().seconds(),
    }
}
