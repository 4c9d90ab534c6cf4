//! Arrays of the types that PVM's group calls know, as bytes: packed, unpacked and combined.

use pvm_engine::groups::{Elements, Part};
use pvm_wire::{Complex32, Complex64, Element, Encoding, PvmError, element};
use std::ffi::{c_int, c_long};

/// The operation on two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The greater; of complex numbers that of the greater modulus.
    Max,
    /// The lesser.
    Min,
    /// Their sum.
    Sum,
    /// Their product.
    Product,
}

/// A type of elements, by its number in `pvm3.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `PVM_STR`: characters, like bytes.
    Str = 0,
    /// `PVM_BYTE`
    Byte = 1,
    /// `PVM_SHORT`
    Short = 2,
    /// `PVM_INT`
    Int = 3,
    /// `PVM_FLOAT`
    Float = 4,
    /// `PVM_CPLX`
    Complex = 5,
    /// `PVM_DOUBLE`
    Double = 6,
    /// `PVM_DCPLX`
    DoubleComplex = 7,
    /// `PVM_LONG`
    Long = 8,
}

/// Does something with the type of a kind.
macro_rules! with_type {
    ($kind:expr, $type:ident => $body:expr) => {
        with_type!($kind, $type => $body; Str | Byte: u8, Short: i16, Int: i32, Float: f32, Complex: Complex32, Double: f64,
            DoubleComplex: Complex64, Long: c_long)
    };
    ($kind:expr, $type:ident => $body:expr; $($($name:ident)|+: $is:ty),*) => {
        match $kind {
            $($(Kind::$name)|+ => {
                type $type = $is;
                $body
            })*
        }
    };
}

impl Kind {
    /// The kind with this number. Unsigned types are not among them, as in PVM.
    pub fn from_number(number: c_int) -> Result<Self, PvmError> {
        const ALL: [Kind; 9] = [
            Kind::Str,
            Kind::Byte,
            Kind::Short,
            Kind::Int,
            Kind::Float,
            Kind::Complex,
            Kind::Double,
            Kind::DoubleComplex,
            Kind::Long,
        ];
        usize::try_from(number).ok().and_then(|index| ALL.get(index)).copied().ok_or(PvmError::BadParam)
    }

    /// Bytes of `count` elements in memory.
    pub fn length(self, count: c_int) -> Result<usize, PvmError> {
        let size = with_type!(self, T => T::NATIVE);
        let count = usize::try_from(count).map_err(|_| PvmError::BadParam)?;
        count.checked_mul(size).filter(|&length| isize::try_from(length).is_ok()).ok_or(PvmError::BadParam)
    }

    /// Elements in memory, as XDR or as they are.
    pub fn pack(self, memory: &[u8], encoding: Encoding) -> Result<Elements<'_>, PvmError> {
        if encoding != Encoding::Xdr {
            return Ok(memory.into());
        }
        let mut body = Vec::new();
        with_type!(self, T => {
            let elements = memory.chunks_exact(T::NATIVE).map(T::get_native);
            element::pack(&mut body, encoding, elements)?;
        });
        Ok(body.into())
    }

    /// Elements of a message, into memory.
    pub fn unpack(self, part: Part<'_>, memory: &mut [u8]) -> Result<(), PvmError> {
        if part.encoding == Some(Encoding::Raw) {
            memory.copy_from_slice(part.data.get(..memory.len()).ok_or(PvmError::NoData)?);
            return Ok(());
        }
        with_type!(self, T => {
            let count = memory.len() / T::NATIVE;
            let put = |index: usize, value: T| value.put_native(&mut memory[index * T::NATIVE..][..T::NATIVE]);
            element::unpack(part.data, &mut 0, part.encoding, count, put)
        })
    }
}

/// Combines two arrays element by element into the first.
pub fn combine(operation: Operation, kind: Kind, x: &mut [u8], y: &[u8]) -> Result<(), PvmError> {
    let numbers = matches!(operation, Operation::Sum | Operation::Product);
    if kind == Kind::Str || kind == Kind::Byte && numbers {
        return Err(PvmError::BadParam);
    }
    // A loop for each operation, which the compiler turns into vector instructions.
    with_type!(kind, T => match operation {
        Operation::Max => combine_each(x, y, |x, y| T::combine(Operation::Max, x, y)),
        Operation::Min => combine_each(x, y, |x, y| T::combine(Operation::Min, x, y)),
        Operation::Sum => combine_each(x, y, |x, y| T::combine(Operation::Sum, x, y)),
        Operation::Product => combine_each(x, y, |x, y| T::combine(Operation::Product, x, y)),
    });
    Ok(())
}

fn combine_each<T: Element>(x: &mut [u8], y: &[u8], combine: impl Fn(T, T) -> T) {
    for (x, y) in x.chunks_exact_mut(T::NATIVE).zip(y.chunks_exact(T::NATIVE)) {
        combine(T::get_native(x), T::get_native(y)).put_native(x);
    }
}

trait Combine: Element {
    fn combine(operation: Operation, x: Self, y: Self) -> Self;
}

/// The one of two that is greater or lesser by some measure.
fn choose<T, M: PartialOrd>(operation: Operation, x: T, y: T, measure: impl Fn(&T) -> M) -> T {
    let (of_x, of_y) = (measure(&x), measure(&y));
    let take_y = if operation == Operation::Max { of_y > of_x } else { of_y < of_x };
    if take_y { y } else { x }
}

macro_rules! numbers {
    ($($type:ty: $sum:expr, $product:expr, $measure:expr;)*) => {$(
        impl Combine for $type {
            #[inline(always)]
            fn combine(operation: Operation, x: Self, y: Self) -> Self {
                match operation {
                    Operation::Max | Operation::Min => choose(operation, x, y, $measure),
                    Operation::Sum => $sum(x, y),
                    Operation::Product => $product(x, y),
                }
            }
        }
    )*};
}

numbers! {
    // C's characters have signs.
    u8: u8::wrapping_add, u8::wrapping_mul, |v| *v as i8;
    i16: i16::wrapping_add, i16::wrapping_mul, |v| *v;
    i32: i32::wrapping_add, i32::wrapping_mul, |v| *v;
    i64: i64::wrapping_add, i64::wrapping_mul, |v| *v;
    f32: |x, y| x + y, |x, y| x * y, |v| *v;
    f64: |x, y| x + y, |x, y| x * y, |v| *v;
    Complex32:
        |x: Self, y: Self| Self { re: x.re + y.re, im: x.im + y.im },
        |x: Self, y: Self| Self { re: x.re * y.re - x.im * y.im, im: x.re * y.im + x.im * y.re },
        |v: &Self| modulus(v.re.into(), v.im.into());
    Complex64:
        |x: Self, y: Self| Self { re: x.re + y.re, im: x.im + y.im },
        |x: Self, y: Self| Self { re: x.re * y.re - x.im * y.im, im: x.re * y.im + x.im * y.re },
        |v: &Self| modulus(v.re, v.im);
}

/// The modulus of a complex number. Not `hypot`, which is in the C library's libm: programs link this library without it.
fn modulus(re: f64, im: f64) -> f64 {
    let (re, im) = (re.abs(), im.abs());
    let (large, small) = if re < im { (im, re) } else { (re, im) };
    if large == 0.0 || large.is_infinite() {
        large
    } else {
        large * (1.0 + (small / large) * (small / large)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ints(values: &[i32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_ne_bytes()).collect()
    }

    fn combined(operation: Operation, kind: Kind, x: &[u8], y: &[u8]) -> Vec<u8> {
        let mut x = x.to_vec();
        combine(operation, kind, &mut x, y).unwrap();
        x
    }

    #[test]
    fn each_operation_is_correct() {
        let (x, y) = (ints(&[1, -5, i32::MAX]), ints(&[2, -7, 1]));
        assert_eq!(combined(Operation::Max, Kind::Int, &x, &y), ints(&[2, -5, i32::MAX]));
        assert_eq!(combined(Operation::Min, Kind::Int, &x, &y), ints(&[1, -7, 1]));
        assert_eq!(combined(Operation::Sum, Kind::Int, &x, &y), ints(&[3, -12, i32::MIN]));
        assert_eq!(combined(Operation::Product, Kind::Int, &x, &y), ints(&[2, 35, i32::MAX]));
        assert_eq!(combined(Operation::Max, Kind::Byte, &[200, 1], &[3, 255]), [3, 1], "with signs");
        let (x, y) = (Complex64 { re: 0.0, im: -3.0 }, Complex64 { re: 2.0, im: 1.0 });
        assert_eq!(Complex64::combine(Operation::Max, x, y), x);
        assert_eq!(Complex64::combine(Operation::Product, x, y), Complex64 { re: 3.0, im: -6.0 });
    }

    #[test]
    fn bytes_are_no_numbers() {
        assert_eq!(combine(Operation::Sum, Kind::Byte, &mut [1], &[1]), Err(PvmError::BadParam));
        assert_eq!(Kind::from_number(9), Err(PvmError::BadParam));
        assert_eq!(Kind::from_number(-1), Err(PvmError::BadParam));
        assert_eq!(Kind::Double.length(-1), Err(PvmError::BadParam));
    }

    proptest! {
        #[test]
        fn packed_elements_are_unpacked(values in prop::collection::vec(any::<i32>(), 0..9)) {
            let memory = ints(&values);
            let encodings = [Encoding::Xdr, Encoding::Raw];
            for (kind, encoding) in [Kind::Byte, Kind::Int, Kind::Float].into_iter().flat_map(|kind| encodings.map(|it| (kind, it))) {
                let body = kind.pack(&memory, encoding).unwrap();
                let mut back = vec![0; memory.len()];
                kind.unpack(Part { encoding: Some(encoding), data: &body }, &mut back).unwrap();
                // A float may be no number, whose bytes may change; its length may not.
                prop_assert!(kind == Kind::Float || back == memory);
                let short = Part { encoding: Some(encoding), data: &body[..body.len().saturating_sub(4)] };
                prop_assert!(body.is_empty() || kind.unpack(short, &mut back) == Err(PvmError::NoData));
            }
        }
    }
}
