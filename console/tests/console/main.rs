//! The console as a program: its output is PVM's, line by line.

mod conversation;
mod shell;
mod terminal;

use conversation::{Console, Folder, answer, converse};
use pvm_tests::{Program, process, wait};
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_machines_life() {
    let tmp = Folder::new();
    std::fs::write(tmp.path().join("hosts"), "alpha sp=700\nbeta sp=2000 via=local\n").unwrap();
    std::fs::write(tmp.path().join(".pvmrc"), "alias c conf\n").unwrap();
    let stale = tmp.path().join("nobody");
    std::fs::write(tmp.address_file(), stale.to_str().unwrap()).unwrap();

    let lines = ["version", "id", "c", "ps -ax", "mstat beta . nowhere", "pstat 40001 3", "bogus", "id 1"];
    let (text, status) = converse(tmp.path(), &["-nalpha", "hosts"], &lines);
    assert_eq!(status, 0);
    assert_eq!(answer(&text, "version"), "3.4.6\n");
    assert_eq!(answer(&text, "id"), "t40001\n");
    let conf = answer(&text, "c");
    assert!(conf.starts_with(
        "2 hosts, 1 data format\n                    HOST     DTID     ARCH   SPEED       DSIG\n"
    ));
    assert!(conf.contains("\n                   alpha    40000  LINUX64     700 0x"), "{conf}");
    assert!(conf.contains("\n                    beta    80000  LINUX64    2000 0x"), "{conf}");
    assert!(answer(&text, "ps -ax").contains("\n                   alpha   (cons)       4/c -           \n"));
    let expected = "                    beta  ok\n                       .  ok\n                 nowhere  No such host\n";
    assert_eq!(answer(&text, lines[4]), expected);
    assert_eq!(answer(&text, lines[5]), "t   40001  run\nt       3  No such task\n");
    assert_eq!(answer(&text, "bogus"), "bogus: not found\n");
    assert_eq!(answer(&text, "id 1"), "id: wrong #args\nSyntax:  id\n");
    assert!(text.ends_with("pvm> quit\n\nConsole: exit handler called\npvmd still running.\n"), "{text}");

    let lines = ["delete beta nowhere", "add \"gamma via=local\" beta.invalid", "conf", "names", "halt"];
    let (text, status) = converse(tmp.path(), &[], &lines);
    assert_eq!(status, 0);
    assert!(text.starts_with("pvmd already running.\npvm> "), "{text}");
    let expected = "1 successful\n                    HOST  STATUS\n                    beta  deleted\n                 nowhere  No such host\n";
    assert_eq!(answer(&text, lines[0]), expected);
    let added = answer(&text, lines[1]);
    assert!(
        added.starts_with("1 successful\n                    HOST     DTID\n                   gamma    "),
        "{added}"
    );
    assert!(added.lines().nth(3).unwrap().starts_with("            beta.invalid "), "{added}");
    assert!(answer(&text, "conf").starts_with("2 hosts, "));
    assert!(!text.contains("new host"), "what was added here is no news: {text}");
    assert!(answer(&text, "names").starts_with("<###_PVM_NO_RESET_###>:\n\tindex=0 owner=0x4000"), "{text}");
    assert!(text.ends_with("pvm> halt\n"), "{text}");
    wait::becomes_true("the daemon's end after halt", || !tmp.address_file().exists());
}

#[test]
fn traced_tasks_report_their_events() {
    let tmp = Folder::new();
    let mut console = Console::start(tmp.path(), &[]);
    // What is not told otherwise is what PVM 3.4.6's console does.
    assert_eq!(console.ask("trace").matches('*').count(), 24);
    assert_eq!(console.ask("getopt PvmTraceOptions"), "PvmTraceOptions Currently Set to 1\n");
    console.enter("trace - *");
    console.enter("trace + send pvm_recv");
    assert_eq!(console.ask("trace opt count"), "");
    assert_eq!(console.ask("trace opt"), "\nTrace Options set to \"count\"\n\n");
    let refused = console.ask("trace bogus");
    assert!(refused.starts_with("trace: bogus: no such event"), "{refused}");
    let marks = console.ask("trace");
    assert!(
        marks.matches('*').count() == 2 && marks.contains("* recv ") && marks.contains("* send "),
        "{marks}"
    );
    let spawned = console.ask("spawn -@ /bin/true");
    let tid = spawned.lines().nth(1).unwrap();
    for event in ["newtask PT=-35 TF=64 TN=\"/bin/true\"", "spntask PT=-35", "endtask TST=0"] {
        console.expect_output(event);
        let text = console.output();
        let told = text.lines().any(|line| line.contains(&format!("[T1:{tid}] ")) && line.contains(event));
        assert!(told, "{event}: {text}");
    }
    console.enter("spawn -2 -@events /bin/sleep 0");
    let file = || std::fs::read_to_string(tmp.path().join("events")).unwrap_or_default();
    wait::holds(|| file().matches(" endtask ").count() == 2);
    for event in [" newtask ", " spntask ", " endtask "] {
        assert_eq!(file().matches(event).count(), 2, "{}", file());
    }
    console.enter("halt");
    assert_eq!(console.end().1, 0);
}

#[test]
fn jobs_and_what_they_inherit() {
    let tmp = Folder::new();
    let mut console = Console::start(tmp.path(), &[]);
    console.enter("setenv GREETING good day");
    console.enter("export GREETING");
    let started = console.ask("spawn -> /bin/sh -c 'echo $GREETING; echo in $PWD'");
    assert!(started.starts_with("[1]\n1 successful\nt4000"), "{started}");
    let tid = started.lines().nth(2).unwrap();
    console.expect_output("[1] finished\n");
    let (text, directory) = (console.output(), tmp.path().display());
    for line in
        [format!("[1:{tid}] good day\n"), format!("[1:{tid}] in {directory}\n"), format!("[1:{tid}] EOF\n")]
    {
        assert!(text.contains(&line), "{line}: {text}");
    }
    assert_eq!(console.ask("jobs"), "");
    console.enter("spawn -2:/tmp ->out /bin/pwd");
    console.expect_output("[2] finished\n");
    let file = std::fs::read_to_string(tmp.path().join("out")).unwrap();
    assert_eq!(file.matches("] /tmp\n").count(), 2, "{file}");
    assert_eq!(file.matches("] EOF\n").count(), 2, "{file}");
    let started = console.ask("spawn -2 -> /bin/sleep 100");
    let sleeping: Vec<&str> = started.lines().skip(2).collect();
    let jobs = console.ask("jobs");
    assert!(jobs.contains(&format!(" 3: {} {}\n", sleeping[0], sleeping[1])), "{jobs}");
    let jobs = console.ask("jobs -l");
    let lines: Vec<&str> = jobs.lines().collect();
    assert_eq!(lines[..2], ["                    HOST      TID   FLAG 0x COMMAND", " 3:"]);
    assert_eq!((lines.len(), lines[2].ends_with("2/f /bin/sleep  ")), (4, true), "{jobs}");
    assert_eq!(console.ask("getopt PvmNoReset"), "PvmNoReset Currently Set to 1\n");
    assert_eq!(console.ask("setopt PvmNoReset 0"), "PvmNoReset Changed from 1 to 0\n");
    assert_eq!(console.ask("names"), "");
    assert_eq!(console.ask("setopt PvmNoReset 1"), "PvmNoReset Changed from 0 to 1\n");
    assert!(console.ask("getopt").ends_with("\nPvmNoReset Currently Set to 1\n"));
    assert!(console.ask("names").starts_with("<###_PVM_NO_RESET_###>:\n"));
    let tasks = console.ask("ps");
    assert_eq!(tasks.matches("/bin/sleep  \n").count(), 2, "{tasks}");
    console.enter("reset");
    console.expect_output("[3] finished\n");
    console.becomes("ps", |tasks| tasks == "                    HOST      TID   FLAG 0x COMMAND\n");
    console.enter("halt");
    assert_eq!(console.end().1, 0);
}

#[test]
fn a_failed_spawn_prints_each_reason_once_per_host() {
    let tmp = Folder::new();
    std::fs::write(tmp.path().join("hosts"), "alpha\nbeta via=local\n").unwrap();
    let mut console = Console::start(tmp.path(), &["-nalpha", "hosts"]);
    let path = tmp.path().join("program");
    let mut ask = |words: &str, content: &str, mode: u32| {
        // A new file: what ran it before may still have it open.
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        console.ask(&format!("spawn {words}")).replace(path.to_str().unwrap(), "PROGRAM")
    };
    let program = path.to_str().unwrap();
    let answer = ask(&format!("-3 -alpha {program}"), "#!/no/such/perl6\n", 0o755);
    let reason = "alpha: PROGRAM: its interpreter /no/such/perl6 does not exist (3 tasks)\n";
    assert_eq!(answer, format!("0 successful\n{reason}"));
    let answer = ask(&format!("-beta {program}"), "", 0o644);
    let reason = "beta: PROGRAM: permission denied: it is not executable (chmod +x)\n";
    assert_eq!(answer, format!("0 successful\n{reason}"));
    let answer = ask(&format!("-. {program}"), "\x7fELF and no more", 0o755);
    assert!(answer.contains("alpha: PROGRAM: it is not a program for this machine"), "{answer}");
    let answer = ask("-8 no-such-program", "", 0o755);
    let lines: Vec<&str> = answer.lines().collect();
    assert!((2..=3).contains(&lines.len()), "a line for each host: {answer}");
    for line in &lines[1..] {
        assert!(line.contains(": no-such-program: not found in /"), "{answer}");
    }
    let answer = ask("-5 -nohost /bin/true", "", 0o755);
    assert_eq!(answer, "0 successful\nthe virtual machine has no host nohost (5 tasks)\n");
    console.enter("halt");
    assert_eq!(console.end().1, 0);
}

#[test]
fn signals_and_ends_reach_tasks_and_nothing_else() {
    let tmp = Folder::new();
    let mut console = Console::start(tmp.path(), &["-nvm"]);
    let own = console.ask("id").trim().to_owned();
    let that_is = format!("{own}: that is this console\n");
    for command in ["kill", "sig TERM", "sig 9"] {
        assert_eq!(console.ask(&format!("{command} {own}")), that_is);
    }
    assert_eq!(console.ask("kill t40fff"), "t40fff: no such task\n");
    let script = "while :; do sleep 0.01; done";
    let started =
        console.ask(&format!("spawn -> /bin/sh -c \"trap 'echo got it' USR1; echo runs; {script}\""));
    let tid = started.lines().nth(2).unwrap().to_owned();
    console.expect_output(&format!("[1:{tid}] runs"));
    for bad in ["99", "0", "TREM"] {
        let refused = console.ask(&format!("sig {bad} {tid}"));
        assert_eq!(
            refused,
            format!("{bad}: no such signal (a number from 1 to 64, or a name such as TERM)\n")
        );
    }
    assert_eq!(console.ask(&format!("sig sigusr1 {tid}")), "");
    console.expect_output(&format!("[1:{tid}] got it"));
    assert_eq!(console.ask(&format!("sig KILL {tid}")), "");
    console.expect_output("[1] finished");
    assert_eq!(console.ask("kill"), "kill: wrong #args\nSyntax:  kill [ -c ] tid ...\n");
    let last = console.ask("history 1");
    assert!(last.ends_with("  history 1\n") && last.lines().count() == 1, "{last}");
    console.enter("halt");
    assert_eq!(console.end().1, 0);
}

#[test]
fn teams_are_shown() {
    let tmp = Folder::new();
    let lines = [
        "export PVM_TEAM",
        "setenv PVM_TEAM red",
        "spawn -2 /bin/sleep 1000",
        "spawn -=blue /bin/sleep 1000",
        "conf -l",
        "conf -x",
        "dump",
    ];
    let (text, status) = converse(tmp.path(), &["-nalpha"], &lines);
    assert_eq!(status, 0);
    let conf = answer(&text, "conf -l");
    let turns: Vec<&str> = conf.lines().nth(4).expect(&conf).split_whitespace().collect();
    assert_eq!((turns[0], turns[2]), ("alpha", "50ms"), "{conf}");
    assert!(turns[3].ends_with("us") && turns[3] != "0.0us", "{conf}");
    assert!(answer(&text, "conf -x").contains("no such option"));
    let dump = answer(&text, "dump");
    assert!(!dump.contains('{') && dump.contains(" subscribes to new hosts, without end\n"), "{dump}");
    assert!(
        dump.contains("\nteam red: 2 processes, ") && dump.contains("\nteam blue: 1 processes, "),
        "{dump}"
    );

    let top = Program::run(&mut conversation::pvm(
        tmp.path(),
        &["top", "--once", "--coscheduling", "--interval", "0.1"],
    ));
    top.expect_success();
    let table = top.stdout;
    let words: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    let team =
        |name: &str| words.iter().find(|words| words.first() == Some(&name)).expect(&table)[1..3].to_vec();
    assert_eq!((team("red"), team("blue")), (vec!["2", "1"], vec!["1", "1"]));
    assert_eq!(words.iter().filter(|words| words.last() == Some(&"/bin/sleep")).count(), 3, "{table}");
    assert!(!table.contains('\x1b'), "a pipe is no terminal: {table}");
    // What is no program of PVM cannot say how long it spins. The observer is not listed.
    let spin = |command: &[&str]| words.iter().find(|words| words.ends_with(command)).map(|words| words[5]);
    assert_eq!((spin(&["pvm", "top"]), spin(&["/bin/sleep"])), (None, Some("-")), "{table}");
}

#[test]
fn batches_are_queued_listed_watched_and_cancelled() {
    let tmp = Folder::new();
    let mut console = Console::start(tmp.path(), &["-nvm"]);
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let row = |list: &str, line| words(list.lines().nth(line).unwrap_or_default());
    assert_eq!(console.ask("spawn -50 -+ /bin/sleep 100"), "batch 40001\n");
    let cores = std::thread::available_parallelism().unwrap().get();
    let (running, waiting) = (cores.min(50).to_string(), (50 - cores.min(50)).to_string());
    let list = console.becomes("batch -l", |list| row(list, 1).get(4) == Some(&running));
    assert_eq!(row(&list, 1)[2..5], ["50".to_owned(), waiting, running.clone()], "{list}");
    let node = row(&list, 3);
    assert_eq!([&node[0], &node[1], node.last().unwrap()], ["vm", &cores.to_string(), &running], "{list}");
    console.enter("batch -c 40001");
    let list = console.becomes("batch", |list| row(list, 1).get(4).is_some_and(|running| running == "0"));
    assert_eq!((&row(&list, 1)[0][..], &row(&list, 1)[7][..]), ("40001", "50"), "{list}");
    console.enter("spawn -20 -+ -%round-robin /bin/true");
    let list = console.ask("batch -w 40002");
    assert_eq!((&row(&list, 1)[5][..], &row(&list, 1)[9][..]), ("20", "round-robin"), "{list}");
    let late = console.ask("batch -c 40002");
    assert_eq!(late, "40002: no such batch, or it has completed\n");
    let refused = console.ask("spawn -%fifo /bin/true");
    assert!(refused.contains("unknown policy \"fifo\""), "{refused}");
    assert_eq!(console.ask("batch -w 40009"), "batch: 40009: no such batch\n");
    console.enter("halt");
    assert_eq!(console.end().1, 0);
}

#[test]
fn lost_hosts_and_crashed_tasks_are_printed_while_the_console_waits() {
    let folder = Folder::new();
    let mut console = Console::start(folder.path(), &["-na"]);
    console.ask("add \"b via=local\"");
    console.ask("spawn -b /bin/sleep 1000");
    console.enter("spawn /bin/sh -c 'kill -SEGV $$'");
    console.expect_output("] /bin/sh was killed by signal 11 (Segmentation fault)\n");
    let processes = process::with_environment(folder.path());
    let slaves: Vec<_> = processes.iter().filter(|it| it.command.ends_with("--slave-daemon")).collect();
    assert_eq!(slaves.len(), 1, "{processes:?}");
    assert!(process::signal(slaves[0].pid, Signal::KILL));
    console.expect_output("host b (t80000) was lost: ");
    console.expect_output("; 1 task ran there: /bin/sleep t80001\n");
    // What is deleted or killed on purpose is not lost.
    console.ask("add \"c via=local\"");
    console.ask("spawn -c /bin/sleep 1000");
    console.ask("spawn -2 -a /bin/sleep 1000");
    console.ask("reset");
    console.ask("delete c");
    console.ask("conf");
    let output = console.output();
    assert_eq!(
        (output.matches(" was lost").count(), output.matches(" was killed").count()),
        (1, 1),
        "{output}"
    );
    console.enter("halt");
    console.end();
}
