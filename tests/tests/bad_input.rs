//! What is wrong, hostile or missing is refused with its reason, and harms nothing else.

use pvm_tests::machine::{NotStarted, Plan};
use pvm_tests::peers::{self, Peer};
use pvm_tests::program::Program;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::{Installation, Machine, process, wait};
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, UdpSocket};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Bytes that look like nothing in particular, the same ones in every run (splitmix64).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

#[track_caller]
fn refused(plan: Plan) -> NotStarted {
    let Err(refused) = plan.try_start() else { panic!("the daemon started") };
    assert!(refused.files.is_empty(), "left behind: {refused:#?}");
    assert!(refused.processes.is_empty(), "left running: {refused:#?}");
    refused
}

/// Spawns and hears tasks: proof that the machine works.
#[track_caller]
fn expect_working(machine: &Machine, programs: &Programs) {
    let ended = Program::run(machine.command(programs.path("batch")).arg("4"));
    ended.expect_success();
    assert!(ended.stdout.starts_with("started 4\n") && ended.stdout.ends_with("done\n"), "{}", ended.stdout);
}

#[test]
fn a_hostfile_with_mistakes_starts_nothing() {
    let Some(ours) = Installation::ours_only("mistakes in hostfiles") else { return };
    let long = "x".repeat(1024 * 1024);
    let text = format!("h1\nh2 via=local bogus=1\nlo=me\nh3 via=local\n{long}\nh4 sp=quick\n");
    let refused = refused(Plan::of(&ours).name("h1").hostfile(&text));
    assert_eq!(refused.ended.status.code(), Some(2), "{refused:#?}");
    let stderr = &refused.ended.stderr;
    for expected in
        ["hosts:2: unknown option `bogus=`", "hosts:3: ", "hosts:5: longer than", "hosts:6: `sp=quick`"]
    {
        assert!(stderr.contains(expected), "{expected} is missing in:\n{stderr}");
    }
    assert!(stderr.len() < 4096, "the mistakes are told in {} bytes", stderr.len());
}

#[test]
fn names_of_hosts_are_no_paths() {
    let Some(ours) = Installation::ours_only("names of hosts that are paths") else { return };
    let refused = refused(Plan::of(&ours).name("h1").hostfile("h1\n../../x via=local\n"));
    assert_eq!(refused.ended.status.code(), Some(2), "{refused:#?}");
    assert!(refused.ended.stderr.contains("hosts:2: the host's name `../../x` contains `/`"), "{refused:#?}");
    let machine = Machine::start(&ours);
    let mut console = machine.console();
    let answers = console.add(&["../../x via=local"]);
    let reason = answers[0].1.clone().expect_err("that is no name");
    assert!(reason.contains("contains `/`"), "{reason}");
    assert_eq!(console.conf().len(), 1);
    console.quit();
    machine.finish();
}

#[test]
fn hostfiles_that_are_no_text_or_not_there_start_nothing() {
    let Some(ours) = Installation::ours_only("hostfiles that cannot be read") else { return };
    let binary = refused(Plan::of(&ours).hostfile("h1\n\0\u{1}\u{2}\n"));
    assert_eq!(binary.ended.status.code(), Some(2), "{binary:#?}");
    assert!(binary.ended.stderr.contains("hosts:2: contains a NUL byte"), "{binary:#?}");
    let missing = refused(Plan::of(&ours).variable("PVMHOSTFILE", "/no/such/hostfile"));
    assert_eq!(missing.ended.status.code(), Some(2), "{missing:#?}");
    assert!(missing.ended.stderr.contains("/no/such/hostfile: No such file"), "{missing:#?}");
}

#[test]
fn settings_that_cannot_be_used_are_named() {
    let Some(ours) = Installation::ours_only("unusable settings") else { return };
    let number = refused(Plan::of(&ours).variable("PVM_HOST_TIMEOUT", "soon"));
    assert_eq!(number.ended.status.code(), Some(2), "{number:#?}");
    assert!(number.ended.stderr.contains("PVM_HOST_TIMEOUT"), "{number:#?}");
    let folder = refused(Plan::of(&ours).variable("PVM_TMP", "/no/such/folder"));
    assert!(!folder.ended.status.success());
    assert!(folder.ended.stderr.contains("/no/such/folder"), "{folder:#?}");
}

#[test]
fn a_second_daemon_names_the_first() {
    let Some(ours) = Installation::ours_only("a second daemon of the same machine") else { return };
    let mut machine = Machine::start(&ours);
    let second = Program::run(&mut machine.command(ours.pvmd()));
    assert_eq!(second.status.code(), Some(3), "{second:#?}");
    assert_eq!(second.stdout, "");
    let socket = machine.socket().display().to_string();
    assert!(second.stderr.contains("run") && second.stderr.contains(&socket), "{second:#?}");
    assert!(machine.is_alive());
    assert_eq!(machine.console().conf().len(), 1);
    machine.finish();
}

#[test]
fn a_program_that_is_not_there_fails_alone() {
    let installation = Installation::under_test();
    let Some(programs) = Programs::compile(&["batch"], &installation, Linking::Shared) else { return };
    let machine = Plan::of(&installation).path(programs.folder()).start();
    let ended = Program::run(machine.command(programs.path("batch")).args(["3", "", "no-such-program"]));
    assert_eq!(ended.stdout, "started 0\nfailed -7\nfailed -7\nfailed -7\ndone\n", "{ended:#?}");
    let directory = Program::run(machine.command(programs.path("batch")).args(["1", "", "/etc"]));
    assert_eq!(directory.stdout, "started 0\nfailed -7\ndone\n", "{directory:#?}");
    expect_working(&machine, &programs);
    machine.finish();
}

#[test]
fn noise_on_the_task_socket_does_no_harm() {
    let installation = Installation::under_test();
    let Some(programs) = Programs::compile(&["batch"], &installation, Linking::Shared) else { return };
    let mut machine = Plan::of(&installation).path(programs.folder()).start();
    let mut noise = Noise(1);
    for length in [0, 1, 15, 16, 17, 48, 100, 4096, 100_000] {
        let mut stream = UnixStream::connect(machine.socket()).expect("the daemon listens");
        stream.set_write_timeout(Some(Duration::from_secs(5))).expect("a timeout can be set");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout can be set");
        // The daemon may well hang up in the middle.
        let _ = stream.write_all(&noise.bytes(length));
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 4096, "{} bytes of answer to noise", answer.len());
    }
    // Well-formed headers with lengths that lie.
    for length in [u32::MAX, 0x7fff_ffff, 0] {
        let mut stream = UnixStream::connect(machine.socket()).expect("the daemon listens");
        let mut header = vec![0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        header.extend(length.to_be_bytes());
        header.extend([3, 0, 0, 0]);
        let _ = stream.write_all(&header);
        let _ = stream.write_all(&noise.bytes(64));
    }
    assert!(machine.is_alive());
    expect_working(&machine, &programs);
    if installation.is_ours {
        assert!(machine.log().contains("connection"), "the log does not mention it:\n{}", machine.log());
    }
    machine.finish();
}

#[test]
fn noise_on_the_network_does_no_harm() {
    let Some(ours) = Installation::ours_only("noise on the port between daemons") else { return };
    let Some(programs) = Programs::compile(&["batch"], &ours, Linking::Shared) else { return };
    let mut machine = Plan::of(&ours).path(programs.folder()).local_hosts(2).start();
    let mut console = machine.console_with_hosts(2);
    let ports = process::udp_ports(machine.daemon_pid());
    assert!(!ports.is_empty(), "the daemon has no UDP port");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a port can be had");
    let mut noise = Noise(2);
    for round in 0..2000 {
        let length = noise.next() as usize % 1400;
        let mut datagram = noise.bytes(length);
        if let Some(first) = datagram.first_mut().filter(|_| round % 2 == 0) {
            // What looks like the beginning of a QUIC connection gets further.
            *first = 0xc3;
        }
        for &port in &ports {
            let _ = sender.send_to(&datagram, ("127.0.0.1", port));
        }
    }
    assert!(machine.is_alive());
    assert_eq!(console.conf().len(), 2);
    let spawned = console.spawn("-h2 -2 -> hello_other");
    assert_eq!(spawned.tasks.iter().filter(|task| task.is_ok()).count(), 2, "{spawned:?}");
    expect_working(&machine, &programs);
    console.quit();
    machine.finish();
}

/// Packets that begin as those do that open a connection of QUIC, and are malformed thereafter: RFC 9000's version and another, a
/// connection id that is long enough and one that is not.
fn malformed_first_packets(noise: &mut Noise) -> Vec<Vec<u8>> {
    let heads = [[0xc3, 0, 0, 0, 1, 8], [0xc3, 0, 0, 0, 1, 4], [0xc3, 9, 9, 9, 9, 8], [0x43, 0, 0, 0, 1, 8]];
    heads.into_iter().map(|head| [&head[..], &noise.bytes(1194)].concat()).collect()
}

#[test]
fn strangers_have_no_answer_from_any_port() {
    let Some(ours) = Installation::ours_only("answers to strangers") else { return };
    let machine = Plan::of(&ours).local_hosts(1).start();
    let mut console = machine.console();
    assert_eq!(process::udp_sockets(machine.daemon_pid()), [], "a master without hosts has no port");
    assert!(console.add(&["h2 via=local"])[0].1.is_ok(), "{}", console.transcript());
    let mut noise = Noise(3);
    let daemons = machine.slave_daemons().into_iter().map(|slave| slave.pid).chain([machine.daemon_pid()]);
    for daemon in daemons {
        // At the beginning of a link there is another one for half a second, which hears the other end alone.
        let sockets = wait::eventually("one port", || {
            let sockets = process::udp_sockets(daemon);
            (sockets.len() == 1).then_some(sockets)
        });
        for (address, port) in sockets {
            // 127.x.y.z: the bytes are in the machine's order.
            let bytes = u32::from_str_radix(&address, 16).expect("an address").to_ne_bytes();
            assert_eq!(bytes[0], 127, "hosts on this machine need no port on the network: {bytes:?}");
            let stranger = UdpSocket::bind("127.0.0.1:0").expect("a port can be had");
            stranger.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout can be set");
            for packet in malformed_first_packets(&mut noise) {
                stranger.send_to(&packet, (IpAddr::from(bytes), port)).expect("it can be sent");
            }
            let answer = stranger.recv_from(&mut [0; 2000]);
            assert!(answer.is_err(), "{daemon} answers {answer:?}");
        }
    }
    assert_eq!(console.conf().len(), 2);
    console.quit();
    machine.finish();
}

#[test]
fn a_daemon_names_the_hosts_of_its_hostfile_that_failed_with_reasons() {
    let Some(ours) = Installation::ours_only("hosts of a hostfile that fail") else { return };
    let nothing = tempfile::tempdir().expect("a temporary folder can be made");
    let path = nothing.path().display().to_string();
    let hostfile = "h1\nh2 via=local\nother ip=127.0.0.2\nunknown ip=no.such.host.invalid\n";
    let machine = Plan::of(&ours).variable("PATH", &path).name("h1").hostfile(hostfile).start();
    let said = wait::eventually("what the daemon says of its hosts", || {
        let said = machine.daemon_stderr();
        (said.lines().count() == 2).then_some(said)
    });
    assert!(said.starts_with("pvmd: other: ssh: no such program"), "{said}");
    assert!(said.contains("\npvmd: unknown: no.such.host.invalid: "), "{said}");
    wait::becomes_true("both in the log", || {
        let log = machine.log();
        ["name=\"other\"", "name=\"unknown\""].iter().all(|name| log.contains(name))
    });
    assert_eq!(machine.console().conf().len(), 2);
    machine.finish();
}

#[test]
fn a_host_that_cannot_be_started_is_reported_with_the_reason() {
    let Some(ours) = Installation::ours_only("the want of ssh") else { return };
    let nothing = tempfile::tempdir().expect("a temporary folder can be made");
    let path = nothing.path().display().to_string();
    let machine = Plan::of(&ours).variable("PATH", &path).name("h1").hostfile("* ep=@PATH@\n").start();
    let mut console = machine.console();
    let answers = console.add(&["other ip=127.0.0.2", "h2 via=local"]);
    assert_eq!(answers.len(), 2, "{}", console.transcript());
    let reason = answers[0].1.clone().expect_err("there is no ssh");
    assert!(reason.starts_with("ssh: no such program"), "{reason}");
    assert!(answers[1].1.is_ok(), "{answers:?}");
    let log = machine.log();
    assert!(log.contains("PvmCantStart") && log.contains(&reason), "{log}");
    assert_eq!(console.conf().len(), 2);
    console.quit();
    machine.finish();
}

/// A small file system over a folder, for the time of a test.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn over(folder: &Path) {
        let mut mount = Command::new("mount");
        let status = mount.args(["-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs"]).arg(folder).status();
        assert!(
            status.expect("mount can be started").success(),
            "a tmpfs can be mounted on {}",
            folder.display()
        );
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// A file that takes all the room that is left in a folder. Its name is a log's, which may stay behind.
fn fill(folder: &Path) -> PathBuf {
    let filler = folder.join("pvml.all-the-room-that-was-left");
    let mut file = fs::File::create(&filler).expect("the disk is not full yet");
    wait::becomes_true("a full disk", || file.write_all(&[0; 1024]).is_err());
    filler
}

#[test]
fn on_a_full_disk_the_machine_works_and_loses_lines_of_its_log() {
    let check = "a full disk under the log";
    let Some(ours) = Installation::ours_only(check) else { return };
    let Some(()) = peers::require(&[Peer::Mount], check) else { return };
    let Some(programs) = Programs::compile(&["batch"], &ours, Linking::Shared) else { return };
    let plan = Plan::of(&ours).path(programs.folder()).variable("PVM_LOG", "debug").local_hosts(1);
    let mut machine = plan.try_start_in(&SmallDisk::over).expect("the daemon starts on a small disk");
    let _disk = SmallDisk(machine.tmp().to_owned());
    let filler = fill(machine.tmp());
    // New tasks, a new console: no task of ours needs a file to enrol.
    expect_working(&machine, &programs);
    let mut console = machine.console();
    // Each of these makes the daemon want to log.
    for _ in 0..50 {
        let tasks = console.spawn("no-such-program").tasks;
        assert!(matches!(&tasks[..], [Err(reason)] if reason.contains("not found in")), "{tasks:?}");
    }
    let answers = console.add(&["h2"]);
    let reason = answers[0].1.clone().expect_err("its daemon finds no room for its address");
    let expected = format!("PVM_TMP={}: make room there", machine.tmp().display());
    assert!(reason.contains(&expected) && reason.contains("No space left on device"), "{reason}");
    assert_eq!(console.conf().len(), 1);
    assert!(machine.slave_daemons().is_empty(), "{:?}", machine.slave_daemons());

    fs::remove_file(&filler).expect("the filler can be removed");
    expect_working(&machine, &programs);
    wait::becomes_true("a count of what is missing in the log", || machine.log().contains(" lines lost"));
    assert!(console.add(&["h2"])[0].1.is_ok(), "{}", console.transcript());
    fill(machine.tmp());
    console.quit().expect_success();
    let mut console = machine.console();
    console.send("halt");
    console.into_program().end();
    machine.expect_nothing_left();
}

/// A program in the machine's folder that stands for ssh.
fn stand_in_for_ssh(folder: &Path, script: &str) -> String {
    let path = folder.join("ssh");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a file can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can be made a program");
    path.display().to_string()
}

#[test]
fn another_machine_of_the_same_user_gets_no_link() {
    let Some(ours) = Installation::ours_only("two virtual machines of one user") else { return };
    let Some(programs) = Programs::compile(&["batch"], &ours, Linking::Shared) else { return };
    let folders = [0, 1].map(|_| tempfile::tempdir().expect("a folder can be made"));
    // The first machine's slave is started as by ssh, and its answer is kept.
    let answer = folders[0].path().join("answer");
    let start = format!("shift; \"$@\" | tee {}", answer.display());
    let ssh = stand_in_for_ssh(folders[0].path(), &start);
    let hosts = "* ep=@PATH@\nh1\nh2 ip=127.0.0.5 dx=@PVMD@ id=slave\n";
    let plan = Plan::of(&ours).path(programs.folder()).name("h1").hostfile(hosts);
    let mut first = plan.variable("PVM_RSH", &ssh).start();
    let console = first.console_with_hosts(2);

    // The second machine takes that slave for one of its own.
    let ssh = stand_in_for_ssh(folders[1].path(), &format!("head -n1 >/dev/null; cat {}", answer.display()));
    let second =
        Plan::of(&ours).name("g1").variable("PVM_RSH", &ssh).variable("PVM_START_TIMEOUT", "5").start();
    let mut other = second.console();
    let added = other.add(&["g2 ip=127.0.0.5"]);
    let reason = added[0].1.clone().expect_err("the slave is another machine's");
    assert!(!reason.is_empty());
    assert_eq!(other.conf().len(), 1);
    let refused = || first.logs().iter().any(|log| log.contains("connection refused from=127.0.0.1:"));
    wait::becomes_true("the slave's log says so", refused);

    assert!(first.is_alive());
    expect_working(&first, &programs);
    other.quit();
    second.finish();
    console.quit();
    first.finish();
}

#[test]
fn no_daemon_starts_without_room_for_its_address() {
    let check = "the start on a full disk";
    let Some(ours) = Installation::ours_only(check) else { return };
    let Some(()) = peers::require(&[Peer::Mount], check) else { return };
    let disk = std::cell::OnceCell::new();
    let prepare = |tmp: &Path| {
        SmallDisk::over(tmp);
        let _ = disk.set(SmallDisk(tmp.to_owned()));
        fill(tmp);
    };
    let Err(refused) = Plan::of(&ours).try_start_in(&prepare) else { panic!("the daemon started") };
    let stderr = &refused.ended.stderr;
    assert!(stderr.contains("make room there") && stderr.contains("No space left on device"), "{stderr}");
    assert_eq!(refused.files.len(), 1, "left behind: {refused:#?}");
    assert!(refused.processes.is_empty(), "left running: {refused:#?}");
    let folder = disk.get().and_then(|disk| disk.0.parent()).expect("the machine's folder").to_owned();
    drop(disk);
    fs::remove_dir_all(folder).expect("the machine's folder can be removed");
}

#[test]
fn no_daemon_starts_without_a_folder_for_its_files() {
    let Some(ours) = Installation::ours_only("the want of PVM_TMP") else { return };
    for (folder, remedy) in [("/nowhere/at/all", "make this folder"), ("/dev/null", "is not a folder")] {
        let refused = refused(Plan::of(&ours).variable("PVM_TMP", folder));
        let stderr = &refused.ended.stderr;
        assert!(stderr.contains(&format!("PVM_TMP={folder}")) && stderr.contains(remedy), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn noise_does_not_push_anything_out_of_the_log() {
    let Some(ours) = Installation::ours_only("noise in the log") else { return };
    let machine = Plan::of(&ours).variable("PVMDLOGMAX", "60000").name("h1").start();
    let mut console = machine.console();
    // Each of these connections has a line: much more together than the log may have.
    for round in 0..2000 {
        let mut stream = UnixStream::connect(machine.socket()).expect("a connection");
        let _ = stream.write_all(&[0xff; 64]);
        if round % 100 == 0 {
            assert_eq!(console.conf().len(), 1);
        }
    }
    assert!(
        console.spawn("no-such-program").tasks[0].as_ref().is_err_and(|reason| reason.contains("not found"))
    );
    console.send("halt");
    console.into_program().end();
    wait::becomes_true("the end of the daemon in its log", || machine.log().contains("ending reason="));
    let log = machine.log();
    assert!(log.contains(" ready ") && log.contains(" message repeated "), "{log}");
    assert!(log.len() <= 30_000, "{} bytes", log.len());
}

#[test]
fn a_setting_that_cannot_be_used_is_refused_with_what_it_can_be() {
    let check = "messages about settings";
    let Some(ours) = Installation::ours_only(check) else { return };
    let whole = [
        ("PVM_TASK_TARGET", "from 1 to 1000000"),
        ("PVM_TASK_SLOTS", "from 0 to 1000000"),
        ("PVM_TASK_LIMIT", "from 1 to 262143"),
        ("PVM_STARTERS", "from 1 to 4096"),
        ("PVM_DEPUTIES", "from 1 to 5"),
        ("PVM_QUEUE_BYTES", "to 1099511627776"),
        ("PVM_MAILBOX_ENTRIES", "from 1 to 2147483648"),
        ("PVM_MAILBOX_BYTES", "from 0 to 1099511627776"),
        ("PVM_SHM_MAX", "from 0 to 1099511627776"),
        ("PVM_SLICE", "from 1 to 60000"),
        ("PVMDLOGMAX", "from 0 to 18446744073709551615"),
    ];
    for (variable, range) in whole {
        for wrong in ["-1", "x", "1.5", "99999999999999999999"] {
            let said = refused(Plan::of(&ours).variable(variable, wrong)).ended.stderr;
            let begin = format!("pvmd: {variable}={wrong}: must be a whole number ");
            assert!(said.starts_with(&begin) && said.trim_end().ends_with(range), "{said}");
        }
    }
    let others = [
        ("PVM_TASK_MEMORY", "-1", "must be a size such as 512K, 100M or 4G"),
        ("PVM_TASK_MEMORY", "0", "must be a size such as 512K, 100M or 4G"),
        ("PVM_HOST_TIMEOUT", "0", "must be a number of seconds from 0.1 to 86400"),
        ("PVM_CONNECT_TIMEOUT", "never", "must be a number of seconds from 0.1 to 86400"),
        ("PVM_LINK_IDLE", "-1", "must be a number of seconds from 0.1 to 86400"),
        ("PVM_START_TIMEOUT", "soon", "must be a number of seconds from 0.1 to 86400"),
        ("PVM_SUCCESSION", "on", "must be proved, silent or off"),
        ("PVM_COSCHEDULING", "x", "must be auto, priorities, weights, stop, implicit, dasic or dasic,MEANS"),
        (
            "PVM_COSCHEDULING",
            "dasic,implicit",
            "must be auto, priorities, weights, stop, implicit, dasic or dasic,MEANS",
        ),
        ("PVM_MEMORY_LIMITS", "x", "must be auto, group or process"),
        ("PVM_SCOPE", "x", "must be auto or none"),
        ("PVMDDEBUG", "x", "must be a number from 0 to 4294967295: decimal, octal (0…) or hexadecimal (0x…)"),
        (
            "PVM_POLICY",
            "fastest",
            "unknown policy \"fastest\"; choose one of active-pulling, round-robin, proportional, lightly-loaded, local, sender-initiated, receiver-initiated, bidding, up-down, hierarchical, graph-theoretic, coallocation",
        ),
        (
            "PVM_LOG",
            "core=loud",
            "must be a filter such as debug or pvmd_core::spawn=debug: error parsing level filter: \
             expected one of \"off\", \"error\", \"warn\", \"info\", \"debug\", \"trace\", or a number 0-5",
        ),
        ("PVM_VMID", "a/b", "becomes part of a file name: it must have no '/' and at most 200 bytes"),
    ];
    for (variable, wrong, reason) in others {
        let said = refused(Plan::of(&ours).variable(variable, wrong)).ended.stderr;
        assert_eq!(said, format!("pvmd: {variable}={wrong}: {reason}\n"));
    }
    let said = refused(Plan::of(&ours).variable("PVMHOSTFILE", "/no/such/file")).ended.stderr;
    assert_eq!(said, "pvmd: the hostfile /no/such/file: No such file or directory\n");
    for variable in ["PVM_TMP", "PVM_VMID", "PVM_SLICE", "PVM_POLICY", "PVM_LOG", "PVM_WD", "PVMHOSTFILE"] {
        let wrong = OsStr::from_bytes(b"x\xff");
        let said = refused(Plan::of(&ours).variable(variable, wrong)).ended.stderr;
        assert_eq!(said, format!("pvmd: {variable}=x\u{fffd}: must be text in UTF-8\n"));
    }
}

/// What tasks read, in C and in Rust.
#[test]
fn a_task_whose_settings_cannot_be_used_does_not_enrol() {
    let check = "messages about settings of tasks";
    let Some(ours) = Installation::ours_only(check) else { return };
    let Some(programs) = Programs::compile(&["batch"], &ours, Linking::Shared) else { return };
    let machine = Machine::start(&ours);
    let memory = "must be a whole number from 0 to 1099511627776";
    for (variable, wrong, reason) in [
        ("PVM_SHM", "yes", "must be a whole number from 0 to 1"),
        ("PVM_SHM_MAX", "1G", memory),
        ("PVM_SHM_MAX", "-1", memory),
        ("PVM_QUEUE_MAX_BYTES", "1099511627777", memory),
    ] {
        let expected = format!("{variable}={wrong}: {reason}");
        let in_c = Program::run(machine.command(programs.path("batch")).arg("1").env(variable, wrong));
        assert!(in_c.stderr.contains(&expected) && in_c.stdout.starts_with("started -14\n"), "{in_c:#?}");
        let in_rust = Program::run(machine.command(ours.pvm()).arg("ps").env(variable, wrong));
        assert!(in_rust.stderr.contains(&expected) && !in_rust.status.success(), "{in_rust:#?}");
    }
    machine.finish();
}
