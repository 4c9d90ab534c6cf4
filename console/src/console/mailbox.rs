//! The commands that concern the mailbox, and PVM's way of sparing tasks from `reset`.

use anyhow::{Result, anyhow};
use pvm_wire::body::{BodyReader, BodyWriter};
use pvm_wire::codes::Tm;
use pvm_wire::{Encoding, PvmError, Tid};
use pvm3::Task;
use std::fmt::Write as _;

/// Class in which tasks stand that `reset` spares.
const NO_RESET: &str = "###_PVM_NO_RESET_###";

const PUT: i32 = 1;
const REMOVE: i32 = 2;
const GET: i32 = 3;
const NAMES: i32 = 4;
const RESET: i32 = 5;
/// Flag of a put: several entries under one name.
const MULTI_INSTANCE: i32 = 2;

/// An entry of the mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    class: String,
    index: i32,
    owner: i32,
    flags: i32,
}

/// Puts this task on the list of those that `reset` spares.
pub fn spare_from_reset(task: &mut Task) -> Result<()> {
    let tid = task.tid().raw();
    put(task, NO_RESET, MULTI_INSTANCE, tid)
}

/// Takes this task off that list.
pub fn spare_no_more(task: &mut Task) -> Result<()> {
    let own = task.tid().raw();
    let entries = entries(task, NO_RESET)?;
    for entry in entries.iter().filter(|entry| entry.class == NO_RESET && entry.owner == own) {
        let body = request(task, REMOVE, NO_RESET, entry.index, 0);
        ask(task, body)?;
    }
    Ok(())
}

/// `put`: an entry that holds one integer.
pub fn put(task: &mut Task, class: &str, flags: i32, value: i32) -> Result<()> {
    // A message inside a message: length, context, tag, wait id, encoding, checksum, source, destination, fragments.
    let message = [4, 0, 0, 0, Encoding::Xdr.word() as i32, 0, 0, 0, 4];
    let body = request(task, PUT, class, -1, flags).ints(message).int(value);
    ask(task, body).map(drop)
}

/// `names`: the entries whose class has this pattern in it.
pub fn names(task: &mut Task, pattern: &str) -> Result<String> {
    Ok(show(&entries(task, pattern)?))
}

/// What `reset` clears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope<'a> {
    /// Whether tasks are ended.
    pub kill: bool,
    /// Of which class entries are cleared: of all, if empty.
    pub class: &'a str,
    /// Which of them: all, if -1.
    pub index: i32,
}

/// `reset`: ends all tasks but this one and those that are spared, and clears what ended tasks left in the mailbox.
pub fn reset(task: &mut Task, scope: Scope<'_>) -> Result<()> {
    let spared = spared(task)?;
    if scope.kill {
        for info in task.tasks(pvm3::Scope::All)? {
            if !spared.contains(&info.tid) {
                task.kill(info.tid)?;
            }
        }
    }
    let keep = spared.iter().map(|tid| tid.raw());
    let body = request(task, RESET, scope.class, scope.index, i32::from(scope.kill));
    ask(task, body.int(spared.len() as i32).ints(keep)).map(drop)
}

fn spared(task: &mut Task) -> Result<Vec<Tid>> {
    let mut spared = vec![task.tid()];
    for entry in entries(task, NO_RESET)?.iter().filter(|entry| entry.class == NO_RESET) {
        let body = request(task, GET, NO_RESET, entry.index, 0);
        // The entry may be gone by now.
        if let Ok(answer) = ask(task, body) {
            let mut reader = BodyReader::new(&answer);
            reader.ints(1 + 8 + 1)?;
            spared.push(Tid::from_raw(reader.int()?));
        }
    }
    Ok(spared)
}

fn entries(task: &mut Task, pattern: &str) -> Result<Vec<Entry>> {
    let body = request(task, NAMES, pattern, 0, 0);
    let answer = ask(task, body)?;
    decode(&answer)
}

fn decode(answer: &[u8]) -> Result<Vec<Entry>> {
    let mut reader = BodyReader::new(answer);
    reader.int()?;
    let mut entries = Vec::new();
    for _ in 0..reader.count(8)? {
        let class = reader.str()?.to_owned();
        for _ in 0..reader.count(12)? {
            let (index, owner, flags) = (reader.int()?, reader.int()?, reader.int()?);
            entries.push(Entry { class: class.clone(), index, owner, flags });
        }
    }
    Ok(entries)
}

/// The entries, below the names of their classes.
fn show(entries: &[Entry]) -> String {
    let mut text = String::new();
    for entries in entries.chunk_by(|a, b| a.class == b.class) {
        let _ = writeln!(text, "<{}>:", entries[0].class);
        for Entry { index, owner, flags, .. } in entries {
            let _ = writeln!(text, "\tindex={index} owner=0x{owner:x}/{owner} flags=0x{flags:x}");
        }
        text.push('\n');
    }
    text
}

fn request(task: &Task, operation: i32, class: &str, index: i32, flags: i32) -> BodyWriter {
    BodyWriter::new().int(operation).int(task.tid().raw()).str(class).int(index).int(flags)
}

/// The answer to a request, if it is not an error.
fn ask(task: &mut Task, body: BodyWriter) -> Result<Vec<u8>> {
    let answer = task.engine().request(Tm::Db.tag(), body.finish())?;
    match BodyReader::new(&answer).int()? {
        code if code < 0 => Err(anyhow!(PvmError::from_code(code).unwrap_or(PvmError::DSysErr))),
        _ => Ok(answer.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_as_pvm_does() {
        let body = BodyWriter::new().int(0).int(1).str("a").int(2).ints([0, 0x40001, 1, 3, 0, 2]).finish();
        let entries = decode(&body).unwrap();
        assert_eq!(entries.len(), 2);
        assert_eq!(
            show(&entries),
            "<a>:\n\tindex=0 owner=0x40001/262145 flags=0x1\n\tindex=3 owner=0x0/0 flags=0x2\n\n"
        );
        assert_eq!(show(&[]), "");
        assert!(decode(&body[..body.len() - 1]).is_err());
    }
}
