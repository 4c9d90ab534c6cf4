//! The console as a program: its output is PVM's, line by line.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A folder with a virtual machine that ends with it, also when a test fails.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn address_file(&self) -> PathBuf {
        self.path().join(format!("pvmd.{}", rustix::process::getuid().as_raw()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.address_file().exists() {
            converse(self.path(), &[], &["halt"]);
        }
    }
}

/// A console's conversation: what it printed on standard output, and its exit status.
fn converse(tmp: &Path, args: &[&str], lines: &[&str]) -> (String, i32) {
    let mut console = Command::new(env!("CARGO_BIN_EXE_pvm"))
        .args(args)
        .current_dir(tmp)
        .env("PVM_TMP", tmp)
        .env("HOME", tmp)
        .env_remove("PVM_VMID")
        .env_remove("PVMSOCK")
        .env_remove("PVM_EXPORT")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = console.stdin.take().unwrap();
    for line in lines {
        match line.strip_prefix("sleep ") {
            Some(time) => std::thread::sleep(Duration::from_millis(time.parse().unwrap())),
            None => writeln!(stdin, "{line}").unwrap(),
        }
    }
    drop(stdin);
    let output = console.wait_with_output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap_or(-1))
}

/// What a command printed, up to the next prompt; without what jobs wrote meanwhile.
fn answer(text: &str, command: &str) -> String {
    let is_command = |line: &&str| line.strip_prefix("pvm> ").unwrap_or(line) == command;
    let of_job = |line: &&str| line.starts_with('[') && (line.contains(":t") || line.ends_with("finished"));
    let mut lines = text.lines().skip_while(|line| !is_command(line));
    assert!(lines.next().is_some(), "{command}: {text}");
    let answer = lines.take_while(|line| !line.starts_with("pvm> ")).filter(|line| !of_job(line));
    answer.flat_map(|line| [line, "\n"]).collect()
}

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
    assert_eq!(answer(&text, "id 1"), "id: wrong #args\n");
    assert!(text.ends_with("pvm> quit\n\nConsole: exit handler called\npvmd still running.\n"), "{text}");

    let lines =
        ["delete beta nowhere", "add \"gamma via=local\" beta.invalid", "conf", "sleep 100", "names", "halt"];
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
    for _ in 0..100 {
        if !tmp.address_file().exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the daemon goes on after halt");
}

#[test]
fn traced_tasks_tell_of_their_lives() {
    let tmp = Folder::new();
    let lines = [
        "trace + send pvm_recv",
        "trace opt count",
        "trace opt",
        "trace bogus",
        "trace",
        "spawn -@ /bin/true",
        "sleep 500",
        "spawn -2 -@events /bin/sleep 0",
        "sleep 500",
        "halt",
    ];
    let (text, status) = converse(tmp.path(), &[], &lines);
    assert_eq!(status, 0);
    assert_eq!(answer(&text, lines[2]), "Trace Options set to \"count\"\n");
    assert!(answer(&text, lines[3]).starts_with("trace: bogus: no such event"), "{text}");
    let marked = answer(&text, "trace").matches('*').count();
    assert!(marked == 2 && text.contains("*recv") && text.contains("*send"), "{text}");
    let tid = answer(&text, lines[5]).lines().nth(1).unwrap().to_owned();
    for event in ["newtask PT=-35 TF=64 TN=\"/bin/true\"", "spntask PT=-35", "endtask TST=0"] {
        let told = text.lines().any(|line| line.contains(&format!("[T1:{tid}] ")) && line.contains(event));
        assert!(told, "{event}: {text}");
    }
    let file = std::fs::read_to_string(tmp.path().join("events")).unwrap();
    for event in [" newtask ", " spntask ", " endtask "] {
        assert_eq!(file.matches(event).count(), 2, "{file}");
    }
}

#[test]
fn jobs_and_what_they_inherit() {
    let tmp = Folder::new();
    let lines = [
        "setenv GREETING good day",
        "export GREETING",
        "spawn -> /bin/sh -c 'echo $GREETING; echo in $PWD'",
        "sleep 1000",
        "jobs",
        "spawn -2:/tmp ->out /bin/pwd",
        "sleep 1000",
        "spawn -2 -> /bin/sleep 100",
        "jobs",
        "ps",
        "reset",
        "sleep 1000",
        "ps",
        "spawn no-such-program",
        "spawn -nohost /bin/true",
        "halt",
    ];
    let (text, status) = converse(tmp.path(), &[], &lines);
    assert_eq!(status, 0);
    let started = answer(&text, lines[2]);
    assert!(started.starts_with("[1]\n1 successful\nt4000"), "{text}");
    let tid = started.lines().nth(2).unwrap();
    let directory = tmp.path().display();
    for line in
        [format!("[1:{tid}] good day\n"), format!("[1:{tid}] in {directory}\n"), format!("[1:{tid}] EOF\n")]
    {
        assert!(text.contains(&line), "{line}: {text}");
    }
    assert!(text.contains("[1] finished\n"), "{text}");
    let file = std::fs::read_to_string(tmp.path().join("out")).unwrap();
    assert_eq!(file.matches("] /tmp\n").count(), 2, "{file}");
    assert_eq!(file.matches("] EOF\n").count(), 2, "{file}");
    let started = answer(&text, lines[7]);
    let sleeping: Vec<&str> = started.lines().skip(2).collect();
    assert!(text.contains(&format!(" 3: {} {}\n", sleeping[0], sleeping[1])), "{text}");
    assert_eq!(answer(&text, "ps").matches("/bin/sleep  \n").count(), 2, "{text}");
    let after = &text[text.find("reset\n").unwrap()..];
    assert_eq!(answer(after, "ps"), "                    HOST      TID   FLAG 0x COMMAND\n", "{text}");
    assert!(text.contains("[3] finished\n"), "{text}");
    assert_eq!(answer(&text, lines[13]), "0 successful\nNo such file\n");
    assert_eq!(answer(&text, lines[14]), "0 successful\nNo such host\n");
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
    assert!(
        dump.contains("\nteam red: 2 processes, ") && dump.contains("\nteam blue: 1 processes, "),
        "{dump}"
    );

    let mut top = Command::new(env!("CARGO_BIN_EXE_pvm"));
    let top =
        top.args(["top", "--once", "--interval", "0.1"]).env("PVM_TMP", tmp.path()).env_remove("PVM_VMID");
    let output = top.env_remove("PVMSOCK").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table = String::from_utf8(output.stdout).unwrap();
    let words: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    let team =
        |name: &str| words.iter().find(|words| words.first() == Some(&name)).expect(&table)[1..3].to_vec();
    assert_eq!((team("red"), team("blue")), (vec!["2", "1"], vec!["1", "1"]));
    assert_eq!(words.iter().filter(|words| words.last() == Some(&"/bin/sleep")).count(), 3, "{table}");
    assert!(!table.contains('\x1b'), "a pipe is no terminal: {table}");
}

#[test]
fn batches_are_queued_listed_watched_and_cancelled() {
    let tmp = Folder::new();
    let lines = [
        "spawn -50 -+ /bin/sleep 100",
        "sleep 1000",
        "batch -l",
        "batch -c 40001",
        "sleep 1000",
        "batch",
        "spawn -20 -+ -%round-robin /bin/true",
        "batch -w 40002",
        "batch -c 40002",
        "spawn -%fifo /bin/true",
        "batch -w 40009",
        "halt",
    ];
    let (text, status) = converse(tmp.path(), &["-nvm"], &lines);
    assert_eq!(status, 0);
    assert_eq!(answer(&text, lines[0]), "batch 40001\n", "{text}");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let cores = std::thread::available_parallelism().unwrap().get();
    let (running, waiting) = (cores.min(50).to_string(), (50 - cores.min(50)).to_string());
    let list = answer(&text, lines[2]);
    let row = words(list.lines().nth(1).unwrap());
    assert_eq!([&row[2], &row[3], &row[4]], ["50", &waiting, &running], "{text}");
    let node = words(list.lines().nth(3).unwrap());
    assert_eq!(
        [node.first(), node.get(1), node.last()],
        [Some(&"vm".to_owned()), Some(&cores.to_string()), Some(&running)],
        "{text}"
    );
    let row = words(answer(&text, "batch").lines().nth(1).unwrap());
    assert_eq!((&row[0][..], &row[4][..], &row[7][..]), ("40001", "0", "50"), "{text}");
    let row = words(answer(&text, lines[7]).lines().nth(1).unwrap());
    assert_eq!((&row[5][..], &row[9][..]), ("20", "round-robin"), "{text}");
    assert!(answer(&text, lines[8]).contains("cancelling batch 40002: "), "{text}");
    assert!(answer(&text, lines[9]).contains("there is no policy \"fifo\""), "{text}");
    assert_eq!(answer(&text, lines[10]), "batch: 40009: there is no such batch\n", "{text}");
}
