//! PVM's options of the console, by name.

use pvm3::Options;
use std::fmt::Write as _;

/// An option: its name, its value, and how it is set (`None`: it cannot be).
struct Entry {
    name: &'static str,
    get: fn(&Options) -> i64,
    set: Option<fn(&mut Options, i32)>,
}

const fn entry(name: &'static str, get: fn(&Options) -> i64, set: Option<fn(&mut Options, i32)>) -> Entry {
    Entry { name, get, set }
}

const ENTRIES: &[Entry] = &[
    entry("PvmRoute", |o| o.route.into(), Some(|o, v| o.route = v)),
    entry("PvmDebugMask", |o| o.debug_mask.into(), Some(|o, v| o.debug_mask = v)),
    entry("PvmAutoErr", |o| o.auto_err.into(), Some(|o, v| o.auto_err = v)),
    entry("PvmOutputTid", |o| o.child_output.tid.into(), Some(|o, v| o.child_output.tid = v)),
    entry("PvmOutputCode", |o| o.child_output.tag.into(), Some(|o, v| o.child_output.tag = v)),
    entry("PvmTraceTid", |o| o.child_trace.tid.into(), Some(|o, v| o.child_trace.tid = v)),
    entry("PvmTraceCode", |o| o.child_trace.tag.into(), Some(|o, v| o.child_trace.tag = v)),
    entry("PvmTraceBuffer", |o| o.child_trace_buffer.into(), Some(|o, v| o.child_trace_buffer = v)),
    entry("PvmTraceOptions", |o| o.child_trace_options.into(), Some(|o, v| o.child_trace_options = v)),
    entry("PvmFragSize", |o| o.fragment_size as i64, None),
    entry("PvmResvTids", |o| o.resv_tids.into(), Some(|o, v| o.resv_tids = v != 0)),
    entry("PvmSelfOutputTid", |o| o.own_output.tid.into(), None),
    entry("PvmSelfOutputCode", |o| o.own_output.tag.into(), None),
    entry("PvmSelfTraceTid", |o| o.own_trace.tid.into(), None),
    entry("PvmSelfTraceCode", |o| o.own_trace.tag.into(), None),
    entry("PvmSelfTraceBuffer", |o| o.own_trace_buffer.into(), Some(|o, v| o.own_trace_buffer = v)),
    entry("PvmSelfTraceOptions", |o| o.own_trace_options.into(), Some(|o, v| o.own_trace_options = v)),
    entry("PvmShowTids", |o| o.show_tids.into(), Some(|o, v| o.show_tids = v != 0)),
    entry("PvmOutputContext", |o| o.child_output.context.into(), Some(|o, v| o.child_output.context = v)),
    entry("PvmTraceContext", |o| o.child_trace.context.into(), Some(|o, v| o.child_trace.context = v)),
    entry("PvmSelfOutputContext", |o| o.own_output.context.into(), None),
    entry("PvmSelfTraceContext", |o| o.own_trace.context.into(), None),
];

/// The option that no library keeps: whether `reset` spares the console.
pub const NO_RESET: &str = "PvmNoReset";

/// The options' names.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().map(|entry| entry.name).chain([NO_RESET])
}

fn find(name: &str) -> Result<&'static Entry, String> {
    ENTRIES.iter().find(|entry| entry.name == name).ok_or_else(|| format!("PVM Option \"{name}\" Unknown.\n"))
}

/// `getopt`: one option, or all.
pub fn get(options: &Options, name: Option<&str>) -> String {
    let mut text = String::new();
    let chosen = match name.map(find) {
        None => ENTRIES,
        Some(Ok(entry)) => std::slice::from_ref(entry),
        Some(Err(unknown)) => return unknown,
    };
    for entry in chosen {
        let _ = writeln!(text, "{} Currently Set to {}", entry.name, (entry.get)(options));
    }
    text
}

/// `setopt`.
pub fn set(options: &mut Options, name: &str, value: &str) -> String {
    let entry = match find(name) {
        Ok(entry) => entry,
        Err(unknown) => return unknown,
    };
    let Ok(value) = value.parse() else { return format!("{value}: not a number\n") };
    let Some(set) = entry.set else { return format!("{name} cannot be changed here\n") };
    let old = (entry.get)(options);
    set(options, value);
    format!("{name} Changed from {old} to {}\n", (entry.get)(options))
}
