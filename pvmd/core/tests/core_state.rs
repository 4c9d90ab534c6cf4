//! The core alone: its whole state as text.

use pvm_wire::body::BodyReader;
use pvm_wire::calls::notify::NotifyRequest;
use pvm_wire::calls::state::Dump;
use pvm_wire::codes::notify;
use pvmd_simulated::recorder::Recorder;

#[test]
fn a_task_sees_the_state_of_its_daemon() {
    let mut r = Recorder::master();
    let (conn, first) = r.enrol(4242, 0);
    let (_, second) = r.enrol(4343, 0);
    let watch = NotifyRequest {
        what: notify::TASK_EXIT,
        cancel: false,
        context: 0,
        tag: 9,
        count: 1,
        tids: vec![second.tid.raw()],
    };
    r.ask(conn, &watch);
    let hosts = NotifyRequest { what: notify::HOST_ADD, count: -1, tids: Vec::new(), ..watch };
    r.ask(conn, &hosts);
    r.ask(conn, &Dump {});
    let (to, message) = r.message();
    assert_eq!(to, conn);
    let mut reader = BodyReader::new(&message.body);
    assert_eq!(reader.int(), Ok(0));
    let text = reader.str().expect("the state");
    for expected in [
        "daemon of host 1 (node1)".to_owned(),
        "master: host 1\n".to_owned(),
        "deputies: hosts 1 (configuration 1)".to_owned(),
        "host 1 node1 LINUX64 speed 1000: this one".to_owned(),
        format!("task {} pid 4242", first.tid),
        format!("task {} pid 4343", second.tid),
        format!("{} subscribes to the exit of {}", first.tid, second.tid),
        format!("task {} pid 4242 parent 0 -, started elsewhere, connection ", first.tid),
        "\n       2 tasks\n".to_owned(),
        format!("{} subscribes to new hosts, without end", first.tid),
    ] {
        assert!(text.contains(&expected), "{expected} is not in:\n{text}");
    }
    assert!(!text.contains(['{', '[', '\"']), "text for debuggers:\n{text}");
    r.nothing_else();
}
