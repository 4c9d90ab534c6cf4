//! The mailbox against a running daemon, this system's and the original's: what is put is got, by whom, and until when.

mod rust_support;

use pvm3::{Encoding, Error, MailboxFlags, Pack, PvmError, Task, Tid};
use rust_support::{Test, spawn};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const TESTS: &[Test] = &[
    ("entries_are_put_and_got", entries_are_put_and_got),
    ("an_entry_is_replaced_by_its_owner", an_entry_is_replaced_by_its_owner),
    ("a_name_with_several_entries", a_name_with_several_entries),
    ("entries_are_listed_by_pattern", entries_are_listed_by_pattern),
    ("reading_can_remove", reading_can_remove),
    ("others_have_rights_if_they_are_given", others_have_rights_if_they_are_given),
    ("entries_go_with_their_owner", entries_go_with_their_owner),
    ("a_get_can_wait", a_get_can_wait),
    ("what_cannot_be_is_refused", what_cannot_be_is_refused),
];

const ROLES: &[Test] = &[("other", other), ("putter", putter)];

/// Longest to wait for what another task does.
const LIMIT: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    rust_support::main(TESTS, ROLES)
}

fn number(value: i32) -> Pack {
    let mut pack = Pack::new();
    pack.put_one(value).unwrap();
    pack
}

fn get(task: &mut Task, name: &str, index: i32) -> Result<i32, PvmError> {
    let found = task.recv_info(name, index, MailboxFlags::DEFAULT);
    found.and_then(|(_, mut message)| message.get_one()).map_err(|error| error.code())
}

fn entries_are_put_and_got() {
    let mut task = Task::enrol().unwrap();
    let long = vec![7_u8; 100_000];
    for mut pack in [Pack::new(), Pack::raw()] {
        pack.put_str("text")
            .unwrap()
            .put(&[1.5, -2.5])
            .unwrap()
            .put_one(i64::MIN + 7)
            .unwrap()
            .put(&long)
            .unwrap();
        let index = task.put_info("a name", &pack, MailboxFlags::DEFAULT).unwrap();
        let (found, mut message) = task.recv_info("a name", index, MailboxFlags::DEFAULT).unwrap();
        assert_eq!((index, found, message.source()), (0, 0, task.tid()));
        assert_eq!(message.get_str().unwrap(), "text");
        assert_eq!(message.get::<f64>(2).unwrap(), [1.5, -2.5]);
        assert_eq!(message.get_one::<i64>().unwrap(), i64::MIN + 7, "{:?}", pack.encoding());
        assert_eq!(message.get::<u8>(long.len()).unwrap(), long);
        assert_eq!(message.get_one::<u8>().unwrap_err().code(), PvmError::NoData);
        assert!(matches!(pack.encoding(), Encoding::Xdr | Encoding::Raw));
    }
    task.put_info("empty", &Pack::new(), MailboxFlags::DEFAULT).unwrap();
    assert!(task.recv_info("empty", 0, MailboxFlags::DEFAULT).unwrap().1.is_empty());
    task.delete_info("a name", 0).unwrap();
    assert_eq!(get(&mut task, "a name", 0), Err(PvmError::NotFound));
}

fn an_entry_is_replaced_by_its_owner() {
    let mut task = Task::enrol().unwrap();
    for value in [1, 2] {
        assert_eq!(task.put_info("one", &number(value), MailboxFlags::DEFAULT).unwrap(), 0);
    }
    assert_eq!(get(&mut task, "one", 0), Ok(2));
    let at = MailboxFlags::direct_index(9).unwrap();
    assert_eq!(task.put_info("one", &number(3), at).unwrap(), 9);
    assert_eq!((get(&mut task, "one", 0), get(&mut task, "one", 9)), (Ok(2), Ok(3)));
}

fn a_name_with_several_entries() {
    let mut task = Task::enrol().unwrap();
    let many = MailboxFlags::MULTI_INSTANCE;
    let indices: Vec<i32> =
        (0..4).map(|value| task.put_info("many", &number(value), many).unwrap()).collect();
    assert_eq!(indices, [0, 1, 2, 3]);
    task.delete_info("many", 1).unwrap();
    assert_eq!(get(&mut task, "many", 1), Err(PvmError::NotFound));
    let (next, mut message) = task.recv_info("many", 1, MailboxFlags::FIRST_AVAILABLE).unwrap();
    assert_eq!((next, message.get_one::<i32>().unwrap()), (2, 2));
    assert_eq!(task.put_info("many", &number(9), many).unwrap(), 1, "the gap is filled");
}

fn entries_are_listed_by_pattern() {
    let mut task = Task::enrol().unwrap();
    let flags = MailboxFlags::MULTI_INSTANCE | MailboxFlags::OVERWRITABLE;
    for name in ["alpha", "beta", "alpha"] {
        task.put_info(name, &number(0), flags).unwrap();
    }
    let own = task.tid();
    let mut names = |pattern: &str| -> Vec<(String, usize)> {
        let classes = task.mailbox_info(pattern).unwrap();
        let entries = classes.iter().flat_map(|class| &class.entries).filter(|entry| entry.flags == flags);
        assert!(entries.clone().all(|entry| entry.owner == own));
        let ours = classes.iter().filter(|class| class.entries.iter().any(|entry| entry.flags == flags));
        ours.map(|class| (class.name.to_string_lossy().into_owned(), class.entries.len())).collect()
    };
    let (alpha, beta) = (("alpha".to_owned(), 2), ("beta".to_owned(), 1));
    assert_eq!(names(""), [alpha.clone(), beta.clone()]);
    assert_eq!(names("l*a"), [alpha]);
    assert_eq!(names("bet"), [beta]);
    assert_eq!(names("gamma"), []);
}

fn reading_can_remove() {
    let mut task = Task::enrol().unwrap();
    task.put_info("once", &number(5), MailboxFlags::DEFAULT).unwrap();
    let (_, mut message) = task.recv_info("once", 0, MailboxFlags::READ_AND_DELETE).unwrap();
    assert_eq!(message.get_one::<i32>().unwrap(), 5);
    assert_eq!(get(&mut task, "once", 0), Err(PvmError::NotFound));
}

/// Tries what it may do with its parent's entries, and tells.
fn other() {
    let mut task = Task::enrol().unwrap();
    let code = |error: Error| error.code().code();
    let mut answer = Pack::new();
    for name in ["locked", "open"] {
        let flags = MailboxFlags::DEFAULT;
        let removed = task.delete_info(name, 0).map_or_else(code, |()| 0);
        let put = task.put_info(name, &number(8), flags).map_or_else(code, |_| 0);
        let read = task.recv_info(name, 0, flags).unwrap().1.get_one::<i32>().unwrap();
        let taken = task.recv_info(name, 0, MailboxFlags::READ_AND_DELETE).map_or_else(code, |_| 0);
        answer.put(&[removed, put, read, taken]).unwrap();
    }
    let parent = task.parent().unwrap();
    task.send(parent, 1, &answer).unwrap();
}

fn others_have_rights_if_they_are_given() {
    let mut task = Task::enrol().unwrap();
    task.put_info("locked", &number(1), MailboxFlags::DEFAULT).unwrap();
    task.put_info("open", &number(2), MailboxFlags::OVERWRITABLE).unwrap();
    let other = spawn(&mut task, "other", 1)[0];
    let mut answer = task.recv_timeout(other, 1, LIMIT).unwrap().expect("an answer");
    let denied = PvmError::Denied.code();
    assert_eq!(answer.get::<i32>(4).unwrap(), [denied, denied, 1, denied]);
    assert_eq!(answer.get::<i32>(4).unwrap(), [0, 0, 8, 0]);
    assert_eq!(get(&mut task, "locked", 0), Ok(1));
}

/// Leaves two entries behind.
fn putter() {
    let mut task = Task::enrol().unwrap();
    task.put_info("mine", &number(1), MailboxFlags::DEFAULT).unwrap();
    task.put_info("left", &number(2), MailboxFlags::PERSISTENT).unwrap();
    task.exit().unwrap();
}

fn entries_go_with_their_owner() {
    let mut task = Task::enrol().unwrap();
    spawn(&mut task, "putter", 1);
    let (_, mut left) = task.recv_info("left", 0, MailboxFlags::WAIT_FOR_INFO).unwrap();
    assert_eq!(left.get_one::<i32>().unwrap(), 2);
    let end = Instant::now() + LIMIT;
    let owner_of = |task: &mut Task| task.mailbox_info("left").unwrap()[0].entries[0].owner;
    while owner_of(&mut task) != Tid::NONE {
        assert!(Instant::now() < end, "the owner has ended, and the mailbox has not heard of it");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!((get(&mut task, "mine", 0), get(&mut task, "left", 0)), (Err(PvmError::NotFound), Ok(2)));
    let own = task.tid();
    task.reset_info("left", None, false, &[own]).unwrap();
    assert_eq!(get(&mut task, "left", 0), Err(PvmError::NotFound));
}

fn a_get_can_wait() {
    let mut task = Task::enrol().unwrap();
    assert_eq!(get(&mut task, "left", 0), Err(PvmError::NotFound));
    spawn(&mut task, "putter", 1);
    let (index, mut message) = task.recv_info("left", 0, MailboxFlags::WAIT_FOR_INFO).unwrap();
    assert_eq!((index, message.get_one::<i32>().unwrap()), (0, 2));
}

fn what_cannot_be_is_refused() {
    let mut task = Task::enrol().unwrap();
    let flags = MailboxFlags::DEFAULT;
    let code = |error: Error| error.code();
    for name in ["", "a\0b"] {
        assert_eq!(task.put_info(name, &number(1), flags).map_err(code), Err(PvmError::BadParam), "{name:?}");
        assert_eq!(task.delete_info(name, 0).map_err(code), Err(PvmError::BadParam), "{name:?}");
        assert_eq!(get(&mut task, name, 0), Err(PvmError::BadParam), "{name:?}");
    }
    assert_eq!(task.delete_info("x", -1).map_err(code), Err(PvmError::BadParam));
    assert_eq!(get(&mut task, "x", -1), Err(PvmError::BadParam));
    let error = task.delete_info("nobody's", 3).unwrap_err();
    assert_eq!(error.to_string(), "the mailbox entry nobody's, index 3: Not Found");
    // Names are any bytes.
    let latin = OsStr::from_bytes(b"caf\xe9");
    task.put_info(latin, &number(1), flags).unwrap();
    assert_eq!(task.mailbox_info(latin).unwrap()[0].name, latin);
}
