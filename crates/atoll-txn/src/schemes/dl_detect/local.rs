//! The state of a transaction: its locks, its wait, and buffers for deadlock detection.

use super::board::Look;
use crate::common::lock_list::LockList;
use crate::common::parking::Ticket;
use crate::common::wait::Wait;
use crate::scheme::Place;

/// See the module.
#[derive(Debug)]
pub struct Local {
    pub(super) locks: LockList,
    pub(super) number: u32,
    pub(super) wait: Wait,
    /// Whether the board shows that it waits.
    pub(super) is_shown: bool,
    pub(super) look: Look,
    /// Set while it sleeps until a place is unlocked.
    pub(super) ticket: Option<Ticket>,
    /// While reads pass by the rows that others hold: how many they have.
    pub(super) passed: Option<u64>,
    /// The row that they have passed by last.
    pub(super) passed_last: Option<Place>,
}

impl Local {
    pub(super) fn new(number: u32) -> Self {
        Self {
            locks: LockList::default(),
            number,
            wait: Wait::default(),
            is_shown: false,
            look: Look::default(),
            ticket: None,
            passed: None,
            passed_last: None,
        }
    }
}
