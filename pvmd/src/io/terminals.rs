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

/// Looks at all terminals.
pub fn look() -> Terminals {
    of(counted().map(|(_, uid, input)| (uid, input)))
}

/// The terminals that count: the file of each, its user and its time of access.
pub fn counted() -> impl Iterator<Item = (PathBuf, u32, u64)> {
    let consoles = files("/dev").filter(|(path, uid, _)| is_console(path) && *uid != 0);
    // The multiplexer of pseudoterminals is none itself.
    let pseudo = files("/dev/pts").filter(|(path, ..)| !path.ends_with("ptmx"));
    consoles.chain(pseudo)
}

/// From owners and times of access.
fn of(terminals: impl Iterator<Item = (u32, u64)>) -> Terminals {
    let (mut users, mut input) = (BTreeSet::new(), None);
    for (uid, time) in terminals {
        users.insert(uid);
        input = input.max(Some(time));
    }
    Terminals { users: u16::try_from(users.len()).unwrap_or(u16::MAX), input }
}

/// Whether this is a virtual console. Root owns those that nobody has logged in at.
fn is_console(path: &std::path::Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.strip_prefix("tty").is_some_and(|number| number.parse::<u8>().is_ok())
}

/// The character devices of a folder, with owner and time of access.
fn files(folder: &str) -> impl Iterator<Item = (PathBuf, u32, u64)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let metadata = entry.metadata().ok().filter(|metadata| metadata.file_type().is_char_device())?;
        Some((entry.path(), metadata.uid(), u64::try_from(metadata.atime()).unwrap_or(0)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn users_count_once_and_the_latest_input_counts() {
        assert_eq!(of([(7, 10), (8, 30), (7, 20)].into_iter()), Terminals { users: 2, input: Some(30) });
        assert_eq!(of(std::iter::empty()), Terminals { users: 0, input: None });
        assert!(is_console(Path::new("/dev/tty1")));
        assert!(!is_console(Path::new("/dev/tty")) && !is_console(Path::new("/dev/ttyS0")));
    }

    #[test]
    fn a_new_terminal_is_seen() {
        let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
        let Ok(terminal) = rustix::pty::openpt(flags) else { return };
        rustix::pty::grantpt(&terminal).unwrap();
        let seen = look();
        assert!(seen.users > 0 && seen.input.is_some(), "{seen:?}");
    }
}
