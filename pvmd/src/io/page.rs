//! The page on which tasks read whose turn it is, and whether groups have changed.

use crate::io::descriptors::Shared;
use pvm_shm::page::Page;
use pvm_wire::coscheduling::Turn;
use rustix::io::fcntl_dupfd_cloexec;
use std::sync::Arc;
use tracing::info;

/// The page, which is made when it first has something to say.
#[derive(Debug, Default)]
pub struct TurnPage {
    page: Option<Page>,
    shared: Option<Shared>,
    group_changes: u64,
}

impl TurnPage {
    /// Says whose turn it is.
    pub fn show(&mut self, turn: Turn) {
        if self.page.is_none() {
            self.page =
                Page::new().inspect_err(|error| info!(%error, "tasks cannot see whose turn it is")).ok();
        }
        if let Some(page) = &self.page {
            page.set(turn.word());
        }
    }

    /// Tasks of this host were notified of one more change of a group.
    pub fn count_group_change(&mut self) {
        self.group_changes += 1;
        if let Some(page) = &self.page {
            page.set_group_changes(self.group_changes);
        }
    }

    /// What tasks are given.
    pub fn descriptor(&mut self) -> Option<Shared> {
        if self.shared.is_none() {
            let own = fcntl_dupfd_cloexec(self.page.as_ref()?.fd(), 0).ok()?;
            self.shared = Some(Arc::new([own]));
        }
        self.shared.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm_shm::page::View;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_given_away_shows_the_turn() {
        let mut page = TurnPage::default();
        assert!(page.descriptor().is_none(), "nothing has been said");
        let turn = |count| Turn { count, origin: 3, team: 7 };
        page.show(turn(1));
        let given = page.descriptor().unwrap();
        let view = View::new(given[0].as_fd()).unwrap();
        assert_eq!(Turn::from_word(view.get()), turn(1));
        page.show(turn(2));
        assert_eq!(Turn::from_word(view.get()), turn(2));
    }

    #[test]
    fn what_is_given_away_counts_changes_of_groups() {
        let mut page = TurnPage::default();
        page.count_group_change();
        page.show(Turn::default());
        let view = View::new(page.descriptor().unwrap()[0].as_fd()).unwrap();
        let before = view.group_changes();
        page.count_group_change();
        assert_ne!(view.group_changes(), before);
        assert_eq!(Turn::from_word(view.get()), Turn::default());
    }
}
