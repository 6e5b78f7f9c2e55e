//! The state of a transaction: its locks, its wait, and buffers for deadlock detection.

use super::board::Look;
use crate::common::lock_list::LockList;
use crate::common::parking::Ticket;
use crate::common::wait::Wait;
use crate::scheme::Place;

/// A longer list of places is freed after its use.
const KEPT_MAX: usize = 4096;

/// See the module.
#[derive(Debug)]
pub struct Local {
    pub(super) locks: LockList,
    pub(super) number: u32,
    pub(super) wait: Wait,
    /// Whether the board shows that it waits.
    pub(super) is_shown: bool,
    pub(super) shown: Shown,
    pub(super) look: Look,
    /// Set while it sleeps until a place is unlocked.
    pub(super) ticket: Option<Ticket>,
    /// While reads pass by the rows that others hold: how many they have.
    pub(super) passed: Option<u64>,
    /// The row that they have passed by last.
    pub(super) passed_last: Option<Place>,
}

/// Which of its locks the board shows. A step that starts over asks again for what it has, and the
/// list of locks has it once more then; so not every longer list has to be shown.
#[derive(Debug, Default)]
pub struct Shown {
    /// Lengths of the lists when they were shown, or found to have nothing else.
    shared: usize,
    exclusive: usize,
    /// What was shown, sorted; empty until it is needed.
    places: Vec<Place>,
}

impl Shown {
    /// The board shows all of these.
    pub(super) fn is(&mut self, locks: &LockList) {
        if self.places.capacity() > KEPT_MAX {
            self.places = Vec::new();
        }
        self.places.clear();
        (self.shared, self.exclusive) = (locks.shared().len(), locks.exclusive().len());
    }

    /// Whether a place was granted that the board does not show.
    pub(super) fn lacks_some(&mut self, locks: &LockList) -> bool {
        let (shared, exclusive) = (locks.shared(), locks.exclusive());
        // A lock that becomes exclusive leaves the other list, of which no more can be said.
        if exclusive.len() != self.exclusive || shared.len() < self.shared {
            return true;
        }
        let (known, more) = shared.split_at(self.shared);
        if more.is_empty() {
            return false;
        }
        if self.places.is_empty() {
            self.places.extend(exclusive.iter().chain(known));
            self.places.sort_unstable();
        }
        self.shared = shared.len();
        more.iter().any(|place| self.places.binary_search(place).is_err())
    }
}

impl Local {
    pub(super) fn new(number: u32) -> Self {
        Self {
            locks: LockList::default(),
            number,
            wait: Wait::default(),
            is_shown: false,
            shown: Shown::default(),
            look: Look::default(),
            ticket: None,
            passed: None,
            passed_last: None,
        }
    }
}
