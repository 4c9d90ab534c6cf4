//! Traces in the Standard Workload Format of the Parallel Workloads Archive, plain or gzip.
//!
//! A line per job, 18 numbers; `;` begins a comment; −1 is "unknown". These are read: 2 submit time, 4 run time,
//! 5 allocated processors, 8 requested processors, 9 requested time, 12 user.

use super::Job;
use flate2::bufread::MultiGzDecoder;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// An error in a trace.
#[derive(Debug, Error)]
pub enum Error {
    /// The file cannot be opened.
    #[error(transparent)]
    Open(std::io::Error),
    /// The file cannot be read to its end, for example because gzip data are cut off.
    #[error("line {line}: {source}")]
    Read {
        /// The line.
        line: u64,
        /// Why.
        source: std::io::Error,
    },
    /// A line has too few fields: it, or the file, has been cut off.
    #[error("line {line}: field {field} ({name}) is missing")]
    Missing {
        /// The line.
        line: u64,
        /// The field, from 1.
        field: usize,
        /// What it is called.
        name: &'static str,
    },
    /// A field is no number, or not one that can be.
    #[error("line {line}: field {field} ({name}) is \"{text}\"")]
    Field {
        /// The line.
        line: u64,
        /// The field, from 1.
        field: usize,
        /// What it is called.
        name: &'static str,
        /// The begin of its text.
        text: String,
    },
    /// A line is longer than any job's.
    #[error("line {line} has more than {LONGEST} characters")]
    Long {
        /// The line.
        line: u64,
    },
}

/// A trace that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}{}", source.hint())]
pub struct TraceError {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub source: Error,
}

impl Error {
    /// A hint for the user, if there is one.
    pub fn hint(&self) -> &'static str {
        if matches!(self, Self::Open(_)) { "" } else { " (--lenient uses what can be used)" }
    }
}

/// Jobs' lines have some hundred characters; comments a few more.
const LONGEST: u64 = 65_536;

/// Seconds, some thirty thousand years: no time in a trace is greater.
const LATEST: f64 = 1e12;

const NAMES: [&str; 12] = [
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
];

/// A trace, read line by line. Jobs that never ran, with no run time or no processors, are passed over.
pub struct Reader<R> {
    input: R,
    line: u64,
    lenient: bool,
    /// Lines passed over because of errors.
    bad: u64,
    ended: bool,
}

impl Reader<Box<dyn BufRead + Send>> {
    /// Opens a trace; gzip is recognised by its first bytes. With `lenient`, lines with errors are passed over, and a
    /// file that cannot be read to its end simply ends.
    pub fn open(path: &Path, lenient: bool) -> Result<Self, Error> {
        let mut file = BufReader::new(std::fs::File::open(path).map_err(Error::Open)?);
        let gzip = file.fill_buf().map_err(Error::Open)?.starts_with(&[0x1f, 0x8b]);
        let input: Box<dyn BufRead + Send> =
            if gzip { Box::new(BufReader::new(MultiGzDecoder::new(file))) } else { Box::new(file) };
        Ok(Reader::new(input, lenient))
    }
}

impl<R: BufRead> Reader<R> {
    /// Reads a trace from anywhere.
    pub fn new(input: R, lenient: bool) -> Self {
        Self { input, line: 0, lenient, bad: 0, ended: false }
    }

    /// Lines passed over because of errors.
    pub fn bad(&self) -> u64 {
        self.bad
    }

    /// A note on them, if there were any.
    pub fn note(&self, path: &Path) -> Option<String> {
        let lines = if self.bad == 1 { "line with errors was" } else { "lines with errors were" };
        (self.bad > 0).then(|| format!("{}: {} {lines} passed over", path.display(), self.bad))
    }

    /// The next line that has something in it. `None` at the end.
    fn line(&mut self) -> Result<Option<String>, Error> {
        self.line += 1;
        let line = self.line;
        let mut bytes = Vec::new();
        let read = (&mut self.input).take(LONGEST).read_until(b'\n', &mut bytes);
        match read {
            Err(source) => {
                self.ended = true;
                Err(Error::Read { line, source })
            }
            Ok(0) => {
                self.ended = true;
                Ok(None)
            }
            Ok(n) if n as u64 == LONGEST && !bytes.ends_with(b"\n") => {
                self.ended = true;
                Err(Error::Long { line })
            }
            Ok(_) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        }
    }

    fn step(&mut self) -> Result<Option<Job>, Error> {
        let Some(text) = self.line()? else { return Ok(None) };
        let text = text.split(';').next().unwrap_or_default();
        if text.trim().is_empty() { Ok(None) } else { parse(text, self.line) }
    }
}

/// The job of a line; `None` if it never ran.
fn parse(text: &str, line: u64) -> Result<Option<Job>, Error> {
    let mut fields = [-1.0; 12];
    let mut texts = text.split_whitespace();
    for (at, field) in fields.iter_mut().enumerate() {
        let name = NAMES[at];
        let text = texts.next().ok_or(Error::Missing { line, field: at + 1, name })?;
        let bad = || Error::Field { line, field: at + 1, name, text: shown(text) };
        *field = text.parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(bad)?;
    }
    let [_, submit, _, run, allocated, _, _, requested, time, _, _, user] = fields;
    if submit < 0.0 {
        return Err(Error::Field { line, field: 2, name: NAMES[1], text: submit.to_string() });
    }
    let width = if allocated > 0.0 { allocated } else { requested };
    if run <= 0.0 || width < 1.0 {
        return Ok(None);
    }
    if width > f64::from(u32::MAX) {
        return Err(Error::Field { line, field: 5, name: NAMES[4], text: width.to_string() });
    }
    for (at, time) in [(1, submit), (3, run), (8, time)] {
        if time > LATEST {
            return Err(Error::Field { line, field: at + 1, name: NAMES[at], text: time.to_string() });
        }
    }
    let estimate = time.max(run);
    // Users are numbered from 1; the table of users must not grow with a number in a file.
    let user = user.clamp(0.0, 1e5) as usize;
    Ok(Some(Job { submit, run, estimate, width: width as u32, user }))
}

/// The beginning of what a field has in it, fit for a terminal.
fn shown(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_debug).collect()
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Job, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            match self.step() {
                Ok(Some(job)) => return Some(Ok(job)),
                Ok(None) => {}
                Err(_) if self.lenient => self.bad += 1,
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    const TRACE: &str = "; Version: 2.2\n\
        1 0 5 100 8 -1 -1 8 200 -1 1 3 -1 -1 -1 -1 -1 -1\n\
        \n\
        2 10 -1 -1 4 -1 -1 4 60 -1 5 3 -1 -1 -1 -1 -1 -1 ; never ran\n\
        3 20 0 30.5 -1 -1 -1 16 -1 -1 1 4 -1 -1 -1 -1 -1 -1\n";

    fn read(text: &str, lenient: bool) -> (Vec<Job>, Option<String>) {
        let mut jobs = Vec::new();
        for job in Reader::new(text.as_bytes(), lenient) {
            match job {
                Ok(job) => jobs.push(job),
                Err(error) => return (jobs, Some(error.to_string())),
            }
        }
        (jobs, None)
    }

    #[test]
    fn jobs_that_ran() {
        let (jobs, error) = read(TRACE, false);
        let first = Job { submit: 0.0, run: 100.0, estimate: 200.0, width: 8, user: 3 };
        let second = Job { submit: 20.0, run: 30.5, estimate: 30.5, width: 16, user: 4 };
        assert_eq!((jobs, error), (vec![first, second], None));
        assert_eq!(read("", false), (vec![], None), "an empty workload");
        assert_eq!(read("; nothing\n", false), (vec![], None));
    }

    #[test]
    fn errors_name_line_and_field() {
        let with = |line: &str| {
            read(&format!("{TRACE}{line}\n9 50 0 1 1 0 0 1 1 0 1 1\n"), false).1.expect("an error")
        };
        assert_eq!(with("4 30 0 x7 8 0 0 8 1 0 1 1"), "line 6: field 4 (run time) is \"x7\"");
        assert_eq!(with("4 30 0 7 8 0"), "line 6: field 7 (used memory) is missing");
        assert_eq!(with("4 -30 0 7 8 0 0 8 1 0 1 1"), "line 6: field 2 (submit time) is \"-30\"");
        assert_eq!(
            with("4 30 0 7 1e99 0 0 8 1 0 1 1").split(" is ").next(),
            Some("line 6: field 5 (allocated processors)")
        );
        assert_eq!(with("4 30 0 nan 8 0 0 8 1 0 1 1"), "line 6: field 4 (run time) is \"nan\"");
        assert_eq!(
            with("4 30 0 1e13 8 0 0 8 1 0 1 1"),
            "line 6: field 4 (run time) is \"10000000000000\"",
            "no time is so long"
        );
        assert_eq!(
            with("\x1b[2J 30"),
            "line 6: field 1 (job number) is \"\\u{1b}[2J\"",
            "no terminal is harmed"
        );
        assert!(with(&"x".repeat(70_000)).starts_with("line 6 has more than"));
    }

    #[test]
    fn the_good_part_can_be_used() {
        let text = format!("{TRACE}garbage\n9 50 0 1 1 0 0 1 1 0 1 1\n10 60 0 1");
        let mut reader = Reader::new(text.as_bytes(), true);
        assert_eq!(reader.by_ref().flatten().count(), 3);
        assert_eq!(reader.bad(), 2);
    }

    #[test]
    fn gzip_whole_and_truncated() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        let line = "7 50 0 1 1 0 0 1 1 0 1 1\n";
        gzip.write_all(format!("{TRACE}{}", line.repeat(5000)).as_bytes()).expect("memory");
        let bytes = gzip.finish().expect("memory");
        let path = folder.path().join("trace.swf.gz");
        std::fs::write(&path, &bytes).expect("written");
        assert_eq!(Reader::open(&path, false).expect("open").flatten().count(), 5002);
        std::fs::write(&path, &bytes[..bytes.len() - 60]).expect("written");
        let error = Reader::open(&path, false).expect("open").find_map(Result::err).expect("truncated");
        assert!(matches!(error, Error::Read { line, .. } if line > 1), "{error}");
        let usable = Reader::open(&path, true).expect("open").flatten().count();
        assert!(usable >= 2, "{usable}");
        assert!(Reader::open(&folder.path().join("none"), true).is_err());
    }
}
