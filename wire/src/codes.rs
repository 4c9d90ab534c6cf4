//! The tags by which PVM's parts know what a message asks for.

/// Context of requests to the daemon (`SYSCTX_TM`).
pub const CONTEXT_TM: i32 = 0x7fffe;
/// Context of messages between libraries (`SYSCTX_TC`).
pub const CONTEXT_TC: i32 = 0x7ffff;
/// Version of the task–daemon protocol (`TDPROTOCOL`).
pub const TASK_PROTOCOL: i32 = 1318;
/// Version of this system's daemon–daemon protocol.
pub const DAEMON_PROTOCOL: u32 = 21;
/// Marks the trailing fields by which this system's library and daemon recognise each other ("PVMr").
pub const EXTENSION_MAGIC: i32 = 0x5056_4d72;
/// Version of the extensions that follow the mark: of [`Tmx`], of fields behind PVM's own, of what is in shared memory.
/// A change of one of these adds 1. Libraries and daemons of different versions speak PVM 3.4 with each other, as with the
/// original's.
pub const EXTENSION_VERSION: i32 = 22;
/// Environment variable by which our daemon tells what it starts that its socket takes [`Tmx::Enrol`]; see [`enrol_value`].
pub const ENROL_VARIABLE: &str = "PVMENROL";

/// What [`ENROL_VARIABLE`] has for a socket: the version of the extensions, a colon, the socket.
pub fn enrol_value(socket: &str) -> String {
    format!("{EXTENSION_VERSION}:{socket}")
}

/// Environment variable by which our daemon tells what it starts of the channel it inherits; see [`crate::channel`].
pub const CHANNEL_VARIABLE: &str = "PVMCHANNEL";

/// Whether a value of [`ENROL_VARIABLE`] is this version's for a socket.
pub fn is_enrol_value(value: &str, socket: &str) -> bool {
    value
        .split_once(':')
        .is_some_and(|(version, at)| version.parse() == Ok(EXTENSION_VERSION) && at == socket)
}

macro_rules! tags {
    ($(#[$meta:meta])* $kind:ident from $base:literal { $($(#[doc = $doc:literal])* $name:ident = $offset:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        pub enum $kind { $($(#[doc = $doc])* $name = ($base as u32 + $offset) as i32,)* }

        impl $kind {
            /// The message tag.
            pub const fn tag(self) -> i32 { self as i32 }

            /// What this tag asks for, if it is one of these.
            pub fn from_tag(tag: i32) -> Option<Self> {
                $(if tag == Self::$name.tag() { return Some(Self::$name); })*
                None
            }
        }
    };
}

tags! {
    /// Requests of a task to its daemon (`TM_…`).
    Tm from 0x8001_0001u32 {
        /// First half of the enrolment.
        Connect = 0,
        /// Second half of the enrolment.
        Conn2 = 1,
        /// Leave the virtual machine.
        Exit = 2,
        /// `pvm_addhosts`.
        AddHost = 3,
        /// `pvm_delhosts`.
        DelHost = 4,
        /// `pvm_config`.
        Config = 5,
        /// `pvm_mstat`.
        Mstat = 6,
        /// `pvm_halt`.
        Halt = 7,
        /// `pvm_tickle`.
        Tickle = 8,
        /// `pvm_spawn`.
        Spawn = 9,
        /// `pvm_pstat`.
        Pstat = 10,
        /// `pvm_sendsig`.
        SendSig = 11,
        /// `pvm_tasks`.
        Task = 12,
        /// Defines the sender's multicast address for its next message.
        Mca = 13,
        /// `pvm_notify`.
        Notify = 14,
        /// The mailbox.
        Db = 15,
        /// Registers a resource manager.
        Sched = 16,
        /// Registers a tasker.
        Tasker = 17,
        /// Registers a hoster.
        Hoster = 18,
        /// Registers a tracer.
        Tracer = 19,
        /// `pvm_hostsync`.
        HostSync = 20,
        /// Changes the task's own output or trace sink.
        SetOpt = 21,
        /// Asks for the enrolment's answer again.
        GetOpt = 22,
        /// New or freed context.
        Context = 23,
        /// Shared-memory ports of the original only.
        ShmConn = 24,
    }
}

tags! {
    /// Requests that only this system's library makes (its daemon announces them in the handshake).
    Tmx from 0x8001_1001u32 {
        /// Asks what became of the hostfile's hosts; answered when all are settled.
        StartUp = 0,
        /// Asks for a task id and a cookie for a process the caller starts itself, whose output sink is the caller.
        Adopt = 1,
        /// Asks for the daemon's whole state as text.
        Dump = 2,
        /// Descriptors of the caller's shared memory and of its bell come with this message, for its neighbours.
        Share = 3,
        /// Asks that the caller and a task of the same host, or the daemon, are told of each other ([`Tcx::Neighbour`]).
        Meet = 4,
        /// The whole enrolment in one request, on a socket whose credentials show both sides; body and answer as TM_CONN2's.
        Enrol = 5,
        /// Asks for a batch whose tasks start as capacity frees ([`crate::queue::QueueRequest`]); answered by its id.
        Queue = 6,
        /// Asks for the machine's batches ([`crate::queue::BatchRecord`]).
        Batches = 7,
        /// Cancels a queued batch.
        CancelBatch = 8,
        /// Names the caller's team.
        Team = 9,
        /// The caller waits, and has sent to these tasks by direct routes.
        Waiting = 10,
        /// Asks how teams take turns on a host ([`crate::coscheduling::TurnsReport`]).
        Turns = 11,
        /// Asks for the page that says whose turn it is ([`Tcx::Page`]).
        Page = 12,
        /// The caller has been told an epoch on a direct route.
        Epoch = 13,
        /// Asks what turns there have been on a host ([`crate::coscheduling::TurnHistory`]), from a number on.
        History = 14,
        /// The caller is about to sleep until something comes. Only told where others are stopped meanwhile.
        Asleep = 15,
        /// It sleeps no more.
        Awake = 16,
        /// How many notices of queued batches the caller's program has taken.
        NoticesTaken = 17,
        /// The caller can read what its daemon writes in the memory that came with [`Tcx::Neighbour`].
        Known = 18,
        /// The caller has taken the channel that it inherited and read what lay in it, the answer to this; body as TM_CONN2's.
        ChannelEnrol = 19,
        /// How long the caller spins at present before it sleeps, and what it has sent. Answer to [`Tcx::Activity`].
        Activity = 20,
        /// Asks that the caller is told of hosts that are lost and tasks that signals end
        /// ([`crate::calls::state::IncidentRequest`]); answered by 0.
        Incidents = 21,
        /// All has gone well: the daemons remove their logs when the virtual machine ends.
        DiscardLogs = 22,
        /// Asks how far the hosts are that are being added ([`crate::calls::hosts::Additions`]).
        Adding = 23,
        /// Asks something of the queues ([`crate::jobs::JobCall`]).
        Jobs = 24,
        /// Asks for the loads of all hosts ([`crate::loads::LoadRecord`]).
        Loads = 25,
        /// Asks for a certificate of the machine's authority ([`crate::certificate::CertificateRequest`]).
        Certify = 26,
        /// To which tasks the caller has sent how much ([`crate::calls::turns::Traffic`]).
        Traffic = 27,
        /// Asks for the rows of the machine's matrix ([`crate::rows::RowsReport`]).
        Rows = 28,
        /// Asks what is known of a host's owner, or says it ([`crate::owner::OwnerState`]).
        Owner = 29,
        /// Moves a task to another host ([`crate::calls::moves`]).
        Move = 30,
        /// The caller can move.
        Movable = 31,
        /// The caller moves, and wants to have all that was sent to it.
        Freeze = 32,
        /// The caller takes the place of a task that moves.
        Arrive = 33,
        /// The caller cannot move.
        StayHere = 34,
        /// To which other hosts the caller has sent how much ([`crate::calls::turns::TrafficByHost`]).
        TrafficByHost = 35,
    }
}

tags! {
    /// Messages between this system's libraries, and of its daemon to them.
    Tcx from 0x8003_1001u32 {
        /// The daemon tells of a task of this host; descriptors of its shared memory and its bell come with it. Or of itself: it
        /// can read the receiver's memory, and a descriptor of its own comes with it.
        Neighbour = 0,
        /// The sender can read what the receiver writes in its shared memory.
        Known = 1,
        /// The sender's next messages are in its shared memory, and where.
        Ring = 2,
        /// The daemon tells whether teams take turns anywhere, the number of the receiver's team, and whether it is to say when it
        /// sleeps.
        Turns = 3,
        /// The descriptor of a page comes with this, whose first word says whose turn it is ([`crate::coscheduling::Turn`]); the second counts
        /// notices of changed groups to tasks of this host.
        Page = 4,
        /// On a direct route between hosts: the epoch of the sender's, whose team has the turn there.
        Epoch = 5,
        /// The daemon asks for [`Tmx::Activity`], because a task has asked it.
        Activity = 6,
        /// The direct route between the two has broken at the sender's end.
        RouteLost = 7,
        /// The daemon tells a task that it is to move, and the id that its successor has until then.
        Move = 8,
        /// The daemon tells a task that it does not move, and why.
        Stay = 9,
        /// The daemon tells on which host a task lives that has moved.
        Moved = 10,
        /// A piece of what a task takes along, to its successor.
        Luggage = 11,
        /// The sender moves: what it is sent is to go by the daemons, and its ring and route are to be left.
        Leave = 12,
    }
}

tags! {
    /// Messages between libraries (`TC_…`).
    Tc from 0x8003_0001u32 {
        /// Asks for a direct route.
        ConReq = 0,
        /// Grants or denies a direct route.
        ConAck = 1,
        /// The peer of a direct route has ended.
        TaskExit = 2,
        /// Wakes a receiver.
        Noop = 3,
        /// Output of a task.
        Output = 4,
        /// Sets trace and output sink.
        SetTrace = 5,
        /// Sets the trace mask.
        SetTmask = 6,
        /// Sets the trace buffer.
        SetTrcBuf = 7,
        /// Sets the trace options.
        SetTrcOpt = 8,
        /// Shared-memory ports of the original only.
        ShmAt = 9,
        /// libpvm's own exit notify that flushes collected output.
        OutputX = 10,
        /// The ids of all tasks of one spawn.
        Siblings = 11,
    }
}

tags! {
    /// Messages to and from tasks that have taken over a part of the daemons' work (`SM_…`): a resource manager, a
    /// tasker.
    Sm from 0x8004_0001u32 {
        /// A task's `pvm_spawn`, to the resource manager.
        Spawn = 0,
        /// The resource manager has a daemon start tasks.
        Exec = 1,
        /// The daemon's answer; also unasked, for a task that has enrolled by itself.
        ExecAck = 2,
        /// A task's `pvm_tasks`.
        Task = 3,
        /// A task's `pvm_config`.
        Config = 4,
        /// A task's `pvm_addhosts`.
        AddHost = 5,
        /// A task's `pvm_delhosts`.
        DelHost = 6,
        /// The resource manager has the master add hosts.
        Add = 7,
        /// The master's answer.
        AddAck = 8,
        /// A task's `pvm_notify`.
        Notify = 9,
        /// A task has ended.
        TaskX = 10,
        /// A host has gone.
        HostX = 11,
        /// Another task is the resource manager from now on.
        HandOff = 12,
        /// A task's `pvm_reg_rm`.
        Sched = 13,
        /// A hoster is to start daemons.
        StHost = 14,
        /// Its answer.
        StHostAck = 15,
        /// A tasker is to start a task.
        StTask = 16,
    }
}

/// Tag of [`crate::batch::BatchMsg`]s between daemons and task managers.
pub const BATCH_TAG: i32 = 0x8005_0001_u32 as i32;
/// Tag of [`crate::timeline::Report`]s from tasks to the collector of a timeline, in [`CONTEXT_TC`].
pub const TIMELINE_TAG: i32 = 0x8006_0001_u32 as i32;
/// Tag of [`crate::incident::Incident`]s from a daemon to its tasks, in [`CONTEXT_TC`].
pub const INCIDENT_TAG: i32 = 0x8007_0001_u32 as i32;

/// Kinds of output frame, in place of a length (`TO_…`).
pub mod output {
    /// End of a task's output.
    pub const EOF: i32 = 0;
    /// A task was spawned (told by the spawner's daemon).
    pub const SPAWN: i32 = -1;
    /// A task was started (told by the daemon that runs it).
    pub const NEW: i32 = -2;
}

/// Bits of `ti_flag` in task lists.
pub mod task_flags {
    /// A child of the daemon.
    pub const FORKED: i32 = 2;
    /// Enrolled.
    pub const CONNECTED: i32 = 4;
    /// In the middle of the handshake.
    pub const AUTH: i32 = 8;
    /// Leaving.
    pub const CLOSING: i32 = 0x10;
    /// Its library is this system's. Only who asks for it is told: TM_TASK with the extensions' version behind.
    pub const EXTENDED: i32 = 0x1_0000;
}

/// Kinds of notify (`pvm_notify`).
pub mod notify {
    /// A task ends.
    pub const TASK_EXIT: i32 = 1;
    /// A host leaves.
    pub const HOST_DELETE: i32 = 2;
    /// Hosts join.
    pub const HOST_ADD: i32 = 3;
    /// A direct route opens (inside the library).
    pub const ROUTE_ADD: i32 = 4;
    /// A direct route closes (inside the library).
    pub const ROUTE_DELETE: i32 = 5;
    /// Added to a kind: take the notify back.
    pub const CANCEL: i32 = 256;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_pvms() {
        assert_eq!(Tm::Connect.tag() as u32, 0x8001_0001);
        assert_eq!(Tm::Conn2.tag() as u32, 0x8001_0002);
        assert_eq!(Tm::from_tag(0x8001_000a_u32 as i32), Some(Tm::Spawn));
        assert_eq!(Tc::Siblings.tag() as u32, 0x8003_000c);
        assert_eq!(Tm::from_tag(5), None);
    }

    #[test]
    fn a_socket_takes_enrolments_of_its_own_version() {
        let value = enrol_value("/tmp/a:b");
        assert!(is_enrol_value(&value, "/tmp/a:b"));
        assert!(!is_enrol_value(&value, "/tmp/a"));
        assert!(!is_enrol_value("1:/tmp/a", "/tmp/a") && !is_enrol_value("/tmp/a", "/tmp/a"));
    }
}
