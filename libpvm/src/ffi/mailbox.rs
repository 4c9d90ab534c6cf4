//! The mailbox: named messages that the machine keeps.

use super::buffers::{Buffer, Format};
use super::control::expect;
use super::memory::{CList, MailboxInfo, os_text, os_text_or_empty, store};
use super::nested;
use super::state::{Failure, Outcome, State, Told, call};
use super::tracepoints::{result, traced};
use bytes::Bytes;
use pvm_wire::body::{BodyReader, BodyWriter};
use pvm_wire::codes::Tm;
use pvm_wire::events::{Datum, Event};
use pvm_wire::spawn::Sink;
use pvm_wire::{Encoding, MessageHeader, PvmError, Tid};
use std::ffi::{OsStr, OsString, c_char, c_int};

/// The class of tasks that a reset spares.
pub const NO_RESET_CLASS: &str = "###_PVM_NO_RESET_###";
/// The class of the tracer.
pub const TRACER_CLASS: &str = "###_PVM_TRACER_###";
/// Flag of puts: the class may have several entries.
const MULTI_INSTANCE: c_int = 2;

const PERSISTENT: c_int = 1;
const FIRST_AVAILABLE: c_int = 8;

/// What TM_DB asks for.
#[derive(Clone, Copy)]
enum Op {
    Put = 1,
    Remove = 2,
    Get = 3,
    Names = 4,
    Reset = 5,
}

/// The fields that every request begins with.
fn head(
    state: &mut State,
    op: Op,
    class: impl AsRef<OsStr>,
    index: c_int,
    flags: c_int,
) -> Result<BodyWriter, Failure> {
    let tid = state.tid()?.raw();
    Ok(BodyWriter::new().int(op as i32).int(tid).str(class).int(index).int(flags))
}

/// Puts a message under a name and returns its index.
fn put(
    state: &mut State,
    class: impl AsRef<OsStr>,
    index: c_int,
    flags: c_int,
    message: &Buffer,
    body: &[u8],
) -> Outcome {
    let head = head(state, Op::Put, class, index, flags)?.finish();
    let mut request = Buffer::encoded_as(Format::Plain(Encoding::Xdr), head);
    nested::write(&mut request, message, body)?;
    state.request_code(Tm::Db.tag(), request.into_body()?)
}

/// Puts numbers under a name that may have several entries.
pub fn put_numbers(state: &mut State, class: impl AsRef<OsStr>, numbers: &[c_int]) -> Outcome {
    put_numbers_at(state, class, -1, MULTI_INSTANCE, numbers)
}

/// Puts an entry of the tracer's: numbers, a mask, and how it wants to be told.
pub fn put_tracer(
    state: &mut State,
    class: impl AsRef<OsStr>,
    sinks: &[c_int],
    mask: &str,
    how: [c_int; 2],
) -> Outcome {
    let mut message = Buffer::new(Format::Plain(Encoding::Xdr));
    message.pack(sinks.iter().copied())?;
    message.pack_str(mask.as_bytes())?;
    message.pack(how.into_iter())?;
    message.info.src = state.tid()?.raw();
    let body = message.encoded()?.0.to_vec();
    put(state, class, -1, MULTI_INSTANCE, &message, &body)
}

/// What the tracer's entry says: whom to send trace to, the mask, and how the tracer wants to be told.
pub fn tracer(state: &mut State) -> Result<(Sink, String, [c_int; 2]), Failure> {
    let (_, mut entry) = get(state, TRACER_CLASS, 0, 0)?;
    let trace = Sink { tid: entry.unpack_int()?, context: entry.unpack_int()?, tag: entry.unpack_int()? };
    let _output = (entry.unpack_int()?, entry.unpack_int()?);
    let mask = String::from_utf8_lossy(entry.unpack_str()?).into_owned();
    Ok((trace, mask, [entry.unpack_int()?, entry.unpack_int()?]))
}

fn put_numbers_at(
    state: &mut State,
    class: impl AsRef<OsStr>,
    index: c_int,
    flags: c_int,
    numbers: &[c_int],
) -> Outcome {
    let mut message = Buffer::new(Format::Plain(Encoding::Xdr));
    message.pack(numbers.iter().copied())?;
    message.info.src = state.tid()?.raw();
    let body = message.encoded()?.0.to_vec();
    put(state, class, index, flags, &message, &body)
}

/// Removes an entry and returns its index.
pub fn remove(state: &mut State, class: impl AsRef<OsStr>, index: c_int) -> Outcome {
    let body = head(state, Op::Remove, class, index, 0)?.finish();
    state.request_code(Tm::Db.tag(), body)
}

/// Gets an entry: its index, and its message.
fn get(
    state: &mut State,
    class: impl AsRef<OsStr>,
    index: c_int,
    flags: c_int,
) -> Result<(c_int, Buffer), Failure> {
    let body = head(state, Op::Get, class, index, flags)?.finish();
    let answer = state.request(Tm::Db.tag(), body)?;
    let mut answer = Buffer::received(as_message(answer));
    let found = answer.unpack_int()?;
    if found < 0 {
        return Err(Failure::code(found));
    }
    Ok((found, nested::read(&mut answer)?))
}

fn as_message(body: Bytes) -> pvm_wire::Message {
    let header = MessageHeader { encoding: Encoding::Xdr.word(), ..MessageHeader::default() };
    pvm_wire::Message { src: Tid::MY_DAEMON, dst: Tid::NONE, header, body: body.into() }
}

/// Puts a copy of a message under a name and returns its index there.
///
/// # Safety
/// `class` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_putinfo(class: *const c_char, id: c_int, flags: c_int) -> c_int {
    // SAFETY: as promised.
    let class = unsafe { os_text(class) };
    let named = class.as_ref().map_or(OsStr::new(""), |name| *name);
    traced(
        "pvm_putinfo",
        Event::Putinfo,
        |_, event| {
            event.text(Datum::CN, named).int(Datum::CI, -1).int(Datum::CF, flags).int(Datum::CD, id);
        },
        result(Datum::CC),
        |state| {
            state.engine()?;
            let class = not_empty(class)?;
            let buffer = state.buffers.get(id).map_err(no_such)?;
            let (copy, body) = nested::whole(buffer)?;
            expect(
                &[PvmError::Denied, PvmError::Exists],
                Told::Errno,
                put(state, class, -1, flags, &copy, &body),
            )
        },
    )
}

/// Whatever is no buffer's id is no buffer.
fn no_such(_: PvmError) -> PvmError {
    PvmError::NoSuchBuf
}

fn not_empty(class: Result<&OsStr, Failure>) -> Result<&OsStr, Failure> {
    class.and_then(|class| if class.is_empty() { Err(PvmError::BadParam.into()) } else { Ok(class) })
}

/// Gets a message by name into a buffer, which becomes the one to unpack from.
///
/// # Safety
/// `class` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_recvinfo(class: *const c_char, index: c_int, flags: c_int) -> c_int {
    // SAFETY: as promised.
    let class = unsafe { os_text(class) };
    let named = class.as_ref().map_or(OsStr::new(""), |name| *name);
    traced(
        "pvm_recvinfo",
        Event::Getinfo,
        |_, event| {
            event.text(Datum::CN, named).int(Datum::CI, index).int(Datum::CF, flags);
        },
        |_, event, code| {
            event.int(Datum::CC, code.min(0)).int(Datum::CR, code.max(0));
        },
        |state| {
            state.engine()?;
            let class = not_empty(class)?;
            if index < 0 {
                return Err(PvmError::BadParam.into());
            }
            match get(state, class, index, flags) {
                Ok((_, message)) => {
                    let old = state.buffers.receive_id();
                    state.buffers.free(old)?;
                    let id = state.buffers.insert(message)?;
                    state.buffers.set_receive(id)?;
                    Ok(id)
                }
                Err(failure) => expect(&[PvmError::NotFound], Told::Errno, Err(failure)),
            }
        },
    )
}

/// Removes an entry and returns its index.
///
/// # Safety
/// `class` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_delinfo(class: *const c_char, index: c_int, flags: c_int) -> c_int {
    // SAFETY: as promised.
    let class = unsafe { os_text(class) };
    let named = class.as_ref().map_or(OsStr::new(""), |name| *name);
    traced(
        "pvm_delinfo",
        Event::Delinfo,
        |_, event| {
            event.text(Datum::CN, named).int(Datum::CI, index).int(Datum::CF, flags);
        },
        result(Datum::CC),
        |state| {
            state.engine()?;
            let class = not_empty(class)?;
            if index < 0 {
                return Err(PvmError::BadParam.into());
            }
            expect(&[PvmError::NotFound, PvmError::Denied], Told::Errno, remove(state, class, index))
        },
    )
}

/// The names that fit a pattern, and the entries of each.
///
/// # Safety
/// `pattern` is NULL or a C string; the other pointers are NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_getmboxinfo(
    pattern: *const c_char,
    count: *mut c_int,
    array: *mut *mut MailboxInfo,
) -> c_int {
    // SAFETY: as promised.
    let pattern = unsafe { os_text_or_empty(pattern) };
    let named = pattern.as_ref().map_or(OsStr::new(""), |name| *name);
    traced(
        "pvm_getmboxinfo",
        Event::Getmboxinfo,
        |_, event| {
            event.text(Datum::CN, named);
        },
        result(Datum::CC),
        |state| {
            let classes = classes(state, pattern?)?;
            let mut list = CList::default();
            for class in &classes {
                let column = |pick: fn(&Entry) -> c_int| class.entries.iter().map(pick).collect::<Vec<_>>();
                let name = list.text(&class.name);
                let indices = list.numbers(column(|entry| entry.index));
                let owners = list.numbers(column(|entry| entry.owner));
                let flags = list.numbers(column(|entry| entry.flags));
                list.push(MailboxInfo {
                    name,
                    entries: class.entries.len() as c_int,
                    indices,
                    owners,
                    flags,
                });
            }
            state.lists.classes = list;
            // SAFETY: as promised.
            unsafe {
                store(count, state.lists.classes.len());
                store(array, state.lists.classes.array());
            }
            Ok(0)
        },
    )
}

/// A name in the mailbox.
struct Class {
    name: OsString,
    entries: Vec<Entry>,
}

struct Entry {
    index: c_int,
    owner: c_int,
    flags: c_int,
}

fn classes(state: &mut State, pattern: impl AsRef<OsStr>) -> Result<Vec<Class>, Failure> {
    let body = head(state, Op::Names, pattern, 0, 0)?.finish();
    let answer = state.request(Tm::Db.tag(), body)?;
    let mut reader = BodyReader::new(&answer);
    let code = reader.int()?;
    if code < 0 {
        return Err(Failure::code(code));
    }
    let count = reader.count(8)?;
    let mut classes = Vec::new();
    for _ in 0..count {
        let name = reader.os_str()?.to_owned();
        let mut entries = Vec::new();
        for _ in 0..reader.count(12)? {
            entries.push(Entry { index: reader.int()?, owner: reader.int()?, flags: reader.int()? });
        }
        classes.push(Class { name, entries });
    }
    Ok(classes)
}

/// The tasks that a reset spares.
pub fn spared(state: &mut State) -> Result<Vec<c_int>, Failure> {
    let classes = classes(state, NO_RESET_CLASS)?;
    let classes = classes.iter().filter(|class| class.name == NO_RESET_CLASS);
    Ok(classes.flat_map(|class| &class.entries).map(|entry| entry.owner).collect())
}

/// Removes what tasks that are gone have left, of one name and index or (empty, -1) of all. Entries of the tasks to
/// `keep` stay; `kill` says that the others are being ended.
pub fn reset(
    state: &mut State,
    class: impl AsRef<OsStr>,
    index: c_int,
    kill: c_int,
    keep: Vec<c_int>,
) -> Result<(), Failure> {
    let body = head(state, Op::Reset, class, index, kill)?.int(keep.len() as c_int).ints(keep).finish();
    state.request_code(Tm::Db.tag(), body).map(drop)
}

/// The tasks that a reset spares.
///
/// # Safety
/// Each pointer is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_getnoresets(tids: *mut *mut c_int, count: *mut c_int) -> c_int {
    call("pvm_getnoresets", |state| {
        state.lists.no_resets = CList::of(spared(state)?);
        // SAFETY: as promised.
        unsafe {
            store(count, state.lists.no_resets.len());
            store(tids, state.lists.no_resets.array());
        }
        Ok(0)
    })
}

/// Puts a number under a name (PVM 3.3): at an index, or at the next free one for -1.
///
/// # Safety
/// `class` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_insert(class: *const c_char, index: c_int, value: c_int) -> c_int {
    // SAFETY: as promised.
    let class = unsafe { os_text(class) };
    let named = class.as_ref().map_or(OsStr::new(""), |name| *name);
    traced(
        "pvm_insert",
        Event::Insert,
        |_, event| {
            event.text(Datum::CN, named).int(Datum::CI, index).int(Datum::CD, value);
        },
        result(Datum::CC),
        |state| {
            state.engine()?;
            let class = not_empty(class)?;
            if index < -1 {
                return Err(PvmError::BadParam.into());
            }
            let flags = PERSISTENT | MULTI_INSTANCE;
            expect(&[PvmError::Denied], Told::Errno, put_numbers_at(state, class, index, flags, &[value]))
        },
    )
}

/// Gets a number by name (PVM 3.3): at an index, or at the first for -1. Returns the index.
///
/// # Safety
/// `class` is NULL or a C string; `value` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_lookup(class: *const c_char, index: c_int, value: *mut c_int) -> c_int {
    // SAFETY: as promised.
    let class = unsafe { os_text(class) };
    let named = class.as_ref().map_or(OsStr::new(""), |name| *name);
    traced(
        "pvm_lookup",
        Event::Lookup,
        |_, event| {
            event.text(Datum::CN, named).int(Datum::CI, index);
        },
        result(Datum::CC),
        |state| {
            state.engine()?;
            let class = not_empty(class)?;
            if index < -1 {
                return Err(PvmError::BadParam.into());
            }
            let (index, flags) = if index == -1 { (0, FIRST_AVAILABLE) } else { (index, 0) };
            match get(state, class, index, flags) {
                Ok((found, mut message)) => {
                    let number = message.unpack_int()?;
                    // SAFETY: as promised.
                    unsafe { store(value, number) };
                    Ok(found)
                }
                Err(failure) => expect(&[PvmError::NotFound], Told::Errno, Err(failure)),
            }
        },
    )
}

/// Removes a number (PVM 3.3) and returns its index.
///
/// # Safety
/// `class` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_delete(class: *const c_char, index: c_int) -> c_int {
    // SAFETY: as promised.
    let class = unsafe { os_text(class) };
    let named = class.as_ref().map_or(OsStr::new(""), |name| *name);
    traced(
        "pvm_delete",
        Event::Delete,
        |_, event| {
            event.text(Datum::CN, named).int(Datum::CI, index);
        },
        result(Datum::CC),
        |state| {
            state.engine()?;
            let class = not_empty(class)?;
            if index < 0 {
                return Err(PvmError::BadParam.into());
            }
            expect(&[PvmError::NotFound], Told::Errno, remove(state, class, index))
        },
    )
}
