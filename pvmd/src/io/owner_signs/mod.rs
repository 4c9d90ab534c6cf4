//! What tells of the owner of this host, by the rule of the hostfile. Whether the owner is there is for the core to decide.
//!
//! | module | subject |
//! |---|---|
//! | `keys` | input at terminals |
//! | `sessions` | graphical sessions of the login manager |
//! | `others_work` | work that is none of this daemon's tasks' |
//! | `program` | a program that says whether the owner is there |

mod keys;
mod others_work;
mod program;
mod sessions;

use crate::io::driver::Input;
use crate::io::family::Mark;
use pvm_wire::owner::OwnerRule;
use pvmd_core::event::{Event, OwnerSign};
use tokio::sync::mpsc;

/// Watches for ever.
pub async fn watch(rule: OwnerRule, mark: Mark, input: mpsc::Sender<Input>) {
    let signs = Signs(input.clone());
    let watches = async {
        match rule {
            OwnerRule::None => {}
            OwnerRule::Idle(_) => {
                let sessions = sessions::watch(&signs, sessions::program());
                tokio::join!(keys::watch(&signs), sessions, others_work::watch(&signs, mark));
            }
            OwnerRule::Run(command) => program::watch(&signs, &command).await,
        }
    };
    tokio::select! {
        () = watches => {}
        () = input.closed() => {}
    }
}

/// Where signs go.
struct Signs(mpsc::Sender<Input>);

impl Signs {
    /// A driver that is gone needs none.
    async fn tell(&self, sign: OwnerSign) {
        let _ = self.0.send(Event::Owner(sign).into()).await;
    }
}

/// Something that is told when it changes.
#[derive(Debug, Default)]
struct Told(Option<bool>);

impl Told {
    /// What is to be told, if anything.
    fn news(&mut self, now: bool) -> Option<bool> {
        (self.0.replace(now) != Some(now)).then_some(now)
    }
}

/// A complaint that is made once, until what it is about has become good again.
#[derive(Debug, Default)]
struct Complaint {
    is_made: bool,
}

impl Complaint {
    /// Whether it is to be made.
    fn is_new(&mut self) -> bool {
        !std::mem::replace(&mut self.is_made, true)
    }

    fn is_over(&mut self) {
        self.is_made = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// The next sign.
    pub async fn next(signs: &mut mpsc::Receiver<Input>) -> OwnerSign {
        let next = tokio::time::timeout(Duration::from_secs(60), signs.recv()).await;
        match next.expect("a sign in time") {
            Some(Input::Event(Event::Owner(sign))) => sign,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn changes_are_told_and_complaints_made_once() {
        let mut told = Told::default();
        let news = [false, false, true, true, false].map(|now| told.news(now));
        assert_eq!(news, [Some(false), None, Some(true), None, Some(false)]);
        let mut complaint = Complaint::default();
        assert!(complaint.is_new() && !complaint.is_new());
        complaint.is_over();
        assert!(complaint.is_new());
    }

    #[tokio::test]
    async fn without_a_rule_nothing_is_watched() {
        let (input, mut signs) = mpsc::channel(4);
        watch(OwnerRule::None, Mark::of("7-1"), input).await;
        assert!(signs.recv().await.is_none());
    }

    #[tokio::test]
    async fn watching_ends_with_the_driver() {
        let (input, signs) = mpsc::channel(4);
        let watching = tokio::spawn(watch(OwnerRule::Idle(600), Mark::of("7-1"), input));
        drop(signs);
        tokio::time::timeout(Duration::from_secs(60), watching).await.unwrap().unwrap();
    }
}
