//! `pvm_packf` and `pvm_unpackf`, whose arguments a format describes as `printf`'s does.
//!
//! Rust cannot define functions with variable arguments, so two entries in assembly gather them into a `va_list`, as
//! the System V ABI of x86-64 lays it out.

use super::buffer_calls;
use super::memory::Text;
use super::pack::{Arguments, Kind, pack, unpack};
use super::state::{Outcome, State};
use super::tracepoints::{result, traced};
use pvm_wire::PvmError;
use pvm_wire::events::{Datum, Event, Writer};
use std::ffi::{c_char, c_double, c_int, c_long, c_short, c_void};

/// Bytes of the general registers in the register save area; the others follow.
const GENERAL: u32 = 48;
/// Bytes of the whole register save area.
const SAVED: u32 = 176;

/// One `va_list` of x86-64.
#[repr(C)]
pub struct VaList {
    general_offset: u32,
    float_offset: u32,
    overflow: *const u8,
    saved: *const u8,
}

impl VaList {
    fn slot(&mut self, float: bool) -> *const u8 {
        let (offset, end, step) =
            if float { (&mut self.float_offset, SAVED, 16) } else { (&mut self.general_offset, GENERAL, 8) };
        if *offset < end {
            let slot = self.saved.wrapping_add(*offset as usize);
            *offset += step;
            return slot;
        }
        let slot = self.overflow;
        self.overflow = slot.wrapping_add(8);
        slot
    }

    /// The next argument, a number.
    ///
    /// # Safety
    /// The caller of the C function gave one.
    unsafe fn number(&mut self) -> c_long {
        // SAFETY: the program's call has one more argument of this kind; all slots have eight bytes.
        unsafe { self.slot(false).cast::<c_long>().read_unaligned() }
    }

    /// The next argument, a pointer.
    ///
    /// # Safety
    /// The caller of the C function gave one.
    unsafe fn pointer(&mut self) -> *mut c_void {
        // SAFETY: the program's call has one more argument of this kind; all slots have eight bytes.
        unsafe { self.slot(false).cast::<*mut c_void>().read_unaligned() }
    }

    /// The next argument, a floating-point number.
    ///
    /// # Safety
    /// The caller of the C function gave one.
    unsafe fn double(&mut self) -> c_double {
        // SAFETY: the program's call has one more argument of this kind; all slots have at least eight bytes.
        unsafe { self.slot(true).cast::<c_double>().read_unaligned() }
    }
}

macro_rules! entry {
    ($(#[$doc:meta])* $name:ident calls $inner:ident) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The arguments are what the format says.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(format: *const c_char) -> c_int {
            // The list is at rsp, the save area 32 bytes above it; 216 keeps the stack aligned to 16.
            core::arch::naked_asm!(
                "sub rsp, 216",
                "mov [rsp + 40], rsi",
                "mov [rsp + 48], rdx",
                "mov [rsp + 56], rcx",
                "mov [rsp + 64], r8",
                "mov [rsp + 72], r9",
                "test al, al",
                "je 2f",
                "movaps [rsp + 80], xmm0",
                "movaps [rsp + 96], xmm1",
                "movaps [rsp + 112], xmm2",
                "movaps [rsp + 128], xmm3",
                "movaps [rsp + 144], xmm4",
                "movaps [rsp + 160], xmm5",
                "movaps [rsp + 176], xmm6",
                "movaps [rsp + 192], xmm7",
                "2:",
                "mov dword ptr [rsp], 8",
                "mov dword ptr [rsp + 4], 48",
                "lea rax, [rsp + 224]",
                "mov [rsp + 8], rax",
                "lea rax, [rsp + 32]",
                "mov [rsp + 16], rax",
                "mov rsi, rsp",
                "call {inner}",
                "add rsp, 216",
                "ret",
                inner = sym $inner,
            )
        }
    };
}

entry! {
    /// Packs what a format describes.
    pvm_packf calls pack_list
}
entry! {
    /// Unpacks what a format describes.
    pvm_unpackf calls unpack_list
}

/// As [`pvm_packf`], with the arguments in a list.
///
/// # Safety
/// The arguments are what the format says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_vpackf(format: Text<'_>, list: *mut VaList) -> c_int {
    // SAFETY: the list has what the format says.
    unsafe { pack_list(format, list) }
}

/// As [`pvm_unpackf`], with the arguments in a list.
///
/// # Safety
/// The arguments are what the format says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_vunpackf(format: Text<'_>, list: *mut VaList) -> c_int {
    // SAFETY: the list has what the format says.
    unsafe { unpack_list(format, list) }
}

unsafe extern "C" fn pack_list(format: Text<'_>, list: *mut VaList) -> c_int {
    let pack = |state: &mut State, format: &[u8], list: &mut VaList| {
        let rest = match format.strip_prefix(b"%+") {
            Some(rest) => {
                // SAFETY: `%+` has a number as its argument.
                buffer_calls::initsend(state, unsafe { list.number() } as c_int)?;
                rest
            }
            None => format,
        };
        for conversion in Conversions(rest) {
            // SAFETY: the list has what the format says.
            unsafe { pack_one(state, &conversion?, list) }?;
        }
        Ok(0)
    };
    // SAFETY: the list of the program's call.
    unsafe { list_call(("pvm_packf", Event::Packf), format, list, pack) }
}

unsafe extern "C" fn unpack_list(format: Text<'_>, list: *mut VaList) -> c_int {
    let unpack = |state: &mut State, format: &[u8], list: &mut VaList| {
        for conversion in Conversions(format) {
            let conversion = conversion?;
            // SAFETY: the list has what the format says.
            unsafe {
                let (count, stride) = conversion.numbers(list);
                unpack(state, conversion.kind, Arguments::new(list.pointer(), count, stride))?;
            }
        }
        Ok(0)
    };
    // SAFETY: the list of the program's call.
    unsafe { list_call(("pvm_unpackf", Event::Unpackf), format, list, unpack) }
}

/// A call with a format and a list of arguments.
///
/// # Safety
/// The list is not read otherwise meanwhile.
unsafe fn list_call(
    (name, event): (&str, Event),
    format: Text<'_>,
    list: *mut VaList,
    act: impl FnOnce(&mut State, &[u8], &mut VaList) -> Outcome,
) -> c_int {
    let text = format.text_or_empty();
    let tell = |_: &mut State, event: &mut Writer| {
        event.text(Datum::PF, text.unwrap_or_default());
    };
    traced(name, event, tell, result(Datum::CC), |state| {
        // SAFETY: the list is the caller's, and only this call reads it.
        act(state, format.bytes()?, unsafe { &mut *list })
    })
}

unsafe fn pack_one(state: &mut State, item: &Conversion, list: &mut VaList) -> Result<(), PvmError> {
    // SAFETY: the list has what the format says.
    unsafe {
        let (count, stride) = item.numbers(list);
        let by_value = item.count.is_none() && item.stride.is_none();
        if !by_value || matches!(item.kind, Kind::Complex | Kind::DoubleComplex | Kind::Text) {
            return pack(state, item.kind, Arguments::new(list.pointer(), count, stride));
        }
        match item.kind {
            Kind::Double => pack_value(state, item.kind, list.double()),
            Kind::Float => pack_value(state, item.kind, list.double() as f32),
            Kind::Long | Kind::ULong => pack_value(state, item.kind, list.number()),
            Kind::Short | Kind::UShort => pack_value(state, item.kind, list.number() as c_short),
            Kind::Byte => pack_value(state, item.kind, list.number() as c_char),
            _ => pack_value(state, item.kind, list.number() as c_int),
        }
    }
}

unsafe fn pack_value<T>(state: &mut State, kind: Kind, mut value: T) -> Result<(), PvmError> {
    // An argument given by value is gone when the message is sent.
    if state.buffers.sending()?.is_in_place() {
        return Err(PvmError::NotImpl);
    }
    // SAFETY: one value of the kind.
    unsafe { pack(state, kind, Arguments::one(&raw mut value)) }
}

/// A count or stride in a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    /// Written out.
    Given(c_int),
    /// `*`: an argument.
    Argument,
}

/// One item of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Conversion {
    count: Option<Number>,
    stride: Option<Number>,
    kind: Kind,
}

impl Conversion {
    /// Count and stride, 1 by default.
    ///
    /// # Safety
    /// The list has an argument for each `*`.
    unsafe fn numbers(&self, list: &mut VaList) -> (c_int, c_int) {
        let mut number = |number| match number {
            None => 1,
            Some(Number::Given(number)) => number,
            // SAFETY: the list has a number here, as the format says.
            Some(Number::Argument) => unsafe { list.number() as c_int },
        };
        (number(self.count), number(self.stride))
    }
}

/// The items of a format, text between them left out.
struct Conversions<'a>(&'a [u8]);

impl Iterator for Conversions<'_> {
    type Item = Result<Conversion, PvmError>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.0.iter().position(|&byte| byte == b'%')? + 1;
        self.0 = &self.0[start..];
        let result = self.conversion();
        if result.is_none() {
            self.0 = &[];
        }
        Some(result.ok_or(PvmError::BadParam))
    }
}

impl Conversions<'_> {
    fn conversion(&mut self) -> Option<Conversion> {
        let count = self.number();
        let stride = if self.0.first() == Some(&b'.') {
            self.0 = &self.0[1..];
            self.number()
        } else {
            None
        };
        let (mut short, mut long, mut unsigned) = (false, false, false);
        loop {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let kind = match byte {
                b'h' => {
                    short = true;
                    continue;
                }
                b'l' => {
                    long = true;
                    continue;
                }
                b'u' => {
                    unsigned = true;
                    continue;
                }
                b'c' => Kind::Byte,
                b's' => Kind::Text,
                b'f' if long => Kind::Double,
                b'f' => Kind::Float,
                b'x' if long => Kind::DoubleComplex,
                b'x' => Kind::Complex,
                b'd' => match (short, long, unsigned) {
                    (true, _, false) => Kind::Short,
                    (true, _, true) => Kind::UShort,
                    (_, true, false) => Kind::Long,
                    (_, true, true) => Kind::ULong,
                    (_, _, false) => Kind::Int,
                    (_, _, true) => Kind::UInt,
                },
                _ => return None,
            };
            return Some(Conversion { count, stride, kind });
        }
    }

    fn number(&mut self) -> Option<Number> {
        if self.0.first() == Some(&b'*') {
            self.0 = &self.0[1..];
            return Some(Number::Argument);
        }
        let digits = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.0.split_at(digits);
        self.0 = rest;
        let number = std::str::from_utf8(number).ok().filter(|text| !text.is_empty())?;
        // A number too large to be one is a count that nothing has: a bad parameter.
        Some(Number::Given(number.parse().unwrap_or(-1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read() {
        let items: Vec<_> = Conversions(b"x %d, %3lf %*.2uhd %.*c %s").map(Result::unwrap).collect();
        let item = |count, stride, kind| Conversion { count, stride, kind };
        let given = |number| Some(Number::Given(number));
        assert_eq!(
            items,
            [
                item(None, None, Kind::Int),
                item(given(3), None, Kind::Double),
                item(Some(Number::Argument), given(2), Kind::UShort),
                item(None, Some(Number::Argument), Kind::Byte),
                item(None, None, Kind::Text),
            ]
        );
        assert_eq!(Conversions(b"%d%q%d").collect::<Vec<_>>().len(), 2, "an unknown type ends it");
        assert_eq!(Conversions(b"%").next(), Some(Err(PvmError::BadParam)));
    }
}
