use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn output_frames(tid: i32, text in prop::collection::vec(any::<u8>(), 1..50), parent: i32, kind in 0..4) {
        let what = match kind {
            0 => OutputEvent::Text(text),
            1 => OutputEvent::Eof,
            2 => OutputEvent::Spawned(parent),
            _ => OutputEvent::Started(parent),
        };
        let frame = OutputFrame { tid: Tid::from_raw(tid), what };
        prop_assert_eq!(OutputFrame::decode(&frame.encode()), Ok(frame));
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = OutputFrame::decode(&bytes);
    }
}
