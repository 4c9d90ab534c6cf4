//! What a task that moves takes along, as messages to its successor.
//!
//! The parts are cut into pieces. Each is the body of a message: three numbers (which part, the number of the piece, whether it is the
//! last of all) and bytes. Pieces are numbered over all parts, so they may come in any order: those by the daemons overtake those on a
//! direct route. A piece that cannot be right makes the whole useless.

use bytes::Bytes;
use pvm_wire::Body;
use pvm_wire::body::{BodyReader, BodyWriter};
use std::collections::BTreeMap;

/// Most bytes of a piece.
pub(super) const PIECE: usize = 4 << 20;

/// Bytes before those of the piece.
const HEAD: usize = 12;

/// What a task takes along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Luggage {
    /// What the program has saved.
    pub program: Vec<u8>,
    /// The state of the library's interface to the program's language.
    pub interface: Vec<u8>,
}

/// A part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// [`Luggage::program`].
    Program,
    /// [`Luggage::interface`].
    Interface,
    /// The engine's own state.
    Engine,
}

impl Part {
    const ALL: [Self; 3] = [Self::Program, Self::Interface, Self::Engine];
}

/// A piece to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    head: Vec<u8>,
    bytes: &'a [u8],
}

impl<'a> Piece<'a> {
    /// The body of its message, in two parts.
    pub(super) fn parts(&self) -> [&[u8]; 2] {
        [&self.head, self.bytes]
    }

    fn new(part: Part, number: u32, is_last: bool, bytes: &'a [u8]) -> Self {
        let numbers = [part as i32, number.cast_signed(), i32::from(is_last)];
        Self { head: BodyWriter::new().ints(numbers).finish(), bytes }
    }
}

/// Cuts parts into pieces.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    next: u32,
}

impl Cutter {
    /// The pieces of the next part. The last part has a piece even if it is empty: the one that says that it is the last.
    pub(super) fn cut<'a>(&mut self, part: Part, bytes: &'a [u8], is_last: bool) -> Vec<Piece<'a>> {
        let mut pieces: Vec<&[u8]> = bytes.chunks(PIECE).collect();
        if pieces.is_empty() && is_last {
            pieces.push(&[]);
        }
        let (first, count) = (self.next, pieces.len());
        self.next += count as u32;
        let each = |(number, bytes): (u32, &'a [u8])| {
            Piece::new(part, number, is_last && number + 1 == first + count as u32, bytes)
        };
        (first..).zip(pieces).map(each).collect()
    }
}

/// Takes pieces in until all are there. A piece in its turn is copied to its place at once; one that has overtaken others waits for them.
#[derive(Debug, Default)]
pub(super) struct Collector {
    parts: [Vec<u8>; Part::ALL.len()],
    /// The number of the piece whose turn it is.
    next: u32,
    early: BTreeMap<u32, (Part, Bytes)>,
    /// The number of the last one.
    last: Option<u32>,
    is_spoilt: bool,
}

impl Collector {
    /// Takes the body of a message.
    pub(super) fn take(&mut self, body: &Body) {
        if self.add(body).is_none() {
            self.is_spoilt = true;
        }
    }

    fn add(&mut self, body: &Body) -> Option<()> {
        let mut reader = BodyReader::new(body);
        let [part, number, is_last] = [reader.int().ok()?, reader.int().ok()?, reader.int().ok()?];
        let part = *usize::try_from(part).ok().and_then(|part| Part::ALL.get(part))?;
        let number = u32::try_from(number).ok()?;
        let bytes = body.get(HEAD..)?;
        let is_known = number < self.next || self.early.contains_key(&number);
        if bytes.len() > PIECE || !(0..=1).contains(&is_last) || is_known {
            return None;
        }
        if is_last == 1 && self.last.replace(number).is_some() {
            return None;
        }
        if number == self.next {
            self.append(part, bytes);
            while let Some((part, bytes)) = self.early.remove(&self.next) {
                self.append(part, &bytes);
            }
        } else {
            self.early.insert(number, (part, body.slice(HEAD..)));
        }
        let highest = self.early.last_key_value().map_or(self.next.saturating_sub(1), |(&number, _)| number);
        self.last.is_none_or(|last| highest <= last).then_some(())
    }

    fn append(&mut self, part: Part, bytes: &[u8]) {
        self.parts[part as usize].extend_from_slice(bytes);
        self.next += 1;
    }

    /// Whether it can come to nothing.
    pub(super) fn is_spoilt(&self) -> bool {
        self.is_spoilt
    }

    /// Whether all is there.
    pub(super) fn is_complete(&self) -> bool {
        !self.is_spoilt && self.last.is_some_and(|last| self.next > last)
    }

    /// The parts, once all is there: the luggage, and the engine's own state.
    pub(super) fn finish(self) -> Option<(Luggage, Vec<u8>)> {
        let is_complete = self.is_complete();
        let [program, interface, engine] = self.parts;
        is_complete.then_some((Luggage { program, interface }, engine))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Collector {
        fn take_all(&mut self, bodies: &[Body]) {
            for body in bodies {
                self.take(body);
            }
        }
    }

    fn bodies(luggage: &Luggage, engine: &[u8]) -> Vec<Body> {
        let mut cutter = Cutter::default();
        let mut pieces = cutter.cut(Part::Program, &luggage.program, false);
        pieces.extend(cutter.cut(Part::Interface, &luggage.interface, false));
        pieces.extend(cutter.cut(Part::Engine, engine, true));
        pieces.iter().map(|piece| Body::from(piece.parts().concat())).collect()
    }

    #[test]
    fn long_parts_are_cut_and_joined() {
        let luggage = Luggage { program: vec![7; 2 * PIECE + 1], interface: vec![1; 3] };
        let bodies = bodies(&luggage, &vec![2; PIECE]);
        assert_eq!(bodies.len(), 5);
        let mut collector = Collector::default();
        collector.take_all(&bodies);
        assert_eq!(collector.finish(), Some((luggage, vec![2; PIECE])));
    }

    proptest! {
        #[test]
        fn pieces_may_come_in_any_order(
            program in prop::collection::vec(any::<u8>(), 0..100),
            interface in prop::collection::vec(any::<u8>(), 0..100),
            engine in prop::collection::vec(any::<u8>(), 0..100),
            turn in 0..4_usize,
        ) {
            let luggage = Luggage { program, interface };
            let mut bodies = bodies(&luggage, &engine);
            let turn = turn % bodies.len();
            bodies.rotate_left(turn);
            let mut collector = Collector::default();
            for body in &bodies {
                prop_assert!(!collector.is_complete());
                collector.take(body);
            }
            prop_assert!(!collector.is_spoilt());
            prop_assert_eq!(collector.finish(), Some((luggage, engine)));
        }

        #[test]
        fn no_bytes_make_it_panic(bodies in prop::collection::vec(prop::collection::vec(0..3_u8, 0..20), 0..6)) {
            let mut collector = Collector::default();
            for body in bodies {
                collector.take(&body.into());
            }
            let _ = collector.finish();
        }
    }

    #[test]
    fn wrong_pieces_spoil_all() {
        let piece = |part: i32, number: i32, is_last: i32| -> Body {
            BodyWriter::new().ints([part, number, is_last]).finish().into()
        };
        let wrong = [
            vec![piece(3, 0, 1)],
            vec![piece(-1, 0, 1)],
            vec![piece(0, -1, 1)],
            vec![piece(0, 0, 2)],
            vec![piece(0, 0, 0), piece(0, 0, 1)],
            vec![piece(0, 0, 1), piece(0, 1, 1)],
            vec![piece(0, 5, 0), piece(0, 4, 1)],
            vec![Body::copy_from_slice(&[0; 11])],
        ];
        for bodies in wrong {
            let mut collector = Collector::default();
            collector.take_all(&bodies);
            assert!(collector.is_spoilt() && collector.finish().is_none(), "{bodies:?}");
        }
    }
}
