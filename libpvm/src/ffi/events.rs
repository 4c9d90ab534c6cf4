//! The tables of trace events that programs which read traces look names up in. This library writes no events of its
//! own.

use super::memory::TimeVal;
use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int};

/// `struct Pvmtevinfo`: an event, and what a program that traces keeps of it.
#[repr(C)]
pub struct Event {
    name: *const c_char,
    desc_status: c_int,
    mark: TimeVal,
    total: TimeVal,
    count: c_int,
}

/// `struct Pvmtevdid`: what a datum of an event is.
#[repr(C)]
pub struct Datum {
    name: *const c_char,
    description: *const c_char,
}

/// A table that programs may write to.
#[repr(transparent)]
pub struct Table<T>(UnsafeCell<T>);

// SAFETY: the library never touches the tables; programs that write to them do so as in C, at their own order.
unsafe impl<T> Sync for Table<T> {}

const NEVER: TimeVal = TimeVal { seconds: 0, micros: 0 };

macro_rules! c_text {
    ($text:literal) => {
        concat!($text, "\0").as_ptr().cast()
    };
}

macro_rules! events {
    ($($name:literal)*) => {
        Table(UnsafeCell::new([$(
            Event { name: c_text!($name), desc_status: 0, mark: NEVER, total: NEVER, count: 0 },
        )*]))
    };
}

macro_rules! data {
    ($(($name:literal, $description:literal))*) => {
        Table(UnsafeCell::new([$(Datum { name: c_text!($name), description: c_text!($description) },)*]))
    };
}

/// The events, by their numbers `TEV_ADDHOSTS` and so on.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static pvmtevinfo: Table<[Event; 109]> = events! {
    "addhosts" "barrier" "bcast" "bufinfo" "config" "delete" "delhosts" "exit" "freebuf" "getfds" "getinst"
    "getopt" "getrbuf" "getsbuf" "gettid" "gsize" "halt" "initsend" "insert" "joingroup" "kill" "lookup"
    "lvgroup" "mcast" "mkbuf" "mstat" "mytid" "notify" "nrecv" "parent" "perror" "pkbyte" "pkcplx"
    "pkdcplx" "pkdouble" "pkfloat" "pkint" "pkuint" "pklong" "pkulong" "pkshort" "pkushort" "pkstr" "probe"
    "pstat" "recv" "recvf" "send" "sendsig" "setopt" "setrbuf" "setsbuf" "spawn" "start_pvmd" "tasks"
    "tickle" "tidtohost" "trecv" "upkbyte" "upkcplx" "upkdcplx" "upkdouble" "upkfloat" "upkint" "upkuint"
    "upklong" "upkulong" "upkshort" "upkushort" "upkstr" "version" "reg_hoster" "reg_rm" "reg_tasker"
    "reg_tracer" "newtask" "endtask" "spntask" "archcode" "catchout" "getmwid" "gettmask" "hostsync"
    "packf" "precv" "psend" "reduce" "setmwid" "settmask" "unpackf" "gather" "scatter" "putinfo" "getinfo"
    "delinfo" "getmboxinfo" "newcontext" "freecontext" "setcontext" "getcontext" "siblings" "getminfo"
    "setminfo" "addmhf" "delmhf" "mhf_invoke" "timing" "profiling" "user_defined"
};

/// What data of events are, by their numbers `TEV_DID_AN` and so on.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static pvmtevdidlist: Table<[Datum; 123]> = data! {
    ("AN", "architecture") ("AC", "data signature of an architecture") ("AS", "arguments")
    ("BF", "whether to wait") ("CC", "result") ("CN", "mailbox name") ("CI", "mailbox index")
    ("CF", "mailbox flags") ("CD", "mailbox message") ("CR", "message from the mailbox")
    ("CL", "mailbox names") ("CDA", "address of a group call's data")
    ("CDT", "type of a group call's data") ("CDX", "data of a group call")
    ("CDC", "count of a group call's data") ("CGI", "instance that gets the result") ("CRF", "reduction")
    ("CXC", "current context") ("CXF", "context given back") ("CXN", "new context")
    ("CXS", "context to set") ("ERI", "error code") ("ERR", "error text") ("FDS", "descriptors")
    ("FP", "stream") ("GN", "group") ("GI", "instance in a group") ("GT", "task in a group")
    ("GS", "size of a group") ("GBC", "count of a barrier") ("HN", "host") ("HNL", "hosts")
    ("HNA", "host's other name") ("HPT", "tid of a host's daemon") ("HA", "host's architecture")
    ("HSP", "host's speed") ("HIS", "list of hosts") ("HCS", "host's time, seconds")
    ("HCU", "host's time, microseconds") ("HDS", "time difference, seconds")
    ("HDU", "time difference, microseconds") ("HS", "state of a host") ("INB", "length of a message")
    ("IMC", "tag of a message") ("IST", "sender of a message") ("MC", "tag") ("MCX", "context")
    ("MB", "message buffer") ("MNB", "bytes") ("SRC", "sender") ("DST", "receiver") ("MDL", "receivers")
    ("MTS", "time limit, seconds") ("MTU", "time limit, microseconds") ("MRF", "matching function")
    ("MRB", "receive buffer") ("MSB", "send buffer") ("ME", "encoding") ("MHI", "message handler")
    ("AST", "sender found") ("AMC", "tag found") ("AML", "length found") ("NE", "kind of notify")
    ("NMC", "tag of a notify") ("NCT", "count of a notify") ("NTL", "tasks or hosts of a notify")
    ("NH", "number of hosts") ("NA", "number of data formats") ("OPT", "option")
    ("OPV", "value of an option") ("OS", "output") ("PDA", "address of packed data")
    ("PDT", "type of packed data") ("PC", "count of packed data") ("PSD", "stride of packed data")
    ("PSG", "packed string") ("PF", "format") ("PRF", "number of calls") ("RST", "sender wanted")
    ("RMC", "tag wanted") ("RCX", "context wanted") ("SN", "signal") ("SE", "program to spawn")
    ("SF", "flags of a spawn") ("SW", "place of a spawn") ("SC", "count of a spawn")
    ("STL", "tasks spawned") ("SIB", "siblings") ("TID", "task") ("PT", "parent") ("MT", "this task")
    ("TF", "state of a task") ("TN", "name of a task") ("PID", "process of a task")
    ("TT", "task concerned") ("TW", "whose tasks") ("TIS", "list of tasks") ("TNT", "number of tasks")
    ("TST", "status of a task") ("TUS", "user time, seconds") ("TUU", "user time, microseconds")
    ("TSS", "system time, seconds") ("TSU", "system time, microseconds") ("TES", "exit status")
    ("TA", "arguments of a tickle") ("TR", "results of a tickle") ("TS", "time, seconds")
    ("TU", "time, microseconds") ("TGS", "time spent, seconds") ("TGU", "time spent, microseconds")
    ("TMW", "whose trace mask") ("TM", "trace mask") ("TRC", "tracer's context for trace")
    ("TRT", "tracer's tag for trace") ("TRX", "tracer's context for output")
    ("TRO", "tracer's tag for output") ("TRM", "tracer's mask") ("TRB", "tracer's buffer size")
    ("TRL", "tracer's options") ("VER", "version") ("VCT", "number of events") ("VID", "event")
    ("WID", "wait id")
};

const _: () = assert!(size_of::<[Event; 109]>() == 6104 && size_of::<[Datum; 123]>() == 1968);
