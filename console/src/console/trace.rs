//! The console's `trace`: which events the tasks spawned from here report, and in which detail.

use super::jobs::Destination;
use anyhow::{Result, bail};
use pvm_wire::event_reader::{EventReader, Told};
use pvm_wire::events::EVENTS;
use pvm3::{Message, Options, Tid};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Characters of a mask, each with four events above `@`.
const MASK_LENGTH: usize = 35;
/// The detail of events, by PVM's numbers from 1 up.
const MODES: [&str; 3] = ["full", "time", "count"];
/// Columns of the list of events.
const COLUMNS: usize = 4;
/// Events that are always or never reported: PVM's console does not list them.
const NOT_LISTED: [&str; 5] = ["newtask", "endtask", "spntask", "timing", "profiling"];
/// The events that XPVM shows.
const XPVM: &[&str] = &[
    "barrier",
    "bcast",
    "joingroup",
    "lvgroup",
    "mytid",
    "parent",
    "siblings",
    "spawn",
    "sendsig",
    "kill",
    "exit",
    "mcast",
    "send",
    "recv",
    "recvf",
    "nrecv",
    "psend",
    "precv",
    "trecv",
    "probe",
    "addmhf",
    "delmhf",
    "mhf_invoke",
    "user_defined",
];
/// Data that are task ids.
const TIDS: [&str; 7] = ["TID", "DST", "SRC", "PT", "MT", "TT", "RST"];

/// The events' names.
pub fn names() -> impl Iterator<Item = &'static str> {
    EVENTS.iter().map(|name| name.to_str().unwrap_or_default())
}

/// The command.
pub fn command(options: &mut Options, args: &[String]) -> Result<String> {
    if args.is_empty() {
        return Ok(list(&options.child_trace_mask));
    }
    let (mut mask, mut on, mut text) = (bits(&options.child_trace_mask), true, String::new());
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        match arg {
            "+" => on = true,
            "-" => on = false,
            "*" => mask = [on; EVENTS.len()],
            "xpvm" => mask = xpvm(),
            "buf" => match args.next() {
                Some(size) => match size.parse() {
                    Ok(size) => options.child_trace_buffer = size,
                    Err(_) => bail!("trace: {size}: not a number of bytes"),
                },
                None => {
                    let _ = writeln!(text, "\nTrace Buffering set to {} bytes\n", options.child_trace_buffer);
                }
            },
            "opt" => match args.next() {
                Some(name) => options.child_trace_options = mode(name)?,
                None => {
                    let _ = writeln!(
                        text,
                        "\nTrace Options set to \"{}\"\n",
                        mode_name(options.child_trace_options)
                    );
                }
            },
            name => match names().position(|event| event == name.strip_prefix("pvm_").unwrap_or(name)) {
                Some(event) => mask[event] = on,
                None => bail!("trace: {name}: no such event (\"trace\" lists them)"),
            },
        }
    }
    options.child_trace_mask = mask_of(&mask);
    Ok(text)
}

fn mode(name: &str) -> Result<i32> {
    match MODES.iter().position(|mode| *mode == name) {
        Some(index) => Ok(index as i32 + 1),
        None => bail!("trace: {name}: no such option (full, time or count)"),
    }
}

fn mode_name(mode: i32) -> &'static str {
    usize::try_from(mode - 1).ok().and_then(|index| MODES.get(index)).unwrap_or(&MODES[0])
}

fn bits(mask: &str) -> [bool; EVENTS.len()] {
    let characters = mask.as_bytes();
    std::array::from_fn(|event| characters.get(event / 4).is_some_and(|bits| bits & (1 << (event % 4)) != 0))
}

fn mask_of(bits: &[bool; EVENTS.len()]) -> String {
    let character = |index: usize| {
        let set = bits.iter().skip(index * 4).take(4).enumerate().filter(|(_, on)| **on);
        char::from(b'@' + set.map(|(bit, _)| 1 << bit).sum::<u8>())
    };
    (0..MASK_LENGTH).map(character).collect()
}

/// The default events: those that XPVM shows.
pub fn default_mask() -> String {
    mask_of(&xpvm())
}

fn xpvm() -> [bool; EVENTS.len()] {
    let mut mask = [false; EVENTS.len()];
    for (bit, name) in mask.iter_mut().zip(names()) {
        *bit = XPVM.contains(&name);
    }
    mask
}

/// The events, sorted down the columns; a star marks those that are traced.
fn list(mask: &str) -> String {
    let mut entries: Vec<(&str, bool)> = names().zip(bits(mask)).collect();
    entries.retain(|(name, _)| !NOT_LISTED.contains(name));
    entries.sort_unstable();
    let rows = entries.len().div_ceil(COLUMNS);
    let mut text = String::new();
    for row in 0..rows {
        let line = entries.iter().skip(row).step_by(rows);
        let cells = line.map(|(name, on)| format!(" {} {name:<15}", if *on { '*' } else { ' ' }));
        text.push_str(&(cells.collect::<Vec<_>>().join(" ") + "\n"));
    }
    text
}

/// The traced spawns.
#[derive(Debug, Default)]
pub struct Traces {
    spawns: BTreeMap<i32, Destination>,
    /// One reader for all tasks: daemons describe an event to a console once.
    reader: EventReader,
}

impl Traces {
    /// The number of the next one, which is the tag of its messages.
    pub fn next_number(&self) -> i32 {
        self.spawns.len() as i32 + 1
    }

    /// Begins one.
    pub fn begin(&mut self, destination: Destination) {
        self.spawns.insert(self.next_number(), destination);
    }

    /// Whether a message with this tag is of one of them.
    pub fn has(&self, tag: i32) -> bool {
        self.spawns.contains_key(&tag)
    }

    /// Handles a trace message. Returns the text to print.
    pub fn on_message(&mut self, message: &Message) -> String {
        let number = message.header.tag;
        let Some(destination) = self.spawns.get_mut(&number) else { return String::new() };
        let (events, end) = self.reader.read(&message.body);
        let mut text: String = events.iter().map(|event| line(number, event)).collect();
        if end.is_err() {
            let _ = writeln!(text, "[T{number}:{}] (an event that cannot be read)", message.src);
        }
        destination.deliver(text)
    }
}

fn line(number: i32, event: &Told) -> String {
    let value =
        |wanted: &str| event.data.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.as_str());
    let number_of = |wanted| value(wanted).and_then(|value| value.parse().ok()).unwrap_or(0);
    let phase = match event.entry {
        Some(true) => " entry",
        Some(false) => " exit",
        None => "",
    };
    let mut text = format!(
        "[T{number}:{}] {}.{:06} {}{phase}",
        Tid::from_raw(number_of("TID")),
        number_of("TS"),
        number_of("TU"),
        event.name
    );
    for (name, value) in event.data.iter().filter(|(name, _)| !["TS", "TU", "TID"].contains(name)) {
        match value.parse() {
            Ok(tid) if tid > 0 && TIDS.contains(name) => {
                let _ = write!(text, " {name}={}", Tid::from_raw(tid));
            }
            _ => {
                let _ = write!(text, " {name}={value}");
            }
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_pvms() {
        let empty = "@".repeat(MASK_LENGTH);
        assert_eq!(mask_of(&bits(&empty)), empty);
        let mut some = bits(&empty);
        (some[1], some[6], some[108]) = (true, true, true);
        assert_eq!(mask_of(&some), format!("BD{}A{}", "@".repeat(25), "@".repeat(7)));
        assert_eq!(bits(&mask_of(&some)), some);
        assert!(XPVM.iter().all(|name| names().any(|event| event == *name)));
    }

    #[test]
    fn events_are_lines() {
        let data = vec![("TS", "5"), ("TU", "7"), ("TID", "262146"), ("DST", "262147"), ("MC", "9")];
        let data = data.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        let event = Told { name: "send".to_owned(), entry: Some(true), data };
        assert_eq!(line(2, &event), "[T2:t40002] 5.000007 send entry DST=t40003 MC=9\n");
    }

    #[test]
    fn the_list_is_pvms() {
        let text = list(&default_mask());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 26);
        assert_eq!(lines[0], "   addhosts           gettid             pkfloat            setopt         ");
        assert_eq!(lines[3], " * barrier            halt               pkshort            settmask       ");
        assert_eq!(lines[25], "   getsbuf            pkdouble           setmwid            version        ");
        assert_eq!(text.matches('*').count(), XPVM.len());
    }
}
