//! What tasks tell a collector of traces: reports of this library, and trace events of any; and the file of a trace.

use crate::cursor::Cursor;
use pvm_console::timeline::Host;
use pvm_console::timeline::chrome::Picture;
use pvm_console::timeline::rows::Rows;
use pvm_console::trace::Summarized;
use pvm_wire::event_reader::EventReader;
use pvm_wire::{Tid, codec, timeline::Report};
use std::collections::BTreeMap;

/// Reads bytes as reports of some tasks, draws and summarizes them, and reads them as trace events and as a file.
pub fn read(bytes: &[u8]) {
    let mut cursor = Cursor(bytes);
    let mut rows = Rows::new(100_000, &[]);
    while let Some(length) = cursor.byte() {
        let tid = Tid::from_bits(0x40001 + u32::from(length % 4));
        if let Ok(report) = codec::decode::<Report>(cursor.piece(usize::from(length))) {
            rows.report(tid, report, i64::from(length) - 128);
        }
    }
    let host = Host { name: "host".to_owned(), behind: None };
    let hosts = BTreeMap::from([(Tid::from_bits(0x8004_0000), host)]);
    let picture = Picture::new(hosts, rows.finish(1_000_000), BTreeMap::new());
    let mut file = Vec::new();
    let written = picture.write(&mut file);
    assert!(written.is_ok() && file.starts_with(b"{") && file.trim_ascii_end().ends_with(b"}"));
    summarize(&file);
    summarize(bytes);

    let (_, rest) = EventReader::default().read(bytes);
    let _ = rest;
}

fn summarize(file: &[u8]) {
    if let Ok(summarized) = Summarized::read(file) {
        assert!(!summarized.tables(3).is_empty() && summarized.json().is_object());
        assert!(summarized.svg().ends_with("</svg>\n"));
    }
}
