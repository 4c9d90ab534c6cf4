//! Running one of Slurm's commands: within a time, with bounded output, and out of the reach of the terminal's signals.

use anyhow::{Context, Result, anyhow, bail};
use std::io::{ErrorKind, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A command may take so long: Slurm's own time limit for a message is 10 s by default, and it tries again.
const LIMIT: Duration = Duration::from_secs(30);
/// Between two looks whether it has ended.
const LOOK: Duration = Duration::from_millis(5);
/// Bytes of output that are read.
const OUTPUT_MAX: u64 = 8 << 20;
/// Characters of what a command complains of that are shown.
const COMPLAINT_MAX: usize = 400;

/// Runs a command with this input; what it has written to standard output.
///
/// # Errors
///
/// If it cannot be run, fails, or takes too long: with what it says on standard error.
pub fn output(command: &mut Command, input: &str) -> Result<String> {
    let name = command.get_program().display().to_string();
    // Ctrl-C is for this program, which ends its jobs by such commands.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow!("there is no {name} here: Slurm's commands are needed"),
        _ => anyhow!(error).context(format!("cannot run {name}")),
    })?;
    let (out, err) = (collect(child.stdout.take()), collect(child.stderr.take()));
    if let Some(mut stdin) = child.stdin.take() {
        // What does not read it says why, or does not need it. A script is shorter than a pipe is.
        let _ = stdin.write_all(input.as_bytes());
    }
    let status = wait(&mut child).with_context(|| name.clone())?;
    let text = |thread: JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&thread.join().unwrap_or_default()).into_owned()
    };
    let (out, err) = (text(out), text(err));
    if !status.success() {
        bail!("{name}: {}", complaint(&name, &err).unwrap_or_else(|| status.to_string()));
    }
    Ok(out)
}

fn wait(child: &mut Child) -> Result<std::process::ExitStatus> {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= end {
            let _ = child.kill();
            let _ = child.wait();
            bail!("no end within {LIMIT:?}");
        }
        thread::sleep(LOOK);
    }
}

fn collect(from: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            // What was read before an error is of use.
            let _ = from.by_ref().take(OUTPUT_MAX).read_to_end(&mut bytes);
            let _ = std::io::copy(&mut from, &mut std::io::sink());
        }
        bytes
    })
}

/// What a command has said on standard error, in one line: without its own name in front of each.
fn complaint(name: &str, text: &str) -> Option<String> {
    let own = format!("{name}: ");
    let lines = text.lines().map(|line| {
        let line = line.trim();
        let line = line.strip_prefix(&own).unwrap_or(line);
        line.strip_prefix("error: ").unwrap_or(line)
    });
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let line: String =
        lines.join("; ").chars().filter(|char| !char.is_control()).take(COMPLAINT_MAX).collect();
    (!line.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, input: &str) -> Result<String> {
        output(Command::new("sh").args(["-c", script]), input)
    }

    #[test]
    fn output_comes_back_or_what_is_wrong() {
        assert_eq!(shell("read a; echo got $a", "x\n").unwrap(), "got x\n");
        let failed = shell("echo 'sh: error: no such partition' >&2; printf 'a\\033b\\n' >&2; exit 1", "");
        assert_eq!(failed.unwrap_err().to_string(), "sh: no such partition; ab");
        assert_eq!(shell("exit 3", "").unwrap_err().to_string(), "sh: exit status: 3");
        let missing = output(&mut Command::new("no-such-sbatch"), "").unwrap_err().to_string();
        assert!(missing.contains("there is no no-such-sbatch here"), "{missing}");
    }
}
