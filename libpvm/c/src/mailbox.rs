//! The mailbox: named messages that the machine keeps.

use super::control::expect;
use super::memory::{CList, MailboxInfo, Out, Text};
use super::nested;
use super::state::{Failure, Outcome, Reporting, State, call};
use super::tracepoints::{result, text_argument, traced};
use pvm_wire::body::BodyWriter;
use pvm_wire::calls::mailbox::{Class, Entry, Flags, Found, Get, NO_RESET_CLASS, Names, Put, Remove};
use pvm_wire::calls::nested::Nested;
use pvm_wire::events::{Datum, Event, Writer};
use pvm_wire::{Encoding, Message, MessageHeader, PvmError, Tid};
use std::ffi::{OsStr, OsString, c_int};

/// Puts a message under a name and returns its index.
fn put(state: &mut State, class: &OsStr, index: c_int, flags: Flags, message: &Message) -> Outcome {
    let (tid, class, message) = (state.tid()?, class.to_owned(), Nested::new(message));
    state.ask(&Put { tid, class, index, flags, message })
}

/// Puts fields in XDR under a name.
fn put_fields(state: &mut State, class: &OsStr, index: c_int, flags: Flags, fields: BodyWriter) -> Outcome {
    let header = MessageHeader { encoding: Encoding::Xdr.word(), ..MessageHeader::default() };
    let message = Message { src: state.tid()?, dst: Tid::NONE, header, body: fields.finish().into() };
    put(state, class, index, flags, &message)
}

/// Removes an entry and returns its index.
pub fn remove(state: &mut State, class: impl Into<OsString>, index: c_int) -> Outcome {
    let (tid, class) = (state.tid()?, class.into());
    state.ask(&Remove { tid, class, index })
}

fn get(state: &mut State, class: &OsStr, index: c_int, flags: Flags) -> Result<Found, Failure> {
    let (tid, class) = (state.tid()?, class.to_owned());
    state.ask(&Get { tid, class, index, flags })
}

/// Puts a copy of a message under a name and returns its index there.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_putinfo(class: Text<'_>, id: c_int, flags: c_int) -> c_int {
    entry_call(
        ("pvm_putinfo", Event::Putinfo),
        class,
        (-1, -1),
        |event| {
            event.int(Datum::CF, flags).int(Datum::CD, id);
        },
        result(Datum::CC),
        |state, class| {
            let buffer = state.buffers.get(id).map_err(no_such)?;
            let copy = nested::whole(buffer)?;
            let put = put(state, class, -1, Flags::from_bits(flags), &copy);
            expect(&[PvmError::Denied, PvmError::Exists], Reporting::Errno, put)
        },
    )
}

/// A call about an entry of a class, which has a name and an index that is no less than `least`; `more` and `exit` add what its events tell
/// besides.
fn entry_call(
    (name, event): (&str, Event),
    class: Text<'_>,
    (index, least): (c_int, c_int),
    more: impl FnOnce(&mut Writer),
    exit: impl FnOnce(&mut State, &mut Writer, c_int),
    body: impl FnOnce(&mut State, &OsStr) -> Outcome,
) -> c_int {
    let entry = |_: &mut State, event: &mut Writer| {
        event.text(Datum::CN, class.os_text().unwrap_or_default()).int(Datum::CI, index);
        more(event);
    };
    traced(name, event, entry, exit, |state| {
        state.engine()?;
        let class = class.os_text()?;
        if class.is_empty() || index < least {
            return Err(PvmError::BadParam.into());
        }
        body(state, class)
    })
}

/// Nothing besides the name and the index.
fn no_more(_: &mut Writer) {}

/// Whatever is no buffer's id is no buffer.
fn no_such(_: PvmError) -> PvmError {
    PvmError::NoSuchBuf
}

/// Gets a message by name into a buffer, which becomes the one to unpack from.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_recvinfo(class: Text<'_>, index: c_int, flags: c_int) -> c_int {
    entry_call(
        ("pvm_recvinfo", Event::Getinfo),
        class,
        (index, 0),
        |event| {
            event.int(Datum::CF, flags);
        },
        |_, event, code| {
            event.int(Datum::CC, code.min(0)).int(Datum::CR, code.max(0));
        },
        |state, class| match get(state, class, index, Flags::from_bits(flags)) {
            Ok(found) => {
                let message = nested::unpackable(found.message.open().map_err(|_| PvmError::BadMsg)?);
                state.discard(state.buffers.receive_id())?;
                let id = state.buffers.insert(message)?;
                state.buffers.set_receive(id)?;
                Ok(id)
            }
            Err(failure) => expect(&[PvmError::NotFound], Reporting::Errno, Err(failure)),
        },
    )
}

/// Removes an entry and returns its index.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_delinfo(class: Text<'_>, index: c_int, flags: c_int) -> c_int {
    entry_call(
        ("pvm_delinfo", Event::Delinfo),
        class,
        (index, 0),
        |event| {
            event.int(Datum::CF, flags);
        },
        result(Datum::CC),
        |state, class| {
            expect(&[PvmError::NotFound, PvmError::Denied], Reporting::Errno, remove(state, class, index))
        },
    )
}

/// The names that fit a pattern, and the entries of each.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_getmboxinfo(
    pattern: Text<'_>,
    count: Out<'_, c_int>,
    array: Out<'_, *mut MailboxInfo>,
) -> c_int {
    let entry = text_argument(Datum::CN, pattern.os_text_or_empty().unwrap_or_default());
    traced("pvm_getmboxinfo", Event::Getmboxinfo, entry, result(Datum::CC), |state| {
        let classes = classes(state, pattern.os_text_or_empty()?)?;
        let mut list = CList::default();
        for class in &classes {
            let column = |pick: fn(&Entry) -> c_int| class.entries.iter().map(pick).collect::<Vec<_>>();
            let name = list.text(&class.name);
            let indices = list.numbers(column(|entry| entry.index));
            let owners = list.numbers(column(|entry| entry.owner.raw()));
            let flags = list.numbers(column(|entry| entry.flags.bits()));
            list.push(MailboxInfo { name, entries: class.entries.len() as c_int, indices, owners, flags });
        }
        state.lists.classes = list;
        count.set(state.lists.classes.len());
        array.set(state.lists.classes.array());
        Ok(0)
    })
}

fn classes(state: &mut State, pattern: impl Into<OsString>) -> Result<Vec<Class>, Failure> {
    let (tid, pattern) = (state.tid()?, pattern.into());
    state.ask(&Names { tid, pattern })
}

/// The tasks that a reset spares.
pub fn spared(state: &mut State) -> Result<Vec<Tid>, Failure> {
    let classes = classes(state, NO_RESET_CLASS)?;
    let classes = classes.iter().filter(|class| class.name == NO_RESET_CLASS);
    Ok(classes.flat_map(|class| &class.entries).map(|entry| entry.owner).collect())
}

/// The tasks that a reset spares.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_getnoresets(tids: Out<'_, *mut c_int>, count: Out<'_, c_int>) -> c_int {
    call("pvm_getnoresets", |state| {
        state.lists.no_resets = CList::of(spared(state)?.into_iter().map(Tid::raw).collect());
        count.set(state.lists.no_resets.len());
        tids.set(state.lists.no_resets.array());
        Ok(0)
    })
}

/// Puts a number under a name (PVM 3.3): at an index, or at the next free one for -1.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_insert(class: Text<'_>, index: c_int, value: c_int) -> c_int {
    entry_call(
        ("pvm_insert", Event::Insert),
        class,
        (index, -1),
        |event| {
            event.int(Datum::CD, value);
        },
        result(Datum::CC),
        |state, class| {
            let flags = Flags::PERSISTENT | Flags::MULTI_INSTANCE;
            let put = put_fields(state, class, index, flags, BodyWriter::new().int(value));
            expect(&[PvmError::Denied], Reporting::Errno, put)
        },
    )
}

/// Gets a number by name (PVM 3.3): at an index, or at the first for -1. Returns the index.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_lookup(class: Text<'_>, index: c_int, value: Out<'_, c_int>) -> c_int {
    entry_call(
        ("pvm_lookup", Event::Lookup),
        class,
        (index, -1),
        no_more,
        result(Datum::CC),
        |state, class| {
            let (index, flags) =
                if index == -1 { (0, Flags::FIRST_AVAILABLE) } else { (index, Flags::DEFAULT) };
            match get(state, class, index, flags) {
                Ok(found) => {
                    let message = found.message.open().map_err(|_| PvmError::BadMsg)?;
                    let number = nested::unpackable(message).unpack_int()?;
                    value.set(number);
                    Ok(found.index)
                }
                Err(failure) => expect(&[PvmError::NotFound], Reporting::Errno, Err(failure)),
            }
        },
    )
}

/// Removes a number (PVM 3.3) and returns its index.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_delete(class: Text<'_>, index: c_int) -> c_int {
    entry_call(
        ("pvm_delete", Event::Delete),
        class,
        (index, 0),
        no_more,
        result(Datum::CC),
        |state, class| expect(&[PvmError::NotFound], Reporting::Errno, remove(state, class, index)),
    )
}
