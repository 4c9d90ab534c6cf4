//! The tables of trace events, for programs that read traces.

use super::memory::TimeVal;
use pvm_wire::events::{DATA, EVENTS};
use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int};
use std::ptr::null;

/// `struct Pvmtevinfo`: an event, with fields for programs that read traces.
#[repr(C)]
pub struct Event {
    name: *const c_char,
    desc_status: c_int,
    mark: TimeVal,
    total: TimeVal,
    count: c_int,
}

/// `struct Pvmtevdid`: what a datum of an event is.
#[repr(C)]
pub struct Datum {
    name: *const c_char,
    description: *const c_char,
}

/// A table that programs may write to.
#[repr(transparent)]
pub struct Table<T>(UnsafeCell<T>);

// SAFETY: the library never touches the tables; programs that write to them do so as in C, at their own order.
unsafe impl<T> Sync for Table<T> {}

const NEVER: TimeVal = TimeVal { seconds: 0, micros: 0 };

const fn event_table() -> [Event; EVENTS.len()] {
    let mut table =
        [const { Event { name: null(), desc_status: 0, mark: NEVER, total: NEVER, count: 0 } }; EVENTS.len()];
    let mut index = 0;
    while index < table.len() {
        table[index].name = EVENTS[index].as_ptr();
        index += 1;
    }
    table
}

const fn data_table() -> [Datum; DATA.len()] {
    let mut table = [const { Datum { name: null(), description: null() } }; DATA.len()];
    let mut index = 0;
    while index < table.len() {
        (table[index].name, table[index].description) = (DATA[index].0.as_ptr(), DATA[index].1.as_ptr());
        index += 1;
    }
    table
}

/// The events, by their numbers `TEV_ADDHOSTS` and so on.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static pvmtevinfo: Table<[Event; EVENTS.len()]> = Table(UnsafeCell::new(event_table()));

/// The names and types of event data, by their numbers `TEV_DID_AN` and so on.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static pvmtevdidlist: Table<[Datum; DATA.len()]> = Table(UnsafeCell::new(data_table()));

const _: () = assert!(size_of::<[Event; 109]>() == 6104 && size_of::<[Datum; 123]>() == 1968);
