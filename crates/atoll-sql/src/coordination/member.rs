//! One session among the others: what it has locked, and what its transaction is going to tell.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::Together;
use super::advisory::{self, Key, Mode};
use super::channels::{Mailbox, Notification, bytes_of};
use super::notices::Notices;
use crate::error::{SqlError, SqlErrorKind};
use crate::interrupt::Interrupt;
use crate::mutex::lock;

/// Bytes of a payload, and of the name of a channel, as in PostgreSQL.
const PAYLOAD_BYTES_MAX: usize = 7999;
const CHANNEL_BYTES_MAX: usize = 63;
/// How often a session may have locks, each as often as it has been taken.
const LOCKS_MAX: usize = 1 << 20;

/// See the module.
pub(crate) struct Member {
    together: Arc<Together>,
    session: u64,
    /// What others see as its number.
    number: AtomicI32,
    /// It has done something here, ever.
    is_used: AtomicBool,
    /// The running statement, or its transaction, has done something that is to be ended.
    has_pending: AtomicBool,
    mailbox: Arc<Mailbox>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Locks of the session, in the order in which it got them.
    locks: Vec<(Key, Mode)>,
    /// Locks of the open transaction.
    transaction_locks: Vec<(Key, Mode)>,
    listens: Vec<Listen>,
    notices: Notices,
    /// Before the running statement.
    before_statement: Mark,
    /// Before the attempts at it: behind what a part of it has done that runs once.
    mark: Mark,
    /// The session has ended (`COORDINATION-3`).
    has_left: bool,
}

/// A change of the channels that a session listens to.
enum Listen {
    To(Arc<str>),
    NotTo(Arc<str>),
    ToNothing,
}

/// How much there was at a moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mark {
    locks: usize,
    transaction_locks: usize,
    listens: usize,
    notices: usize,
}

impl State {
    fn mark(&self) -> Mark {
        Mark {
            locks: self.locks.len(),
            transaction_locks: self.transaction_locks.len(),
            listens: self.listens.len(),
            notices: self.notices.len(),
        }
    }

    fn marks(&mut self) -> [&mut Mark; 2] {
        [&mut self.before_statement, &mut self.mark]
    }

    /// Nothing from here on is of what was.
    fn set_marks(&mut self) {
        self.mark = self.mark();
        self.before_statement = self.mark;
    }
}

/// The turn of a transaction that notifies to commit; it ends when this is dropped.
pub(crate) struct Turn<'m>(&'m Member);

impl Turn<'_> {
    const LOCK: (Key, Mode) = (Key::One(0), Mode::Exclusive);
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let (key, mode) = Self::LOCK;
        self.0.together.order.unlock(self.0.session, key, mode);
    }
}

/// How long a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Session,
    Transaction,
}

impl Member {
    pub(crate) fn new(together: Arc<Together>) -> Self {
        let session = together.next();
        Self {
            session,
            together,
            number: AtomicI32::new(i32::try_from(session).unwrap_or(0)),
            is_used: AtomicBool::new(false),
            has_pending: AtomicBool::new(false),
            mailbox: Arc::default(),
            state: Mutex::default(),
        }
    }

    /// The number that others see.
    pub(crate) fn number(&self) -> i32 {
        self.number.load(Ordering::Relaxed)
    }

    pub(crate) fn set_number(&self, number: i32) {
        self.number.store(number, Ordering::Relaxed);
        lock(&self.together.numbers).insert(self.session, number);
    }

    /// The sessions that it is one of.
    pub(crate) fn together(&self) -> &Arc<Together> {
        &self.together
    }

    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// The state, for a change that is to be ended.
    fn used(&self) -> MutexGuard<'_, State> {
        self.is_used.store(true, Ordering::Relaxed);
        self.has_pending.store(true, Ordering::Relaxed);
        lock(&self.state)
    }

    /// Has a lock; false if it is not waited for and others have it.
    ///
    /// # Errors
    /// See [`super::advisory::Advisory::lock`]; the session has too many, or has ended.
    pub(crate) fn lock(
        &self,
        key: Key,
        mode: Mode,
        scope: Scope,
        waits: Option<&Interrupt>,
    ) -> Result<bool, SqlError> {
        if !self.together.advisory.lock(self.session, key, mode, waits)? {
            return Ok(false);
        }
        let mut state = self.used();
        let refused = if state.has_left {
            Some(SqlError::new(SqlErrorKind::Aborted, "the session has ended"))
        } else if state.locks.len() + state.transaction_locks.len() >= LOCKS_MAX {
            Some(advisory::too_many("of this session, one that it has several times included"))
        } else {
            None
        };
        if let Some(refused) = refused {
            self.together.advisory.unlock(self.session, key, mode);
            return Err(refused);
        }
        match scope {
            Scope::Session => state.locks.push((key, mode)),
            Scope::Transaction => state.transaction_locks.push((key, mode)),
        }
        Ok(true)
    }

    /// Gives a lock of the session back once; false if it does not have it.
    pub(crate) fn unlock(&self, key: Key, mode: Mode) -> bool {
        let mut state = self.used();
        let Some(at) = state.locks.iter().rposition(|one| *one == (key, mode)) else {
            return false;
        };
        state.locks.remove(at);
        let left = state.locks.len();
        for mark in state.marks() {
            mark.locks = mark.locks.min(left);
        }
        self.together.advisory.unlock(self.session, key, mode)
    }

    /// Gives all locks of the session back.
    pub(crate) fn unlock_all(&self) {
        let mut state = self.used();
        state.marks().into_iter().for_each(|mark| mark.locks = 0);
        self.release(&mut state.locks, 0);
    }

    fn release(&self, locks: &mut Vec<(Key, Mode)>, from: usize) {
        for (key, mode) in locks.drain(from.min(locks.len())..).rev() {
            self.together.advisory.unlock(self.session, key, mode);
        }
    }

    /// Notes a notification for the end of the transaction.
    ///
    /// # Errors
    /// The channel has no name, one of the texts is too long, or there is no room.
    pub(crate) fn notify(&self, channel: &str, payload: &str) -> Result<(), SqlError> {
        let wrong =
            |message: &str| Err(SqlError::new(SqlErrorKind::Type, message).with_state("22023"));
        if channel.is_empty() {
            return wrong("channel name cannot be empty");
        }
        if channel.len() > CHANNEL_BYTES_MAX {
            return wrong("channel name too long");
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            return wrong("payload string too long");
        }
        let channels = &self.together.channels;
        let listeners = channels.listeners(channel);
        let mut state = self.used();
        let more = bytes_of(channel, payload).saturating_mul(listeners.max(1));
        channels.check_room(state.notices.bytes().saturating_add(more))?;
        state.notices.add(channel, payload, listeners);
        Ok(())
    }

    /// Listens to a channel from the end of the transaction on.
    pub(crate) fn listen(&self, channel: &str) {
        self.used().listens.push(Listen::To(channel.into()));
    }

    /// Does not listen to a channel, or to any, from the end of the transaction on.
    pub(crate) fn unlisten(&self, channel: Option<&str>) {
        let change = channel.map_or(Listen::ToNothing, |name| Listen::NotTo(name.into()));
        self.used().listens.push(change);
    }

    /// A statement begins.
    pub(crate) fn begin_statement(&self) {
        if self.is_used.load(Ordering::Relaxed) {
            lock(&self.state).set_marks();
        }
    }

    /// A part of the running statement has ended that runs once, whatever the attempts at the rest.
    pub(crate) fn end_part(&self) {
        if self.has_pending() {
            let mut state = lock(&self.state);
            state.mark = state.mark();
        }
    }

    /// The running statement begins again, with all its parts.
    pub(crate) fn begin_again(&self) {
        if self.has_pending() {
            let before = lock(&self.state).before_statement;
            self.roll_back_to(before);
            lock(&self.state).mark = before;
        }
    }

    /// An attempt at the running statement begins: what an earlier one has done is undone.
    pub(crate) fn begin_attempt(&self) {
        if self.has_pending() {
            let mark = lock(&self.state).mark;
            self.roll_back_to(mark);
        }
    }

    /// How much there is, for a savepoint.
    pub(crate) fn mark(&self) -> Mark {
        lock(&self.state).mark()
    }

    /// Undoes what came behind a savepoint; locks of the session stay.
    pub(crate) fn roll_back_to_savepoint(&self, mark: Mark) {
        let locks = lock(&self.state).locks.len();
        self.roll_back_to(Mark { locks, ..mark });
    }

    fn roll_back_to(&self, mark: Mark) {
        let mut state = lock(&self.state);
        self.release(&mut state.locks, mark.locks);
        self.release(&mut state.transaction_locks, mark.transaction_locks);
        state.listens.truncate(mark.listens);
        state.notices.truncate(mark.notices);
    }

    /// Whether a statement or a transaction has done something here that is to be ended.
    pub(crate) fn has_pending(&self) -> bool {
        self.has_pending.load(Ordering::Relaxed)
    }

    /// A transaction that notifies is going to commit (`COORDINATION-1`).
    ///
    /// # Errors
    /// Too much waits to be taken already; the statement is to end.
    pub(crate) fn before_commit(
        &self,
        interrupt: &Interrupt,
    ) -> Result<Option<Turn<'_>>, SqlError> {
        if !self.has_pending() {
            return Ok(None);
        }
        let bytes = lock(&self.state).notices.bytes();
        if bytes == 0 {
            return Ok(None);
        }
        self.together.channels.check_room(bytes)?;
        let (key, mode) = Turn::LOCK;
        self.together.order.lock(self.session, key, mode, Some(interrupt))?;
        Ok(Some(Turn(self)))
    }

    /// Releases the locks of the transaction.
    pub(crate) fn release_transaction(&self) {
        if self.has_pending() {
            let mut state = lock(&self.state);
            self.release(&mut state.transaction_locks, 0);
        }
    }

    /// The transaction has ended, or a statement that was one by itself.
    pub(crate) fn end(&self, committed: bool) {
        if !self.has_pending.swap(false, Ordering::Relaxed) {
            return;
        }
        let mut state = lock(&self.state);
        self.release(&mut state.transaction_locks, 0);
        let listens = std::mem::take(&mut state.listens);
        let notices = state.notices.take();
        state.set_marks();
        drop(state);
        if !committed {
            return;
        }
        let channels = &self.together.channels;
        for change in listens {
            match change {
                Listen::To(channel) => channels.listen(&channel, &self.mailbox),
                Listen::NotTo(channel) => channels.unlisten(Some(&channel), &self.mailbox),
                Listen::ToNothing => channels.unlisten(None, &self.mailbox),
            }
        }
        let sender = self.number();
        let notices: Vec<Notification> =
            notices.map(|(channel, payload)| Notification { sender, channel, payload }).collect();
        if !notices.is_empty() {
            channels.publish(notices);
        }
    }

    /// Takes the notifications that wait.
    pub(crate) fn take(&self) -> Vec<Notification> {
        self.together.channels.take(&self.mailbox)
    }

    /// The session ends.
    pub(crate) fn leave(&self) {
        self.mailbox.set_waker(None);
        lock(&self.together.numbers).remove(&self.session);
        lock(&self.state).has_left = true;
        if !self.is_used.load(Ordering::Relaxed) {
            return;
        }
        self.end(false);
        self.unlock_all();
        self.together.channels.unlisten(None, &self.mailbox);
        drop(self.take());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use super::*;

    const LOCK: (Key, Mode) = (Key::One(1), Mode::Exclusive);

    fn gets_it(member: &Member) -> Result<bool, SqlError> {
        member.lock(LOCK.0, LOCK.1, Scope::Session, None)
    }

    #[test]
    fn a_query_that_outlives_its_session_gets_no_lock() {
        let together = Arc::new(Together::default());
        let (one, two) = (Member::new(together.clone()), Member::new(together));
        assert!(gets_it(&one).unwrap() && !gets_it(&two).unwrap());
        one.leave();
        assert!(gets_it(&one).is_err() && gets_it(&two).unwrap());
    }

    #[test]
    fn the_turn_to_commit_is_waited_for_until_the_statement_is_to_end() {
        let together = Arc::new(Together::default());
        let (one, two) = (Member::new(together.clone()), Member::new(together));
        let waits = Interrupt::new(None, None, Some(Duration::from_millis(30)));
        assert!(two.before_commit(&waits).unwrap().is_none());
        one.notify("c", "1").unwrap();
        two.notify("c", "2").unwrap();
        let turn = one.before_commit(&waits).unwrap();
        assert!(turn.is_some());
        assert_eq!(two.before_commit(&waits).map(drop).unwrap_err().sqlstate(), "55P03");
        drop(turn);
        assert!(two.before_commit(&waits).unwrap().is_some());
    }
}
