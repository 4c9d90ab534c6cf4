//! From text to hosts, with the line and the reason of every mistake.

use super::clusters::{self, Found, Link};
use super::repeats::Repeats;
use super::values::shortened;
use super::{HostOptions, HostSpec, Hostfile, Network, SuccessionRule, Via, foreign};
use pvm_sched::policy::Policy;
use pvm_wire::limits::{HOSTFILE_LINE_MAX, HOSTFILE_MAX};
use pvm_wire::owner::{Held, OwnerRule};
use pvm_wire::turn_rules::{Coscheduling, NoMeans};

/// Mistakes told at once; a file with more has usually one cause.
pub const MISTAKES_MAX: usize = 20;

/// Speeds that PVM knows.
const SPEEDS: std::ops::RangeInclusive<u32> = 1..=1_000_000;

/// Milliseconds that a team can have its processors.
pub const SLICES: std::ops::RangeInclusive<u64> = 1..=60_000;

/// Longest name of a host, bytes: that of a host name in the domain name system.
const NAME_MAX: usize = 253;
/// What names can be, as people are told.
const NAMES: &str = "a name is at most 253 bytes of letters, digits, and `-`, `_`, `.`, `:`, `%`";

/// A mistake in a hostfile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct HostfileError {
    /// Its line, from 1; of several joined by `\`, the first.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

impl Hostfile {
    /// The hostfile with this text, or its mistakes in order, at most [`MISTAKES_MAX`].
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self, Vec<HostfileError>> {
        let text = text.as_ref();
        if text.len() > HOSTFILE_MAX {
            let reason = format!("the hostfile is longer than {HOSTFILE_MAX} bytes");
            return Err(vec![HostfileError { line: 1, reason }]);
        }
        let mut hostfile = Self::default();
        let (mut repeats, mut found) = (Repeats::default(), Found::default());
        let mut mistakes = Vec::new();
        for (line, text) in (LogicalLines { rest: text, line: 0 }) {
            let taken = text.and_then(|text| hostfile.take_line(&text, line, &mut repeats, &mut found));
            if let Err(reason) = taken {
                mistakes.push(HostfileError { line, reason });
                if mistakes.len() == MISTAKES_MAX {
                    break;
                }
            }
        }
        // Of a line that could not be read the cluster is not known.
        if mistakes.is_empty() {
            mistakes.extend(found.mistakes().take(MISTAKES_MAX));
            mistakes.sort_by_key(|mistake| mistake.line);
        }
        if mistakes.is_empty() { Ok(hostfile) } else { Err(mistakes) }
    }

    fn take_line(
        &mut self,
        text: &str,
        number: usize,
        repeats: &mut Repeats,
        found: &mut Found,
    ) -> Result<(), String> {
        if let Some(link) = Link::parse(text)? {
            return found.take(&mut self.links, link, number);
        }
        let Some(line) = Line::parse(text)? else { return Ok(()) };
        found.note(&line.options)?;
        if line.name == "*" {
            self.defaults = line.options;
            return Ok(());
        }
        let own = line.options.clone();
        let spec = HostSpec {
            options: line.options.or(&self.defaults),
            name: checked_name(line.name)?,
            start: !line.ampersand,
            shared_address: line.dollar,
        };
        repeats.take(&mut self.hosts, spec, &own, number)
    }
}

/// The host that a string given to `pvm_addhosts` names: a name and options.
pub fn parse_host(text: &str) -> Result<HostSpec, String> {
    if text.len() > HOSTFILE_LINE_MAX {
        return Err(too_long());
    }
    check_characters(text)?;
    let line = Line::parse(text)?.ok_or("the host's name is missing")?;
    if line.ampersand || line.dollar || line.name == "*" {
        return Err("`&`, `$` and `*` have a meaning in hostfiles only".to_owned());
    }
    Ok(HostSpec { name: checked_name(line.name)?, options: line.options, start: true, shared_address: false })
}

/// Lines with their numbers: comments cut off, those that end in `\` joined with the next.
struct LogicalLines<'a> {
    rest: &'a [u8],
    line: usize,
}

impl LogicalLines<'_> {
    /// The next line of the file, without its end.
    fn physical(&mut self) -> Option<&[u8]> {
        if self.rest.is_empty() {
            return None;
        }
        self.line += 1;
        let length = self.rest.iter().position(|&byte| byte == b'\n').unwrap_or(self.rest.len());
        let line = &self.rest[..length];
        self.rest = self.rest.get(length + 1..).unwrap_or_default();
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

impl Iterator for LogicalLines<'_> {
    type Item = (usize, Result<String, String>);

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.line + 1;
        let mut joined = Vec::new();
        let mut too_much = false;
        while let Some(line) = self.physical() {
            // A comment reaches to the end of its line and not beyond.
            let code = without_comment(line);
            let (code, goes_on) = match code.strip_suffix(b"\\") {
                Some(code) if code.len() + 1 == line.len() => (code, true),
                _ => (code, false),
            };
            too_much |= joined.len() + code.len() > HOSTFILE_LINE_MAX;
            if !too_much {
                joined.extend_from_slice(code);
                joined.push(b' ');
            }
            if !goes_on {
                break;
            }
        }
        if self.line < first {
            return None;
        }
        Some((first, if too_much { Err(too_long()) } else { checked_text(joined) }))
    }
}

fn too_long() -> String {
    format!("longer than {HOSTFILE_LINE_MAX} bytes")
}

/// The line up to the first word that begins with `#`.
fn without_comment(line: &[u8]) -> &[u8] {
    let starts = |&at: &usize| line[at] == b'#' && (at == 0 || is_blank(char::from(line[at - 1])));
    &line[..(0..line.len()).find(starts).unwrap_or(line.len())]
}

fn is_blank(c: char) -> bool {
    c == ' ' || c == '\t'
}

fn checked_text(bytes: Vec<u8>) -> Result<String, String> {
    let text = String::from_utf8(bytes).map_err(|_| "not UTF-8")?;
    check_characters(&text)?;
    Ok(text)
}

fn check_characters(text: &str) -> Result<(), String> {
    match text.chars().find(|c| c.is_control() && *c != '\t') {
        Some('\0') => Err("contains a NUL byte".to_owned()),
        Some(c) => Err(format!("contains the control character {}", c.escape_unicode())),
        None => Ok(()),
    }
}

/// A line taken apart.
#[derive(Default)]
struct Line<'a> {
    ampersand: bool,
    dollar: bool,
    name: &'a str,
    options: HostOptions,
}

impl<'a> Line<'a> {
    /// The parts of a line; of an empty one, none.
    fn parse(text: &'a str) -> Result<Option<Self>, String> {
        let mut line = Self::default();
        let mut text = text.trim_matches(is_blank);
        if text.is_empty() {
            return Ok(None);
        }
        while let Some(mark @ (b'&' | b'$')) = text.bytes().next() {
            line.ampersand |= mark == b'&';
            line.dollar |= mark == b'$';
            text = text[1..].trim_start_matches(is_blank);
        }
        let mut words = text.split(is_blank).filter(|word| !word.is_empty());
        let name = words.next().ok_or("the host's name is missing")?;
        if name.contains('=') {
            return Err(format!("the host's name is missing before `{}`", shortened(name)));
        }
        let (name, slots) = foreign::split_slots(name)?;
        line.name = name;
        line.options.slots = slots.map(foreign::slots).transpose()?;
        let words: Vec<&str> = words.collect();
        let options = match foreign::grid_engine(&words) {
            Some((slots, rest)) => {
                line.options.set_slots(slots)?;
                rest
            }
            None => &words,
        };
        for word in options {
            line.options.set(word)?;
        }
        Ok(Some(line))
    }
}

impl HostOptions {
    /// Takes one `key=value`.
    fn set(&mut self, word: &str) -> Result<(), String> {
        let (key, value) = word.split_once('=').ok_or_else(|| {
            format!("`{}` is not an option: options have the form key=value", shortened(word))
        })?;
        let text = || Some(value.to_owned());
        match key {
            "lo" => self.login = text(),
            "dx" => self.daemon = text(),
            "ep" => self.exec_path = text(),
            "wd" => self.working_directory = text(),
            "bx" => self.debugger = text(),
            "ip" => self.address = text(),
            "id" => self.vmid = text(),
            "sp" => self.speed = Some(speed(value)?),
            "via" => self.via = Some(via(value)?),
            "slice" => self.slice = Some(slice(value)?),
            "coscheduling" => self.coscheduling = Some(coscheduling(value)?),
            "policy" => self.policy = Some(policy(value)?),
            "succession" => self.succession = Some(succession(value)?),
            "net" => self.network = Some(network(value)?),
            "owner" => self.owner = Some(owner(value)?),
            "held" => self.held = Some(held(value)?),
            "job" => self.job = Some(job(value)?),
            "so" => self.start_options = text(),
            "cluster" => self.cluster = Some(clusters::cluster_name(key, value)?),
            "bw" | "domain" => {
                return Err(format!(
                    "`{key}=` belongs to the line of a link: `link=NAME bw=1Gbit domain=NAME`"
                ));
            }
            _ if foreign::SLOTS_KEYS.contains(&key) => self.set_slots(value)?,
            "user" => self.login = text(),
            _ if foreign::refused(key).is_some() => {
                return Err(format!("`{key}=`: {}", foreign::refused(key).unwrap_or_default()));
            }
            _ => return Err(format!("unknown option `{}=`", shortened(key))),
        }
        match key {
            _ if value.is_empty() => Err(format!("`{key}=` has no value")),
            // It would reach ssh as an option.
            "lo" | "user" | "ip" if value.starts_with('-') => {
                Err(format!("`{key}={}` begins with `-`", shortened(value)))
            }
            _ => Ok(()),
        }
    }
}

impl HostOptions {
    fn set_slots(&mut self, value: &str) -> Result<(), String> {
        if self.slots.replace(foreign::slots(value)?).is_some() {
            return Err("the number of slots is given twice".to_owned());
        }
        Ok(())
    }
}

fn speed(value: &str) -> Result<u32, String> {
    let speed = value.parse().ok().filter(|speed| SPEEDS.contains(speed));
    speed.ok_or_else(|| {
        let (least, most) = (SPEEDS.start(), SPEEDS.end());
        format!("`sp={}`: a speed is a whole number from {least} to {most}", shortened(value))
    })
}

fn slice(value: &str) -> Result<u32, String> {
    let slice = value.parse().ok().filter(|&slice| SLICES.contains(&u64::from(slice)));
    slice.ok_or_else(|| {
        let (least, most) = (SLICES.start(), SLICES.end());
        format!("`slice={}`: a slice is {least} to {most} milliseconds", shortened(value))
    })
}

fn coscheduling(value: &str) -> Result<Coscheduling, String> {
    value.parse().map_err(|reason: NoMeans| format!("`coscheduling={}`: {reason}", shortened(value)))
}

fn owner(value: &str) -> Result<OwnerRule, String> {
    value.parse().map_err(|reason| format!("`owner={}`: {reason}", shortened(value)))
}

fn held(value: &str) -> Result<Held, String> {
    let held = Held::ALL.into_iter().find(|held| held.name() == value);
    held.ok_or_else(|| format!("`held={}`: tasks are held `stopped` or at the `least`", shortened(value)))
}

/// It becomes a word of `srun`'s command line.
fn job(value: &str) -> Result<u64, String> {
    let job =
        value.parse().ok().filter(|&job: &u64| job > 0 && value.bytes().all(|byte| byte.is_ascii_digit()));
    job.ok_or_else(|| format!("`job={}`: a job of Slurm is a number from 1 on", shortened(value)))
}

fn via(value: &str) -> Result<Via, String> {
    Via::ALL.into_iter().find(|via| via.name() == value).ok_or_else(|| {
        let known = Via::ALL.map(Via::name).join(", ");
        format!("`via={}`: a host is started via one of {known}", shortened(value))
    })
}

fn policy(value: &str) -> Result<Policy, String> {
    let known = || Policy::ALL.map(Policy::name).join(", ");
    value.parse().map_err(|_| format!("`policy={}`: the policies are {}", shortened(value), known()))
}

fn succession(value: &str) -> Result<SuccessionRule, String> {
    let what = || format!("`succession={}`: a succession is `proved`, `silent` or `off`", shortened(value));
    SuccessionRule::named(value).ok_or_else(what)
}

fn network(value: &str) -> Result<Network, String> {
    match value {
        "private" => Ok(Network::Private),
        "open" => Ok(Network::Open),
        _ => Err(format!("`net={}`: a network is `private` or `open`", shortened(value))),
    }
}

fn checked_name(name: &str) -> Result<String, String> {
    // It would reach ssh as an option.
    if name.starts_with('-') {
        return Err(format!("the host's name `{}` begins with `-`", shortened(name)));
    }
    // It becomes part of the names of files.
    let is_allowed = |c: char| c.is_alphanumeric() || "-_.:%".contains(c);
    if let Some(c) = name.chars().find(|&c| !is_allowed(c)) {
        return Err(format!("the host's name `{}` contains `{c}`: {NAMES}", shortened(name)));
    }
    if !name.contains(char::is_alphanumeric) || name.len() > NAME_MAX {
        return Err(format!("`{}` is no name of a host: {NAMES}", shortened(name)));
    }
    Ok(name.to_owned())
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
