//! The pack and unpack calls.

use super::buffers::{Buffer, Format, InPlacePart};
use super::memory::{Text, copy_bytes};
use super::state::{Failure, State, try_fast};
use super::tracepoints::{result, traced};
use pvm_wire::events::{Datum, Event, Writer};
use pvm_wire::{Complex32, Complex64, Element, Encoding, PvmError};
use std::ffi::{c_char, c_double, c_float, c_int, c_long, c_short, c_uint, c_ulong, c_ushort, c_void};

/// Trace messages: a single item follows, or a count and as many.
const TRACE_ARRAY: i32 = 0x80;
/// Trace messages: strings are arrays of this type, bytes.
const TRACE_STRING: i32 = TRACE_ARRAY | 1;

/// An array of the program: its address, the number of elements and their stride.
#[derive(Clone, Copy)]
struct Array<T> {
    pointer: *mut T,
    count: usize,
    stride: isize,
}

impl<T: Element> Array<T> {
    /// The address of an element.
    #[inline]
    fn at(self, index: usize) -> *mut T {
        self.pointer.wrapping_offset(self.stride.wrapping_mul(index as isize))
    }

    /// Bytes of the elements, if they stand side by side.
    #[inline]
    fn bytes(self) -> Option<usize> {
        if self.stride == 1 { self.count.checked_mul(size_of::<T>()) } else { None }
    }
}

/// The arguments of a call about an array, whose type is one of them.
#[derive(Clone, Copy)]
pub struct Arguments {
    pub pointer: *mut c_void,
    pub count: c_int,
    pub stride: c_int,
}

impl Arguments {
    #[inline]
    pub fn new<T>(array: *mut T, count: c_int, stride: c_int) -> Self {
        Self { pointer: array.cast(), count, stride }
    }

    /// About one element, or a string.
    pub fn one<T>(element: *mut T) -> Self {
        Self::new(element, 1, 1)
    }

    #[inline]
    fn array<T: Element>(self) -> Result<Array<T>, PvmError> {
        let count = usize::try_from(self.count).map_err(|_| PvmError::BadParam)?;
        if self.pointer.is_null() && count > 0 {
            return Err(PvmError::BadParam);
        }
        Ok(Array { pointer: self.pointer.cast(), count, stride: self.stride as isize })
    }

    /// A negative count is reported before a missing buffer, a missing array after it.
    fn checked(self) -> Result<Self, PvmError> {
        usize::try_from(self.count).map_or(Err(PvmError::BadParam), |_| Ok(self))
    }
}

/// Whether an element's encoded form in this format is its form in memory.
#[inline]
fn is_as_in_memory<T: Element>(format: Format) -> bool {
    match format {
        Format::Plain(Encoding::Raw) => true,
        // Alien numbers are not this host's, though alien bytes are bytes.
        Format::Plain(Encoding::Xdr) | Format::Trace | Format::Alien(_) => size_of::<T>() == 1,
        Format::Plain(Encoding::InPlace) => false,
    }
}

/// Packs a program's array.
///
/// # Safety
/// The array can be read, and for in-place data until the message is sent.
#[inline(always)]
unsafe fn pack_into<T: Element>(
    buffer: &mut Buffer,
    array: Array<T>,
    trace_type: i32,
) -> Result<(), PvmError> {
    if array.count == 0 {
        return Ok(());
    }
    match buffer.format {
        Format::Plain(Encoding::InPlace) => {
            let length = array.bytes().ok_or(PvmError::NotImpl)?;
            buffer.push_part(InPlacePart { address: array.pointer.expose_provenance(), length });
            return Ok(());
        }
        Format::Trace if array.count == 1 => buffer.pack(std::iter::once(trace_type))?,
        Format::Trace => {
            let count = i32::try_from(array.count).map_err(|_| PvmError::BadParam)?;
            buffer.pack([trace_type | TRACE_ARRAY, count].into_iter())?;
        }
        Format::Plain(_) | Format::Alien(_) => {}
    }
    match array.bytes() {
        // SAFETY: the elements stand side by side in readable memory, and are plain numbers.
        Some(length) => {
            buffer.pack_bytes::<T>(unsafe { std::slice::from_raw_parts(array.pointer.cast(), length) })
        }
        // SAFETY: within the caller's array; C's strides may leave elements unaligned.
        None => buffer.pack((0..array.count).map(|index| unsafe { array.at(index).read_unaligned() })),
    }
}

/// Unpacks into a program's array.
///
/// # Safety
/// The array can be written.
#[inline(always)]
unsafe fn unpack_from<T: Element>(buffer: &mut Buffer, array: Array<T>) -> Result<(), PvmError> {
    if array.stride == 1
        && let Some(bytes) = buffer.take_native::<T>(array.count)
    {
        // SAFETY: as many bytes as the array has.
        unsafe { copy_out(bytes, array) };
        return Ok(());
    }
    match array.bytes() {
        Some(length) if is_as_in_memory::<T>(buffer.format) => {
            let bytes = buffer.take(length)?;
            // An incomplete last element is not copied.
            let whole = bytes.len() - bytes.len() % size_of::<T>();
            // SAFETY: no more than the array holds, into memory that is not the buffer's.
            unsafe { copy_bytes(&bytes[..whole], array.pointer.cast()) };
            if bytes.len() == length { Ok(()) } else { Err(PvmError::NoData) }
        }
        // SAFETY: as many elements as the array has are written, each once.
        _ => buffer.unpack(array.count, |index, value| unsafe { array.at(index).write_unaligned(value) }),
    }
}

/// Copies a message's bytes, which are not the program's, to the program; one number, as often, without a call.
///
/// # Safety
/// As many bytes as the array has, side by side.
#[inline(always)]
unsafe fn copy_out<T: Element>(bytes: &[u8], array: Array<T>) {
    // SAFETY: the array has room for these bytes, side by side, and no message lies there.
    unsafe {
        match (bytes.len(), bytes.first_chunk::<4>(), bytes.first_chunk::<8>()) {
            (4, Some(&number), _) => array.pointer.cast::<[u8; 4]>().write(number),
            (8, _, Some(&number)) => array.pointer.cast::<[u8; 8]>().write(number),
            _ => copy_bytes(bytes, array.pointer.cast()),
        }
    }
}

/// A call that packs an array.
///
/// # Safety
/// The array can be read.
#[inline(always)]
unsafe fn pack_array<T: Element>(name: &str, arguments: Arguments, trace_type: i32) -> c_int {
    let done = try_fast(|state| {
        let length = arguments.array::<T>().ok()?.bytes().filter(|&length| length > 0)?;
        // SAFETY: the elements stand side by side in readable memory, and are plain numbers.
        let bytes = unsafe { std::slice::from_raw_parts(arguments.pointer.cast(), length) };
        state.buffers.sending().ok()?.pack_few::<T>(bytes).then_some(0)
    });
    // SAFETY: the array of this call, untouched so far.
    done.unwrap_or_else(|| unsafe { pack_array_whole::<T>(name, arguments, trace_type) })
}

/// The slow path.
#[inline(never)]
unsafe fn pack_array_whole<T: Element>(name: &str, arguments: Arguments, trace_type: i32) -> c_int {
    in_whole_frame((name, T::PACKED), arguments, |state| {
        // SAFETY: the array's elements can be read, each a stride behind the other.
        unsafe { pack_into::<T>(state.buffers.sending()?, arguments.array()?, trace_type) }
    })
}

/// A call that unpacks an array.
///
/// # Safety
/// The array can be written.
#[inline(always)]
unsafe fn unpack_array<T: Element>(name: &str, arguments: Arguments) -> c_int {
    let done = try_fast(|state| {
        let array = arguments.array::<T>().ok().filter(|array| array.stride == 1)?;
        let bytes = state.buffers.receiving().ok()?.take_few::<T>(array.count)?;
        // SAFETY: as many bytes as the array has.
        unsafe { copy_out(bytes, array) };
        Some(0)
    });
    // SAFETY: the array of this call, untouched so far.
    done.unwrap_or_else(|| unsafe { unpack_array_whole::<T>(name, arguments) })
}

/// The slow path.
#[inline(never)]
unsafe fn unpack_array_whole<T: Element>(name: &str, arguments: Arguments) -> c_int {
    in_whole_frame((name, T::UNPACKED), arguments, |state| {
        // SAFETY: the array has room for its elements, each a stride behind the other.
        unsafe { unpack_from::<T>(state.buffers.receiving()?, arguments.array()?) }
    })
}

/// A traced call with an array.
fn in_whole_frame(
    (name, event): (&str, Event),
    arguments: Arguments,
    act: impl FnOnce(&mut State) -> Result<(), PvmError>,
) -> c_int {
    let tell = |_: &mut State, event: &mut Writer| {
        let Arguments { pointer, count, stride } = arguments;
        event.long(Datum::PDA, pointer.addr() as i64).int(Datum::PC, count).int(Datum::PSD, stride);
    };
    traced(name, event, tell, result(Datum::CC), move |state| {
        arguments.checked()?;
        act(state)?;
        Ok(0)
    })
}

macro_rules! pack_calls {
    ($($kind:ident $pack:ident $unpack:ident($c:ty as $element:ty, $trace:literal);)*) => {
        /// The type of elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $(#[doc = concat!("`", stringify!($pack), "`.")] $kind,)*
            /// `pvm_pkstr`.
            Text,
        }

        /// Packs an array (or a string) into the send buffer.
        ///
        /// # Safety
        /// There are `count` elements at the pointer, each `stride` after the one before, or a C string.
        pub unsafe fn pack(state: &mut State, kind: Kind, arguments: Arguments) -> Result<(), PvmError> {
            let arguments = arguments.checked()?;
            let buffer = state.buffers.sending()?;
            match kind {
                // SAFETY: `count` elements of the kind, each a stride behind the other.
                $(Kind::$kind => unsafe { pack_into::<$element>(buffer, arguments.array()?, $trace) },)*
                // SAFETY: for this kind the caller has promised a C string.
                Kind::Text => pack_text(buffer, unsafe { Text::at(arguments.pointer.cast()) }.bytes()),
            }
        }

        /// Unpacks an array (or a string) from the receive buffer.
        ///
        /// # Safety
        /// There is room for `count` elements at the pointer, each `stride` after the one before, or for the string.
        pub unsafe fn unpack(state: &mut State, kind: Kind, arguments: Arguments) -> Result<(), PvmError> {
            let arguments = arguments.checked()?;
            let buffer = state.buffers.receiving()?;
            match kind {
                // SAFETY: room for `count` elements of the kind, each a stride behind the other.
                $(Kind::$kind => unsafe { unpack_from::<$element>(buffer, arguments.array()?) },)*
                // SAFETY: room for the string and its NUL.
                Kind::Text => unsafe { unpack_text(buffer, arguments.pointer.cast()) },
            }
        }

        $(
            #[doc = concat!("Packs elements: `", stringify!($element), "`.")]
            ///
            /// # Safety
            /// There are `count` elements at `pointer`, each `stride` after the one before.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $pack(pointer: *mut $c, count: c_int, stride: c_int) -> c_int {
                // SAFETY: `count` elements, each a stride behind the other.
                unsafe { pack_array::<$element>(stringify!($pack), Arguments::new(pointer, count, stride), $trace) }
            }

            #[doc = concat!("Unpacks elements: `", stringify!($element), "`.")]
            ///
            /// # Safety
            /// There is room for `count` elements at `pointer`, each `stride` after the one before.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $unpack(pointer: *mut $c, count: c_int, stride: c_int) -> c_int {
                // SAFETY: room for `count` elements, each a stride behind the other.
                unsafe { unpack_array::<$element>(stringify!($unpack), Arguments::new(pointer, count, stride)) }
            }
        )*
    };
}

/// C's `long` on this platform, as an element.
type Long = i64;
/// C's `unsigned long` on this platform, as an element.
type ULong = u64;
const _: () = assert!(size_of::<c_long>() == size_of::<Long>() && size_of::<c_ulong>() == size_of::<ULong>());

pack_calls! {
    Byte pvm_pkbyte pvm_upkbyte(c_char as u8, 1);
    Complex pvm_pkcplx pvm_upkcplx(c_float as Complex32, 2);
    DoubleComplex pvm_pkdcplx pvm_upkdcplx(c_double as Complex64, 3);
    Double pvm_pkdouble pvm_upkdouble(c_double as f64, 4);
    Float pvm_pkfloat pvm_upkfloat(c_float as f32, 5);
    Int pvm_pkint pvm_upkint(c_int as i32, 6);
    UInt pvm_pkuint pvm_upkuint(c_uint as u32, 6);
    Long pvm_pklong pvm_upklong(c_long as Long, 8);
    ULong pvm_pkulong pvm_upkulong(c_ulong as ULong, 9);
    Short pvm_pkshort pvm_upkshort(c_short as i16, 10);
    UShort pvm_pkushort pvm_upkushort(c_ushort as u16, 10);
}

fn pack_text(buffer: &mut Buffer, text: Result<&[u8], Failure>) -> Result<(), PvmError> {
    let text = text.map_err(|_| PvmError::BadParam)?;
    if buffer.format != Format::Trace {
        return buffer.pack_str(text);
    }
    let length = i32::try_from(text.len()).map_err(|_| PvmError::BadParam)?;
    buffer.pack([TRACE_STRING, length].into_iter())?;
    buffer.pack_bytes::<u8>(text)
}

/// Unpacks a string. As in PVM the library cannot know how much room there is.
///
/// # Safety
/// There is room for the string and its NUL.
unsafe fn unpack_text(buffer: &mut Buffer, text: *mut c_char) -> Result<(), PvmError> {
    let found = buffer.unpack_str()?;
    if text.is_null() {
        return Err(PvmError::BadParam);
    }
    // SAFETY: the caller gives room for the string and the NUL that follows it.
    unsafe {
        std::ptr::copy_nonoverlapping(found.as_ptr().cast(), text, found.len());
        text.add(found.len()).write(0);
    }
    Ok(())
}

/// A call that packs or unpacks a string.
fn text_call(
    name: &str,
    event: Event,
    text: *mut c_char,
    act: impl FnOnce(&mut State) -> Result<(), PvmError>,
) -> c_int {
    let entry = |_: &mut State, event: &mut Writer| {
        event.long(Datum::PDA, text.addr() as i64);
    };
    traced(name, event, entry, result(Datum::CC), |state| {
        act(state)?;
        Ok(0)
    })
}

/// Packs a string, its NUL included.
///
/// # Safety
/// `text` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_pkstr(text: *mut c_char) -> c_int {
    // SAFETY: NULL, or a C string.
    text_call("pvm_pkstr", Event::Pkstr, text, |state| unsafe {
        pack(state, Kind::Text, Arguments::one(text))
    })
}

/// Unpacks a string.
///
/// # Safety
/// There is room at `text` for the string and its NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_upkstr(text: *mut c_char) -> c_int {
    // SAFETY: NULL, or room for the string and its NUL.
    text_call("pvm_upkstr", Event::Upkstr, text, |state| unsafe {
        unpack(state, Kind::Text, Arguments::one(text))
    })
}
