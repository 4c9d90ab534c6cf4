use super::*;
use crate::{Complex32, Complex64};
use proptest::prelude::*;

/// What a program packs with one call, or asks for.
#[derive(Clone, Copy, Debug)]
enum Type {
    U8,
    I16,
    U16,
    I32,
    U32,
    F32,
    C32,
    F64,
    C64,
    I64,
    U64,
}

macro_rules! with_type {
    ($kind:expr, $call:ident($($argument:expr),*)) => {
        match $kind {
            Type::U8 => $call::<u8>($($argument),*),
            Type::I16 => $call::<i16>($($argument),*),
            Type::U16 => $call::<u16>($($argument),*),
            Type::I32 => $call::<i32>($($argument),*),
            Type::U32 => $call::<u32>($($argument),*),
            Type::F32 => $call::<f32>($($argument),*),
            Type::C32 => $call::<Complex32>($($argument),*),
            Type::F64 => $call::<f64>($($argument),*),
            Type::C64 => $call::<Complex64>($($argument),*),
            Type::I64 => $call::<i64>($($argument),*),
            Type::U64 => $call::<u64>($($argument),*),
        }
    };
}

/// A body in both forms, each packed on its own.
#[derive(Default)]
struct Both {
    native: Vec<u8>,
    runs: Runs,
    xdr: Vec<u8>,
    upper: Upper,
}

fn pack<T: Element>(both: &mut Both, bytes: &[u8]) {
    let values: Vec<T> = bytes.chunks_exact(T::NATIVE).map(T::get_native).collect();
    both.native.extend_from_slice(bytemuck::cast_slice(&values));
    both.runs.push::<T>(values.len()).unwrap();
    both.upper.note(both.xdr.len(), values.iter().copied()).unwrap();
    element::pack(&mut both.xdr, Encoding::Xdr, values.into_iter()).unwrap();
}

/// Reads from XDR; the elements as bytes, so that floats that are no numbers compare.
fn unpack<T: Element>(body: &[u8], upper: &Upper, position: &mut usize, count: usize) -> (bool, Vec<u8>) {
    let (start, mut found) = (*position, Vec::new());
    let sink = |index: usize, low: T| found.push(upper.complete(start + index * T::XDR, low));
    let result = element::unpack(body, position, Some(Encoding::Xdr), count, sink);
    (result.is_ok(), bytemuck::cast_slice(&found).to_vec())
}

/// The lengths that are found.
fn lengths(word: u32, body: &[u8]) -> Option<(usize, usize)> {
    split(word, body).map(|found| (found.native, found.xdr))
}

fn take<T: Element>(cursor: &mut Cursor, runs: &[u8], count: usize) -> Option<Range<usize>> {
    cursor.take::<T>(|| runs, count)
}

/// What a receiver finds who is sent a body.
fn found(both: &Both) -> Option<Found> {
    split(both.runs.word(), &[&both.native[..], both.runs.as_bytes()].concat())
}

/// A reader of a body in the host's format, which goes on in XDR when it has to.
fn read(both: &Both, wanted: &[(Type, usize)]) -> Vec<(bool, Vec<u8>, usize)> {
    let (body, runs) = (&both.native, both.runs.as_bytes());
    let (xdr, upper) = both.runs.to_xdr(body).unwrap();
    let (mut cursor, mut converted) = (found(both).unwrap().cursor(), None);
    wanted
        .iter()
        .map(|&(kind, count)| {
            let range =
                if converted.is_none() { with_type!(kind, take(&mut cursor, runs, count)) } else { None };
            if let Some(range) = range {
                return (true, body[range].to_vec(), cursor.position());
            }
            let position = converted.get_or_insert(cursor.position());
            let (good, found) = with_type!(kind, unpack(&xdr, &upper, position, count));
            (good, found, *position)
        })
        .collect()
}

fn types() -> impl Strategy<Value = Type> {
    use Type::{C32, C64, F32, F64, I16, I32, I64, U8, U16, U32, U64};
    prop::sample::select(vec![U8, U8, U8, I16, U16, I32, U32, F32, C32, F64, C64, I64, U64])
}

fn calls() -> impl Strategy<Value = Vec<(Type, Vec<u8>)>> {
    let half = prop_oneof![Just(0_u8), any::<u8>()];
    prop::collection::vec((types(), prop::collection::vec(half, 0..40)), 0..12)
}

fn packed(calls: &[(Type, Vec<u8>)]) -> Both {
    let mut both = Both::default();
    for (kind, bytes) in calls {
        with_type!(*kind, pack(&mut both, bytes));
    }
    both
}

fn size_of_type(kind: Type) -> usize {
    fn size<T: Element>() -> usize {
        T::NATIVE
    }
    with_type!(kind, size())
}

proptest! {
    #[test]
    fn what_is_converted_later_is_what_is_converted_at_once(calls in calls()) {
        let both = packed(&calls);
        prop_assert_eq!(both.runs.native_length(), both.native.len());
        prop_assert_eq!(both.runs.xdr_length(), both.xdr.len());
        let expected = Ok((both.xdr.clone(), both.upper.clone()));
        prop_assert_eq!(&both.runs.to_xdr(&both.native), &expected);
        let found = found(&both).unwrap();
        prop_assert_eq!((found.native, found.xdr), (both.native.len(), both.xdr.len()));
        prop_assert_eq!(found.to_xdr(&[&both.native[..], both.runs.as_bytes()].concat()), expected);
    }

    #[test]
    fn whatever_is_asked_for_is_what_xdr_gives(
        calls in calls(),
        other in prop::collection::vec((0..12_usize, types(), 0..9_usize), 0..3),
    ) {
        let both = packed(&calls);
        // Mostly what was packed; here and there something else.
        let mut wanted: Vec<_> =
            calls.iter().map(|(kind, bytes)| (*kind, bytes.len() / size_of_type(*kind))).collect();
        for (index, kind, count) in other {
            wanted.insert(index.min(wanted.len()), (kind, count));
        }
        let mut position = 0;
        let expected: Vec<_> = wanted
            .iter()
            .map(|&(kind, count)| {
                let (good, found) = with_type!(kind, unpack(&both.xdr, &both.upper, &mut position, count));
                (good, found, position)
            })
            .collect();
        prop_assert_eq!(read(&both, &wanted), expected);
    }

    #[test]
    fn what_was_packed_needs_no_conversion(calls in calls()) {
        let both = packed(&calls);
        let mut cursor = found(&both).unwrap().cursor();
        for (kind, bytes) in &calls {
            let count = bytes.len() / size_of_type(*kind);
            let range = with_type!(*kind, take(&mut cursor, both.runs.as_bytes(), count));
            prop_assert_eq!(range.map(|range| &both.native[range]), Some(&bytes[..count * size_of_type(*kind)]));
        }
        prop_assert_eq!(cursor.position(), both.xdr.len());
    }

    #[test]
    fn no_bytes_make_it_panic(word in prop_oneof![0..40_u32, ALONE..ALONE + 9], body in prop::collection::vec(any::<u8>(), 0..40), count in 0..9_usize) {
        if let Some(found) = split(word, &body) {
            prop_assert_eq!(found.to_xdr(&body).unwrap().0.len(), found.xdr);
            // Its sender may break the rules meanwhile.
            let _ = found.to_xdr(&body[body.len() / 2..]);
        }
        let (elements, runs) = body.split_at(body.len() / 2);
        let _ = to_xdr(elements, runs);
        let mut cursor = Cursor::default();
        let _ = (cursor.take::<u8>(|| runs, count), cursor.take::<f64>(|| runs, usize::MAX));
    }
}

#[test]
fn calls_of_one_kind_are_one_run() {
    let mut runs = Runs::default();
    for _ in 0..9 {
        runs.push::<i32>(1).unwrap();
        runs.push::<f32>(3).unwrap();
    }
    assert_eq!(runs.word(), Kind::Word.word());
    assert!(runs.as_bytes().is_empty());
    for count in [4, 3, 4] {
        runs.push::<u8>(count).unwrap();
    }
    assert_eq!(runs.as_bytes().len(), 4, "bytes that are padded between are apart");
    assert_eq!(runs.word(), 4);
    assert_eq!((runs.native_length(), runs.xdr_length()), (155, 156));
    runs.clear();
    assert_eq!(runs, Runs::default());
}

#[test]
fn what_cannot_be_is_refused() {
    let mut runs = Runs::default();
    assert_eq!(runs.push::<f64>(usize::MAX), Err(PvmError::NoMem));
    assert_eq!(runs.push::<i16>(usize::MAX / 2), Err(PvmError::NoMem), "XDR is twice as long");
    assert_eq!(runs, Runs::default());
    for (body, word) in [
        (&[0, 0, 0, 0, 1 << 3 | 2][..], 6),
        (&[0, 0, 0, 1 << 3 | 2], 1),
        (&[0, 0, 0, 0, 1 << 3 | 6], 1),
        (&[0, 0, 0, 0, 1 << 3 | 2, 2], 2),
        (&[0, 0, 0, 0, 0x80], 1),
        (&[0xff; 12], 11),
        (&[0; 6], ALONE | 2),
        (&[], ALONE | 2),
        (&[0; 8], ALONE | 6),
        (&[0; 8], ALONE << 1 | 2 | 1 << 30),
    ] {
        assert_eq!(lengths(word, body), None, "{body:?}");
    }
    assert_eq!(lengths(1, &[0, 0, 0, 0, 1 << 3 | 2]), Some((4, 4)));
    assert_eq!(lengths(0, &[]), Some((0, 0)));
    assert_eq!(lengths(ALONE | 2, &[0; 8]), Some((8, 8)));
}
