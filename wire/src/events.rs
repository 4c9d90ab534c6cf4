//! PVM's trace events: what libraries and daemons tell a tracer (`pvm_reg_tracer`, the console's `spawn -@`).
//!
//! A trace message is a sequence of XDR items. The first record of an event describes each datum (what it is, of which
//! type), later ones have the values alone.

use crate::body::BodyWriter;
use std::ffi::{CStr, OsStr};

/// Or-ed to an event: the function was entered.
pub const ENTRY: i32 = 0x4000;
/// Or-ed to an event: the function returned.
pub const EXIT: i32 = 0x8000;

/// Marks between the parts of a trace message.
pub(crate) mod mark {
    pub(crate) const BUFFER: i32 = -1;
    pub(crate) const BUFFER_END: i32 = -2;
    pub(crate) const DATA: i32 = -3;
    pub(crate) const DATA_END: i32 = -4;
    pub(crate) const DESCRIPTION: i32 = -5;
    pub(crate) const DESCRIPTION_END: i32 = -6;
    pub(crate) const RECORD: i32 = -7;
    pub(crate) const RECORD_END: i32 = -8;
}

/// Types of data.
pub(crate) mod kind {
    pub(crate) const INT: i32 = 6;
    pub(crate) const LONG: i32 = 8;
    pub(crate) const STRING: i32 = 12;
    pub(crate) const ARRAY: i32 = 0x80;
}

const fn c_text(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => c"",
    }
}

macro_rules! events {
    ($($event:ident $name:literal)*) => {
        /// What can be traced: mostly one per function of libpvm.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(i32)]
        pub enum Event { $(#[doc = concat!("`", $name, "`")] $event,)* }

        /// The events' names, by their numbers.
        pub const EVENTS: [&CStr; 109] = [$(c_text(concat!($name, "\0")),)*];
    };
}

macro_rules! data {
    ($($datum:ident $description:literal)*) => {
        /// What a datum of an event is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(clippy::upper_case_acronyms, reason = "PVM's names")]
        #[repr(i32)]
        pub enum Datum { $(#[doc = $description] $datum,)* }

        /// Short names and descriptions of the data, by their numbers.
        pub const DATA: [(&CStr, &CStr); 123] =
            [$((c_text(concat!(stringify!($datum), "\0")), c_text(concat!($description, "\0"))),)*];
    };
}

events! {
    Addhosts "addhosts" Barrier "barrier" Bcast "bcast" Bufinfo "bufinfo" Config "config" Delete "delete"
    Delhosts "delhosts" Exit "exit" Freebuf "freebuf" Getfds "getfds" Getinst "getinst" Getopt "getopt"
    Getrbuf "getrbuf" Getsbuf "getsbuf" Gettid "gettid" Gsize "gsize" Halt "halt" Initsend "initsend"
    Insert "insert" Joingroup "joingroup" Kill "kill" Lookup "lookup" Lvgroup "lvgroup" Mcast "mcast"
    Mkbuf "mkbuf" Mstat "mstat" Mytid "mytid" Notify "notify" Nrecv "nrecv" Parent "parent" Perror "perror"
    Pkbyte "pkbyte" Pkcplx "pkcplx" Pkdcplx "pkdcplx" Pkdouble "pkdouble" Pkfloat "pkfloat" Pkint "pkint"
    Pkuint "pkuint" Pklong "pklong" Pkulong "pkulong" Pkshort "pkshort" Pkushort "pkushort" Pkstr "pkstr"
    Probe "probe" Pstat "pstat" Recv "recv" Recvf "recvf" Send "send" Sendsig "sendsig" Setopt "setopt"
    Setrbuf "setrbuf" Setsbuf "setsbuf" Spawn "spawn" StartPvmd "start_pvmd" Tasks "tasks" Tickle "tickle"
    Tidtohost "tidtohost" Trecv "trecv" Upkbyte "upkbyte" Upkcplx "upkcplx" Upkdcplx "upkdcplx"
    Upkdouble "upkdouble" Upkfloat "upkfloat" Upkint "upkint" Upkuint "upkuint" Upklong "upklong"
    Upkulong "upkulong" Upkshort "upkshort" Upkushort "upkushort" Upkstr "upkstr" Version "version"
    RegHoster "reg_hoster" RegRm "reg_rm" RegTasker "reg_tasker" RegTracer "reg_tracer" Newtask "newtask"
    Endtask "endtask" Spntask "spntask" Archcode "archcode" Catchout "catchout" Getmwid "getmwid"
    Gettmask "gettmask" Hostsync "hostsync" Packf "packf" Precv "precv" Psend "psend" Reduce "reduce"
    Setmwid "setmwid" Settmask "settmask" Unpackf "unpackf" Gather "gather" Scatter "scatter"
    Putinfo "putinfo" Getinfo "getinfo" Delinfo "delinfo" Getmboxinfo "getmboxinfo" Newcontext "newcontext"
    Freecontext "freecontext" Setcontext "setcontext" Getcontext "getcontext" Siblings "siblings"
    Getminfo "getminfo" Setminfo "setminfo" Addmhf "addmhf" Delmhf "delmhf" MhfInvoke "mhf_invoke"
    Timing "timing" Profiling "profiling" UserDefined "user_defined"
}

data! {
    AN "architecture"
    AC "data signature of an architecture"
    AS "arguments"
    BF "whether to wait"
    CC "result"
    CN "mailbox name"
    CI "mailbox index"
    CF "mailbox flags"
    CD "mailbox message"
    CR "message from the mailbox"
    CL "mailbox names"
    CDA "address of a group call's data"
    CDT "type of a group call's data"
    CDX "data of a group call"
    CDC "count of a group call's data"
    CGI "instance that gets the result"
    CRF "reduction"
    CXC "current context"
    CXF "context given back"
    CXN "new context"
    CXS "context to set"
    ERI "error code"
    ERR "error text"
    FDS "descriptors"
    FP "stream"
    GN "group"
    GI "instance in a group"
    GT "task in a group"
    GS "size of a group"
    GBC "count of a barrier"
    HN "host"
    HNL "hosts"
    HNA "host's other name"
    HPT "tid of a host's daemon"
    HA "host's architecture"
    HSP "host's speed"
    HIS "list of hosts"
    HCS "host's time, seconds"
    HCU "host's time, microseconds"
    HDS "time difference, seconds"
    HDU "time difference, microseconds"
    HS "state of a host"
    INB "length of a message"
    IMC "tag of a message"
    IST "sender of a message"
    MC "tag"
    MCX "context"
    MB "message buffer"
    MNB "bytes"
    SRC "sender"
    DST "receiver"
    MDL "receivers"
    MTS "time limit, seconds"
    MTU "time limit, microseconds"
    MRF "matching function"
    MRB "receive buffer"
    MSB "send buffer"
    ME "encoding"
    MHI "message handler"
    AST "sender found"
    AMC "tag found"
    AML "length found"
    NE "kind of notify"
    NMC "tag of a notify"
    NCT "count of a notify"
    NTL "tasks or hosts of a notify"
    NH "number of hosts"
    NA "number of data formats"
    OPT "option"
    OPV "value of an option"
    OS "output"
    PDA "address of packed data"
    PDT "type of packed data"
    PC "count of packed data"
    PSD "stride of packed data"
    PSG "packed string"
    PF "format"
    PRF "number of calls"
    RST "sender wanted"
    RMC "tag wanted"
    RCX "context wanted"
    SN "signal"
    SE "program to spawn"
    SF "flags of a spawn"
    SW "place of a spawn"
    SC "count of a spawn"
    STL "tasks spawned"
    SIB "siblings"
    TID "task"
    PT "parent"
    MT "this task"
    TF "state of a task"
    TN "name of a task"
    PID "process of a task"
    TT "task concerned"
    TW "whose tasks"
    TIS "list of tasks"
    TNT "number of tasks"
    TST "status of a task"
    TUS "user time, seconds"
    TUU "user time, microseconds"
    TSS "system time, seconds"
    TSU "system time, microseconds"
    TES "exit status"
    TA "arguments of a tickle"
    TR "results of a tickle"
    TS "time, seconds"
    TU "time, microseconds"
    TGS "time spent, seconds"
    TGU "time spent, microseconds"
    TMW "whose trace mask"
    TM "trace mask"
    TRC "tracer's context for trace"
    TRT "tracer's tag for trace"
    TRX "tracer's context for output"
    TRO "tracer's tag for output"
    TRM "tracer's mask"
    TRB "tracer's buffer size"
    TRL "tracer's options"
    VER "version"
    VCT "number of events"
    VID "event"
    WID "wait id"
}

impl Event {
    /// Its number.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        EVENTS[self as usize].to_str().unwrap_or_default()
    }

    /// Whether a mask (four events in each character above `@`) has it.
    pub fn is_in(self, mask: &str) -> bool {
        let number = self as usize;
        mask.as_bytes().get(number / 4).is_some_and(|bits| bits & (1 << (number % 4)) != 0)
    }
}

/// When an event was, since 1970, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Seconds.
    pub seconds: i32,
    /// Microseconds besides.
    pub micros: i32,
    /// The task.
    pub tid: i32,
}

/// Writes a trace message.
#[derive(Clone, Debug)]
pub struct Writer {
    body: BodyWriter,
    describes: bool,
    buffers: bool,
}

impl Writer {
    /// An empty message; `buffers` marks it as one of many events.
    pub fn new(buffers: bool) -> Self {
        let mut body = BodyWriter::new();
        if buffers {
            body.push_int(mark::BUFFER);
        }
        Self { body, describes: false, buffers }
    }

    /// Begins an event, which must be ended; `phase` is [`ENTRY`], [`EXIT`] or 0.
    pub fn begin(&mut self, event: Event, phase: i32, head: Head, describes: bool) {
        self.describes = describes;
        self.body.push_int(if describes { mark::DESCRIPTION } else { mark::RECORD });
        self.body.push_int(event.number() | phase);
        if describes {
            self.body.push_str(event.name());
        }
        self.int(Datum::TS, head.seconds).int(Datum::TU, head.micros).int(Datum::TID, head.tid);
    }

    fn describe(&mut self, datum: Datum, kind: i32) {
        if self.describes {
            self.body.push_int(datum as i32);
            self.body.push_int(kind);
        }
    }

    /// Adds a number.
    pub fn int(&mut self, datum: Datum, value: i32) -> &mut Self {
        self.describe(datum, kind::INT);
        self.body.push_int(value);
        self
    }

    /// Adds a C `long`, of which 32 bits travel.
    pub fn long(&mut self, datum: Datum, value: i64) -> &mut Self {
        self.describe(datum, kind::LONG);
        self.body.push_int(value as i32);
        self
    }

    /// Adds a text.
    pub fn text(&mut self, datum: Datum, text: impl AsRef<OsStr>) -> &mut Self {
        self.describe(datum, kind::STRING);
        self.body.push_str(text);
        self
    }

    /// Adds numbers.
    pub fn ints(&mut self, datum: Datum, values: &[i32]) -> &mut Self {
        self.describe(datum, kind::INT | kind::ARRAY);
        self.body.push_int(values.len() as i32);
        for &value in values {
            self.body.push_int(value);
        }
        self
    }

    /// Adds texts.
    pub fn texts<'a>(&mut self, datum: Datum, texts: impl ExactSizeIterator<Item = &'a str>) -> &mut Self {
        self.describe(datum, kind::STRING | kind::ARRAY);
        self.body.push_int(texts.len() as i32);
        for text in texts {
            self.body.push_str(text);
        }
        self
    }

    /// Ends the event.
    pub fn end(&mut self) {
        self.body.push_int(if self.describes { mark::DESCRIPTION_END } else { mark::RECORD_END });
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.body.len()
    }

    /// Whether there is nothing yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The message.
    pub fn finish(mut self) -> Vec<u8> {
        if self.buffers {
            self.body.push_int(mark::BUFFER_END);
        }
        self.body.finish()
    }
}

/// The message that tells a tracer what data there are: each one's number, name and description.
pub fn data_message() -> Vec<u8> {
    let mut body = BodyWriter::new().int(mark::DATA);
    for (number, (name, description)) in (0..).zip(DATA) {
        body.push_int(number);
        body.push_str(name.to_str().unwrap_or_default());
        body.push_str(description.to_str().unwrap_or_default());
    }
    body.int(mark::DATA_END).finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::BodyReader;

    const HEAD: Head = Head { seconds: 1, micros: 2, tid: 3 };

    #[test]
    fn numbers_are_pvms() {
        assert_eq!(
            (Event::Addhosts.number(), Event::Send.number(), Event::UserDefined.number()),
            (0, 47, 108)
        );
        assert_eq!((Event::Recv.name(), Event::RegTracer.name()), ("recv", "reg_tracer"));
        assert_eq!((Datum::AN as i32, Datum::CC as i32, Datum::WID as i32), (0, 4, 122));
    }

    #[test]
    fn masks_have_four_events_in_a_character() {
        let mask = format!("B{}", "@".repeat(34));
        assert!(Event::Barrier.is_in(&mask));
        assert!(!Event::Addhosts.is_in(&mask) && !Event::Getinst.is_in(&mask) && !Event::Barrier.is_in(""));
    }

    #[test]
    fn the_first_record_describes_itself() {
        let mut writer = Writer::new(true);
        for describes in [true, false] {
            writer.begin(Event::Kill, ENTRY, HEAD, describes);
            writer.ints(Datum::TT, &[7, 8]).end();
        }
        let body = writer.finish();
        let mut reader = BodyReader::new(&body);
        assert_eq!(reader.ints(3).unwrap(), [-1, -5, Event::Kill.number() | ENTRY]);
        assert_eq!(reader.str().unwrap(), "kill");
        let (ts, tu, tid) = (Datum::TS as i32, Datum::TU as i32, Datum::TID as i32);
        assert_eq!(reader.ints(9).unwrap(), [ts, 6, 1, tu, 6, 2, tid, 6, 3]);
        assert_eq!(reader.ints(6).unwrap(), [Datum::TT as i32, 0x86, 2, 7, 8, -6]);
        assert_eq!(reader.ints(10).unwrap(), [-7, Event::Kill.number() | ENTRY, 1, 2, 3, 2, 7, 8, -8, -2]);
        assert!(reader.rest().is_empty());
    }
}
