use super::*;
use proptest::prelude::*;
use pvm_wire::limits::{MAILBOX_BYTES, MAILBOX_ENTRIES};

/// Flags as numbers, as they are in bodies.
mod flag {
    use super::Flags;

    pub const PERSISTENT: i32 = Flags::PERSISTENT.bits();
    pub const MULTI_INSTANCE: i32 = Flags::MULTI_INSTANCE.bits();
    pub const OVERWRITABLE: i32 = Flags::OVERWRITABLE.bits();
    pub const FIRST_AVAIL: i32 = Flags::FIRST_AVAILABLE.bits();
    pub const READ_AND_DELETE: i32 = Flags::READ_AND_DELETE.bits();
    pub const DIRECT_INDEX_SHIFT: u32 = 10;
    pub const WAIT_FOR_INFO: i32 = Flags::WAIT_FOR_INFO.bits();
}

const A: Tid = Tid::from_raw(0x40001);
const B: Tid = Tid::from_raw(0x80001);
const ANY: i32 = -1;

fn packed(data: &[u8]) -> Vec<u8> {
    BodyWriter::new().ints([0; 8]).int(data.len() as i32).bytes(data).finish()
}

fn int(value: i32) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

fn request(op: i32, tid: Tid, class: &str, index: i32, flags: i32) -> BodyWriter {
    BodyWriter::new().int(op).int(tid.raw()).str(class).int(index).int(flags)
}

/// A mailbox whose tickets are numbers, and the answers to the last request.
struct Tried {
    mailbox: Mailbox<u32>,
}

impl Default for Tried {
    fn default() -> Self {
        Self { mailbox: Mailbox::new(MAILBOX_ENTRIES, MAILBOX_BYTES) }
    }
}

impl Tried {
    fn ask(&mut self, from: Tid, body: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.mailbox.handle(from, body, 0).expect("a well-formed request").answers
    }

    /// The one number that answers.
    fn number(&mut self, from: Tid, body: &[u8]) -> i32 {
        let answers = self.ask(from, body);
        assert_eq!(answers.len(), 1);
        i32::from_be_bytes(answers[0].1[..].try_into().expect("one number"))
    }

    fn put_at(&mut self, tid: Tid, class: &str, index: i32, flags: i32, data: &[u8]) -> i32 {
        self.number(tid, &request(1, tid, class, index, flags).bytes(&packed(data)).finish())
    }

    fn put(&mut self, tid: Tid, class: &str, flags: i32, data: &[u8]) -> i32 {
        self.put_at(tid, class, ANY, flags, data)
    }

    fn remove(&mut self, tid: Tid, class: &str, index: i32) -> i32 {
        self.number(tid, &request(2, tid, class, index, 0).finish())
    }

    /// Index and message, or the error.
    fn get(&mut self, tid: Tid, class: &str, index: i32, flags: i32) -> Result<(i32, Vec<u8>), i32> {
        let answers = self.ask(tid, &request(3, tid, class, index, flags).finish());
        assert_eq!(answers.len(), 1);
        let (number, message) = answers[0].1.split_first_chunk().expect("a number");
        let number = i32::from_be_bytes(*number);
        if message.is_empty() { Err(number) } else { Ok((number, message.to_vec())) }
    }

    fn names(&mut self, pattern: &str) -> Vec<(String, Vec<Vec<i32>>)> {
        let answers = self.ask(A, &request(4, A, pattern, 0, 0).finish());
        let mut reader = pvm_wire::body::BodyReader::new(&answers[0].1);
        assert_eq!(reader.int(), Ok(0));
        let count = reader.count(8).expect("a count");
        let classes = (0..count).map(|_| {
            let name = reader.str().expect("a name").to_owned();
            let entries = reader.count(12).expect("a count");
            (name, (0..entries).map(|_| reader.ints(3).expect("three numbers")).collect())
        });
        let classes = classes.collect();
        assert!(reader.rest().is_empty());
        classes
    }

    fn reset(&mut self, class: &str, index: i32, kill: i32, keep: &[Tid]) {
        let body =
            request(5, B, class, index, kill).int(keep.len() as i32).ints(keep.iter().map(|t| t.raw()));
        // The console's own id is not checked.
        assert_eq!(self.number(A, &body.finish()), 0);
    }

    /// The counters are what they count.
    fn check(&self) {
        let entries = self.mailbox.classes.values().flat_map(|class| class.entries.values());
        let entries: Vec<&Entry> = entries.filter(|entry| !entry.is_offer).collect();
        let used = Used {
            entries: entries.len(),
            bytes: entries.iter().map(|entry| entry.message.bytes().len()).sum(),
            names: self.mailbox.classes.keys().map(|name| name.len()).sum(),
            waiters: self.mailbox.waiters.values().map(Vec::len).sum(),
        };
        assert_eq!(self.mailbox.used, used);
        assert!(self.mailbox.waiters.values().all(|waiters| !waiters.is_empty()));
        for class in self.mailbox.classes.values() {
            assert!(!class.entries.is_empty());
            assert!((0..class.dense).all(|index| class.entries.contains_key(&index)));
        }
    }
}

#[test]
fn a_single_entry_belongs_to_its_owner() {
    let mut tried = Tried::default();
    assert_eq!(tried.get(A, "x", 0, 0), Err(PvmError::NotFound.code()));
    assert_eq!(tried.put(A, "x", 0, b"one"), 0);
    assert_eq!(tried.put(A, "x", 0, b"two"), 0);
    assert_eq!(tried.put(B, "x", 0, b"three"), PvmError::Denied.code());
    assert_eq!(tried.get(B, "x", 0, 0), Ok((0, packed(b"two"))));
    assert_eq!(tried.get(B, "x", 1, 0), Err(PvmError::NotFound.code()));
    assert_eq!(tried.get(B, "x", 0, flag::READ_AND_DELETE), Err(PvmError::Denied.code()));
    assert_eq!(tried.remove(B, "x", 0), PvmError::Denied.code());
    assert_eq!(tried.remove(A, "x", 0), 0);
    assert_eq!(tried.remove(A, "x", 0), PvmError::NotFound.code());
    tried.check();
}

#[test]
fn instances_fill_gaps() {
    let mut tried = Tried::default();
    for index in 0..4 {
        assert_eq!(tried.put(A, "x", flag::MULTI_INSTANCE, b""), index);
    }
    assert_eq!(tried.remove(A, "x", 1), 1);
    assert_eq!(tried.put(B, "x", flag::MULTI_INSTANCE, b""), 1);
    assert_eq!(tried.put(B, "x", flag::MULTI_INSTANCE, b""), 4);
    let direct = |index: i32| flag::MULTI_INSTANCE | index << flag::DIRECT_INDEX_SHIFT;
    assert_eq!(tried.put(A, "x", direct(3), b""), 5);
    assert_eq!(tried.put(A, "x", direct(9), b""), 9);
    assert_eq!(tried.put(A, "x", flag::MULTI_INSTANCE, b""), 6);
    assert_eq!(tried.get(A, "x", 7, flag::FIRST_AVAIL).map(|(index, _)| index), Ok(9));
    assert_eq!(tried.get(A, "x", 10, flag::FIRST_AVAIL), Err(PvmError::NotFound.code()));
    assert_eq!(tried.get(A, "x", ANY, 0).map(|(index, _)| index), Ok(0));
    tried.check();
}

#[test]
fn the_last_index_is_not_exceeded() {
    let mut tried = Tried::default();
    assert_eq!(tried.put_at(A, "x", i32::MAX, 3, b""), i32::MAX);
    assert_eq!(tried.put_at(A, "x", i32::MAX, 3, b""), PvmError::Denied.code());
    let top = flag::MULTI_INSTANCE | i32::MAX & !1023;
    assert_eq!(tried.put(A, "x", top, b""), i32::MAX >> 10);
    tried.check();
}

#[test]
fn inserts_of_pvm_3_3_replace_nothing() {
    let mut tried = Tried::default();
    assert_eq!(tried.put_at(A, "x", 5, 3, b"one"), 5);
    assert_eq!(tried.put_at(A, "x", 5, 3, b"two"), PvmError::Denied.code());
    assert_eq!(tried.put_at(A, "x", ANY, 3, b"three"), 0);
}

#[test]
fn who_overwrites_takes_over_owner_and_flags() {
    let mut tried = Tried::default();
    assert_eq!(tried.put(A, "x", flag::OVERWRITABLE, b"one"), 0);
    assert_eq!(tried.put(B, "x", 0, b"two"), 0);
    assert_eq!(tried.names(""), [("x".to_owned(), vec![vec![0, B.raw(), 0]])]);
    assert_eq!(tried.put(A, "x", flag::OVERWRITABLE, b"three"), PvmError::Denied.code());
}

#[test]
fn entries_go_with_their_owner_unless_persistent() {
    let mut tried = Tried::default();
    tried.put(A, "mine", 0, b"1");
    tried.put(A, "stays", flag::PERSISTENT, b"2");
    tried.put(B, "other", 0, b"3");
    tried.mailbox.owner_gone(A);
    assert_eq!(
        tried.names(""),
        [("stays".to_owned(), vec![vec![0, 0, 1]]), ("other".to_owned(), vec![vec![0, B.raw(), 0]])]
    );
    // A later task with the same id is not its owner.
    assert_eq!(tried.remove(A, "stays", 0), PvmError::Denied.code());
    tried.mailbox.hosts_tasks_gone(|tid| tid.host() == B.host());
    assert_eq!(tried.names("").len(), 1);
    tried.check();
}

#[test]
fn a_put_answers_those_who_wait() {
    let mut tried = Tried::default();
    let wait = |tid: Tid, flags| request(3, tid, "x", 0, flags | flag::WAIT_FOR_INFO).finish();
    let mut ask = |ticket, from, body: &[u8]| {
        let outcome = tried.mailbox.handle(from, body, ticket).expect("a well-formed request");
        (outcome.answers, outcome.watch)
    };
    assert_eq!(ask(1, A, &wait(A, 0)), (vec![], None));
    assert_eq!(ask(2, B, &wait(B, flag::READ_AND_DELETE)), (vec![], None));
    assert_eq!(ask(3, A, &wait(A, flag::READ_AND_DELETE)), (vec![], None));
    assert_eq!(ask(4, A, &wait(A, 0)), (vec![], None));
    let other = request(1, A, "y", ANY, 0).bytes(&packed(b"no")).finish();
    assert_eq!(ask(5, A, &other).0.len(), 1);
    let put = request(1, A, "x", ANY, 0).bytes(&packed(b"data")).finish();
    let found = [int(0), packed(b"data")].concat();
    let denied = int(PvmError::Denied.code());
    assert_eq!(ask(6, A, &put), (vec![(6, int(0)), (1, found.clone()), (2, denied), (3, found)], Some(A)));
    tried.check();
    assert_eq!(tried.mailbox.used.waiters, 1, "the entry was deleted before the last one's turn");
    tried.mailbox.forget_waiters(|&ticket| ticket == 4);
    assert_eq!(tried.mailbox.used.waiters, 0);
    tried.check();
}

#[test]
fn nobody_acts_for_another() {
    let mut tried = Tried::default();
    tried.put(A, "x", 0, b"1");
    let forged = request(2, A, "x", 0, 0).finish();
    assert_eq!(tried.number(B, &forged), PvmError::Denied.code());
    assert_eq!(tried.names("").len(), 1);
}

#[test]
fn a_reset_drops_what_the_dead_left() {
    let mut tried = Tried::default();
    tried.put(A, "dead", flag::PERSISTENT, b"1");
    tried.put(A, "dead too", flag::PERSISTENT, b"2");
    tried.mailbox.owner_gone(A);
    tried.put(A, "dying", flag::PERSISTENT, b"3");
    tried.put(B, "kept", flag::PERSISTENT, b"4");
    tried.reset("dead", ANY, 0, &[]);
    let names = |tried: &mut Tried| tried.names("").into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(&mut tried), ["dead too", "dying", "kept"]);
    tried.reset("", 7, 1, &[]);
    assert_eq!(names(&mut tried), ["dead too", "dying", "kept"]);
    tried.reset("", ANY, 1, &[B]);
    assert_eq!(names(&mut tried), ["dying", "kept"]);
    tried.mailbox.owner_gone(A);
    tried.mailbox.owner_gone(B);
    assert_eq!(names(&mut tried), ["kept"]);
    tried.check();
}

#[test]
fn classes_are_found_by_pattern_in_the_order_of_their_making() {
    let mut tried = Tried::default();
    for class in ["zdef", "a*b", "aXb", "defg"] {
        tried.put(A, class, 0, b"");
    }
    let mut found = |pattern| tried.names(pattern).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(found(""), ["zdef", "a*b", "aXb", "defg"]);
    assert_eq!(found("ef"), ["zdef", "defg"]);
    assert_eq!(found("a*b"), ["a*b", "aXb"]);
    assert_eq!(found(r"a\*b"), ["a*b"]);
    assert_eq!(found("d*g"), ["defg"]);
    assert!(found("e.").is_empty());
    assert!(found("g*d").is_empty());
}

#[test]
fn bounds_hold() {
    let mut tried = Tried::default();
    let big = vec![0; MAILBOX_BYTES / 4];
    for class in ["a", "b", "c"] {
        assert_eq!(tried.put(A, class, 0, &big), 0);
    }
    assert_eq!(tried.put(A, "d", 0, &big), PvmError::NoMem.code(), "headers included, four are too many");
    assert_eq!(tried.put(A, "a", 0, &big), 0, "what is replaced makes room");
    assert_eq!(tried.put(A, "", 0, b""), PvmError::BadParam.code());
    assert_eq!(tried.put(A, &"n".repeat(NAMES_MAX), 0, b""), PvmError::OutOfRes.code());
    tried.mailbox.owner_gone(A);
    for _ in 0..MAILBOX_ENTRIES {
        assert!(tried.put(A, "x", flag::MULTI_INSTANCE, b"") >= 0);
    }
    assert_eq!(tried.put(A, "x", flag::MULTI_INSTANCE, b""), PvmError::OutOfRes.code());
    let wait = request(3, A, "y", 0, flag::WAIT_FOR_INFO).finish();
    for _ in 0..WAITERS_MAX {
        assert!(tried.ask(A, &wait).is_empty());
    }
    assert_eq!(tried.number(A, &wait), PvmError::OutOfRes.code());
    tried.check();
}

#[test]
fn what_is_malformed_is_an_error_at_once() {
    let mut tried = Tried::default();
    let no_message = request(1, A, "x", ANY, 0).finish();
    assert_eq!(tried.mailbox.handle(A, &no_message, 0).err(), Some(BodyError::Short));
    let lying = request(1, A, "x", ANY, 0).ints([0; 8]).int(100).bytes(b"short").finish();
    assert_eq!(tried.mailbox.handle(A, &lying, 0).err(), Some(BodyError::Length(100)));
    let unknown = request(77, A, "x", 0, 0).finish();
    assert_eq!(tried.mailbox.handle(A, &unknown, 0).err(), Some(BodyError::Length(77)));
    tried.check();
}

fn anything() -> impl Strategy<Value = (i32, bool, u8, i32, i32)> {
    (1..6, any::<bool>(), 0..3_u8, -1..4_i32, 0..64_i32)
}

proptest! {
    #[test]
    fn the_books_balance(steps in prop::collection::vec((anything(), 0..10_u8), 0..60)) {
        let mut tried = Tried::default();
        for ((op, a, class, index, flags), event) in steps {
            let tid = if a { A } else { B };
            let body = request(op, tid, ["x", "y", "z"][class as usize], index, flags);
            let body = match op {
                1 => body.bytes(&packed(b"data")),
                5 => body.int(0),
                _ => body,
            };
            let _ = tried.ask(tid, &body.finish());
            match event {
                0 => tried.mailbox.owner_gone(tid),
                1 => tried.mailbox.forget_waiters(|_| true),
                _ => {}
            }
            tried.check();
        }
    }

    #[test]
    fn no_bytes_make_it_panic(op in 0..7_i32, bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut tried = Tried::default();
        let _ = tried.mailbox.handle(A, &bytes, 0);
        let _ = tried.mailbox.handle(A, &BodyWriter::new().int(op).int(A.raw()).str("x").bytes(&bytes).finish(), 0);
        tried.check();
    }
}

#[test]
fn the_keepers_entry_outlives_whatever_is_said_of_its_host() {
    let mut mailbox = Mailbox::<u8>::with_keeper(MAILBOX_ENTRIES, MAILBOX_BYTES);
    mailbox.hosts_tasks_gone(|_| true);
    assert!(mailbox.classes.contains_key(OsStr::new(group::CLASS)));
    assert_eq!(mailbox.used, Used::default());
}

#[test]
fn what_a_place_costs_is_read_by_all_and_changed_by_its_host_alone() {
    let mut tried = Tried { mailbox: Mailbox::new(1, 1000) };
    let (host, class) = (B.host().expect("a host"), "pvm.prices");
    let index = host.get().cast_signed();
    let wait = request(3, A, class, index, flag::WAIT_FOR_INFO).finish();
    assert!(tried.mailbox.handle(A, &wait, 7).expect("a request").answers.is_empty());
    let first = Offer { price: 500, last: 250, sold: 3, income: 750 };
    let answers = tried.mailbox.post(host, "node", first);
    assert_eq!(answers.iter().map(|(ticket, _)| *ticket).collect::<Vec<_>>(), [7]);
    assert!(tried.mailbox.post(host, "node", Offer { price: 250, ..first }).is_empty());
    assert_eq!(tried.mailbox.counts(), (0, 0), "entries of hosts are not those of tasks");
    let entry = &tried.mailbox.classes[OsStr::new(class)].entries[&index];
    assert_eq!((entry.owner, entry.yields_to(A), entry.yields_to(B)), (host.daemon(), false, false));
    assert_eq!(tried.mailbox.names(OsStr::new("pvm.*")).len(), 1);
    tried.check();
    tried.mailbox.hosts_tasks_gone(|tid| tid.host() == Some(host));
    assert!(tried.mailbox.classes.is_empty());
    tried.check();
}

#[test]
fn a_task_cannot_keep_a_host_from_its_place() {
    let mut tried = Tried::default();
    let index = B.host().expect("a host").get().cast_signed();
    let put = request(1, A, "pvm.prices", index, flag::PERSISTENT).bytes(&packed(b"free")).finish();
    tried.mailbox.handle(A, &put, 1).expect("a request");
    assert_eq!(tried.mailbox.counts().0, 1);
    tried.mailbox.post(B.host().expect("a host"), "node", Offer::default());
    assert_eq!((tried.mailbox.counts().0, tried.mailbox.used.bytes), (0, 0));
    tried.check();
}
