//! The types PVM packs, in XDR and in native form.
//!
//! One [`Element`] per pack call of PVM; [`pack`] and [`unpack`] work on iterators, so that strides cost nothing.

use crate::encoding::Encoding;
use crate::error::PvmError;
use crate::events::Event;
use crate::runs::Kind;
use bytemuck::{Pod, Zeroable};

/// A complex number of two floats (`pvm_pkcplx`).
#[derive(Clone, Copy, Debug, PartialEq, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Complex32 {
    /// Real part.
    pub re: f32,
    /// Imaginary part.
    pub im: f32,
}

/// A complex number of two doubles (`pvm_pkdcplx`).
#[derive(Clone, Copy, Debug, PartialEq, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Complex64 {
    /// Real part.
    pub re: f64,
    /// Imaginary part.
    pub im: f64,
}

/// A value PVM can pack.
///
/// C's `long` is `i64` here: its XDR form has only the low 32 bits, as in PVM, which are sign-extended (unsigned:
/// zero-extended) on arrival; [`crate::Upper`] has the others. In native form all 64 travel.
pub trait Element: Pod + Default {
    /// The trace event of a call that packs such elements.
    const PACKED: Event;
    /// The trace event of a call that unpacks them.
    const UNPACKED: Event;
    /// What it is made of, in a body that is not converted.
    const KIND: Kind;
    /// How many of these.
    const UNITS: usize = Self::NATIVE / Self::KIND.native();
    /// Bytes of one element in XDR.
    const XDR: usize;
    /// Bytes of one element in native form.
    const NATIVE: usize;
    /// Writes the XDR form into `out`, which has [`Self::XDR`] bytes.
    fn put_xdr(self, out: &mut [u8]);
    /// Reads the XDR form from [`Self::XDR`] bytes.
    fn get_xdr(bytes: &[u8]) -> Self;
    /// Writes the native form into `out`, which has [`Self::NATIVE`] bytes.
    fn put_native(self, out: &mut [u8]);
    /// Reads the native form from [`Self::NATIVE`] bytes.
    fn get_native(bytes: &[u8]) -> Self;
    /// The upper half, if the XDR form does not tell it.
    fn upper(self) -> Option<u32> {
        None
    }
    /// The element with this upper half.
    #[must_use]
    fn with_upper(self, upper: u32) -> Self {
        let _ = upper;
        self
    }
}

/// Elements in native form, where they are.
pub fn native_bytes<T: Element>(values: &[T]) -> &[u8] {
    bytemuck::cast_slice(values)
}

/// The first `N` bytes of a slice that has them.
fn head<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[..N]);
    out
}

macro_rules! events {
    (($pack:ident $unpack:ident)) => {
        const PACKED: Event = Event::$pack;
        const UNPACKED: Event = Event::$unpack;
    };
}

macro_rules! element {
    ($type:ty, $events:tt, $kind:ident, $xdr:ty, $encode:expr, $decode:expr $(, $more:item)*) => {
        impl Element for $type {
            events!($events);
            const KIND: Kind = Kind::$kind;
            const XDR: usize = size_of::<$xdr>();
            const NATIVE: usize = size_of::<$type>();
            fn put_xdr(self, out: &mut [u8]) {
                let encode: fn($type) -> $xdr = $encode;
                out.copy_from_slice(&encode(self).to_be_bytes());
            }
            fn get_xdr(bytes: &[u8]) -> Self {
                let decode: fn($xdr) -> $type = $decode;
                decode(<$xdr>::from_be_bytes(head(bytes)))
            }
            fn put_native(self, out: &mut [u8]) {
                out.copy_from_slice(&self.to_ne_bytes());
            }
            fn get_native(bytes: &[u8]) -> Self {
                <$type>::from_ne_bytes(head(bytes))
            }
            $($more)*
        }
    };
}

// Bytes stand side by side in both forms; in XDR each call pads them to four (see `pack`).
element!(u8, (Pkbyte Upkbyte), Byte, u8, |v| v, |v| v);
element!(i16, (Pkshort Upkshort), Short, i32, i32::from, |v| v as i16);
// PVM sign-extends unsigned shorts too; the receiver keeps the low 16 bits.
element!(u16, (Pkushort Upkushort), Short, i32, |v| i32::from(v as i16), |v| v as u16);
element!(i32, (Pkint Upkint), Word, i32, |v| v, |v| v);
element!(u32, (Pkuint Upkuint), Word, u32, |v| v, |v| v);
macro_rules! long {
    ($type:ty, $events:tt, $kind:ident, $xdr:ty) => {
        element!(
            $type,
            $events,
            $kind,
            $xdr,
            |v| v as $xdr,
            <$type>::from,
            fn upper(self) -> Option<u32> {
                (<$type>::from(self as $xdr) != self).then_some((self >> 32) as u32)
            },
            fn with_upper(self, upper: u32) -> Self {
                <$type>::from(upper) << 32 | self & 0xffff_ffff
            }
        );
    };
}

long!(i64, (Pklong Upklong), Long, i32);
long!(u64, (Pkulong Upkulong), ULong, u32);
element!(f32, (Pkfloat Upkfloat), Word, f32, |v| v, |v| v);
element!(f64, (Pkdouble Upkdouble), Double, f64, |v| v, |v| v);

macro_rules! complex {
    ($type:ident, $events:tt, $part:ty) => {
        impl Element for $type {
            events!($events);
            const KIND: Kind = <$part>::KIND;
            const XDR: usize = 2 * size_of::<$part>();
            const NATIVE: usize = 2 * size_of::<$part>();
            fn put_xdr(self, out: &mut [u8]) {
                let (re, im) = out.split_at_mut(size_of::<$part>());
                self.re.put_xdr(re);
                self.im.put_xdr(im);
            }
            fn get_xdr(bytes: &[u8]) -> Self {
                let (re, im) = bytes.split_at(size_of::<$part>());
                Self { re: <$part>::get_xdr(re), im: <$part>::get_xdr(im) }
            }
            fn put_native(self, out: &mut [u8]) {
                let (re, im) = out.split_at_mut(size_of::<$part>());
                self.re.put_native(re);
                self.im.put_native(im);
            }
            fn get_native(bytes: &[u8]) -> Self {
                let (re, im) = bytes.split_at(size_of::<$part>());
                Self { re: <$part>::get_native(re), im: <$part>::get_native(im) }
            }
        }
    };
}

complex!(Complex32, (Pkcplx Upkcplx), f32);
complex!(Complex64, (Pkdcplx Upkdcplx), f64);

/// Appends elements to a body. `encoding` chooses XDR or native form; in-place data are native once they are read.
pub fn pack<T: Element>(
    out: &mut Vec<u8>,
    encoding: Encoding,
    elements: impl ExactSizeIterator<Item = T>,
) -> Result<(), PvmError> {
    let xdr = encoding == Encoding::Xdr;
    let size = if xdr { T::XDR } else { T::NATIVE };
    let start = out.len();
    let bytes = elements.len().checked_mul(size).ok_or(PvmError::NoMem)?;
    let end = start.checked_add(bytes).and_then(|end| end.checked_add(4)).ok_or(PvmError::NoMem)? - 4;
    out.try_reserve(bytes + 4).map_err(|_| PvmError::NoMem)?;
    out.resize(end, 0);
    for (slot, element) in out[start..].chunks_exact_mut(size).zip(elements) {
        if xdr { element.put_xdr(slot) } else { element.put_native(slot) }
    }
    if xdr {
        out.resize(start + bytes.next_multiple_of(4), 0);
    }
    Ok(())
}

/// Reads elements from `body` at `*position` and hands each to `sink`.
///
/// With too little left, what is there is handed over and consumed before `PvmNoData` is returned, as PVM does.
/// `encoding` is `None` for an alien format, of which only bytes can be read (`PvmBadMsg` otherwise).
pub fn unpack<T: Element>(
    body: &[u8],
    position: &mut usize,
    encoding: Option<Encoding>,
    count: usize,
    mut sink: impl FnMut(usize, T),
) -> Result<(), PvmError> {
    let xdr = match encoding {
        Some(encoding) => encoding == Encoding::Xdr,
        None if T::NATIVE == 1 => false,
        None => return Err(PvmError::BadMsg),
    };
    let size = if xdr { T::XDR } else { T::NATIVE };
    let rest = &body[(*position).min(body.len())..];
    let there = count.min(rest.len() / size);
    for (index, chunk) in rest.chunks_exact(size).take(there).enumerate() {
        sink(index, if xdr { T::get_xdr(chunk) } else { T::get_native(chunk) });
    }
    if there < count {
        *position = body.len();
        return Err(PvmError::NoData);
    }
    let used = if xdr { (there * size).next_multiple_of(4) } else { there * size };
    *position += used.min(rest.len());
    Ok(())
}

/// Appends a string as `pvm_pkstr` does: its length with the NUL, its bytes, the NUL.
pub fn pack_str(out: &mut Vec<u8>, encoding: Encoding, text: &[u8]) -> Result<(), PvmError> {
    if encoding == Encoding::InPlace {
        return Err(PvmError::NotImpl);
    }
    let length = i32::try_from(text.len() + 1).map_err(|_| PvmError::BadParam)?;
    pack(out, encoding, std::iter::once(length))?;
    pack(out, encoding, text.iter().copied().chain([0]).collect::<Vec<u8>>().into_iter())
}

/// Reads a string as `pvm_upkstr` does; the NUL is not part of the result.
pub fn unpack_str<'a>(
    body: &'a [u8],
    position: &mut usize,
    encoding: Option<Encoding>,
) -> Result<&'a [u8], PvmError> {
    let mut length = 0_i32;
    unpack(body, position, encoding, 1, |_, value| length = value)?;
    let length = usize::try_from(length).map_err(|_| PvmError::BadMsg)?;
    let start = *position;
    let Some(bytes) = start.checked_add(length).and_then(|end| body.get(start..end)) else {
        *position = body.len();
        return Err(PvmError::NoData);
    };
    let used = if encoding == Some(Encoding::Xdr) { length.next_multiple_of(4) } else { length };
    *position = (start + used).min(body.len());
    Ok(bytes.split(|&byte| byte == 0).next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packed<T: Element>(encoding: Encoding, values: &[T]) -> Vec<u8> {
        let mut out = Vec::new();
        pack(&mut out, encoding, values.iter().copied()).unwrap();
        out
    }

    fn unpacked<T: Element>(
        encoding: Encoding,
        body: &[u8],
        count: usize,
    ) -> (Result<(), PvmError>, Vec<T>, usize) {
        let mut position = 0;
        let mut values = Vec::new();
        let result = unpack(body, &mut position, Some(encoding), count, |_, value| values.push(value));
        (result, values, position)
    }

    #[test]
    fn xdr_is_pvms() {
        assert_eq!(packed(Encoding::Xdr, &[1_u8, 2, 3]), [1, 2, 3, 0], "padded once per call");
        assert_eq!(packed(Encoding::Xdr, &[0x8000_u16]), [0xff, 0xff, 0x80, 0], "sign-extended");
        assert_eq!(packed(Encoding::Xdr, &[-2_i16]), [0xff, 0xff, 0xff, 0xfe]);
        assert_eq!(packed(Encoding::Xdr, &[0x1_0000_0002_i64]), [0, 0, 0, 2], "low 32 bits only");
        assert_eq!(packed(Encoding::Xdr, &[1.0_f64]), [0x3f, 0xf0, 0, 0, 0, 0, 0, 0]);
        let mut out = Vec::new();
        pack_str(&mut out, Encoding::Xdr, b"abcd").unwrap();
        assert_eq!(out, b"\0\0\0\x05abcd\0\0\0\0");
        assert_eq!(pack_str(&mut out, Encoding::InPlace, b"x"), Err(PvmError::NotImpl));
    }

    #[test]
    fn long_arrives_extended() {
        let body = packed(Encoding::Xdr, &[-5_i64]);
        assert_eq!(unpacked::<i64>(Encoding::Xdr, &body, 1).1, [-5]);
        assert_eq!(unpacked::<u64>(Encoding::Xdr, &body, 1).1, [0xffff_fffb]);
    }

    #[test]
    fn too_little_left_is_consumed_and_reported() {
        let body = packed(Encoding::Xdr, &[1_i32, 2]);
        assert_eq!(unpacked::<i32>(Encoding::Xdr, &body, 3), (Err(PvmError::NoData), vec![1, 2], 8));
    }

    #[test]
    fn an_alien_format_gives_bytes_only() {
        let mut position = 0;
        assert_eq!(unpack::<i32>(&[0; 4], &mut position, None, 1, |_, _| ()), Err(PvmError::BadMsg));
        assert_eq!(unpack::<u8>(&[7; 3], &mut position, None, 3, |_, v| assert_eq!(v, 7)), Ok(()));
        assert_eq!(position, 3);
    }

    macro_rules! round_trips {
        ($($name:ident: $type:ty, $values:expr;)*) => {
            proptest! {$(
                #[test]
                fn $name(values in $values) {
                    for encoding in [Encoding::Xdr, Encoding::Raw] {
                        let body = packed::<$type>(encoding, &values);
                        let (result, back, used) = unpacked::<$type>(encoding, &body, values.len());
                        prop_assert_eq!(result, Ok(()));
                        prop_assert_eq!(used, body.len());
                        prop_assert_eq!(back, values.clone());
                    }
                }
            )*}
        };
    }

    fn many<T: std::fmt::Debug>(values: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<T>> {
        prop::collection::vec(values, 0..40)
    }

    round_trips! {
        bytes: u8, many(any::<u8>());
        shorts: i16, many(any::<i16>());
        unsigned_shorts: u16, many(any::<u16>());
        ints: i32, many(any::<i32>());
        unsigned_ints: u32, many(any::<u32>());
        longs_that_fit_32_bits: i64, many(any::<i32>().prop_map(i64::from));
        unsigned_longs_that_fit_32_bits: u64, many(any::<u32>().prop_map(u64::from));
        floats: f32, many(any::<f32>().prop_filter("NaN is never equal", |v| !v.is_nan()));
        doubles: f64, many(any::<f64>().prop_filter("NaN is never equal", |v| !v.is_nan()));
        complex: Complex32, many((-9.0e9_f32..9.0e9, -1.0_f32..1.0).prop_map(|(re, im)| Complex32 { re, im }));
        double_complex: Complex64, many((-9.0e99_f64..9.0e99, -1.0_f64..1.0).prop_map(|(re, im)| Complex64 { re, im }));
    }

    proptest! {
        #[test]
        fn strings(text in prop::collection::vec(1_u8.., 0..40)) {
            for encoding in [Encoding::Xdr, Encoding::Raw] {
                let mut body = Vec::new();
                pack_str(&mut body, encoding, &text).unwrap();
                let mut position = 0;
                prop_assert_eq!(unpack_str(&body, &mut position, Some(encoding)), Ok(&text[..]));
                prop_assert_eq!(position, body.len());
            }
        }

        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..64), mut position in 0..99_usize, count in 0..99_usize) {
            for encoding in [Some(Encoding::Xdr), Some(Encoding::Raw), None] {
                let _ = unpack::<f64>(&body, &mut position, encoding, count, |_, _| ());
                let _ = unpack::<u8>(&body, &mut position, encoding, count, |_, _| ());
                let _ = unpack_str(&body, &mut position, encoding);
            }
        }
    }
}
