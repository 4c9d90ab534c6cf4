//! The terminals of this host: who sits at them, and when they were last used.
//!
//! A terminal belongs to its user while it is in use (login(1), grantpt(3)), and reading from it sets its time of access, as w(1) uses it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

/// What can be seen of the terminals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terminals {
    /// Users that own one.
    pub users: u16,
    /// When one of them last had input, in seconds since 1970.
    pub input: Option<u64>,
}

/// The interval, in looks, at which all consoles are looked at.
const FULL: u32 = 12;

/// Repeated looks at the terminals.
///
/// There are dozens of virtual consoles, hardly any of them in use. Looks at all of them took a sixth of an idle daemon's processor time, so
/// a login at a console counts from the next full look on.
#[derive(Debug, Default)]
pub struct Looks {
    count: u32,
    /// The consoles that were in use at the last full look.
    consoles: Vec<PathBuf>,
}

impl Looks {
    /// The terminals in use now; consoles among them that were in use at the last full look.
    pub fn look(&mut self) -> Terminals {
        if self.count.is_multiple_of(FULL) {
            self.consoles = consoles().map(|(path, ..)| path).collect();
        }
        self.count = self.count.wrapping_add(1);
        let consoles = self.consoles.iter().cloned().filter_map(terminal).filter(is_in_use);
        of(consoles.chain(pseudoterminals()))
    }
}

/// A terminal that counts: its file, its user and its time of access.
pub type Terminal = (PathBuf, u32, u64);

/// The terminals that count.
pub fn counted() -> impl Iterator<Item = Terminal> {
    consoles().chain(pseudoterminals())
}

fn consoles() -> impl Iterator<Item = Terminal> {
    files("/dev", is_console).filter(is_in_use)
}

/// Root owns a console without a login.
fn is_in_use(&(_, uid, _): &Terminal) -> bool {
    uid != 0
}

fn pseudoterminals() -> impl Iterator<Item = Terminal> {
    // Their multiplexer is none itself.
    files("/dev/pts", |name| name != "ptmx")
}

/// From owners and times of access.
fn of(terminals: impl Iterator<Item = Terminal>) -> Terminals {
    let (mut users, mut input) = (BTreeSet::new(), None);
    for (_, uid, time) in terminals {
        users.insert(uid);
        input = input.max(Some(time));
    }
    Terminals { users: u16::try_from(users.len()).unwrap_or(u16::MAX), input }
}

/// Whether a device of this name is a virtual console.
fn is_console(name: &str) -> bool {
    name.strip_prefix("tty").is_some_and(|number| number.parse::<u8>().is_ok())
}

/// The character devices of a folder with such names.
fn files(folder: &str, is_wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = Terminal> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let wanted = entries.filter(move |entry| entry.file_name().to_str().is_some_and(&is_wanted));
    wanted.filter_map(|entry| terminal(entry.path()))
}

fn terminal(path: PathBuf) -> Option<Terminal> {
    let metadata =
        fs::symlink_metadata(&path).ok().filter(|metadata| metadata.file_type().is_char_device())?;
    Some((path, metadata.uid(), u64::try_from(metadata.atime()).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_count_once_and_the_latest_input_counts() {
        let terminals = [(7, 10), (8, 30), (7, 20)].map(|(uid, time)| (PathBuf::new(), uid, time));
        assert_eq!(of(terminals.into_iter()), Terminals { users: 2, input: Some(30) });
        assert_eq!(of(std::iter::empty()), Terminals { users: 0, input: None });
        assert!(is_console("tty1"));
        assert!(!is_console("tty") && !is_console("ttyS0"));
    }

    #[test]
    fn a_new_terminal_is_seen() {
        let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
        let Ok(terminal) = rustix::pty::openpt(flags) else { return };
        rustix::pty::grantpt(&terminal).unwrap();
        let seen = Looks::default().look();
        assert!(seen.users > 0 && seen.input.is_some(), "{seen:?}");
    }
}
