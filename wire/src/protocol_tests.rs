use super::*;
use crate::spawn::SpawnRequest;
use proptest::prelude::*;
use std::os::unix::ffi::OsStringExt;

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

#[test]
fn a_host_list_may_be_an_error_or_carry_reasons() {
    assert_eq!(HostList::decode(&(-30_i32).to_be_bytes()), Ok(Err(-30)));
    let host = HostRecord { tid: -29, name: "n".into(), arch: String::new(), speed: 0, signature: 0 };
    let list = HostList { formats: 0, hosts: vec![host], reasons: vec!["ssh: no route".into()] };
    assert_eq!(HostList::decode(&list.encode()), Ok(Ok(list)));
}

fn any_bytes() -> impl Strategy<Value = OsString> {
    prop::collection::vec(1..=u8::MAX, 0..20).prop_map(OsString::from_vec)
}

fn sink() -> impl Strategy<Value = Sink> {
    any::<(i32, i32, i32)>().prop_map(|(tid, context, tag)| Sink { tid, context, tag })
}

proptest! {
    #[test]
    fn spawn_requests(file in any_bytes(), flags: i32, place in any_bytes(), count: i32,
                      args in prop::collection::vec(any_bytes(), 0..5), env in prop::collection::vec(any_bytes(), 0..5),
                      output in sink(), trace in sink(), policy in "[a-z-]{0,9}") {
        let request = SpawnRequest { file, flags, place, count, args, output, trace, env, policy };
        prop_assert_eq!(SpawnRequest::decode(&request.encode()), Ok(request));
    }

    #[test]
    fn notifies(what in 1..6_i32, cancel: bool, context: i32, tag: i32, tids in prop::collection::vec(any::<i32>(), 0..9)) {
        let (count, tids) = if what == codes::notify::HOST_ADD { (-1, vec![]) } else { (tids.len() as i32, tids) };
        let request = NotifyRequest { what, cancel, context, tag, count, tids };
        prop_assert_eq!(NotifyRequest::decode(&request.encode()), Ok(request));
    }

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
    fn task_lists(records in prop::collection::vec((any::<u32>(), any::<i32>(), any::<i32>(), any_bytes(), any::<i32>()), 0..5)) {
        let tasks: Vec<TaskRecord> = records.into_iter().map(|(tid, parent, flags, name, pid)| TaskRecord {
            tid: Tid::from_bits(tid), parent, host: 0x40000, flags, name, pid,
        }).collect();
        prop_assert_eq!(decode_tasks(&encode_tasks(Ok(&tasks))), Ok(Ok(tasks)));
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = ConnectRequest::decode(&bytes);
        let _ = ConnectReply::decode(&bytes);
        let _ = EnrolRequest::decode(&bytes);
        let _ = EnrolReply::decode(&bytes);
        let _ = HostList::decode(&bytes);
        let _ = decode_tasks(&bytes);
        let _ = NotifyRequest::decode(&bytes);
        let _ = OutputFrame::decode(&bytes);
        let _ = SpawnRequest::decode(&bytes);
        let _ = decode_strings(&bytes);
    }
}
