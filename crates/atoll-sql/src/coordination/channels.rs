//! The channels of `LISTEN` and `NOTIFY`: the sessions that listen, and what waits for them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::{SqlError, SqlErrorKind};
use crate::mutex::lock;

/// Bytes of notifications that wait to be taken, of all sessions together.
const WAITING_BYTES_MAX: usize = 256 << 20;

/// Called when there is something to take.
pub type Waker = dyn Fn() + Send + Sync;

/// What a session is told that listens to a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The number of the session that has sent it.
    pub sender: i32,
    /// The channel.
    pub channel: Arc<str>,
    /// The text, perhaps empty.
    pub payload: Arc<str>,
}

impl Notification {
    fn bytes(&self) -> usize {
        bytes_of(&self.channel, &self.payload)
    }
}

/// The bytes of a notification that waits.
pub(super) fn bytes_of(channel: &str, payload: &str) -> usize {
    size_of::<Notification>() + channel.len() + payload.len()
}

/// What waits for a session.
#[derive(Default)]
pub(crate) struct Mailbox {
    waiting: Mutex<VecDeque<Notification>>,
    /// How many, for a look without the lock.
    count: AtomicUsize,
    waker: Mutex<Option<Arc<Waker>>>,
}

impl Mailbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    pub(crate) fn waker(&self) -> Option<Arc<Waker>> {
        lock(&self.waker).clone()
    }

    pub(crate) fn set_waker(&self, waker: Option<Arc<Waker>>) {
        *lock(&self.waker) = waker;
    }
}

/// The channels of a database.
#[derive(Default)]
pub(crate) struct Channels {
    listening: Mutex<HashMap<Arc<str>, Vec<Arc<Mailbox>>>>,
    bytes: AtomicUsize,
}

impl Channels {
    /// How many sessions listen to a channel.
    pub(super) fn listeners(&self, channel: &str) -> usize {
        lock(&self.listening).get(channel).map_or(0, Vec::len)
    }

    /// Checks that there is room for so many bytes more.
    ///
    /// # Errors
    /// Sessions do not take what waits for them, or it is too much at once.
    pub(super) fn check_room(&self, more: usize) -> Result<(), SqlError> {
        if self.bytes.load(Ordering::Relaxed).saturating_add(more) <= WAITING_BYTES_MAX {
            return Ok(());
        }
        let message = "too many notifications in the NOTIFY queue";
        let hint = "a session that listens does not read, or has a transaction open for long";
        Err(SqlError::new(SqlErrorKind::OutOfMemory, message)
            .with_state("54000")
            .with_hint(Some(hint.to_owned())))
    }

    pub(crate) fn listen(&self, channel: &Arc<str>, mailbox: &Arc<Mailbox>) {
        let mut listening = lock(&self.listening);
        let mailboxes = listening.entry(Arc::clone(channel)).or_default();
        if !mailboxes.iter().any(|one| Arc::ptr_eq(one, mailbox)) {
            mailboxes.push(Arc::clone(mailbox));
        }
    }

    /// No longer listens to a channel, or to any.
    pub(crate) fn unlisten(&self, channel: Option<&str>, mailbox: &Arc<Mailbox>) {
        lock(&self.listening).retain(|name, mailboxes| {
            if channel.is_none_or(|channel| channel == &**name) {
                mailboxes.retain(|one| !Arc::ptr_eq(one, mailbox));
            }
            !mailboxes.is_empty()
        });
    }

    /// Puts notifications where sessions listen, and wakes those.
    pub(crate) fn publish(&self, notifications: Vec<Notification>) {
        let mut woken: Vec<Arc<Mailbox>> = Vec::new();
        // Under one lock, so that each session sees the transactions in the same order.
        let listening = lock(&self.listening);
        for notification in notifications {
            for mailbox in listening.get(&notification.channel).into_iter().flatten() {
                self.bytes.fetch_add(notification.bytes(), Ordering::Relaxed);
                let mut waiting = lock(&mailbox.waiting);
                waiting.push_back(notification.clone());
                mailbox.count.store(waiting.len(), Ordering::Release);
                if !woken.iter().any(|one| Arc::ptr_eq(one, mailbox)) {
                    woken.push(Arc::clone(mailbox));
                }
            }
        }
        drop(listening);
        for mailbox in woken {
            if let Some(wake) = mailbox.waker() {
                wake();
            }
        }
    }

    /// Takes what waits.
    pub(crate) fn take(&self, mailbox: &Mailbox) -> Vec<Notification> {
        if mailbox.is_empty() {
            return Vec::new();
        }
        let mut waiting = lock(&mailbox.waiting);
        mailbox.count.store(0, Ordering::Release);
        let taken: Vec<Notification> = waiting.drain(..).collect();
        let bytes: usize = taken.iter().map(Notification::bytes).sum();
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        taken
    }
}
