//! Virtual machines on the hosts that a batch system has allocated.

use pvm_tests::program::Program;
use pvm_tests::slurm::{Cluster, NODES};
use pvm_tests::{Installation, wait};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn cluster(check: &str) -> Option<Cluster> {
    let ours = Installation::ours_only(check)?;
    Cluster::start(&ours, check)
}

#[test]
fn one_line_of_a_batch_script_runs_a_program_on_all_nodes() {
    let Some(cluster) = cluster("pvm run in a Slurm job") else { return };
    let output = cluster.run("pvm run -n 6 sh -c 'echo at $SLURMD_NODENAME; sleep 0.5'");
    let mut copies: BTreeMap<&str, usize> = BTreeMap::new();
    for line in output.lines() {
        let (_, node) = line.split_once("] at ").unwrap_or_else(|| panic!("{output}"));
        *copies.entry(node).or_default() += 1;
    }
    // A job has one core of each node, unless it asks for more, and so one slot: the rest is divided by speed.
    assert_eq!(copies.keys().copied().collect::<Vec<_>>(), NODES, "{output}");
    assert_eq!(copies.values().sum::<usize>(), 6, "{output}");
    assert!(cluster.left().is_empty(), "{:#?}", cluster.left());
}

#[test]
fn slots_are_the_cores_of_the_job() {
    let Some(cluster) = cluster("slots in a Slurm job") else { return };
    let job = cluster
        .submit(&["-N3", "--ntasks-per-node=2"], "pvm run -n 6 sh -c 'echo at $SLURMD_NODENAME; sleep 2'");
    cluster.wait_for_jobs();
    let output = cluster.output(&job);
    for node in NODES {
        let copies = output.lines().filter(|line| line.ends_with(&format!("at {node}"))).count();
        assert_eq!(copies, 2, "{output}");
    }
}

#[test]
fn the_console_and_the_daemon_find_the_nodes_too() {
    let Some(cluster) = cluster("the console in a Slurm job") else { return };
    let output = cluster.run(
        "export PVM_TMP=$PWD PVM_VMID=console\nprintf 'conf\\ndelete n3\\nconf\\nadd n3\\nconf\\nhalt\\n' | pvm",
    );
    let confs: Vec<Vec<&str>> = output
        .split("1 data format")
        .skip(1)
        .map(|conf| {
            NODES
                .into_iter()
                .filter(|node| {
                    conf.lines().any(|line| line.contains("LINUX64") && line.contains(&format!(" {node} ")))
                })
                .collect()
        })
        .collect();
    assert_eq!(confs, [&NODES[..], &NODES[..2], &NODES[..]], "{output}");
    let output = cluster.run("export PVM_TMP=$PWD PVM_VMID=daemon\npvmd & pvmd=$!\nfor i in $(seq 100); do sleep 0.1; pvm conf | grep n3 && break; done; pvm conf\npvm halt\nwait $pvmd");
    for node in NODES {
        assert!(output.contains(&format!(" {node} ")), "{output}");
    }
    assert!(cluster.left().is_empty(), "{:#?}", cluster.left());
}

#[test]
fn a_job_cancelled_by_slurm_ends_on_all_nodes() {
    let Some(cluster) = cluster("scancel") else { return };
    let job = cluster.submit(&["-N3"], "pvm run -n 6 sh -c 'echo here; exec sleep 1000'");
    wait::becomes_true("six copies", || cluster.output(&job).matches("here").count() == 6);
    Program::run(cluster.command("scancel").arg(&job)).expect_success();
    cluster.wait_for_jobs();
    wait::becomes_true("the end of all processes", || cluster.left().is_empty());
    assert!(cluster.output(&job).contains("CANCELLED"), "{}", cluster.output(&job));
}

#[test]
fn a_hostfile_or_a_word_decides_otherwise_and_mistakes_are_named() {
    let Some(cluster) = cluster("choices in a Slurm job") else { return };
    fs::write(cluster.path().join("options"), "* sp=2000\nn2 sp=3000\n").unwrap();
    fs::write(cluster.path().join("others"), "n7\n").unwrap();
    let hosts = "sh -c 'pvm conf | cut -c1-52'";
    let script = [
        format!("PVM_HOSTS_FROM=none pvm run {hosts}"),
        format!("pvm run --hosts 2 {hosts}"),
        format!("pvm run --hosts-from slurm --hostfile options {hosts}"),
        "pvm run --hosts-from slurm --hostfile others true".to_owned(),
        "pvm run --hosts-from pbs true".to_owned(),
        "pvm run --hosts-from slum true".to_owned(),
        "PVM_HOSTS_FROM=slum pvm run true".to_owned(),
        "SLURM_JOB_NODELIST='n[1-' pvm run true".to_owned(),
        "PVM_DPATH=/no/such/daemon pvm run true".to_owned(),
    ];
    let script = script.map(|line| format!("{line} 2>&1; echo status $?"));
    let output = cluster.run(&script.join("\n"));
    let parts: Vec<&str> = output.split_inclusive("status ").collect();
    for (part, expected) in [
        &["1 host,", "host1"][..],
        &["0\n2 hosts,", "host2"],
        &["0\n3 hosts,", "n1    40000  LINUX64    2000", "n2    80000  LINUX64    3000", "LINUX64    2000"],
        &["0\npvm: ", "n7 is not in the Slurm allocation"],
        &["1\npvm: ", "there is no PBS allocation here (PBS_NODEFILE is not set)"],
        &["1\nerror: ", "'slum'", "must be auto, none, slurm, lsf, sge or pbs"],
        &["2\npvm: ", "PVM_HOSTS_FROM=slum: must be auto"],
        &["1\npvm: ", "SLURM_JOB_NODELIST=n[1-: ", "not closed", "PVM_HOSTS_FROM=none"],
        &["1\n", "n2: srun: ", "/no/such/daemon"],
    ]
    .iter()
    .enumerate()
    {
        for text in *expected {
            assert!(parts[part].contains(text), "{text:?} in line {part} of {output}");
        }
    }
    assert!(cluster.left().is_empty(), "{:#?}", cluster.left());
}

/// A command that stands for another system's launcher: it drops its own words and the host's name, and runs the rest here.
fn launcher(folder: &Path, name: &str, own_words: usize) {
    let host = own_words + 1;
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> '{folder}/launched'\nexport PVM_TMP='{folder}/'${host}\nmkdir -p \"$PVM_TMP\"\nshift {host}\nexec \"$@\"\n",
        folder = folder.display(),
    );
    let path = folder.join(name);
    fs::write(&path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The systems themselves cannot be had here: their files are those of their manuals, their launchers stand-ins.
#[test]
fn other_systems_files_and_launchers_are_used() {
    let Some(ours) = Installation::ours_only("other batch systems") else { return };
    for (variable, file, name, own_words) in [
        ("PE_HOSTFILE", "localhost 2 all.q@h1 UNDEFINED\n127.0.9.2 4 all.q@h2 <NULL>\n", "qrsh", 1),
        ("LSB_DJOB_HOSTFILE", "localhost\n127.0.9.2\n127.0.9.2\n", "blaunch", 0),
        ("PBS_NODEFILE", "localhost\nlocalhost\n127.0.9.2\n", "ssh", 0),
    ] {
        let folder = tempfile::tempdir().unwrap();
        launcher(folder.path(), name, own_words);
        let list = folder.path().join("hosts");
        fs::write(&list, file).unwrap();
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new(ours.pvm());
        command.args(["run", "sh", "-c"]).arg(format!("'{}' conf", ours.pvm().display()));
        command
            .env("PATH", path)
            .env(variable, &list)
            .env("PVM_TMP", folder.path())
            .env("HOME", folder.path());
        command
            .env("PVM_RSH", "ssh")
            .env("PVM_DPATH", ours.pvmd())
            .env_remove("PVM_VMID")
            .env_remove("PVMSOCK");
        let ended = Program::run(&mut command);
        ended.expect_success();
        assert!(ended.stdout.starts_with("2 hosts,") && ended.stdout.contains("127.0.9.2"), "{ended:#?}");
        let launched = fs::read_to_string(folder.path().join("launched")).unwrap_or_default();
        let expected = format!("127.0.9.2 {} --slave", ours.pvmd().display());
        assert!(launched.contains(&expected), "{name}: {launched}");
        assert_eq!(launched.contains("--attached"), name != "ssh", "{launched}");
    }
}
