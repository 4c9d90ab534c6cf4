//! The script of a job that holds a node: it does nothing, and ends by itself when the node is not used.

/// Between two looks, at most, in seconds.
const LOOK: u64 = 10;

/// The script. The job ends when no daemon has come within `orphan` milliseconds, and soon after the daemon has ended.
///
/// A daemon is known by its environment: it is a process of this job, and of a step of it, which the script itself is not.
pub fn script(orphan: u64) -> String {
    let limit = orphan.div_ceil(1000);
    let look = LOOK.min(limit.div_ceil(3)).max(1);
    format!(
        r#"#!/bin/sh
# Holds a node for "pvm autoscale". Ends when no daemon has come for {limit} s, or when the daemon has ended.
runs() {{
    of_job=$(grep -lsz "^SLURM_JOB_ID=$SLURM_JOB_ID\$" /proc/[0-9]*/environ)
    [ -n "$of_job" ] && grep -qsz '^SLURM_STEP_ID=[0-9]' $of_job
}}
waited=0
until runs; do
    [ $waited -ge {limit} ] && exit 0
    sleep {look}
    waited=$((waited + {look}))
done
while runs; do sleep {look}; done
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::{Duration, Instant};

    fn run(job: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", &script(1000)]).env("SLURM_JOB_ID", job).env_remove("SLURM_STEP_ID");
        command
    }

    #[test]
    fn it_ends_without_a_daemon_and_after_it() {
        let begun = Instant::now();
        assert!(run("4000000001").status().unwrap().success());
        assert!((1..20).contains(&begun.elapsed().as_secs()));
        let mut daemon = Command::new("sleep");
        let mut daemon =
            daemon.arg("100").env("SLURM_JOB_ID", "4000000002").env("SLURM_STEP_ID", "0").spawn().unwrap();
        let mut holder = run("4000000002").spawn().unwrap();
        std::thread::sleep(Duration::from_secs(3));
        assert_eq!(holder.try_wait().unwrap(), None);
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        assert!(holder.wait().unwrap().success());
    }
}
