//! A machine to which jobs are submitted, and the folder of the user who does it.

use crate::install::Installation;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::programs::{self, Linking};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;

/// A machine of three hosts with two slots each, and a folder in which its user works.
pub struct JobScene {
    /// The machine.
    pub machine: Machine,
    /// The user's folder.
    pub folder: TempDir,
    hostfile: Option<String>,
}

impl JobScene {
    /// A machine without a file of queues; `None`, and a note, when this system is not under test.
    pub fn new(check: &str) -> Option<Self> {
        Self::with_queues(check, "[[queue]]\nname = \"default\"\n")
    }

    /// A machine whose daemons have a variable more.
    pub fn with_variable(check: &str, name: &str, value: &str) -> Option<Self> {
        Self::with(check, "[[queue]]\nname = \"default\"\n", None, Some((name, value)))
    }

    /// A machine with this file of queues, `queues.toml` in the folder.
    pub fn with_queues(check: &str, queues: &str) -> Option<Self> {
        Self::with(check, queues, None, None)
    }

    /// A machine of three hosts, `h1` to `h3`, with this hostfile and this file of queues.
    pub fn with_hostfile(check: &str, queues: &str, hostfile: &str) -> Option<Self> {
        Self::with(check, queues, Some(hostfile), None)
    }

    fn with(
        check: &str,
        queues: &str,
        hostfile: Option<&str>,
        variable: Option<(&str, &str)>,
    ) -> Option<Self> {
        let ours = Installation::ours_only(check)?;
        let folder = TempDir::with_prefix("pvm-jobs-").expect("a folder");
        fs::write(folder.path().join("queues.toml"), queues).expect("a file of queues");
        let machine = start(&ours, folder.path(), hostfile, variable);
        Some(Self { machine, folder, hostfile: hostfile.map(str::to_owned) })
    }

    /// The machine has ended: another one with the same folder.
    pub fn start_again(&mut self) {
        let ours = self.machine.installation().clone();
        self.machine = start(&ours, self.folder.path(), self.hostfile.as_deref(), None);
    }

    /// A command of `pvm`, in the user's folder, for a daemon of the machine.
    pub fn at(&self, vmid: &str, args: &str) -> Output {
        let mut command = self.machine.command(self.machine.installation().pvm());
        command.args(args.split(' ')).current_dir(self.folder.path());
        if !vmid.is_empty() {
            command.env("PVM_VMID", vmid);
        }
        command.output().expect("pvm runs")
    }

    /// A command of `pvm` for the master's daemon.
    pub fn pvm(&self, args: &str) -> Output {
        self.at("", args)
    }

    /// What a command prints that succeeds.
    #[track_caller]
    pub fn good(&self, args: &str) -> String {
        let output = self.pvm(args);
        assert!(output.status.success(), "{args}: {output:?}\n{}", self.machine.log());
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }

    /// What a command says that fails with status 1.
    #[track_caller]
    pub fn refused(&self, args: &str) -> String {
        let output = self.pvm(args);
        assert_eq!(output.status.code(), Some(1), "{args}: {output:?}");
        String::from_utf8([output.stdout, output.stderr].concat()).expect("text")
    }

    /// All of a job, as JSON.
    pub fn job(&self, id: &str) -> Value {
        job(&self.good(&format!("job --json {id}")))
    }

    /// A shell script in the folder.
    pub fn script(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can be executed");
    }

    /// A file in the folder.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).expect("a file");
    }

    /// Compiles a C program into the folder.
    pub fn compile_c(&self, name: &str, source: &str) -> Option<()> {
        let file = self.folder.path().join(format!("{name}.c"));
        fs::write(&file, source).expect("a source file");
        programs::compile(
            &file,
            &self.folder.path().join(name),
            self.machine.installation(),
            Linking::Archive,
        )
    }

    /// A file of the folder; empty if there is none.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }
}

fn start(
    ours: &Installation,
    folder: &Path,
    hostfile: Option<&str>,
    variable: Option<(&str, &str)>,
) -> Machine {
    let plan = Plan::of(ours).local_hosts(3).variable("PVM_STATE", folder.join("state"));
    let plan = hostfile.into_iter().fold(plan, Plan::hostfile);
    let plan = plan.variable("PVM_QUEUES", folder.join("queues.toml"));
    let plan = variable.into_iter().fold(plan, |plan, (name, value)| plan.variable(name, value));
    // The file of jobs is that of the machine with the same name.
    let machine = plan.variable("PVM_TASK_SLOTS", "2").without("PVM_VMID").start();
    machine.console_with_hosts(3).quit();
    machine
}

/// The first job of a JSON list.
pub fn job(json: &str) -> Value {
    let list: Value = serde_json::from_str(json).expect("JSON");
    list["jobs"][0].clone()
}
