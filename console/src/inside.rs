//! What `pvm run` and `pvm demo` do first in their virtual machine.

use crate::cli::MachineArgs;
use anyhow::{Context, Result, bail};
use pvm3::Task;

/// Enrols. In a private machine it waits until every host is there, and says which is not.
pub fn enrol(name: &str, args: &MachineArgs) -> Result<Task> {
    let mut task = Task::enrol_as(Some(name), true).context("cannot join the virtual machine")?;
    if args.private {
        let failures: Vec<_> = task.start_up()?.into_iter().filter_map(Result::err).collect();
        for failure in &failures {
            eprintln!("pvm: {failure}");
        }
        if !failures.is_empty() && !args.allow_missing {
            bail!("not all hosts are there (--allow-missing goes on without them)");
        }
    }
    Ok(task)
}
