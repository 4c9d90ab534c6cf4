use super::*;
use proptest::prelude::*;

#[test]
fn the_answer_to_an_enrolment_is_the_originals() {
    // Recorded from pvmd 3.4.6 (reference, section 4.2).
    let reply = EnrolReply {
        tid: Tid::from_raw(0x40002),
        parent: 0,
        output: Sink::default(),
        trace: Sink::default(),
        fragment_size: 4080,
        signature: 0x0040_8c41,
        address: "7f000001:bfa9".into(),
        scheduler: 0,
        private_network: false,
        wake_time: 0,
    };
    let bytes = reply.encode();
    assert_eq!(bytes.len(), 0x64 - 32);
    assert_eq!(&bytes[..8], b"\0\0\0\x01\0\x04\0\x02");
    assert_eq!(EnrolReply::decode(&bytes), Ok(Some(reply.clone())));
    for (private_network, wake_time) in [(true, 0), (true, 8000), (false, 8000)] {
        let ours = EnrolReply { private_network, wake_time, ..reply.clone() };
        assert_eq!(EnrolReply::decode(&ours.encode()), Ok(Some(ours)));
    }
}

#[test]
fn an_original_library_has_no_extension() {
    let body = BodyWriter::new().int(1318).str("/tmp/pvmtmp000001.0").finish();
    assert_eq!(ConnectRequest::decode(&body).unwrap().extension, None);
    let ours = ConnectRequest { version: 1318, auth_file: "/tmp/x".into(), extension: Some(1) };
    assert_eq!(ConnectRequest::decode(&ours.encode()), Ok(ours));
}

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
        let _ = ConnectRequest::decode(&bytes);
        let _ = ConnectReply::decode(&bytes);
        let _ = EnrolRequest::decode(&bytes);
        let _ = EnrolReply::decode(&bytes);
        let _ = OutputFrame::decode(&bytes);
    }
}
