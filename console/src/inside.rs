//! The enrolment of `pvm run`, `pvm demo` and `pvm bench` in their virtual machine.

use crate::adding;
use crate::cli::MachineArgs;
use crate::machine::settle_logs;
use anyhow::{Context, Result, bail};
use pvm3::{HostFailure, Task};

/// Enrols. In a private machine it waits until every host has started, and names those that failed.
pub fn enrol(name: &str, args: &MachineArgs) -> Result<Task> {
    let mut task = Task::enrol_as(Some(name), true).context("cannot join the virtual machine")?;
    if args.private {
        let failures: Vec<_> =
            adding::shown(|| task.start_up())?.into_iter().filter_map(Result::err).collect();
        for failure in &failures {
            eprintln!("pvm: {}", describe(failure));
        }
        if !failures.is_empty() && !args.allow_missing {
            settle_logs(&mut task, false);
            bail!("some hosts failed to start (use --allow-missing to continue without them)");
        }
    }
    Ok(task)
}

/// Which host is not there, and why.
pub fn describe(failure: &HostFailure) -> String {
    let HostFailure { name, reason, .. } = failure;
    // Some reasons name the host themselves.
    if reason.starts_with(name.as_str()) { reason.clone() } else { format!("{name}: {reason}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_named_once() {
        let failure = |name: &str, reason: &str| {
            describe(&HostFailure {
                name: name.into(),
                code: pvm3::PvmError::CantStart,
                reason: reason.into(),
            })
        };
        assert_eq!(failure("h", "ssh: no"), "h: ssh: no");
        assert_eq!(failure("h", "h: no such name"), "h: no such name");
        assert_eq!(failure("", "ssh: no"), "ssh: no");
    }
}
