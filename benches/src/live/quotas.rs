//! Hosts of this computer as fast as a workload says: each daemon, and all that it starts, is in a control group with a part of the
//! processors.

use pvm_sim::pulling::Workload;
use pvm_tests::Installation;
use pvm_tests::quota::Quota;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use tempfile::TempDir;

/// Cores of a slot of a host of speed 1000: eight hosts of the workload have less than this computer's two together.
pub const CORES: f64 = 0.05;

/// Microseconds after which a quota begins anew. The kernel has no quota below a millisecond.
const PERIOD: f64 = 10_000.0;

/// A group for each host.
pub struct Quotas {
    groups: Vec<Quota>,
    /// Daemons' programs that enter their groups first.
    folder: TempDir,
}

impl Quotas {
    /// Makes them.
    pub fn new(ours: &Installation, workload: &Workload) -> Result<Self, String> {
        let cores = |speed: u32| CORES * f64::from(workload.slots * speed) / f64::from(Workload::REFERENCE);
        let group = |(number, &speed): (u32, &u32)| Quota::new(&format!("h{number}"), cores(speed), PERIOD);
        let groups: Vec<Quota> = (1..).zip(&workload.speeds).map(group).collect::<Result<_, _>>()?;
        let folder = TempDir::with_prefix("pvm-quotas-").map_err(|error| error.to_string())?;
        for (number, group) in (1..).zip(&groups) {
            let program = folder.path().join(format!("h{number}"));
            enter(&program, group, &ours.pvmd())
                .map_err(|error| format!("{}: {error}", program.display()))?;
        }
        Ok(Self { groups, folder })
    }

    /// The hostfile's lines of the hosts.
    pub fn hostfile(&self, workload: &Workload) -> String {
        let lines = workload.hostfile();
        let line = |(number, line): (u32, &str)| {
            format!("{line} dx={}\n", self.folder.path().join(format!("h{number}")).display())
        };
        (1..).zip(lines.lines()).map(line).collect()
    }

    /// The master's.
    pub fn first(&self) -> Option<&Quota> {
        self.groups.first()
    }
}

/// A program that enters a group, and then is the daemon.
fn enter(program: &Path, group: &Quota, daemon: &Path) -> io::Result<()> {
    let mut script = "#!/bin/sh -e\n".to_owned();
    for door in group.doors() {
        let _ = writeln!(script, "echo $$ > {}", door.display());
    }
    let _ = writeln!(script, "exec {} \"$@\"", daemon.display());
    fs::write(program, script)?;
    fs::set_permissions(program, Permissions::from_mode(0o755))
}
