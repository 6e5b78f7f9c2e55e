//! What sessions of a database have to do with each other besides its rows: advisory locks, and
//! the notifications of `NOTIFY`.
//!
//! - `COORDINATION-1`: notifications, and changes of the channels that a session listens to, are
//!   kept until the transaction commits. Then its own changes of channels come first, and its
//!   notifications after them, those of one transaction together. A transaction of several
//!   statements that notifies commits under a lock, so that notifications arrive in the order of
//!   the commits. Whether there is room for a notification is decided before the commit.
//! - `COORDINATION-2`: what a statement has done here is undone where it is tried again.
//! - `COORDINATION-3`: the locks of a transaction are released when it ends, however it ends, and
//!   all locks of a session, and its channels, when that is dropped. A query of it that still runs
//!   on another thread then gets no more.
//!
//! In reading order: [`advisory`], [`channels`], `notices`, [`member`].

pub(crate) mod advisory;
pub(crate) mod channels;
pub(crate) mod member;
mod notices;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use advisory::{Advisory, Listed};
use channels::Channels;

use crate::mutex::lock;

pub use channels::{Notification, Waker};
pub(crate) use member::{Mark, Member};

/// What the sessions of a database share.
#[derive(Default)]
pub(crate) struct Together {
    pub(crate) advisory: Advisory,
    pub(crate) channels: Channels,
    /// Its only lock is held by a transaction that commits and notifies.
    order: Advisory,
    last: AtomicU64,
    /// The numbers that others know sessions by, where these are not their own.
    numbers: Mutex<HashMap<u64, i32>>,
}

impl Together {
    /// The number that others know a session by.
    fn number_of(&self, session: u64) -> i32 {
        let known = lock(&self.numbers).get(&session).copied();
        known.unwrap_or_else(|| i32::try_from(session).unwrap_or(0))
    }

    /// The advisory locks that sessions have or wait for, with the numbers of the sessions.
    pub(crate) fn locks(&self) -> Vec<(i32, Listed)> {
        let listed = self.advisory.listed().into_iter();
        listed.map(|one| (self.number_of(one.session), one)).collect()
    }

    /// The numbers of the sessions that have the advisory locks for which one waits.
    pub(crate) fn blocking(&self, number: i32) -> Vec<i32> {
        let waits = self.locks().into_iter().find(|(one, lock)| *one == number && !lock.is_held);
        let blocking = waits.map(|(_, lock)| self.advisory.blocking(lock.session));
        blocking.into_iter().flatten().map(|session| self.number_of(session)).collect()
    }

    /// A number for a session.
    fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }
}
