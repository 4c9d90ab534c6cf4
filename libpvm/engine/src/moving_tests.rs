//! Whole moves: a task that answers another moves twice while messages are under way, over a daemon that is played here.

use super::route::{Arrival, Outgoing};
use super::*;
use pvm_wire::HostIndex;
use pvm_wire::body::{BodyReader, BodyWriter};
use pvm_wire::calls::moves::{Arrive, Freeze, StayHere};
use pvm_wire::calls::sharing::{Meet, Share};
use pvm_wire::calls::tasks::{ListTasks, TaskList, TaskRecord};
use pvm_wire::calls::{Call, CallError, Request};
use pvm_wire::codes::{CONTEXT_TC, Tc, Tcx, task_flags};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicI32;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Tag of numbers and of their answers.
const NUMBER: i32 = 7;

/// Time limit of a step, generous for a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// What the test tells the daemon.
enum Order {
    /// This task has enrolled.
    Enrol(Tid, UnixStream),
    /// Move a task to this successor.
    Move(Tid, Tid),
    /// The move is off.
    Stay(Tid),
    End,
}

/// The daemons of all hosts in one.
struct Daemon {
    orders: Receiver<Order>,
    routes: BTreeMap<Tid, Route>,
    shared: BTreeMap<Tid, Vec<OwnedFd>>,
    met: BTreeSet<(Tid, Tid)>,
    /// What is for tasks that move.
    held: BTreeMap<Tid, VecDeque<Message>>,
    hosts: BTreeMap<Tid, HostIndex>,
    successors: BTreeMap<Tid, Tid>,
}

impl Daemon {
    fn run(orders: Receiver<Order>) {
        let mut daemon = Self {
            orders,
            routes: BTreeMap::new(),
            shared: BTreeMap::new(),
            met: BTreeSet::new(),
            held: BTreeMap::new(),
            hosts: BTreeMap::new(),
            successors: BTreeMap::new(),
        };
        loop {
            while let Ok(order) = daemon.orders.try_recv() {
                match order {
                    Order::Enrol(tid, socket) => {
                        socket.set_nonblocking(true).unwrap();
                        let mut route = Route::new(socket.into(), 1 << 30);
                        route.expect_descriptors();
                        daemon.routes.insert(tid, route);
                    }
                    Order::Move(tid, successor) => {
                        daemon.successors.insert(successor, tid);
                        daemon.tell(tid, Tcx::Move.tag(), BodyWriter::new().int(successor.raw()));
                    }
                    Order::Stay(tid) => {
                        daemon.successors.retain(|_, moving| *moving != tid);
                        daemon.tell(tid, Tcx::Stay.tag(), BodyWriter::new().str("it is off"));
                        daemon.release(tid);
                    }
                    Order::End => return,
                }
            }
            let tids: Vec<Tid> = daemon.routes.keys().copied().collect();
            let came: usize = tids.into_iter().map(|tid| daemon.read(tid)).sum();
            if came == 0 {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }

    fn read(&mut self, tid: Tid) -> usize {
        let Some(route) = self.routes.get_mut(&tid) else { return 0 };
        let mut messages = Vec::new();
        let read = route.read(&mut messages);
        if matches!(read, Ok(Arrival::Closed) | Err(_)) {
            self.routes.remove(&tid);
        }
        let count = messages.len();
        for message in messages {
            let message = Message { src: tid, ..message };
            if message.dst.is_daemon() { self.serve(&message) } else { self.forward(message) }
        }
        count
    }

    fn forward(&mut self, message: Message) {
        match self.held.get_mut(&message.dst) {
            Some(held) => held.push_back(message),
            None => self.write(&message),
        }
    }

    fn write(&mut self, message: &Message) {
        let Some(route) = self.routes.get_mut(&message.dst) else { return };
        let Message { src, dst, header, body } = message;
        let parts: [&[u8]; 1] = [body];
        let mut outgoing = Outgoing::new(*src, *dst, *header, &parts, 4096).unwrap();
        while !outgoing.is_done() {
            match outgoing.write(route) {
                Ok(true) => {}
                Ok(false) => std::thread::sleep(Duration::from_micros(50)),
                Err(_) => return,
            }
        }
    }

    fn tell(&mut self, dst: Tid, tag: i32, body: BodyWriter) {
        let header = xdr_header(tag, CONTEXT_TC, 0);
        self.write(&Message { src: Tid::MY_DAEMON, dst, header, body: body.finish().into() });
    }

    fn answer(&mut self, to: &Message, dst: Tid, body: Vec<u8>) {
        let header = xdr_header(to.header.tag, to.header.context, to.header.wait_id);
        self.write(&Message { src: Tid::MY_DAEMON, dst, header, body: body.into() });
    }

    fn serve(&mut self, message: &Message) {
        let tid = message.src;
        match message.header.tag {
            Share::TAG => {
                let descriptors = self.routes.get_mut(&tid).and_then(Route::take_descriptors);
                self.shared.insert(tid, descriptors.unwrap());
            }
            Meet::TAG => {
                let other = Meet::decode(&message.body).unwrap().other;
                self.met.insert((tid, other));
            }
            ListTasks::TAG => {
                let which = ListTasks::decode(&message.body).unwrap().which;
                let flags = task_flags::EXTENDED | task_flags::CONNECTED;
                let record = TaskRecord { tid: which, flags, ..task_record() };
                self.answer(message, tid, ListTasks::encode_reply(&TaskList { tasks: vec![record] }));
            }
            Freeze::TAG if !self.successors.values().any(|&moving| moving == tid) => {
                self.answer(message, tid, CallError::from(PvmError::NotFound).encode());
            }
            Freeze::TAG => {
                self.held.insert(tid, VecDeque::new());
                self.answer(message, tid, Freeze::encode_reply(&()));
            }
            Arrive::TAG => self.arrive(message),
            StayHere::TAG => {
                self.successors.retain(|_, moving| *moving != tid);
                self.release(tid);
            }
            _ => {}
        }
        self.introduce();
    }

    fn introduce(&mut self) {
        let ready: Vec<(Tid, Tid)> = self
            .met
            .iter()
            .copied()
            .filter(|(a, b)| self.shared.contains_key(a) && self.shared.contains_key(b))
            .collect();
        for (a, b) in ready {
            self.met.remove(&(a, b));
            for (to, of) in [(a, b), (b, a)] {
                let body = BodyWriter::new().int(of.raw()).finish();
                let header = xdr_header(Tcx::Neighbour.tag(), CONTEXT_TC, 0);
                let message = Message { src: Tid::MY_DAEMON, dst: to, header, body: body.into() };
                let descriptors: Vec<_> = self.shared[&of].iter().map(AsFd::as_fd).collect();
                let route = self.routes.get_mut(&to).unwrap();
                assert!(route.send_descriptors(&message.encode(4096), &descriptors).unwrap());
            }
        }
    }

    fn arrive(&mut self, message: &Message) {
        let successor = message.src;
        let tid = self.successors.remove(&successor).unwrap();
        let route = self.routes.remove(&successor).unwrap();
        self.routes.insert(tid, route);
        self.shared.remove(&tid);
        self.answer(message, tid, Arrive::encode_reply(&identity(tid)));
        let old = self.hosts.insert(tid, successor.host().unwrap()).or(tid.host());
        let others: Vec<Tid> = self.routes.keys().copied().filter(|&other| other != tid).collect();
        for other in others {
            if self.hosts.get(&other).copied().or(other.host()) == old {
                self.tell(other, Tc::TaskExit.tag(), BodyWriter::new().int(tid.raw()));
            }
            let host = successor.to_host().raw();
            self.tell(other, Tcx::Moved.tag(), BodyWriter::new().int(tid.raw()).int(host));
        }
        self.release(tid);
    }

    fn release(&mut self, tid: Tid) {
        for message in self.held.remove(&tid).unwrap_or_default() {
            self.write(&message);
        }
    }
}

fn task_record() -> TaskRecord {
    TaskRecord { tid: Tid::NONE, parent: 0, host: 0, flags: 0, name: std::ffi::OsString::new(), pid: 0 }
}

fn identity(tid: Tid) -> EnrolReply {
    EnrolReply {
        tid,
        parent: 0,
        output: pvm_wire::spawn::Sink::default(),
        trace: pvm_wire::spawn::Sink::default(),
        fragment_size: 4096,
        signature: 1,
        address: "7f000001:0001".into(),
        scheduler: 0,
        private_network: false,
        wake_time: 0,
        succeeds: None,
    }
}

/// A machine whose tasks are threads of this test.
struct Machine {
    orders: Sender<Order>,
    daemon: std::thread::JoinHandle<()>,
}

impl Machine {
    fn new() -> Self {
        let (orders, received) = channel();
        let daemon = std::thread::spawn(move || Daemon::run(received));
        Self { orders, daemon }
    }

    fn enrol(&self, tid: Tid, kind: Kind) -> Engine {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let settings = Settings { shares: kind.shares, direct: kind.is_direct, ..Settings::default() };
        let mut engine = Engine::unenrolled(ours.into(), &settings);
        engine.extension = Some(codes::EXTENSION_VERSION);
        engine.adopt_identity(identity(tid));
        engine.options = Options::new(&engine.identity);
        engine.options.route = kind.route;
        let daemon = engine.route.as_ref().map(Route::socket);
        engine.neighbours = neighbours::Neighbours::offered(tid, daemon, &settings);
        self.orders.send(Order::Enrol(tid, theirs)).unwrap();
        engine
    }

    fn end(self) {
        self.orders.send(Order::End).unwrap();
        self.daemon.join().unwrap();
    }
}

/// How two tasks reach each other.
#[derive(Clone, Copy)]
struct Kind {
    is_near: bool,
    shares: bool,
    is_direct: bool,
    route: i32,
}

const BY_DAEMON: Kind = Kind { is_near: false, shares: false, is_direct: false, route: 1 };
const BY_RINGS: Kind = Kind { is_near: true, shares: true, is_direct: false, route: 2 };
const BY_AUTOMATIC_ROUTES: Kind = Kind { is_near: false, shares: false, is_direct: true, route: 2 };
const BY_ROUTES: Kind = Kind { is_near: false, shares: false, is_direct: true, route: 3 };

fn host(index: u32) -> HostIndex {
    HostIndex::new(index).unwrap()
}

fn send_number(engine: &mut Engine, dst: Tid, number: i32) {
    let mut packed = Packed::new(Encoding::Xdr);
    packed.pack(&[number]).unwrap();
    let header = MessageHeader { encoding: Encoding::Xdr.word(), tag: NUMBER, ..MessageHeader::default() };
    engine.send(dst, header, Payload::Packed(&packed)).unwrap();
}

fn number_in(message: Message) -> i32 {
    BodyReader::new(&message.into_encoded().unwrap().body).int().unwrap()
}

/// The task that moves: answers each number with itself, up to a number. Returns what it expects next when it has moved.
fn answer(
    engine: &mut Engine,
    from: Tid,
    begin: i32,
    count: i32,
    so_far: &AtomicI32,
    state: &[u8],
) -> Departure {
    let mut next = begin;
    while next < count {
        if engine.can_move() {
            let program = [&next.to_be_bytes(), state].concat();
            match engine.depart(&Luggage { program, interface: vec![5] }).unwrap() {
                Departure::Gone => return Departure::Gone,
                Departure::NotYet | Departure::Stays => {}
            }
        }
        let wait = Wait::For(Duration::from_millis(1));
        let mut wanted = |message: &Message| message.header.tag == NUMBER;
        // The fast path first, as programs have it.
        let near = engine.next_near(|_, header| header.tag == NUMBER).map(|near| {
            let mut header = near.found.header;
            let mut incoming = Incoming::nothing();
            incoming.renew_near(&mut header, &near);
            let mut number = 0;
            incoming.unpack(Some(Encoding::Xdr), 1, |_, value: i32| number = value).unwrap();
            number
        });
        let number = match near {
            Some(number) => Some(number),
            None => engine.receive(wait, &mut wanted).unwrap().map(number_in),
        };
        if let Some(number) = number {
            assert_eq!(number, next, "numbers come in their order");
            send_number(engine, from, number);
            next += 1;
            so_far.store(next, Ordering::SeqCst);
        }
    }
    Departure::Stays
}

/// The other task: sends numbers, with some on their way at a time, and checks the answers.
fn ask(engine: &mut Engine, to: Tid, count: i32, ahead: i32) {
    let (mut sent, mut answered) = (0, 0);
    while answered < count {
        while sent < count && sent - answered < ahead {
            send_number(engine, to, sent);
            sent += 1;
        }
        let mut wanted = |message: &Message| message.header.tag == NUMBER;
        let message = engine.receive(Wait::For(LIMIT), &mut wanted).unwrap().expect("an answer");
        assert_eq!(number_in(message), answered, "answers come in their order");
        answered += 1;
    }
}

fn wait_until(so_far: &AtomicI32, number: i32) {
    let end = Instant::now() + LIMIT;
    while so_far.load(Ordering::SeqCst) < number {
        assert!(Instant::now() < end, "the task does not go on");
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// A successor: takes the place of a task, and goes on.
fn go_on(
    mut engine: Engine,
    task: Tid,
    from: Tid,
    count: i32,
    so_far: &AtomicI32,
    length: usize,
) -> Departure {
    engine.take_place(task).unwrap();
    assert_eq!((engine.tid(), engine.has_moved(), engine.context()), (task, true, 3));
    assert_eq!(engine.take_interface_state(), Some(vec![5]));
    let saved = engine.take_saved().unwrap();
    assert_eq!((saved.len(), engine.take_saved()), (4 + length, None));
    let (next, state) = saved.split_first_chunk::<4>().unwrap();
    assert!(state.iter().all(|&byte| byte == 9));
    engine.make_movable(None).unwrap();
    answer(&mut engine, from, i32::from_be_bytes(*next), count, so_far, state)
}

/// Two moves of a task that another sends numbers to.
fn move_twice(kind: Kind, count: i32, length: usize) {
    let machine = Machine::new();
    let (task, asker) = (host(1).task(5), host(if kind.is_near { 1 } else { 4 }).task(6));
    let so_far = AtomicI32::new(0);
    std::thread::scope(|scope| {
        let (machine, so_far) = (&machine, &so_far);
        let [mut asking, mut engine] = [asker, task].map(|tid| machine.enrol(tid, kind));
        scope.spawn(move || ask(&mut asking, task, count, 300));
        let first = scope.spawn(move || {
            engine.set_context(3);
            engine.make_movable(None).unwrap();
            answer(&mut engine, asker, 0, count, so_far, &vec![9; length])
        });
        let mut before = first;
        for (step, index) in [(1, 2), (2, 3)] {
            wait_until(so_far, count * step / 3);
            let successor = host(index).task(7);
            let engine = machine.enrol(successor, kind);
            machine.orders.send(Order::Move(task, successor)).unwrap();
            let after = scope.spawn(move || go_on(engine, task, asker, count, so_far, length));
            assert_eq!(before.join().unwrap(), Departure::Gone);
            before = after;
        }
        assert_eq!(before.join().unwrap(), Departure::Stays);
    });
    machine.end();
}

#[test]
fn a_task_moves_while_messages_go_by_the_daemons() {
    move_twice(BY_DAEMON, 3000, 0);
}

#[test]
fn a_task_leaves_its_rings() {
    move_twice(BY_RINGS, 30_000, 100);
}

#[test]
fn a_task_leaves_its_automatic_routes() {
    move_twice(BY_AUTOMATIC_ROUTES, 15_000, 100);
}

#[test]
fn a_long_state_goes_on_a_direct_route() {
    move_twice(BY_ROUTES, 15_000, 9 << 20);
}

#[test]
fn a_task_that_stays_goes_on_as_before() {
    for kind in [BY_DAEMON, BY_RINGS, BY_AUTOMATIC_ROUTES, BY_ROUTES] {
        let machine = Machine::new();
        let (task, asker) = (host(1).task(5), host(if kind.is_near { 1 } else { 4 }).task(6));
        let (count, so_far) = (15_000, AtomicI32::new(0));
        std::thread::scope(|scope| {
            let (machine, so_far) = (&machine, &so_far);
            let [mut asking, mut engine] = [asker, task].map(|tid| machine.enrol(tid, kind));
            scope.spawn(move || ask(&mut asking, task, count, 300));
            let answering = scope.spawn(move || {
                engine.make_movable(None).unwrap();
                answer(&mut engine, asker, 0, count, so_far, &[])
            });
            for step in 1..4 {
                wait_until(so_far, count * step / 4);
                // A successor that never arrives.
                let _successor = machine.enrol(host(2).task(7), kind);
                machine.orders.send(Order::Move(task, host(2).task(7))).unwrap();
                std::thread::sleep(Duration::from_millis(5 * step as u64));
                machine.orders.send(Order::Stay(task)).unwrap();
            }
            assert_eq!(answering.join().unwrap(), Departure::Stays);
        });
        machine.end();
    }
}

#[test]
fn a_task_that_saves_nothing_says_that_it_stays() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    theirs.set_nonblocking(true).unwrap();
    let mut engine = Engine::unenrolled(ours.into(), &Settings::default());
    engine.extension = Some(codes::EXTENSION_VERSION);
    engine.adopt_identity(identity(host(1).task(5)));
    let mut daemon = Route::new(theirs.into(), 1 << 20);
    let body = BodyWriter::new().int(host(2).task(7).raw()).finish().into();
    let order = Message {
        src: Tid::MY_DAEMON,
        dst: engine.tid(),
        header: xdr_header(Tcx::Move.tag(), CONTEXT_TC, 0),
        body,
    };
    engine.take(order);
    assert!(!engine.is_moving() && !engine.can_move());
    engine.poll().unwrap();
    let mut messages = Vec::new();
    daemon.read(&mut messages).unwrap();
    assert_eq!(messages.iter().map(|message| message.header.tag).collect::<Vec<_>>(), [StayHere::TAG]);
}
