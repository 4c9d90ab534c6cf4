//! Constants that were chosen by measurement, in one table: `docs/constants.md` is made from it.
//!
//! A bound that protects somebody is a limit ([`crate::limits`], `docs/limits.md`), and a layout or a protocol's number stands where it is
//! used; what is here could have another value without anything but the speed being different.
//!
//! `cargo bench -p benches -- tune NAME VALUE VALUE …` compares values: it builds the product once for each, with the value in the
//! environment as `PVM_TUNED_NAME`, and runs the constant's part of the benchmark. Without that variable a constant is the literal below.

use std::time::Duration;

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// Its name.
    pub name: &'static str,
    /// Under which heading it is listed.
    pub group: &'static str,
    /// Its value in this build.
    pub value: u64,
    /// Its value without an override.
    pub default: u64,
    /// What it counts.
    pub unit: &'static str,
    /// What it decides.
    pub what: &'static str,
    /// What a larger and a smaller value cost.
    pub trade: &'static str,
    /// The part of the benchmark that shows it.
    pub part: &'static str,
    /// The measured table of `docs/measurements` by which it was chosen; empty if only the part shows it.
    pub table: &'static str,
}

/// The value of an override, or the default.
///
/// # Panics
/// If the override is no number, which stops the build.
const fn chosen(text: Option<&str>, default: u64) -> u64 {
    let Some(text) = text else { return default };
    match u64::from_str_radix(text, 10) {
        Ok(value) => value,
        Err(_) => panic!("a tuned constant's override is no number"),
    }
}

macro_rules! typed {
    (micros, $value:expr) => {
        Duration::from_micros($value)
    };
    (nanos, $value:expr) => {
        Duration::from_nanos($value)
    };
    ($type:ident, $value:expr) => {
        $value as $type
    };
}

macro_rules! type_of {
    (micros) => {
        Duration
    };
    (nanos) => {
        Duration
    };
    ($type:ident) => {
        $type
    };
}

macro_rules! tuned {
    ($($group:literal {$(
        $name:ident: $type:ident = $default:literal, $unit:literal;
        $what:literal;
        $trade:literal;
        $part:literal, $table:literal;
    )*})*) => {
        $($(
            #[doc = concat!($what, " In ", $unit, "; ", $trade, ".")]
            pub const $name: type_of!($type) =
                typed!($type, chosen(option_env!(concat!("PVM_TUNED_", stringify!($name))), $default));
        )*)*

        /// All of them.
        pub const TABLE: &[Constant] = &[$($(Constant {
            name: stringify!($name),
            group: $group,
            value: chosen(option_env!(concat!("PVM_TUNED_", stringify!($name))), $default),
            default: $default,
            unit: $unit,
            what: $what,
            trade: $trade,
            part: $part,
            table: $table,
        }),*),*];
    };
}

tuned! {
    "Waiting" {
        SPIN_SWITCHES: u32 = 5, "context switches";
        "A wait polls for at most this many before it parks.";
        "more: processor time lost by waits that park anyway; fewer: a peer that is just being woken is not waited for";
        "latency", "";

        SPIN_LEAST_PART: u64 = 16, "one part in";
        "Polls that do not pay are shortened to this part of the longest at most.";
        "more: less lost in vain; fewer: an early answer is still seen";
        "crowd", "without";

        SPIN_RETRY_SLEEPS_MAX: u32 = 1024, "short sleeps";
        "The most between two tries of the longest poll.";
        "more: fewer tries in vain; fewer: a peer that answers fast again is noticed earlier";
        "crowd", "";

        REMOTE_WAKINGS: u32 = 5, "wakings";
        "Between a message to another host and its answer: this host's daemon, the other's, its task, and both daemons again. A wait for another host polls this many times as long as one for a neighbour.";
        "more: processor time; fewer: the answer comes after the waiter has parked";
        "remote", "remote-changes";

        ANSWER_TIME: micros = 2, "µs";
        "A neighbour that runs has answered by then: a wait polls for this long before its first yield.";
        "more: a peer on the same processor is kept from running; less: system calls while the answer is under way";
        "latency", "short-messages";

        YIELD_ALONE_MAX: nanos = 700, "ns";
        "A yield that took longer has handed the processor to another process: the processor is crowded.";
        "more: a waiter polls in vain while others wait for its processor; less: system calls take the place of polls on a processor of its own";
        "broadcast", "";

        CROWDED_WAITS: u32 = 8, "waits";
        "On a crowded processor one of this many waits polls as on a processor of its own.";
        "more: peers that run at the same time notice it later; fewer: polls keep others from running";
        "crowd", "";

        YIELD_LONG: micros = 1000, "µs";
        "A shorter yield has not given the processor to a program that computes.";
        "more: slices are lost before yields become rare; less: yields to a peer count as lost";
        "crowd", "";

        YIELD_LONG_TICK_PART: u32 = 75, "percent of a tick";
        "Nor has a yield that took less than this part of a tick: the kernel ends the slice of a program that computes at a tick only.";
        "more: slices are lost before yields become rare; less: yields to many peers count as lost";
        "broadcast", "";

        YIELD_LONG_PEERS: usize = 4, "peers of each processor";
        "Of this many, one more long yield in a row is put down to the peers, not to a program that computes.";
        "more: yields end where many peers have much to do, and each of them sleeps instead; fewer: more slices are lost before yields become rare";
        "gather", "without";

        YIELD_BACKOFF_MAX: u32 = 255, "waits";
        "The most waits without yields after yields that took long.";
        "more: fewer slices lost; fewer: it is noticed earlier that nothing computes any more";
        "crowd", "without";

        YIELD_PARK_AFTER: u32 = 64, "waits";
        "Waits in a row that a yield has ended, after which a waiter parks once: it is woken on an idle processor, if there is one.";
        "more: two tasks share a processor for longer; fewer: a crowd parks more often than it needs to";
        "latency", "";

        YIELD_PARK_AFTER_MAX: u32 = 16_384, "waits";
        "The same, where parking has not helped: it grows to this.";
        "more: two tasks that have come to share a processor stay there for longer; fewer: a crowd parks more often";
        "crowd", "";

        RING_POLLS: usize = 128, "polls";
        "Polls of all rings together between two looks at the clock and the sockets.";
        "more: sockets and the end of the wait are seen later; fewer: a message is seen later";
        "latency", "short-messages";

        POLLED_SOCKETS_MAX: usize = 16, "sockets";
        "A wait polls no direct routes if there are more.";
        "more: each poll takes longer; fewer: more tasks sleep between messages";
        "remote", "";

        GATE_POLLS: u32 = 64, "polls";
        "Polls of a barrier's gate between two yields, where each member has a processor.";
        "more: a member on the same processor waits; fewer: system calls";
        "barrier", "";

        GATE_STAY: micros = 50_000, "µs";
        "How long a member waits at the gate alone before it waits for messages as well. Telling all members takes far less time.";
        "more: a change of the group is noticed later; less: members leave the gate while others only compute";
        "barrier", "";

        GROUP_NOTICE_LATE: micros = 10_000, "µs";
        "How long calls of groups look for a notice that the daemon has counted: one with much to write writes it later.";
        "more: calls after a change ask the system for longer; less: a late notice is found by the next wait only";
        "barrier", "";

        UNTOLD_SLEEP: micros = 1000, "µs";
        "A shorter sleep is not reported to the daemon while teams take turns.";
        "more: another team gets the processor later; less: a report costs more than the sleep";
        "coscheduling-two", "coscheduling-two";

        UNANSWERED: micros = 200, "µs";
        "While teams take turns, a task that waits reports receivers on direct routes that have not answered within this time.";
        "more: the receiver's team gets its turn later; less: daemons send reports about receivers that are running";
        "dasic", "dasic-slowdown";

        ROOM_NAP: micros = 1000, "µs";
        "How long a sender without room in shared memory waits before it looks again.";
        "more: the sender goes on later; less: processor time that the receiver needs";
        "bandwidth", "";

        MULTICAST_SPARED: usize = 32_768, "bytes";
        "From this length on a multicast crosses the network once for all receivers of a host, even where they have direct routes.";
        "more: the network carries it as often as there are receivers; less: it takes the longer way by the daemons";
        "remote", "";

        MULTICAST_ROUTES_MAX: usize = 3, "receivers";
        "The most receivers on a host to which multicasts ask for direct routes. More are reached by one message to their daemon.";
        "more: each receiver takes the sender a system call and a look at one more socket; fewer: multicasts to few tasks pass the daemons";
        "remote-broadcast", "multicast-routes";

        WAKE_ROUNDS: usize = 32, "round trips";
        "By which a daemon measures at its start what waking takes.";
        "more: a later start; fewer: an uncertain result";
        "spawn-hosts", "";

        WAKE_MAX: micros = 60, "µs";
        "A waking that is measured to take longer has waited for other work.";
        "more: long polls on a busy host; less: polls too short where waking is slow";
        "remote", "";

    }
    "Messages in shared memory" {
        RING_BODY_LINES: usize = 33, "cache lines";
        "Of a body in the ring, behind its first line. Longer bodies lie in a block.";
        "more: two copies of longer messages; fewer: a block, a flag and a place for shorter ones";
        "latency", "message-changes";

        RING_FIRST_CHUNK_LINES: u32 = 16, "cache lines";
        "Of a ring's first chunk.";
        "more: memory of a ring that carries little; fewer: a second chunk sooner";
        "spawn", "";

        RING_CHUNK_LINES: u32 = 128, "cache lines";
        "Of all other chunks of a ring.";
        "more: a ring leaves the first cache; fewer: more links between chunks";
        "rate", "";

        RING_NEAR_LINES: u32 = 64, "cache lines";
        "Of a chunk that are used while the receiver reads at once and messages are short, so that all of a ring stays in the first cache.";
        "more: beyond half of that cache; fewer: more links between chunks";
        "latency", "short-messages";

        RING_SHORT_LINES: u32 = 17, "cache lines";
        "A message of up to this many is short in that sense (1 KiB).";
        "more: longer messages change chunks more often; fewer: they fill the cache";
        "latency", "short-messages";

        RING_TURN: usize = 64, "messages";
        "Taken from one ring before others are looked at.";
        "more: other senders wait; fewer: more looks at rings that are empty";
        "fanin", "";

        SOCKETS_EVERY: u32 = 1024, "messages";
        "Taken from rings between two looks at the sockets.";
        "more: messages of other hosts wait; fewer: a system call more often";
        "rate", "many";

        RECEIVE_POOL: usize = 65_536, "bytes";
        "Small bodies are copied into pieces of this much memory.";
        "more: memory kept by one body; fewer: more allocations";
        "rate", "";

        SPARE_MESSAGES: usize = 16, "messages";
        "Received messages whose memory a thread keeps for the next.";
        "more: memory; fewer: allocations";
        "rate", "short-messages";

        PRIVATE_MAX: usize = 2048, "bytes";
        "Up to this many are packed in private memory and copied into the ring.";
        "more: a copy of longer messages; fewer: blocks for short ones";
        "latency", "message-changes";

        BLOCK_ROTATED_LEAST: u32 = 11, "power of two, bytes";
        "The smallest blocks that are used in rotation. Another core's second-level cache still has what was written last: writing there again runs at a third of the speed.";
        "more: slow writes to small blocks; fewer: memory";
        "bandwidth", "copies";

        BLOCK_ROTATED_MOST: u32 = 20, "power of two, bytes";
        "The largest blocks that are used in rotation.";
        "more: memory; fewer: slow writes";
        "bandwidth", "copies";

        BLOCK_ROTATION: u64 = 2_097_152, "bytes";
        "Written, in all, before a block is used again: caches of 1 MiB have forgotten it.";
        "more: memory, and page faults until all was touched; fewer: slow writes";
        "bandwidth", "copies";

        BLOCK_ROTATION_AFTER: u32 = 32, "blocks";
        "Of one size are taken before they are used in rotation.";
        "more: slow writes at first; fewer: memory of tasks that send little";
        "bandwidth", "without";

        RECLAIM_LOOKS: usize = 4, "deliveries";
        "That are looked at whenever a block is taken or sent: more than are made, so that none stays long.";
        "more: time of each send; fewer: memory is reclaimed later";
        "bandwidth", "";

        COPY_PIECE: usize = 2048, "bytes";
        "Copied by one call: the C library copies more by an instruction that is slow for some alignments.";
        "more: that instruction; fewer: more calls";
        "bandwidth", "copying";

        COPY_WHOLE_FROM: usize = 1_048_576, "bytes";
        "From this length on the C library does without that instruction, and one call is faster.";
        "more: pieces beyond the caches; fewer: the slow instruction";
        "bandwidth", "copying";

        RINGS_LISTED_FROM: usize = 32, "rings";
        "Of a receiver from which on its senders list themselves, so that it does not look at each ring.";
        "more: looks at rings that are empty; fewer: two atomic operations more for each message";
        "broadcast", "";
    }
    "Messages by daemons and sockets" {
        LENT_LEAST: usize = 32_768, "bytes";
        "The shortest body that is lent instead of copied through the socket.";
        "more: copies of longer bodies; fewer: a round trip of short ones takes a fifth longer";
        "remote", "remote-changes";

        ROUTE_FAR_FROM: usize = 32_768, "bytes";
        "From which a message on a direct route of another host takes its time, so that a wait for the next polls longer.";
        "more: waits park too early; fewer: short messages wait longer than it pays";
        "remote", "remote-changes";

        ROUTE_TURN: usize = 1_048_576, "bytes";
        "Of long messages read from one route before others are looked at.";
        "more: other senders wait; fewer: more system calls";
        "remote", "";

        ROUTE_LONG: usize = 4096, "bytes";
        "From this many bytes still to come on, a direct route reads to where they stay.";
        "more: a copy; fewer: more system calls";
        "remote", "";

        ROUTE_ROOM: usize = 1_048_576, "bytes";
        "Room made for the rest of a long message, whatever its length field says.";
        "more: memory at the word of a peer; fewer: growing in steps";
        "remote", "";

        ROUTE_BATCH: usize = 64, "fragments";
        "Handed to the kernel in one call.";
        "more: memory; fewer: more system calls";
        "remote", "";

        SEALED_RECORD: usize = 32_768, "bytes";
        "That are sealed together on a direct route. The receiver opens nothing before a whole record has come.";
        "more: later first byte; fewer: more tags and lengths";
        "remote", "";

        SEALED_AHEAD: usize = 4, "records";
        "Sealed ahead of the socket.";
        "more: later first byte, and they leave the caches; fewer: more system calls";
        "remote", "";

        TASK_WRITE_BATCH: usize = 64, "fragments";
        "That a daemon writes to a task by one system call.";
        "more: memory; fewer: more system calls";
        "rate", "";

        TASK_READ: usize = 65_536, "bytes";
        "That a daemon asks of a task's socket at a time.";
        "more: leaves the first caches; fewer: more system calls";
        "remote", "";

        DRAFT_ROOM: u64 = 1_048_576, "bytes";
        "Address space set aside for a body of unknown length that comes for a task.";
        "more: address space; fewer: bodies are copied to where there is more";
        "remote", "";

        DRAFT_GROWTH: u64 = 8, "times";
        "As much address space when that is full.";
        "more: address space; fewer: more copies";
        "remote", "";

        LINK_AHEAD: u64 = 524_288, "bytes";
        "Handed to a link and not acknowledged, at least. Every message waits behind these.";
        "more: latency behind a flood, and they leave the caches; fewer: bandwidth";
        "remote", "remote-quiet";

        LINK_FAR_RATE: u64 = 250_000_000, "bytes per second";
        "That far links are to carry: as many as a round trip takes at this rate may be under way.";
        "more: latency behind a flood; fewer: bandwidth of far links";
        "remote", "";

        LINK_UNACKNOWLEDGED: u32 = 48, "packets of 1452 bytes";
        "That may come before they are acknowledged: a receiver first passes a message on, and its answer then takes the acknowledgement along.";
        "more: a sender waits for room; fewer: more packets";
        "remote", "remote-steps";

        LINK_ACK_DELAY: micros = 1000, "µs";
        "How long an acknowledgement may wait for more packets, or for something to go with.";
        "more: a longer round trip after losses; less: more packets";
        "remote", "remote-steps";

        LINK_FIRST_WINDOW: u64 = 81_920, "bytes";
        "Under way before anything is known of a link.";
        "more: losses at the start; fewer: a slow start";
        "remote", "remote-quiet";

        LINK_PIECES: usize = 64, "packets";
        "Of the stream that are taken at once.";
        "more: memory; fewer: more calls";
        "remote", "";

        LINK_EXPECTED_MAX: usize = 262_144, "bytes";
        "For which room is made because the other end says that they follow.";
        "more: memory at the word of a peer; fewer: growing in steps";
        "remote", "";

        LINK_COPIED: usize = 4096, "bytes";
        "Data of a message up to this length are copied to its head instead of handed over apart.";
        "more: copies; fewer: more pieces per packet";
        "remote", "remote-changes";

        UDP_RECEIVE_BATCH: usize = 8, "buffers";
        "Filled by one system call, each with all packets of a sender that the kernel has joined.";
        "more: time of each packet that comes alone; fewer: more system calls";
        "remote", "remote-changes";

    }
    "Coscheduling" {
        EPOCH_SLACK: u32 = 2, "slices";
        "A message brings a team onto the processor if its team is at most this many ahead of the one that has the turn.";
        "more: unequal shares; fewer: teams that communicate wait for each other";
        "coscheduling-two", "coscheduling-two";

        SLICE_LOOKS: u32 = 10, "looks";
        "At a slice where other teams are stopped: whether its team still wants it.";
        "more: overhead of the daemon; fewer: an idle processor";
        "coscheduling-two", "coscheduling-two";

        GATES_SPARE: u32 = 2, "one part in";
        "Teams that leave this part of the processors together take no turns.";
        "more: turns that are not needed; fewer: teams share a processor";
        "coscheduling-alone", "coscheduling-alone";

        GATES_WAITING: u32 = 50, "one part in";
        "A team that has used less than this part of a processor waits.";
        "more: a team that computes little counts as waiting; fewer: one that waits gets a slice";
        "coscheduling-alone", "coscheduling-alone";

        BOOST_SAVINGS: u32 = 4, "slacks";
        "Of time that a team which did not want the processor may have saved up.";
        "more: bursts at the cost of others; fewer: late answers";
        "coscheduling-four", "coscheduling-four";

        BRIEF_WORK: micros = 500, "µs";
        "A process that works for longer between two sleeps computes. Less than the kernel's shortest slice.";
        "more: programs that compute get no turns; less: servers take turns";
        "coscheduling-cpu", "coscheduling-cpu";

        SHARE_MARGIN: u32 = 10, "one part in";
        "By which a team may exceed its part before that counts.";
        "more: turns over noise; fewer: unequal shares";
        "coscheduling-cpu", "coscheduling-cpu";

        FRAGMENT_COST: u64 = 16_384, "bytes";
        "That take the daemon as long as one fragment of its own: system calls and context switches on one side, packets to be sealed on the other.";
        "more: short messages are charged more; fewer: long ones are";
        "coscheduling-flood", "coscheduling-flood";

        SHORT_TURN: micros = 100, "µs";
        "How long a daemon runs at a time at most, as it promises the kernel, while teams take turns.";
        "more: it is not let in at once; less: more switches";
        "coscheduling-two", "coscheduling-two";

        DAEMON_NICE: i32 = 10, "nice levels";
        "Which a daemon is ahead of its tasks meanwhile: the kernel lets no process interrupt that has had more than a fair part of the last milliseconds.";
        "more: unfair to other programs; fewer: messages wait for the end of a slice";
        "coscheduling-two", "coscheduling-two";
    }
    "Jobs" {
        JOB_AHEAD: f64 = 100, "ms";
        "Of work that a host is given beyond its slots, if the tasks of an array are shorter than that: it would idle between two decisions.";
        "more: short tasks wait on a host while another one idles; less: hosts wait for the master";
        "jobs-array", "job-constants";

        JOB_AHEAD_MAX: u32 = 256, "tasks";
        "Beyond its slots that a host is given at most, however short they are.";
        "more: tasks wait on a host while another one idles; fewer: hosts wait for the master";
        "jobs-array", "job-constants";

        JOB_DEPTH: usize = 100, "jobs";
        "That cannot start which one decision looks at.";
        "more: a decision takes longer; fewer: a job that could start behind them waits";
        "jobs-waiting", "job-depth";

        JOB_ENDING: micros = 1_000_000, "µs";
        "After a task of a parallel job has ended within which the others are expected to, however long they may run.";
        "more: fewer jobs pass one that waits if the other tasks run on; less: a job that ends slowly lets others pass which delay the one that waits";
        "live-jobs", "job-ending";

        JOB_REPORTS_APART: micros = 5000, "µs";
        "Between two reports of a host to the master: those of many short tasks go together.";
        "more: slots are known to be free later; less: a decision for each task";
        "jobs-array", "job-constants";

        JOB_SAVES_APART: micros = 1_000_000, "µs";
        "Between a change that is not urgent and its write to disk, together with what follows.";
        "more: more runs once more after a power failure; less: jobs with many tasks are encoded more often";
        "jobs-array", "job-constants";

    }
    "Hosts" {
        LINKING_MAX: usize = 32, "daemons";
        "That may wait for their link to the master before it has more of them started.";
        "more: where all are on one computer, those that start take the processors from the master, and what they send it meanwhile is lost when there is no more room for it; fewer: starts wait for links of hosts that are far away";
        "scale", "linking";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn without_overrides_the_product_has_the_defaults() {
        for constant in TABLE {
            let is_overridden =
                std::env::vars().any(|(name, _)| name == format!("PVM_TUNED_{}", constant.name));
            assert!(is_overridden || constant.value == constant.default, "{constant:?}");
        }
        let names: BTreeSet<_> = TABLE.iter().map(|constant| constant.name).collect();
        assert_eq!(names.len(), TABLE.len());
    }

    #[test]
    fn an_override_takes_precedence() {
        assert_eq!((chosen(None, 7), chosen(Some("12"), 7)), (7, 12));
        assert!(std::panic::catch_unwind(|| chosen(Some("many"), 7)).is_err());
    }
}
