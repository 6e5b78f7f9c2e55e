//! What sessions of a database have to do with each other besides its rows: advisory locks, and
//! the notifications of `NOTIFY`.
//!
//! - `COORDINATION-1`: notifications, and changes of the channels that a session listens to, are
//!   kept until the transaction commits. Then its own changes of channels come first, and its
//!   notifications after them, those of one transaction together. A transaction that notifies
//!   commits under a lock, so that notifications arrive in the order of the commits.
//! - `COORDINATION-2`: what a statement has done here is undone where it is tried again.
//! - `COORDINATION-3`: the locks of a transaction are released when it ends, however it ends, and
//!   all locks of a session, and its channels, when that is dropped.
//!
//! In reading order: [`advisory`], [`channels`], [`member`].

pub(crate) mod advisory;
pub(crate) mod channels;
pub(crate) mod member;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use advisory::Advisory;
use channels::Channels;

pub use channels::{Notification, Waker};
pub(crate) use member::{Mark, Member};

/// What the sessions of a database share.
#[derive(Default)]
pub(crate) struct Together {
    pub(crate) advisory: Advisory,
    pub(crate) channels: Channels,
    /// Held by a transaction that commits and notifies.
    pub(crate) order: Mutex<()>,
    last: AtomicU64,
}

impl Together {
    /// A number for a session.
    fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }
}
