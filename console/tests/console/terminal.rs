//! The console at a terminal: line editing, pasting, completion; and `pvm top`.

use crate::conversation::{self, Folder};
use pvm_tests::wait;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

/// A program at a pseudo-terminal of its own.
struct Terminal {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<Vec<u8>>>,
}

/// Starts a program at a new terminal, whose other end is returned, too.
fn at_terminal(mut command: Command) -> (Child, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let size = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&master, size).unwrap();
    let slave = OpenOptions::new().read(true).write(true).open(name).unwrap();
    if !command.get_envs().any(|(name, _)| name == "TERM") {
        command.env("TERM", "xterm");
    }
    command.stdin(slave.try_clone().unwrap());
    command.stdout(slave.try_clone().unwrap()).stderr(slave);
    (command.spawn().unwrap(), File::from(master))
}

impl Terminal {
    /// Starts a console, and waits for its prompt.
    fn start(tmp: &Path) -> Self {
        let terminal = Self::of(tmp, &[]);
        terminal.shows("pvm> ");
        terminal
    }

    /// Starts `pvm` with these arguments.
    fn of(tmp: &Path, args: &[&str]) -> Self {
        Self::of_command(conversation::pvm(tmp, args))
    }

    fn of_command(command: Command) -> Self {
        let (child, keyboard) = at_terminal(command);
        let screen = Arc::new(Mutex::new(Vec::new()));
        let (mut output, seen) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            // It ends with an error when nobody has the terminal open any more.
            while let Ok(length @ 1..) = output.read(&mut piece) {
                seen.lock().unwrap().extend_from_slice(&piece[..length]);
            }
        });
        Self { child, keyboard, screen }
    }

    /// Keys are hit, or something is pasted: all of it at once.
    fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        self.shows_times(text, 1);
    }

    #[track_caller]
    fn shows_times(&self, text: &str, times: usize) {
        let is_shown = wait::holds(|| self.screen().matches(text).count() >= times);
        assert!(is_shown, "never showed {text:?} {times} times:\n{}", self.screen());
    }

    /// The machine is halted.
    fn halt(mut self) {
        self.types("halt\r");
        assert!(self.child.wait().unwrap().success(), "{}", self.screen());
    }
}

#[test]
fn pasted_lines_are_all_carried_out() {
    let tmp = Folder::new();
    let mut terminal = Terminal::start(tmp.path());
    terminal.types("echo o''ne\recho t''wo\recho th''ree\recho fo''ur\r");
    // What is typed has quotes in it, what is printed has not.
    for line in ["\none\r\n", "\ntwo\r\n", "\nthree\r\n", "\nfour\r\n"] {
        terminal.shows(line);
    }
    // A terminal may mark the begin and the end of what is pasted; the last line awaits its end.
    terminal.types("\x1b[200~echo f''ive\recho si''x\n\recho sev''en\x1b[201~\r");
    for line in ["\nfive\r\n", "\nsix\r\n", "\nseven\r\n"] {
        terminal.shows(line);
    }
    terminal.halt();
}

#[test]
fn the_tab_key_completes_and_lines_are_remembered() {
    let tmp = Folder::new();
    std::fs::write(tmp.path().join(".pvmrc"), "alias greeting echo hel''lo\n").unwrap();
    let mut terminal = Terminal::start(tmp.path());
    terminal.types("gree\t\r");
    terminal.shows("\nhello\r\n");
    terminal.types("spawn /bin/sleep 1000\r");
    terminal.shows("1 successful\r\n");
    // There is one task to choose.
    terminal.types("pstat \t\r");
    terminal.shows("  run\r\n");
    terminal.types("history 2\r");
    for line in ["pstat t4000", "history 2"] {
        terminal.shows(&format!("  {line}"));
    }
    terminal.halt();
    // The next console knows the lines of this one.
    let mut terminal = Terminal::start(tmp.path());
    terminal.types("history\r");
    terminal.shows("    1  greeting");
    terminal.halt();
}

/// What a terminal is told when a program that had the whole screen gives it back.
const SCREEN_BACK: &str = "\x1b[?1049l";

#[test]
fn top_has_two_screens_and_a_help_and_leaves_the_terminal_as_it_was() {
    let tmp = Folder::new();
    let mut console = Terminal::start(tmp.path());
    console.types("spawn /bin/sleep 1000\r");
    console.shows("1 successful\r\n");
    let mut top = Terminal::of(tmp.path(), &["top", "--interval", "0.1"]);
    // Only what changes is written, so words are looked for that the screen did not have before.
    for text in ["BYTE/s", "/bin/sleep"] {
        top.shows(text);
    }
    top.types("c");
    top.shows("DAEMONS%");
    top.types("?");
    top.shows("SLOWDOWN:");
    top.types("x/zebra\r");
    top.shows("\"zebra\",");
    assert!(!top.screen().contains(SCREEN_BACK));
    top.types("q");
    assert!(top.child.wait().unwrap().success(), "{}", top.screen());
    top.shows(SCREEN_BACK);

    let mut stopped = Terminal::of(tmp.path(), &["top"]);
    stopped.shows("/bin/sleep");
    kill_process(Pid::from_child(&stopped.child), Signal::TERM).unwrap();
    assert!(stopped.child.wait().unwrap().success(), "{}", stopped.screen());
    stopped.shows(SCREEN_BACK);

    let mut lost = Terminal::of(tmp.path(), &["top", "--interval", "0.1"]);
    lost.shows("/bin/sleep");
    console.halt();
    assert_eq!(lost.child.wait().unwrap().code(), Some(1), "{}", lost.screen());
    lost.shows("the virtual machine has ended");
    let screen = lost.screen();
    let (back, why) = (screen.find(SCREEN_BACK), screen.find("the virtual machine has ended"));
    assert!(back.is_some() && back < why, "{screen}");
}

/// The terminal's window is closed, or its connection lost. No signal comes, as the test's terminal is not the program's own.
#[test]
fn top_ends_with_its_terminal() {
    let tmp = Folder::new();
    let console = Terminal::start(tmp.path());
    let (mut child, mut terminal) = at_terminal(conversation::pvm(tmp.path(), &["top"]));
    let (mut shown, mut piece) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&shown).contains("BYTE/s") {
        let length = terminal.read(&mut piece).unwrap();
        shown.extend_from_slice(&piece[..length]);
    }
    drop(terminal);
    wait::becomes_true("the end of pvm top", || child.try_wait().unwrap().is_some());
    console.halt();
}

#[test]
fn measuring_shows_its_progress_unless_the_terminal_is_dumb() {
    let tmp = Folder::new();
    for (term, is_shown) in [("xterm", true), ("dumb", false)] {
        let args = ["bench", "--hosts", "1", "--quick", "--seconds", "1", "latency"];
        let mut command = conversation::pvm(tmp.path(), &args);
        command.env("TERM", term);
        let mut terminal = Terminal::of_command(command);
        terminal.shows("MEASURED  WHERE ");
        assert!(terminal.child.wait().unwrap().success(), "{}", terminal.screen());
        assert_eq!(terminal.screen().contains('\u{1b}'), is_shown, "{term}: {:?}", terminal.screen());
    }
}
