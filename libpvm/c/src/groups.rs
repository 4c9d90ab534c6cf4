//! The group functions. Nothing is locked while they wait, and while functions of the program are called.

use super::memory::{Text, TimeVal};
use super::reductions::{Kind, Operation, combine};
use super::state::{Failure, Frame, Outcome, Reporting, State, try_fast};
use super::wait::wait_for_input;
use super::{errors, handlers, send};
use pvm_engine::groups::{Client, Elements, Look, Notices, Operand, Part, Passage, Port, Until, header};
use pvm_engine::{Engine, Payload, Wait};
use pvm_engine::{Error, Result as CallResult};
use pvm_shm::Mapping;
use pvm_wire::calls::{Answer, Call};
use pvm_wire::spawn::SpawnRequest;
use pvm_wire::{Encoding, Message, PvmError, Tid, group};
use std::ffi::{OsStr, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
use std::time::{Duration, Instant};

/// A reduction over elements of the members: `x` becomes `x` and `y` combined.
pub type Reduction = unsafe extern "C" fn(*mut c_int, *mut c_void, *mut c_void, *mut c_int, *mut c_int);

/// The group server, once it is known; -1 before that.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static gstid: AtomicI32 = AtomicI32::new(-1);

/// How long calls wait for the group server; NULL is for ever.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static pvmgs_tmout: AtomicPtr<TimeVal> = AtomicPtr::new(ptr::null_mut());

/// The program as a task that makes a group call. It has the state from the first use on until it waits, or calls a function of the program.
#[derive(Default)]
struct Program {
    frame: Option<Frame>,
}

fn to_error(failure: Failure) -> Error {
    let code = PvmError::from_code(failure.code).unwrap_or(PvmError::SysErr);
    failure.detail.unwrap_or_else(|| code.into())
}

impl Program {
    fn state(&mut self) -> Result<&mut State, Failure> {
        let frame = match self.frame.take() {
            Some(frame) => frame,
            None => Frame::enter()?,
        };
        self.frame.insert(frame).state()
    }

    fn engine<T>(&mut self, body: impl FnOnce(&mut Engine) -> CallResult<T>) -> CallResult<T> {
        self.state().and_then(State::engine).map_err(to_error).and_then(body)
    }
}

impl Port for Program {
    fn tid(&mut self) -> CallResult<Tid> {
        self.engine(|engine| Ok(Engine::tid(engine)))
    }

    fn daemon_is_ours(&mut self) -> CallResult<bool> {
        self.engine(|engine| Ok(Engine::daemon_is_ours(engine)))
    }

    fn answer<C: Call>(&mut self, call: &C) -> CallResult<Answer<C>> {
        self.engine(|engine| engine.answer(call))
    }

    fn spawn(&mut self, request: SpawnRequest) -> CallResult<Vec<i32>> {
        self.engine(|engine| Port::spawn(engine, request))
    }

    fn send(&mut self, to: Tid, tag: i32, body: &[u8]) -> CallResult<()> {
        self.engine(|engine| engine.send(to, header(tag), Payload::Parts(&[body])))
    }

    fn send_all(&mut self, to: &[Tid], tag: i32, body: &[u8]) -> CallResult<()> {
        self.engine(|engine| engine.multicast(to, header(tag), Payload::Parts(&[body])))
    }

    fn send_encoded(&mut self, to: Tid, tag: i32, encoding: Encoding, parts: [&[u8]; 2]) -> CallResult<()> {
        self.engine(|engine| Port::send_encoded(engine, to, tag, encoding, parts))
    }

    fn notices(&mut self) -> Notices {
        self.engine(|engine| Ok(Engine::notices(engine))).unwrap_or(Notices::Anywhere)
    }

    fn look(&mut self, shown: &mut u64, wanted: &mut dyn FnMut(&Message) -> bool) -> CallResult<Look> {
        self.engine(|engine| engine.look_for_member(shown, wanted))
    }

    fn let_go(&mut self) {
        self.frame = None;
    }

    fn wait(
        &mut self,
        until: Until,
        wanted: &mut dyn FnMut(&Message) -> bool,
    ) -> CallResult<Option<Message>> {
        self.wait_for(until, wanted).map_err(to_error)
    }

    fn reach(&mut self, tid: Tid) -> Option<Arc<Mapping>> {
        self.engine(|engine| Ok(Engine::reach(engine, tid))).ok().flatten()
    }

    fn with_ledger(&mut self, body: impl FnOnce(&Mapping) -> bool) -> bool {
        self.engine(|engine| Ok(engine.with_ledger(body))).unwrap_or(false)
    }

    fn open_gate(&mut self, old: Option<u64>) -> Option<u64> {
        self.engine(|engine| Ok(Engine::open_gate(engine, old))).ok().flatten()
    }

    fn wake_time(&mut self) -> Duration {
        self.engine(|engine| Ok(engine.wake_time())).unwrap_or_default()
    }

    fn record<T>(&mut self, write: impl FnOnce(&mut Engine) -> T) -> Option<T> {
        // It fails where the call itself does.
        self.engine(|engine| Ok(write(engine))).ok()
    }
}

impl Program {
    /// Waits for a message between members. Others that come before it go into their queue, or to their handlers. What may have come
    /// after it is left to later calls: asking the system for it would delay this one.
    fn wait_for(
        &mut self,
        until: Until,
        wanted: &mut dyn FnMut(&Message) -> bool,
    ) -> Result<Option<Message>, Failure> {
        let mut shown = 0;
        loop {
            let state = self.state()?;
            state.may_wait()?;
            let found = loop {
                let before = shown;
                let has_seen = state.see_next_or_member(until != Until::Now, shown)?;
                let found = state.engine()?.take_of_members(&mut shown, wanted);
                if found.is_some() || !has_seen && shown == before {
                    break found;
                }
            };
            if state.handlers.are_due() {
                self.let_go();
                handlers::run_due();
            }
            if let Some(message) = found {
                return Ok(Some(message));
            }
            let time = match until.wait() {
                Wait::Poll | Wait::For(Duration::ZERO) => return Ok(None),
                Wait::Forever => None,
                Wait::For(time) => Some(time),
            };
            self.let_go();
            wait_for_input(time)?;
        }
    }
}

/// Until when calls wait for the server.
fn deadline() -> Option<Instant> {
    let time = pvmgs_tmout.load(Ordering::Relaxed);
    // SAFETY: the program stores a valid time there.
    let time = unsafe { time.as_ref() }?;
    let seconds = Duration::from_secs(u64::try_from(time.seconds).unwrap_or(0));
    let micros = Duration::from_micros(u64::try_from(time.micros).unwrap_or(0));
    Instant::now().checked_add(seconds.saturating_add(micros))
}

type GroupClient<'a> = Client<'a, Program>;

/// Makes a group call with this task's state of groups.
fn with_client<T>(
    mut program: Program,
    body: impl FnOnce(&mut GroupClient<'_>) -> CallResult<T>,
) -> Result<T, Failure> {
    let state = program.state()?;
    state.may_wait()?;
    state.engine()?;
    let mut groups = std::mem::take(&mut state.groups);
    let result = body(&mut Client::new(&mut program, &mut groups, deadline()));
    if let Some(server) = groups.server() {
        gstid.store(server.raw(), Ordering::Relaxed);
    }
    program.state()?.groups = groups;
    Ok(result?)
}

/// The same; from now on messages between members are not the program's. A program that only looks for the group server and talks to it by
/// itself, as PVM's tools do, receives its answers as any other message.
fn as_member<T>(body: impl FnOnce(&mut GroupClient<'_>) -> CallResult<T>) -> Result<T, Failure> {
    let mut program = Program::default();
    program.state()?.engine()?.keep_members();
    with_client(program, body)
}

/// The group server's answer to a request.
pub fn ask(request: group::Request<'_>) -> Result<Message, Failure> {
    as_member(|client| client.ask(request))
}

/// A call by a member or about a group, with failures reported as `reporting` says.
fn group_call(
    name: &str,
    reporting: Reporting,
    group: Result<&OsStr, Failure>,
    body: impl FnOnce(&mut GroupClient<'_>, &OsStr) -> CallResult<c_int>,
) -> c_int {
    let outcome = group.and_then(|group| {
        if group.is_empty() {
            return Err(PvmError::NullGroup.into());
        }
        as_member(|client| body(client, group))
    });
    handlers::run_due();
    errors::finish(name, outcome.map_err(|failure| Failure { reporting, ..failure }))
}

/// Calls with a group's name and perhaps a number.
macro_rules! group_calls {
    ($($(#[doc = $doc:literal])* $name:ident($($number:ident)?) = $body:expr;)*) => {$(
        $(#[doc = $doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(group: Text<'_> $(, $number: c_int)?) -> c_int {
            let group = group.os_text_or_empty();
            let body: fn(&mut GroupClient<'_>, &OsStr $(, group_calls!(@int $number))?) -> CallResult<c_int> = $body;
            group_call(stringify!($name), Reporting::Errno, group, |client, group| body(client, group $(, $number)?))
        }
    )*};
    (@int $number:ident) => { c_int };
}

group_calls! {
    /// Joins a group and returns the instance number in it.
    pvm_joingroup() = |client, group| client.join(group);
    /// Leaves a group.
    pvm_lvgroup() = |client, group| client.leave(group).map(|()| 0);
    /// Makes a group static once it has `size` members.
    pvm_freezegroup(size) = |client, group, size| client.freeze(group, size);
    /// Number of members.
    pvm_gsize() = |client, group| client.size(group);
    /// The task with an instance number.
    pvm_gettid(instance) = |client, group, instance| client.tid_of(group, instance).map(Tid::raw);
    /// The instance number of a task.
    pvm_getinst(tid) = |client, group, tid| client.instance_of(group, Tid::from_raw(tid));
}

/// Waits until `count` members have called it.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_barrier(group: Text<'_>, count: c_int) -> c_int {
    let group = group.os_text_or_empty();
    // Most barriers come to this: all members meet where they met before.
    let passage = group.as_ref().ok().and_then(|group| arrive_at_gate(group, count));
    if passage.as_ref().is_some_and(Passage::is_passed) {
        return 0;
    }
    group_call("pvm_barrier", Reporting::Errno, group, |client, group| {
        let done = match passage {
            Some(passage) => client.go_on_with_barrier(group, count, passage),
            None => client.barrier(group, count),
        };
        done.map(|()| 0)
    })
}

fn arrive_at_gate(group: &OsStr, count: c_int) -> Option<Passage> {
    try_fast(|state| {
        let engine = state.engine.as_mut()?;
        if engine.has_notices() {
            return None;
        }
        state.groups.arrive_at_gate(group, count)
    })
}

/// Sends the send buffer to all members but the sender.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_bcast(group: Text<'_>, tag: c_int) -> c_int {
    let group = group.os_text_or_empty();
    if let Some(outcome) = group.as_ref().ok().and_then(|group| broadcast_at_once(group, tag)) {
        return errors::finish("pvm_bcast", outcome);
    }
    group_call("pvm_bcast", Reporting::Errno, group, |client, group| {
        client.broadcast(group, |program, others| {
            let others = others.into_iter().map(Tid::raw).collect();
            program.state().and_then(|state| send::multicast(state, others, tag)).map_err(to_error)
        })
    })
}

/// A broadcast to members that are known, and have not changed.
fn broadcast_at_once(group: &OsStr, tag: c_int) -> Option<Outcome> {
    try_fast(|state| {
        let engine = state.engine.as_mut()?;
        let own = Engine::tid(engine);
        if engine.has_notices() {
            return None;
        }
        let others = state.groups.others_than(own, group)?;
        Some(send::multicast(state, others.map(Tid::raw).collect(), tag))
    })
}

/// Arguments of a gather, scatter or reduction.
struct Arrays {
    kind: Kind,
    /// Elements per member.
    count: c_int,
    /// Bytes per member.
    length: usize,
}

impl Arrays {
    fn new(kind: c_int, count: c_int) -> Result<Self, PvmError> {
        let kind = Kind::from_number(kind)?;
        let length = kind.length(count)?;
        if length == 0 { Err(PvmError::BadParam) } else { Ok(Self { kind, count, length }) }
    }

    /// Memory of one member within an array.
    ///
    /// # Safety
    /// The array at `start` has this member's elements, which are not used otherwise meanwhile.
    unsafe fn of<'a>(&self, start: *mut c_void, instance: usize) -> CallResult<&'a mut [u8]> {
        let offset = instance.checked_mul(self.length).ok_or(PvmError::BadParam)?;
        if start.is_null() {
            return Err(PvmError::BadParam.into());
        }
        // SAFETY: the part lies within the caller's array, which is borrowed for one use; bytes need no alignment.
        Ok(unsafe { std::slice::from_raw_parts_mut(start.cast::<u8>().add(offset), self.length) })
    }

    /// Puts a part into its place: another member's out of a message, or this one's own, which may be in the same array.
    fn put<'a>(
        &self,
        part: Option<Part<'_>>,
        own: impl FnOnce() -> CallResult<&'a mut [u8]>,
        place: impl FnOnce() -> CallResult<&'a mut [u8]>,
    ) -> CallResult<()> {
        if let Some(part) = part {
            return Ok(self.kind.unpack(part, place()?)?);
        }
        let own = own()?.to_vec();
        place()?.copy_from_slice(&own);
        Ok(())
    }
}

/// Collects an array of every member at one.
///
/// # Safety
/// There are `count` elements of the type at `data`; at the root there is room for those of all members at `result`.
/// `group` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_gather(
    result: *mut c_void,
    data: *mut c_void,
    count: c_int,
    kind: c_int,
    tag: c_int,
    group: Text<'_>,
    root: c_int,
) -> c_int {
    let group = group.os_text_or_empty();
    group_call("pvm_gather", Reporting::Printed, group, |client, group| {
        let arrays = Arrays::new(kind, count)?;
        // SAFETY: this member's part, taken anew for each use, since the program may use one array for both.
        let own = || unsafe { arrays.of(data, 0) };
        own()?;
        if result.is_null() && client.own_instance(group)? == root {
            return Err(PvmError::BadParam.into());
        }
        let pack = |encoding| Ok(arrays.kind.pack(own()?, encoding)?);
        client.gather(group, tag, root, &pack, &mut |instance, part| {
            // SAFETY: the root's array has a part for each instance.
            arrays.put(part, own, || unsafe { arrays.of(result, instance) })
        })?;
        Ok(0)
    })
}

/// Distributes one member's array to all.
///
/// # Safety
/// There is room for `count` elements of the type at `result`; at the root there are those of all members at `data`.
/// `group` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_scatter(
    result: *mut c_void,
    data: *mut c_void,
    count: c_int,
    kind: c_int,
    tag: c_int,
    group: Text<'_>,
    root: c_int,
) -> c_int {
    let group = group.os_text_or_empty();
    group_call("pvm_scatter", Reporting::Printed, group, |client, group| {
        let arrays = Arrays::new(kind, count)?;
        // SAFETY: the root's array has a part for each instance; taken anew for each use, since the program may use one array for both.
        let share = |instance| unsafe { arrays.of(data, instance) };
        if result.is_null() || data.is_null() && client.own_instance(group)? == root {
            return Err(PvmError::BadParam.into());
        }
        let pack = |instance, encoding| Ok(arrays.kind.pack(share(instance)?, encoding)?);
        client.scatter(group, tag, root, &pack, &mut |instance, part| {
            // SAFETY: room for one member's part.
            arrays.put(part, || share(instance), || unsafe { arrays.of(result, 0) })
        })?;
        Ok(0)
    })
}

/// The array of this task in a reduction.
struct Array {
    arrays: Arrays,
    data: *mut c_void,
    reduction: Reduction,
    /// The code that the reduction has reported.
    info: c_int,
}

impl Array {
    #[allow(clippy::mut_from_ref, reason = "the memory is the program's")]
    fn memory(&self) -> CallResult<&mut [u8]> {
        // SAFETY: the caller of `pvm_reduce` promised that the elements are there.
        unsafe { self.arrays.of(self.data, 0) }
    }
}

impl Operand for Array {
    fn pack(&self, encoding: Encoding) -> CallResult<Elements<'_>> {
        Ok(self.arrays.kind.pack(self.memory()?, encoding)?)
    }

    fn fold(&mut self, other: Part<'_>) -> CallResult<()> {
        let own_form = other.data.get(..self.arrays.length).filter(|_| other.encoding == Some(Encoding::Raw));
        if let (Some(operation), Some(data)) = (operation_of(self.reduction), own_form) {
            return Ok(combine(operation, self.arrays.kind, self.memory()?, data)?);
        }
        // For every type aligned well enough.
        let mut aligned = vec![0_u128; self.arrays.length.div_ceil(size_of::<u128>())];
        // SAFETY: the bytes of the numbers above, which are not used otherwise meanwhile; there are as many or more.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(aligned.as_mut_ptr().cast(), self.arrays.length) };
        self.arrays.kind.unpack(other, bytes)?;
        let (mut kind, mut count, mut info) = (self.arrays.kind as c_int, self.arrays.count, 0);
        // SAFETY: the program's function gets two arrays of `count` elements.
        unsafe {
            (self.reduction)(
                &raw mut kind,
                self.data,
                aligned.as_mut_ptr().cast(),
                &raw mut count,
                &raw mut info,
            );
        }
        if info >= 0 {
            return Ok(());
        }
        self.info = info;
        Err(PvmError::from_code(info).unwrap_or(PvmError::SysErr).into())
    }

    fn replace(&mut self, other: Part<'_>) -> CallResult<()> {
        Ok(self.arrays.kind.unpack(other, self.memory()?)?)
    }

    fn calls_program(&self) -> bool {
        operation_of(self.reduction).is_none()
    }
}

/// Combines the arrays of all members at one.
///
/// # Safety
/// There are `count` elements of the type at `data`, `reduction` can combine two such arrays; `group` is NULL or a C
/// string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_reduce(
    reduction: Option<Reduction>,
    data: *mut c_void,
    count: c_int,
    kind: c_int,
    tag: c_int,
    group: Text<'_>,
    root: c_int,
) -> c_int {
    let group = group.os_text_or_empty();
    let mut info = 0;
    let code = group_call("pvm_reduce", Reporting::Printed, group, |client, group| {
        let arrays = Arrays::new(kind, count)?;
        let reduction = reduction.filter(|_| !data.is_null()).ok_or(PvmError::BadParam)?;
        let mut array = Array { arrays, data, reduction, info: 0 };
        let reduced = client.reduce(group, tag, root, &mut array);
        info = array.info;
        reduced.map(|()| 0)
    });
    if info < 0 { info } else { code }
}

/// The predefined functions for `pvm_reduce`.
macro_rules! reductions {
    ($($(#[doc = $doc:literal])* $name:ident = $operation:expr;)*) => {$(
        $(#[doc = $doc])*
        ///
        /// # Safety
        /// There are `count` elements of the type at `x` and `y`, `info` is NULL or can be written.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name(
            kind: *mut c_int,
            x: *mut c_void,
            y: *mut c_void,
            count: *mut c_int,
            info: *mut c_int,
        ) {
            // SAFETY: two arrays of `count` elements of this type, and room for the code.
            unsafe {
                let code = $crate::groups::predefined($operation, kind, x, y, count);
                $crate::memory::store(info, code.err().map_or(0, |error| error.code().code()));
            }
        }
    )*};
}
pub(crate) use reductions;

reductions! {
    /// The greater of each two elements; of complex numbers the one with the greater modulus.
    PvmMax = Operation::Max;
    /// The lesser of each two elements.
    PvmMin = Operation::Min;
    /// The sum of each two elements.
    PvmSum = Operation::Sum;
    /// The product of each two elements.
    PvmProduct = Operation::Product;
}

/// The operation of a predefined function.
fn operation_of(reduction: Reduction) -> Option<Operation> {
    let all: [(Reduction, Operation); 4] = [
        (PvmMax, Operation::Max),
        (PvmMin, Operation::Min),
        (PvmSum, Operation::Sum),
        (PvmProduct, Operation::Product),
    ];
    all.into_iter().find(|&(known, _)| ptr::fn_addr_eq(known, reduction)).map(|(_, operation)| operation)
}

/// Combines `y` into `x`, as the predefined functions do.
///
/// # Safety
/// As the functions above.
pub unsafe fn predefined(
    operation: Operation,
    kind: *mut c_int,
    x: *mut c_void,
    y: *mut c_void,
    count: *mut c_int,
) -> CallResult<()> {
    // SAFETY: NULL or readable.
    let (kind, count) = unsafe { (kind.as_ref(), count.as_ref()) };
    let (&kind, &count) = kind.zip(count).ok_or(PvmError::BadParam)?;
    if count <= 0 {
        return Ok(());
    }
    let arrays = Arrays::new(kind, count)?;
    // SAFETY: two arrays of one length; the second is copied, since both may be one.
    let (y, x) = unsafe { (arrays.of(y, 0)?.to_vec(), arrays.of(x, 0)?) };
    Ok(combine(operation, arrays.kind, x, &y)?)
}

/// The group server's tid. It is started if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn gs_getgstid() -> c_int {
    errors::finish("gs_getgstid", with_client(Program::default(), |client| Ok(client.server()?.tid.raw())))
}

/// Has the group server write all groups to its log.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_gsdump() -> c_int {
    errors::finish("pvm_gsdump", with_client(Program::default(), |client| client.dump().map(|()| 0)))
}
