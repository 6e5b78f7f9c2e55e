//! What a transaction is going to tell when it commits: each notification once, in the order in
//! which it was given.

use std::collections::HashSet;
use std::sync::Arc;

use super::channels::bytes_of;

/// A channel and a payload.
type Notice = (Arc<str>, Arc<str>);

/// See the module.
#[derive(Default)]
pub(super) struct Notices {
    /// With the bytes that each takes where it will wait.
    list: Vec<(Notice, usize)>,
    known: HashSet<Notice>,
    bytes: usize,
}

impl Notices {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The bytes that all take where they will wait: 0 if there are none.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a notification, which so many sessions listen to, unless it is there already.
    pub(super) fn add(&mut self, channel: &str, payload: &str, listeners: usize) {
        let notice: Notice = (channel.into(), payload.into());
        if self.known.insert(notice.clone()) {
            // One that nothing listens to is kept until the commit.
            let bytes = bytes_of(channel, payload) * listeners.max(1);
            self.bytes += bytes;
            self.list.push((notice, bytes));
        }
    }

    /// Forgets all but the first `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        for (notice, bytes) in self.list.drain(len.min(self.list.len())..) {
            self.known.remove(&notice);
            self.bytes -= bytes;
        }
    }

    /// Takes all.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Notice> + use<> {
        std::mem::take(self).list.into_iter().map(|(notice, _)| notice)
    }
}
