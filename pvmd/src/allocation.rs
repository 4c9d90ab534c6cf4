//! Hosts that a batch system has allocated to the job in which this process runs.
//!
//! | system | hosts and cores | daemons are started by |
//! |---|---|---|
//! | Slurm | `SLURM_JOB_NODELIST`, `SLURM_JOB_CPUS_PER_NODE` | `srun` |
//! | LSF | the file `LSB_DJOB_HOSTFILE` | `blaunch` |
//! | Grid Engine | the file `PE_HOSTFILE` | `qrsh -inherit` |
//! | PBS, Torque | the file `PBS_NODEFILE` | ssh: `pbsdsh` passes no standard input on |

use pvm_wire::limits::HOSTFILE_MAX;
use pvmd_core::hostfile::{HostOptions, HostSpec, Hostfile, SLOTS, Via, nodelist};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A batch system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSystem {
    /// Slurm.
    Slurm,
    /// LSF.
    Lsf,
    /// Grid Engine.
    GridEngine,
    /// PBS and Torque.
    Pbs,
}

/// Where the hosts of a virtual machine come from if no hostfile names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HostsFrom {
    /// From the allocation, if this process runs in one.
    #[default]
    Auto,
    /// From nowhere: this host only.
    None,
    /// From this system's allocation; it is an error if there is none.
    Only(BatchSystem),
}

/// The hosts of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Which system has allocated them.
    pub system: BatchSystem,
    /// The hosts, with their slots.
    pub hosts: Vec<HostSpec>,
    /// This host's name in the list, if the system says so.
    pub own_name: Option<String>,
}

/// Why hosts cannot be had from an allocation.
#[derive(Debug, thiserror::Error)]
pub enum AllocationError {
    /// The system asked for has allocated nothing.
    #[error("there is no {0} allocation here ({variable} is not set)", variable = .0.mark())]
    Absent(BatchSystem),
    /// A variable cannot be used.
    #[error("{variable}={value}: {reason}; PVM_HOSTS_FROM=none ignores the {system} allocation")]
    Variable {
        /// The system.
        system: BatchSystem,
        /// Its variable.
        variable: &'static str,
        /// What the variable has.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// An environment: the value of a variable, if it is set and not empty.
type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

impl BatchSystem {
    const ALL: [Self; 4] = [Self::Slurm, Self::Lsf, Self::GridEngine, Self::Pbs];

    /// Its name on a command line.
    fn word(self) -> &'static str {
        match self {
            Self::Slurm => "slurm",
            Self::Lsf => "lsf",
            Self::GridEngine => "sge",
            Self::Pbs => "pbs",
        }
    }

    /// The variable that shows that a process runs in its allocation, and that has the hosts or names the file with them.
    fn mark(self) -> &'static str {
        match self {
            Self::Slurm => "SLURM_JOB_NODELIST",
            Self::Lsf => "LSB_DJOB_HOSTFILE",
            Self::GridEngine => "PE_HOSTFILE",
            Self::Pbs => "PBS_NODEFILE",
        }
    }

    /// What starts daemons on the allocated hosts.
    fn via(self) -> Via {
        match self {
            Self::Slurm => Via::Srun,
            Self::Lsf => Via::Blaunch,
            Self::GridEngine => Via::Qrsh,
            Self::Pbs => Via::Ssh,
        }
    }
}

impl fmt::Display for BatchSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Slurm => "Slurm",
            Self::Lsf => "LSF",
            Self::GridEngine => "Grid Engine",
            Self::Pbs => "PBS",
        })
    }
}

impl fmt::Display for HostsFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::None => "none",
            Self::Only(system) => system.word(),
        })
    }
}

impl FromStr for HostsFrom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, BatchSystem::ALL.into_iter().find(|system| system.word() == text)) {
            ("auto", _) => Ok(Self::Auto),
            ("none", _) => Ok(Self::None),
            (_, Some(system)) => Ok(Self::Only(system)),
            _ => Err("must be auto, none, slurm, lsf, sge or pbs".to_owned()),
        }
    }
}

/// The hosts that were allocated to this job, if there are any.
///
/// # Errors
///
/// If an allocation is asked for that is not there, or one cannot be read.
pub fn find(from: HostsFrom) -> Result<Option<Allocation>, AllocationError> {
    find_in(from, &|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

fn find_in(from: HostsFrom, environment: Environment<'_>) -> Result<Option<Allocation>, AllocationError> {
    let system = match from {
        HostsFrom::None => None,
        HostsFrom::Auto => BatchSystem::ALL.into_iter().find(|system| environment(system.mark()).is_some()),
        HostsFrom::Only(system) => Some(system),
    };
    let Some(system) = system else { return Ok(None) };
    let value = environment(system.mark()).ok_or(AllocationError::Absent(system))?;
    let mut hosts = match system {
        BatchSystem::Slurm => slurm(&value, environment)?,
        _ => from_file(Path::new(&value)).map_err(|reason| AllocationError::Variable {
            system,
            variable: system.mark(),
            value,
            reason,
        })?,
    };
    for host in &mut hosts {
        host.options.via = Some(system.via());
    }
    let own_name = environment("SLURMD_NODENAME").filter(|_| system == BatchSystem::Slurm);
    Ok(Some(Allocation { system, hosts, own_name }))
}

/// Slurm's hosts. As many tasks are to run on each at a time as its cores allow, if each has the cores that the job asked for.
fn slurm(list: &str, environment: Environment<'_>) -> Result<Vec<HostSpec>, AllocationError> {
    let wrong = |variable, value: &str| {
        let value = value.to_owned();
        move |reason| AllocationError::Variable { system: BatchSystem::Slurm, variable, value, reason }
    };
    let names = nodelist::expand(list).map_err(wrong(BatchSystem::Slurm.mark(), list))?;
    let cores = match environment("SLURM_JOB_CPUS_PER_NODE") {
        Some(text) => nodelist::counts(&text).map_err(wrong("SLURM_JOB_CPUS_PER_NODE", &text))?,
        None => Vec::new(),
    };
    let per_task = environment("SLURM_CPUS_PER_TASK").and_then(|text| text.parse().ok());
    let per_task = per_task.unwrap_or(1).max(1);
    let slots = |cores: &u32| (cores / per_task).clamp(*SLOTS.start(), *SLOTS.end());
    let hosts = names.into_iter().enumerate().map(|(index, name)| HostSpec {
        name,
        options: HostOptions { slots: cores.get(index).map(slots), ..HostOptions::default() },
        start: true,
        shared_address: false,
    });
    Ok(hosts.collect())
}

/// The hosts of a file with a line per host or per slot.
fn from_file(path: &Path) -> Result<Vec<HostSpec>, String> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path);
    file.and_then(|file| file.take(HOSTFILE_MAX as u64 + 1).read_to_end(&mut bytes))
        .map_err(pvm_wire::plain)?;
    let hostfile = Hostfile::parse(&bytes).map_err(|mistakes| {
        let first = mistakes.first().map(|mistake| format!("line {}: {}", mistake.line, mistake.reason));
        first.unwrap_or_default()
    })?;
    Ok(hostfile.hosts)
}

impl Allocation {
    /// A hostfile of these hosts. What `given` says of a host, or of all, takes precedence; a host that is only there and
    /// would be started is an error.
    ///
    /// # Errors
    ///
    /// A text for people that names that host.
    pub fn hostfile(self, mut given: Hostfile) -> Result<Hostfile, String> {
        let allocated = |name: &str| self.hosts.iter().any(|host| host.name == name);
        if let Some(other) = given.hosts.iter().find(|spec| spec.start && !allocated(&spec.name)) {
            return Err(format!("{} is not in the {} allocation", other.name, self.system));
        }
        given.defaults.via = given.defaults.via.or(Some(self.system.via()));
        let complete = |host: HostSpec| {
            let said = given.hosts.iter().find(|spec| spec.name == host.name);
            let said = said.map_or(&given.defaults, |spec| &spec.options);
            HostSpec { options: said.clone().or(&host.options), ..host }
        };
        let hosts: Vec<HostSpec> = self.hosts.into_iter().map(complete).collect();
        given.hosts.retain(|spec| !hosts.iter().any(|host| host.name == spec.name));
        given.hosts.splice(0..0, hosts);
        Ok(given)
    }
}

/// Where the hostfile is, if there is one: hosts of an allocation are used without it, or if they are asked for.
pub fn is_wanted(from: HostsFrom, hostfile: Option<&PathBuf>) -> bool {
    matches!(from, HostsFrom::Only(_)) || hostfile.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn found(from: HostsFrom, variables: &[(&str, &str)]) -> Result<Option<Allocation>, AllocationError> {
        find_in(from, &|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn lines(allocation: &Allocation) -> Vec<String> {
        allocation.hosts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn slurms_hosts_have_the_cores_of_the_job() {
        let variables = [
            ("SLURM_JOB_NODELIST", "n[1-3],m1"),
            ("SLURM_JOB_CPUS_PER_NODE", "4(x3),8"),
            ("SLURMD_NODENAME", "n1"),
        ];
        let allocation = found(HostsFrom::Auto, &variables).unwrap().unwrap();
        let expected =
            ["n1 via=srun slots=4", "n2 via=srun slots=4", "n3 via=srun slots=4", "m1 via=srun slots=8"];
        assert_eq!(lines(&allocation), expected);
        assert_eq!((allocation.system, allocation.own_name), (BatchSystem::Slurm, Some("n1".to_owned())));
        let variables = [&variables[..], &[("SLURM_CPUS_PER_TASK", "3")]].concat();
        let allocation = found(HostsFrom::Only(BatchSystem::Slurm), &variables).unwrap().unwrap();
        assert_eq!(allocation.hosts[3].to_string(), "m1 via=srun slots=2");
        assert_eq!(found(HostsFrom::None, &variables).unwrap(), None);
    }

    /// The files as the systems' manuals show them.
    #[test]
    fn files_of_other_systems_are_read() {
        let pbs = "node1\nnode1\nnode2\nnode2\n";
        let sge = "node1 2 all.q@node1 UNDEFINED\nnode2 4 all.q@node2 <NULL>\n";
        let lsf = "node1\nnode2\nnode2\n";
        for (variable, text, expected) in [
            ("PBS_NODEFILE", pbs, ["node1 via=ssh slots=2", "node2 via=ssh slots=2"]),
            ("PE_HOSTFILE", sge, ["node1 via=qrsh slots=2", "node2 via=qrsh slots=4"]),
            ("LSB_DJOB_HOSTFILE", lsf, ["node1 via=blaunch", "node2 via=blaunch slots=2"]),
        ] {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            let allocation =
                found(HostsFrom::Auto, &[(variable, file.path().to_str().unwrap())]).unwrap().unwrap();
            assert_eq!(lines(&allocation), expected, "{variable}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let absent = found(HostsFrom::Only(BatchSystem::Slurm), &[]).unwrap_err();
        assert_eq!(absent.to_string(), "there is no Slurm allocation here (SLURM_JOB_NODELIST is not set)");
        let missing = found(HostsFrom::Auto, &[("PBS_NODEFILE", "/no/such/file")]).unwrap_err().to_string();
        assert!(
            missing.starts_with("PBS_NODEFILE=/no/such/file: ") && missing.contains("PVM_HOSTS_FROM=none")
        );
        let list = found(HostsFrom::Auto, &[("SLURM_JOB_NODELIST", "n[1-")]).unwrap_err().to_string();
        assert!(list.starts_with("SLURM_JOB_NODELIST=n[1-: "), "{list}");
        assert!("slurm,pbs".parse::<HostsFrom>().is_err());
        for text in ["auto", "none", "slurm", "lsf", "sge", "pbs"] {
            assert_eq!(text.parse::<HostsFrom>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_hostfile_gives_options_of_allocated_hosts() {
        let variables = [("SLURM_JOB_NODELIST", "n[1-2]"), ("SLURM_JOB_CPUS_PER_NODE", "4(x2)")];
        let allocation = || found(HostsFrom::Auto, &variables).unwrap().unwrap();
        let given = Hostfile::parse("* wd=/scratch\nn2 via=ssh sp=2000\n& later\n").unwrap();
        let hostfile = allocation().hostfile(given).unwrap();
        let shown: Vec<String> = hostfile.hosts.iter().map(ToString::to_string).collect();
        let expected = [
            "n1 wd=/scratch via=srun slots=4",
            "n2 wd=/scratch sp=2000 via=ssh slots=4",
            "& later wd=/scratch",
        ];
        assert_eq!(shown, expected);
        assert_eq!(hostfile.defaults.via, Some(Via::Srun));
        let error = allocation().hostfile(Hostfile::parse("n9\n").unwrap()).unwrap_err();
        assert_eq!(error, "n9 is not in the Slurm allocation");
    }
}
