//! A program that says whether the owner of this host is there: line by line while it runs, or by its exit status.

use super::{Complaint, Signs, Told};
use pvmd_core::event::OwnerSign;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::warn;

/// From its end until it is started again.
const PAUSE: Duration = Duration::from_secs(5);
/// How long is read on when it has ended: what it has started may have its output open still.
const REST: Duration = Duration::from_secs(1);
/// Longest line, in bytes.
const LINE_MAX: usize = 4096;
/// What is shown of a line that says nothing, in characters.
const SHOWN: usize = 80;
/// What is read at once, in bytes.
const PIECE: usize = 512;

/// Tells for ever what the program says.
pub(super) async fn watch(signs: &Signs, program: &str) {
    let mut asked = Asked { signs, program, lines: Complaint::default(), ends: Complaint::default() };
    loop {
        asked.run().await;
        sleep(PAUSE).await;
    }
}

/// What a line says.
fn said(line: &[u8]) -> Option<bool> {
    match line.trim_ascii() {
        b"here" => Some(true),
        b"gone" => Some(false),
        _ => None,
    }
}

/// What the end of a program says that has not said anything before.
fn said_by_end(status: ExitStatus) -> Option<bool> {
    match status.code() {
        Some(0) => Some(true),
        Some(1) => Some(false),
        _ => None,
    }
}

/// Lines of bytes that come in pieces. One that is too long is cut off.
#[derive(Debug, Default)]
struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    /// The lines that end in this piece.
    fn push(&mut self, piece: &[u8]) -> Vec<Vec<u8>> {
        let mut ended = Vec::new();
        for &byte in piece {
            if byte == b'\n' {
                ended.push(std::mem::take(&mut self.begun));
            } else if self.begun.len() < LINE_MAX {
                self.begun.push(byte);
            }
        }
        ended
    }

    /// The last line, if it has no end.
    fn rest(self) -> Option<Vec<u8>> {
        (!self.begun.is_empty()).then_some(self.begun)
    }
}

/// A program that is asked again and again.
struct Asked<'a> {
    signs: &'a Signs,
    program: &'a str,
    /// About lines.
    lines: Complaint,
    /// About its end.
    ends: Complaint,
}

impl Asked<'_> {
    /// Until it has ended.
    async fn run(&mut self) {
        let mut command = Command::new(self.program);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let started = command.spawn().and_then(|mut child| {
            let output = child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
            Ok((child, output))
        });
        let (child, output) = match started {
            Ok(started) => started,
            Err(error) => return self.complain_of_end(&pvm_wire::plain(&error)),
        };
        let mut told = Told::default();
        let status = self.listen(child, output, &mut told).await;
        match status {
            Err(error) => self.complain_of_end(&pvm_wire::plain(&error)),
            Ok(status) => match said_by_end(status) {
                None => self.complain_of_end(&status.to_string()),
                Some(is_here) => {
                    self.ends.is_over();
                    if told.0.is_none() {
                        self.signs.tell(OwnerSign::Says(is_here)).await;
                    }
                }
            },
        }
    }

    /// Reads what it says until it has ended.
    async fn listen(
        &mut self,
        mut child: Child,
        mut output: ChildStdout,
        told: &mut Told,
    ) -> std::io::Result<ExitStatus> {
        let (mut lines, mut piece) = (Lines::default(), [0; PIECE]);
        let (mut ended, mut end) = (None, Instant::now());
        loop {
            let length = tokio::select! {
                biased;
                read = output.read(&mut piece) => read.unwrap_or(0),
                status = child.wait(), if ended.is_none() => {
                    (ended, end) = (Some(status), Instant::now() + REST);
                    continue;
                }
                () = sleep_until(end), if ended.is_some() => 0,
            };
            for line in lines.push(&piece[..length]) {
                self.take(&line, told).await;
            }
            if length == 0 {
                break;
            }
        }
        if let Some(line) = lines.rest() {
            self.take(&line, told).await;
        }
        match ended {
            Some(status) => status,
            None => child.wait().await,
        }
    }

    /// What it says again need not be told.
    async fn take(&mut self, line: &[u8], told: &mut Told) {
        match said(line) {
            Some(is_here) => {
                self.lines.is_over();
                if let Some(is_here) = told.news(is_here) {
                    self.signs.tell(OwnerSign::Says(is_here)).await;
                }
            }
            None if self.lines.is_new() => {
                let line: String = String::from_utf8_lossy(line).chars().take(SHOWN).collect();
                warn!(program = self.program, ?line, "the owner's program says neither `here` nor `gone`");
            }
            None => {}
        }
    }

    fn complain_of_end(&mut self, reason: &str) {
        if self.ends.is_new() {
            warn!(
                program = self.program,
                reason, "the owner's program does not say whether the owner is here"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::next;
    use super::*;
    use crate::io::captured_log::CapturedLog;
    use crate::io::driver::Input;
    use std::os::unix::fs::PermissionsExt;
    use tokio::sync::mpsc;

    #[test]
    fn lines_say_something_or_not() {
        assert_eq!(said(b"here"), Some(true));
        assert_eq!(said(b" gone\r"), Some(false));
        for other in [&b""[..], b"Here", b"here gone", b"\xff"] {
            assert_eq!(said(other), None);
        }
    }

    #[test]
    fn lines_come_in_pieces_and_have_a_bound() {
        let mut lines = Lines::default();
        assert!(lines.push(b"he").is_empty());
        assert_eq!(lines.push(b"re\n\ngone\nx"), [&b"here"[..], b"", b"gone"]);
        assert!(lines.push(&[b'x'; 2 * LINE_MAX]).is_empty());
        assert_eq!(lines.push(b"x\n")[0].len(), LINE_MAX);
        assert_eq!(lines.rest(), None);
        let mut lines = Lines::default();
        lines.push(b"gone");
        assert_eq!(lines.rest(), Some(b"gone".to_vec()));
    }

    fn script(folder: &tempfile::TempDir, text: &str) -> String {
        let path = folder.path().join("is-owner-here");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    /// What is told of a program that is run once, or twice.
    async fn told(text: &str, times: usize) -> Vec<OwnerSign> {
        let folder = tempfile::tempdir().unwrap();
        let program = script(&folder, text);
        let (input, mut received) = mpsc::channel(64);
        let signs = Signs(input);
        let mut asked = Asked {
            signs: &signs,
            program: &program,
            lines: Complaint::default(),
            ends: Complaint::default(),
        };
        for _ in 0..times {
            asked.run().await;
        }
        drop(signs);
        let mut told = Vec::new();
        while let Some(Input::Event(pvmd_core::event::Event::Owner(sign))) = received.recv().await {
            told.push(sign);
        }
        told
    }

    const HERE: OwnerSign = OwnerSign::Says(true);
    const GONE: OwnerSign = OwnerSign::Says(false);

    #[tokio::test]
    async fn lines_and_exit_statuses_are_told() {
        assert_eq!(told("exit 0", 2).await, [HERE, HERE]);
        assert_eq!(told("exit 1", 1).await, [GONE]);
        assert_eq!(told("exit 2", 1).await, []);
        assert_eq!(told("kill -9 $$", 1).await, []);
        assert_eq!(told("echo here; echo here; echo well; printf gone; exit 0", 1).await, [HERE, GONE]);
        // Its output stays open.
        assert_eq!(told("sleep 5 & echo gone", 1).await, [GONE]);
    }

    #[tokio::test]
    async fn a_program_that_says_nothing_is_complained_of_once() {
        let (log, _guard) = CapturedLog::start();
        assert_eq!(told("echo well; echo well; exit 3", 2).await, []);
        let text = log.text();
        assert_eq!(text.matches("neither `here` nor `gone`").count(), 1, "{text}");
        assert_eq!(text.matches("exit status: 3").count(), 1, "{text}");
    }

    #[tokio::test]
    async fn one_that_is_not_there_is_complained_of() {
        let (log, _guard) = CapturedLog::start();
        let signs = Signs(mpsc::channel(1).0);
        let (lines, ends) = (Complaint::default(), Complaint::default());
        Asked { signs: &signs, program: "/none/such", lines, ends }.run().await;
        assert!(log.text().contains("No such file"), "{}", log.text());
    }

    #[tokio::test]
    async fn a_line_is_told_while_the_program_runs() {
        let folder = tempfile::tempdir().unwrap();
        let program = script(&folder, "echo here; exec sleep 1000");
        let (input, mut received) = mpsc::channel(4);
        let watching = tokio::spawn(async move { watch(&Signs(input), &program).await });
        assert_eq!(next(&mut received).await, HERE);
        watching.abort();
    }
}
