//! Running a measured program and reading what it prints.

use anyhow::{Context, Result, bail, ensure};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often it is looked whether a program has ended.
const INTERVAL: Duration = Duration::from_millis(10);

/// One measured value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// For which size, or number of tasks.
    pub x: u64,
    /// How long one took.
    pub seconds: f64,
}

/// Runs a measured program, for so long at most, and gives its samples.
pub fn measure(command: &mut Command, limit: Duration) -> Result<Vec<Sample>> {
    let output = output(command, limit)?;
    let samples = parse(&output)?;
    ensure!(!samples.is_empty(), "it printed no result");
    Ok(samples)
}

/// Lines of an x and a time in seconds.
pub fn parse(text: &str) -> Result<Vec<Sample>> {
    text.lines().filter(|line| !line.trim().is_empty()).map(sample).collect()
}

fn sample(line: &str) -> Result<Sample> {
    let mut words = line.split_whitespace();
    let (Some(x), Some(seconds), None) = (words.next(), words.next(), words.next()) else {
        bail!("{line:?} is no result");
    };
    let x = x.parse().with_context(|| format!("{line:?} is no result"))?;
    let seconds: f64 = seconds.parse().with_context(|| format!("{line:?} is no result"))?;
    ensure!(seconds.is_finite() && seconds > 0.0, "{line:?} is no time that something took");
    Ok(Sample { x, seconds })
}

/// The output of a program that succeeds; otherwise an error with its standard error.
pub fn output(command: &mut Command, limit: Duration) -> Result<String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let printed = collect(child.stdout.take());
    let said = collect(child.stderr.take());
    let Some(success) = wait(&mut child, limit)? else {
        child.kill()?;
        child.wait()?;
        bail!("it did not end within {} s", limit.as_secs());
    };
    let [printed, said] = [printed, said].map(|reader| reader.join().unwrap_or_default());
    // Open MPI draws lines around its messages.
    let reason = said.lines().rfind(|line| line.contains(char::is_alphabetic));
    ensure!(success, "{}", reason.unwrap_or("it failed and did not say why"));
    Ok(printed)
}

/// Whether it ended well, or nothing if it has not ended in time.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<bool>> {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        thread::sleep(INTERVAL);
    }
    Ok(None)
}

fn collect(stream: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // Output before an error is still worth showing.
        let _ = stream.map(|mut stream| stream.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn results_are_lines_of_two_numbers() {
        let samples = parse("4 2.5e-07\n\n1048576 0.001\n").expect("results");
        assert_eq!(samples, [Sample { x: 4, seconds: 2.5e-7 }, Sample { x: 1_048_576, seconds: 0.001 }]);
    }

    #[test]
    fn anything_else_is_an_error_that_shows_the_line() {
        for line in ["4", "4 1 2", "four 1", "4 fast", "-4 1", "4 NaN", "4 inf", "4 0", "4 -1"] {
            let error = parse(line).expect_err(line).to_string();
            assert!(error.contains(line), "{error}");
        }
    }

    #[test]
    fn a_program_that_ends_well_gives_its_samples() {
        let samples =
            measure(&mut shell("echo 1 0.5; echo 2 0.25"), Duration::from_secs(60)).expect("results");
        assert_eq!(samples.len(), 2);
    }

    #[test]
    fn a_failing_program_gives_its_reason() {
        let limit = Duration::from_secs(60);
        let error =
            measure(&mut shell("echo 1 0.5; echo first >&2; echo broken >&2; echo ----- >&2; exit 3"), limit);
        assert_eq!(error.expect_err("it failed").to_string(), "broken");
        assert!(measure(&mut shell("true"), limit).expect_err("nothing").to_string().contains("no result"));
        assert!(measure(&mut Command::new("/does/not/exist"), limit).is_err());
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let error = output(Command::new("sleep").arg("1000"), Duration::from_millis(50));
        assert!(error.expect_err("it hung").to_string().contains("did not end"));
    }
}
