//! One process, started by the shortest way the kernel has.
//!
//! The child borrows the daemon's memory until it has become its program, so nothing of that is copied, however much the
//! daemon holds; the thread that starts it waits for those few system calls. All they need is laid out before.
#![allow(unsafe_code)]

use super::own::{self, Limits};
use pvm_wire::channel::Channel;
use pvm_wire::codes::CHANNEL_VARIABLE;
use rustix::fs::{Mode, OFlags, fstat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::ffi::{CString, OsString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::ptr;

/// Where a child has its channel.
const CHANNEL: c_int = 3;

/// The child needs a fraction of that.
const STACK: usize = 64 * 1024;
const STACK_ALIGNMENT: usize = 16;

/// What children of one order have in common, in the kernel's terms.
#[derive(Debug)]
pub struct Recipe {
    path: CString,
    args: Vec<CString>,
    env: Vec<CString>,
    directory: Option<CString>,
    limits: Limits,
    /// Signals that this process catches, and the one that the Rust runtime has it ignore.
    caught: Vec<c_int>,
}

/// A child that runs its program.
#[derive(Debug)]
pub struct Launched {
    /// Its process id.
    pub pid: i32,
    /// Readable when it has ended.
    pub watch: OwnedFd,
    /// What it writes to its standard output and error.
    pub output: io::PipeReader,
    /// This end of the channel that it inherits.
    pub channel: UnixStream,
}

/// What a child has that its siblings have not.
#[derive(Debug)]
pub struct Own<'a> {
    /// Entries of its environment.
    pub entries: &'a [CString],
    /// What lies in its channel when it begins.
    pub greeting: &'a [u8],
    /// Its limit of locks, which it hands on to what it starts.
    pub mark: Option<u64>,
    /// What its standard output and error are, if this process does not read them.
    pub output: Option<BorrowedFd<'a>>,
    /// The file of processes of the control group that it enters.
    pub group: Option<BorrowedFd<'a>>,
}

/// Starts children. They are killed when the thread that started them ends, however it ends.
#[derive(Debug)]
pub struct Launcher {
    stack: Box<[MaybeUninit<u8>]>,
    /// `/dev/null`.
    nothing: OwnedFd,
    /// This process.
    parent: Pid,
}

/// What the child reads of its parent's memory, and the only place where it writes: its stack apart.
struct Seed<'a> {
    recipe: &'a Recipe,
    argv: &'a [*const c_char],
    envp: &'a [*const c_char],
    input: BorrowedFd<'a>,
    output: BorrowedFd<'a>,
    channel: BorrowedFd<'a>,
    mark: Option<u64>,
    group: Option<BorrowedFd<'a>>,
    parent: Pid,
    /// Why it could not become its program.
    failure: Option<Errno>,
}

impl Recipe {
    /// A program and its arguments, its name first; where it begins, if not where the daemon is; the limits
    /// that it is to have.
    pub fn new(
        path: &Path,
        args: Vec<OsString>,
        env: Vec<OsString>,
        directory: Option<&Path>,
        limits: Limits,
    ) -> io::Result<Self> {
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes());
        let texts = |all: Vec<OsString>| {
            all.into_iter().map(|one| CString::new(one.into_vec())).collect::<Result<_, _>>()
        };
        Ok(Self {
            path: text(path)?,
            args: texts(args)?,
            env: texts(env)?,
            directory: directory.map(text).transpose()?,
            limits,
            caught: caught_signals(),
        })
    }
}

impl Launcher {
    /// Whoever calls [`Launcher::launch`] is to live as long as the children.
    pub fn new() -> io::Result<Self> {
        let nothing = rustix::fs::open(c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self {
            stack: vec![MaybeUninit::uninit(); STACK].into_boxed_slice(),
            nothing: beyond_standard(nothing)?,
            parent: rustix::process::getpid(),
        })
    }

    /// Starts a child.
    pub fn launch(&mut self, recipe: &Recipe, own: &Own<'_>) -> io::Result<Launched> {
        let (output, writer) = io::pipe()?;
        let writer = match own.output {
            Some(file) => rustix::io::fcntl_dupfd_cloexec(file, CHANNEL + 1)?,
            None => beyond_standard(writer.into())?,
        };
        let (channel, end) = channel_with(own.greeting)?;
        let told = Channel {
            descriptor: CHANNEL,
            file: fstat(&end)?.st_ino,
            daemon: self.parent.as_raw_nonzero().get(),
        };
        let told = CString::new(format!("{CHANNEL_VARIABLE}={}", told.encode())).unwrap_or_default();
        let seed = Seed {
            recipe,
            argv: &pointers(recipe.args.iter()),
            envp: &pointers(recipe.env.iter().chain(own.entries).chain([&told])),
            input: self.nothing.as_fd(),
            output: writer.as_fd(),
            channel: end.as_fd(),
            mark: own.mark,
            group: own.group,
            parent: self.parent,
            failure: None,
        };
        let blocked = blocked_meanwhile(&recipe.caught);
        let (pid, watch) = with_signals_blocked(&blocked, || grow(seed, &mut self.stack))?;
        Ok(Launched { pid, watch, output, channel })
    }
}

/// Both ends of a channel in which something lies: this one's, then the child's.
fn channel_with(greeting: &[u8]) -> io::Result<(UnixStream, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (own, other) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // A new socket takes so much at once.
    rustix::io::write(&own, greeting)?;
    Ok((own.into(), beyond_standard(other)?))
}

/// Makes the child and waits until it runs its program or has given up.
fn grow(mut seed: Seed<'_>, stack: &mut [MaybeUninit<u8>]) -> io::Result<(i32, OwnedFd)> {
    let end = stack.as_mut_ptr_range().end;
    let top = end.wrapping_sub(end.addr() % STACK_ALIGNMENT);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
    let mut watch: c_int = -1;
    // SAFETY: the child runs `child` on a stack of its own, which nobody else uses meanwhile, since we hold it exclusively
    // and CLONE_VFORK keeps this thread from going on until the child has left our memory by execve or _exit. So `seed`, and
    // all it borrows, outlive the child's use of it. CLONE_PIDFD stores a descriptor in `watch`.
    let pid = unsafe { libc::clone(child, top.cast(), flags, (&raw mut seed).cast(), &raw mut watch) };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    let watch = unsafe { OwnedFd::from_raw_fd(watch) };
    match seed.failure {
        None => Ok((pid, watch)),
        Some(errno) => {
            // It has ended: nothing of it is to stay.
            rustix::process::waitid(WaitId::PidFd(watch.as_fd()), WaitIdOptions::EXITED)?;
            Err(errno.into())
        }
    }
}

/// The child, in its parent's memory.
extern "C" fn child(seed: *mut c_void) -> c_int {
    // SAFETY: `grow` passes its seed, and is stopped while we use it.
    let seed = unsafe { &mut *seed.cast::<Seed<'_>>() };
    seed.failure = become_program(seed).err();
    // SAFETY: ends this process only, and runs nothing of its parent's on the way.
    unsafe { libc::_exit(127) }
}

/// Does not come back if it succeeds. Nothing here may allocate, lock or panic: other threads of the parent go on.
fn become_program(seed: &Seed<'_>) -> Result<(), Errno> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The daemon may have died before that.
    if rustix::process::getppid() != Some(seed.parent) {
        return Err(Errno::PIPE);
    }
    if let Some(group) = seed.group {
        // The process that writes.
        rustix::io::write(group, b"0")?;
    }
    seed.recipe.limits.take()?;
    own::mark_by_limit(seed.mark);
    rustix::stdio::dup2_stdin(seed.input)?;
    rustix::stdio::dup2_stdout(seed.output)?;
    rustix::stdio::dup2_stderr(seed.output)?;
    // SAFETY: two numbers. What had the second is this child's copy of something of its parent's, which it would lose anyway.
    if unsafe { libc::dup2(seed.channel.as_raw_fd(), CHANNEL) } < 0 {
        return Err(errno());
    }
    own::lose_from(CHANNEL as libc::c_uint + 1);
    if let Some(directory) = &seed.recipe.directory {
        rustix::process::chdir(directory.as_c_str())?;
    }
    // Before any signal is let through: a handler would run in our parent's memory.
    seed.recipe.caught.iter().for_each(|&signal| leave_to_system(signal));
    set_mask(&empty_set());
    // SAFETY: both arrays end with a null pointer, all others point to strings that `seed` keeps.
    unsafe { libc::execve(seed.recipe.path.as_ptr(), seed.argv.as_ptr(), seed.envp.as_ptr()) };
    Err(errno())
}

/// Why the last call has failed.
fn errno() -> Errno {
    // SAFETY: always a valid pointer; in the child the variable is that of the thread that waits for it.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

/// A descriptor that is none of those that the child is about to replace.
fn beyond_standard(fd: OwnedFd) -> io::Result<OwnedFd> {
    Ok(if fd.as_raw_fd() > CHANNEL { fd } else { rustix::io::fcntl_dupfd_cloexec(&fd, CHANNEL + 1)? })
}

fn pointers<'a>(strings: impl Iterator<Item = &'a CString>) -> Vec<*const c_char> {
    strings.map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// None of these signals is delivered to this thread meanwhile, nor to a child that is made meanwhile.
fn with_signals_blocked<T>(signals: &libc::sigset_t, work: impl FnOnce() -> T) -> T {
    let before = set_mask(signals);
    let result = work();
    set_mask(&before);
    result
}

/// All signals but the news of a child's end, unless somebody catches it: nobody else hears of that, but blocked it would be kept,
/// and wake one of this process's threads for nothing.
fn blocked_meanwhile(caught: &[c_int]) -> libc::sigset_t {
    let mut set = empty_set();
    // SAFETY: a valid set is filled, and loses a signal that there is.
    unsafe {
        libc::sigfillset(&raw mut set);
        if !caught.contains(&libc::SIGCHLD) {
            libc::sigdelset(&raw mut set, libc::SIGCHLD);
        }
    }
    set
}

fn empty_set() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set it is given, and cannot fail with a valid pointer.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

/// Sets this thread's mask; gives the one before.
fn set_mask(mask: &libc::sigset_t) -> libc::sigset_t {
    let mut before = empty_set();
    // SAFETY: two valid sets; the call is async-signal-safe.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, &raw mut before) };
    before
}

fn caught_signals() -> Vec<c_int> {
    let caught = |&signal: &c_int| {
        let mut action = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: only asks, and fills `action` if it succeeds.
        let known = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) } == 0;
        // SAFETY: filled, as it has succeeded.
        let handler = known.then(|| unsafe { action.assume_init() }.sa_sigaction);
        signal == libc::SIGPIPE || handler.is_some_and(|h| h != libc::SIG_DFL && h != libc::SIG_IGN)
    };
    (1..=libc::SIGRTMAX()).filter(caught).collect()
}

fn leave_to_system(signal: c_int) {
    // SAFETY: all zeros are a valid action: SIG_DFL, no flags, an empty mask.
    let default: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: a valid action; the call is async-signal-safe, and no handler is installed by it.
    unsafe { libc::sigaction(signal, &raw const default, ptr::null_mut()) };
}

#[cfg(test)]
#[path = "launch_tests.rs"]
mod tests;
