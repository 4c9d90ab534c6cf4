//! Every bound on what comes from outside, with the answer when it is reached.

/// Largest piece of a fragment that is handed on in one step, bytes. Longer fragments (in-place data may come as one
/// of any length) are passed on in pieces as they arrive, so that nobody's memory is asked for by a length field.
pub const PIECE_MAX: usize = 64 * 1024;

/// Largest message addressed to a daemon (requests), bytes. A longer one closes the sender's connection.
pub const REQUEST_MAX: usize = 16 * 1024 * 1024;

/// Largest request to the keeper of groups, bytes. A longer one is dropped.
pub const GROUP_REQUEST_MAX: usize = 64 * 1024;

/// Largest fragment before a connection has enrolled, bytes; as in PVM, a longer one closes the connection.
pub const UNENROLLED_FRAGMENT_MAX: usize = 4080;

/// Fragment size told to tasks in the answer to their enrolment, bytes, headers included (`PvmFragSize`).
pub const FRAGMENT_SIZE: usize = 4080;

/// Least and greatest value of the option `PvmFragSize`.
pub const FRAGMENT_SIZE_RANGE: std::ops::RangeInclusive<usize> = 52..=1_048_576;

/// Largest message a task takes in, bytes. A longer one ends the connection with `PvmNoMem`.
pub const MESSAGE_MAX: usize = 4 * 1024 * 1024 * 1024 - 1;

/// Messages being reassembled at the same time on one connection (one per source). More closes the connection.
pub const PARTIAL_MESSAGES_MAX: usize = 65_536;

/// Largest frame between daemons, bytes. A longer one closes the link.
pub const PEER_FRAME_MAX: usize = 32 * 1024 * 1024;

/// Most direct routes that a task has with tasks of other hosts without having been asked for them. Messages to others go by the daemons.
pub const AUTOMATIC_ROUTES: usize = 64;

/// Most pairs of tasks whose traffic a spawn names, or a daemon remembers of a program.
pub const TRAFFIC_PAIRS: usize = 65_536;
/// Most receivers for each of which a task counts what it sends to it.
pub const TRAFFIC_RECEIVERS: usize = 1024;
/// Programs whose traffic a daemon remembers; the one that was spawned least lately is forgotten.
pub const TRAFFIC_PROGRAMS: usize = 64;

/// Default of the bytes of shared memory that a task, or a daemon, fills with what others have not taken (`PVM_SHM_MAX`).
pub const SHARED_MAX: u64 = 1024 * 1024 * 1024;

/// Largest configuration a starter may send to a slave, bytes.
pub const SLAVE_CONFIG_MAX: usize = 256 * 1024;

/// Default of the bytes queued for one receiver (task or host) above which its senders are no longer read
/// (`PVM_QUEUE_BYTES`). Below a quarter of them they are read again.
pub const QUEUE_HIGH: usize = 4 * 1024 * 1024;

/// Least that `PVM_QUEUE_BYTES` may be.
pub const QUEUE_LEAST: usize = 512 * 1024;

/// Default of the most entries in the mailbox (`PVM_MAILBOX_ENTRIES`). One more is `PvmOutOfRes`.
pub const MAILBOX_ENTRIES: usize = 65_536;

/// Default of the most bytes of messages in the mailbox (`PVM_MAILBOX_BYTES`). More is `PvmNoMem`.
pub const MAILBOX_BYTES: usize = 256 * 1024 * 1024;

/// Most tasks in one spawn. More is `PvmOutOfRes` for the whole call.
pub const BATCH_MAX: usize = 262_143;

/// Most reasons in a spawn's answer why tasks were not started, and the longest of them, bytes. Beyond that only codes are told.
pub const REFUSALS_MAX: usize = 256;
/// See [`REFUSALS_MAX`].
pub const REFUSAL_MAX: usize = 1024;

/// Most strings (arguments, environment entries) in one request.
pub const STRINGS_MAX: usize = 65_536;

/// Most names in a certificate that a task asks for. More is `PvmBadParam`.
pub const CERTIFICATE_NAMES_MAX: usize = 16;

/// Longest of these names, bytes, as in the DNS. A longer one is `PvmBadParam`.
pub const CERTIFICATE_NAME_MAX: usize = 253;

/// Longest public key of a certificate that a task asks for, bytes. A longer one is `PvmBadParam`.
pub const CERTIFICATE_KEY_MAX: usize = 1024;

/// Bytes of a task's output taken from its pipe at a time, as in PVM.
pub const OUTPUT_PIECE: usize = 3999;

/// Longest line of a hostfile, bytes.
pub const HOSTFILE_LINE_MAX: usize = 64 * 1024;

/// Largest hostfile, bytes.
pub const HOSTFILE_MAX: usize = 16 * 1024 * 1024;

const _: () = assert!(QUEUE_LEAST <= QUEUE_HIGH && PIECE_MAX < QUEUE_LEAST / 4);
const _: () = assert!(REQUEST_MAX < PEER_FRAME_MAX && PIECE_MAX < PEER_FRAME_MAX);
