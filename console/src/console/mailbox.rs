//! The commands that concern the mailbox, and PVM's way of sparing tasks from `reset`.

use pvm_wire::calls::mailbox::NO_RESET_CLASS;
use pvm3::{MailboxClass, MailboxEntry, MailboxFlags, Pack, Result, Task, Tid};
use std::fmt::Write as _;

/// Puts this task on the list of those that `reset` spares.
pub fn spare_from_reset(task: &mut Task) -> Result<()> {
    let tid = task.tid().raw();
    put(task, NO_RESET_CLASS, MailboxFlags::MULTI_INSTANCE, tid)
}

/// Takes this task off that list.
pub fn spare_no_more(task: &mut Task) -> Result<()> {
    let own = task.tid();
    for entry in spared_entries(task)?.iter().filter(|entry| entry.owner == own) {
        task.delete_info(NO_RESET_CLASS, entry.index)?;
    }
    Ok(())
}

/// `put`: an entry that holds one integer.
pub fn put(task: &mut Task, class: &str, flags: MailboxFlags, value: i32) -> Result<()> {
    let mut pack = Pack::new();
    pack.put_one(value)?;
    task.put_info(class, &pack, flags).map(drop)
}

/// `names`: the entries whose class has this pattern in it.
pub fn names(task: &mut Task, pattern: &str) -> Result<String> {
    Ok(show(&task.mailbox_info(pattern)?))
}

/// The entries that `reset` clears.
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
    task.reset_info(scope.class, (scope.index >= 0).then_some(scope.index), scope.kill, &spared)
}

fn spared(task: &mut Task) -> Result<Vec<Tid>> {
    let mut spared = vec![task.tid()];
    for entry in spared_entries(task)? {
        // The entry may be gone by now.
        if let Ok((_, mut message)) = task.recv_info(NO_RESET_CLASS, entry.index, MailboxFlags::DEFAULT) {
            spared.push(message.get_tid()?);
        }
    }
    Ok(spared)
}

fn spared_entries(task: &mut Task) -> Result<Vec<MailboxEntry>> {
    let classes = task.mailbox_info(NO_RESET_CLASS)?;
    let classes = classes.into_iter().filter(|class| class.name == NO_RESET_CLASS);
    Ok(classes.flat_map(|class| class.entries).collect())
}

/// The entries, below the names of their classes.
fn show(classes: &[MailboxClass]) -> String {
    let mut text = String::new();
    for class in classes {
        let _ = writeln!(text, "<{}>:", class.name.display());
        for MailboxEntry { index, owner, flags } in &class.entries {
            let (owner, flags) = (owner.raw(), flags.bits());
            let _ = writeln!(text, "\tindex={index} owner=0x{owner:x}/{owner} flags=0x{flags:x}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_as_pvm_does() {
        let entry =
            |index, owner, flags| MailboxEntry { index, owner, flags: MailboxFlags::from_bits(flags) };
        let entries = vec![entry(0, Tid::from_bits(0x40001), 1), entry(3, Tid::NONE, 2)];
        assert_eq!(
            show(&[MailboxClass { name: "a".into(), entries }]),
            "<a>:\n\tindex=0 owner=0x40001/262145 flags=0x1\n\tindex=3 owner=0x0/0 flags=0x2\n\n"
        );
        assert_eq!(show(&[]), "");
    }
}
