//! Locks on numbers, which mean what programs make of them.
//!
//! - `ADVISORY-1`: a lock is given if no other session has it in a mode that excludes it, and no
//!   session waits for it longer in such a mode, unless the session has the lock already.
//! - `ADVISORY-2`: a session waits for one lock at a time. A wait that would close a circle of
//!   sessions that wait for each other is refused when it begins; a lock that is given later closes
//!   none, since its session does not wait then.

use std::collections::{HashMap, HashSet};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::interrupt::{Interrupt, PERIOD};
use crate::mutex::lock;

/// Locks that sessions have or wait for, all together: some 50 MiB.
const LOCKS_MAX: usize = 1 << 18;

/// What is locked: one number, or two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    One(i64),
    Two(i32, i32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

impl Mode {
    fn excludes(self, other: Self) -> bool {
        self == Self::Exclusive || other == Self::Exclusive
    }
}

/// The locks of a database.
#[derive(Default)]
pub(crate) struct Advisory {
    locks: Mutex<HashMap<Key, Lock>>,
    /// A lock was released, or a wait has ended.
    changed: Condvar,
}

#[derive(Default)]
struct Lock {
    /// How often sessions have it in a mode.
    held: HashMap<(u64, Mode), usize>,
    /// Those that wait, in the order in which they came.
    waiting: Vec<(u64, Mode)>,
}

impl Lock {
    /// The sessions for which one has to wait.
    fn before(&self, session: u64, mode: Mode) -> HashSet<u64> {
        let other = |of: &u64| *of != session;
        let holders = self.held.keys().filter(|(_, held)| mode.excludes(*held));
        let holders = holders.map(|(holder, _)| *holder).filter(other);
        let has_it = self.held.keys().any(|(holder, _)| *holder == session);
        let ahead = self.waiting.iter().take_while(|(waiter, _)| *waiter != session);
        let ahead = ahead.filter(|(_, wanted)| !has_it && mode.excludes(*wanted));
        holders.chain(ahead.map(|(waiter, _)| *waiter)).collect()
    }
}

impl Advisory {
    /// Has a lock; false if it cannot be had now, and the session does not wait.
    ///
    /// # Errors
    /// The wait would have no end; the statement is to end; there are too many locks.
    pub(crate) fn lock(
        &self,
        session: u64,
        key: Key,
        mode: Mode,
        waits: Option<&Interrupt>,
    ) -> Result<bool, SqlError> {
        let mut locks = lock(&self.locks);
        if locks.len() >= LOCKS_MAX && !locks.contains_key(&key) {
            return Err(too_many("of all sessions"));
        }
        let wanted = locks.entry(key).or_default();
        if wanted.before(session, mode).is_empty() {
            *wanted.held.entry((session, mode)).or_default() += 1;
            return Ok(true);
        }
        let Some(interrupt) = waits else { return Ok(false) };
        wanted.waiting.push((session, mode));
        if is_in_circle(&locks, session) {
            self.leave(&mut locks, session, key);
            let message = "deadlock detected: sessions wait for advisory locks of each other";
            return Err(SqlError::new(SqlErrorKind::Aborted, message)
                .with_cause(Cause::Deadlock)
                .with_hint(Some("take such locks in one order everywhere".to_owned())));
        }
        let mut patience = interrupt.patience();
        let mut is_first = true;
        loop {
            locks = match &patience {
                None => self.changed.wait(locks).unwrap_or_else(PoisonError::into_inner),
                Some(_) => {
                    let waited = self.changed.wait_timeout(locks, PERIOD);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            let wanted = locks.entry(key).or_default();
            if wanted.before(session, mode).is_empty() {
                *wanted.held.entry((session, mode)).or_default() += 1;
                self.leave(&mut locks, session, key);
                return Ok(true);
            }
            // The question may look at a socket, but takes no lock of this kind.
            let is_over = patience.as_mut().is_some_and(|patience| patience(is_first));
            is_first = false;
            if is_over {
                self.leave(&mut locks, session, key);
                return Err(interrupt.error());
            }
        }
    }

    /// A session waits no longer: those behind it may be next.
    fn leave(&self, locks: &mut HashMap<Key, Lock>, session: u64, key: Key) {
        if let Some(wanted) = locks.get_mut(&key) {
            wanted.waiting.retain(|(waiter, _)| *waiter != session);
        }
        self.changed.notify_all();
    }

    /// Gives a lock back once; false if the session does not have it.
    pub(crate) fn unlock(&self, session: u64, key: Key, mode: Mode) -> bool {
        let mut locks = lock(&self.locks);
        let Some(found) = locks.get_mut(&key) else { return false };
        let Some(count) = found.held.get_mut(&(session, mode)) else { return false };
        *count -= 1;
        if *count == 0 {
            found.held.remove(&(session, mode));
            if found.held.is_empty() && found.waiting.is_empty() {
                locks.remove(&key);
            }
            self.changed.notify_all();
        }
        true
    }
}

/// The error of more locks than there may be.
pub(super) fn too_many(which: &str) -> SqlError {
    let message = format!("too many advisory locks {which}");
    SqlError::new(SqlErrorKind::OutOfMemory, message)
        .with_state("53200")
        .with_hint(Some("release locks that are not needed any longer".to_owned()))
}

/// A lock that a session has, or waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) session: u64,
    pub(crate) key: Key,
    pub(crate) mode: Mode,
    pub(crate) is_held: bool,
}

impl Advisory {
    /// All locks that sessions have or wait for.
    pub(crate) fn listed(&self) -> Vec<Listed> {
        let locks = lock(&self.locks);
        let mut all = Vec::new();
        for (key, lock) in &*locks {
            let held = lock.held.keys().map(|one| (one, true));
            let each = held.chain(lock.waiting.iter().map(|one| (one, false)));
            all.extend(each.map(|(&(session, mode), is_held)| Listed {
                session,
                key: *key,
                mode,
                is_held,
            }));
        }
        all
    }

    /// The sessions for which a session waits.
    pub(crate) fn blocking(&self, session: u64) -> HashSet<u64> {
        let locks = lock(&self.locks);
        let wanted = |lock: &Lock| {
            let found = lock.waiting.iter().find(|(waiter, _)| *waiter == session);
            found.map(|(_, mode)| lock.before(session, *mode))
        };
        locks.values().find_map(wanted).unwrap_or_default()
    }
}

/// Whether a session waits for itself.
fn is_in_circle(locks: &HashMap<Key, Lock>, session: u64) -> bool {
    let mut waits: HashMap<u64, HashSet<u64>> = HashMap::new();
    for lock in locks.values() {
        for (waiter, mode) in &lock.waiting {
            waits.insert(*waiter, lock.before(*waiter, *mode));
        }
    }
    let (mut seen, mut next) = (HashSet::new(), vec![session]);
    while let Some(one) = next.pop() {
        for before in waits.get(&one).into_iter().flatten() {
            if *before == session {
                return true;
            }
            if seen.insert(*before) {
                next.push(*before);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    const KEY: Key = Key::One(1);

    fn now(locks: &Advisory, session: u64, mode: Mode) -> bool {
        locks.lock(session, KEY, mode, None).unwrap()
    }

    #[test]
    fn locks_exclude_other_sessions_and_are_counted() {
        use Mode::{Exclusive, Shared};
        let locks = Advisory::default();
        assert!(now(&locks, 1, Shared) && now(&locks, 2, Shared) && !now(&locks, 3, Exclusive));
        assert!(!now(&locks, 1, Exclusive));
        assert!(locks.unlock(2, KEY, Shared) && !locks.unlock(2, KEY, Shared));
        assert!(now(&locks, 1, Exclusive) && now(&locks, 1, Exclusive) && !now(&locks, 2, Shared));
        assert!(locks.lock(2, Key::Two(0, 1), Exclusive, None).unwrap());
        assert!(locks.unlock(1, KEY, Exclusive) && !now(&locks, 2, Shared));
        assert!(locks.unlock(1, KEY, Exclusive) && now(&locks, 2, Shared));
        assert!(locks.unlock(1, KEY, Shared) && locks.unlock(2, KEY, Shared));
        assert_eq!(lock(&locks.locks).len(), 1);
    }

    fn waiting(locks: &Advisory, key: Key) -> usize {
        lock(&locks.locks).get(&key).map_or(0, |one| one.waiting.len())
    }

    fn until(holds: impl Fn() -> bool) {
        for _ in 0..2000 {
            if holds() {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("it does not come");
    }

    #[test]
    fn those_that_wait_come_in_their_order_and_circles_are_refused() {
        let locks = Arc::new(Advisory::default());
        let other = Key::One(2);
        let waits = Interrupt::default();
        assert!(now(&locks, 1, Mode::Exclusive));
        let writer = {
            let locks = Arc::clone(&locks);
            thread::spawn(move || {
                assert!(locks.lock(2, other, Mode::Exclusive, None).unwrap());
                locks.lock(2, KEY, Mode::Exclusive, Some(&Interrupt::default())).unwrap()
            })
        };
        until(|| waiting(&locks, KEY) == 1);
        // A reader does not pass a writer that waits.
        assert!(locks.unlock(1, KEY, Mode::Exclusive));
        writer.join().unwrap();
        assert!(!now(&locks, 3, Mode::Shared));
        // Session 3 waits for session 2, which would wait for it.
        assert!(locks.lock(3, Key::One(3), Mode::Exclusive, None).unwrap());
        let reader = {
            let locks = Arc::clone(&locks);
            thread::spawn(move || {
                locks.lock(3, KEY, Mode::Shared, Some(&Interrupt::default())).unwrap()
            })
        };
        until(|| waiting(&locks, KEY) == 1);
        let refused = locks.lock(2, Key::One(3), Mode::Exclusive, Some(&waits)).unwrap_err();
        assert_eq!(refused.sqlstate(), "40P01");
        assert!(locks.unlock(2, KEY, Mode::Exclusive));
        assert!(reader.join().unwrap());
        let limit = Some(Duration::from_millis(30));
        let short = Interrupt::new(None, None, limit);
        let refused = locks.lock(2, KEY, Mode::Exclusive, Some(&short)).unwrap_err();
        assert_eq!(refused.sqlstate(), "55P03");
        assert_eq!(waiting(&locks, KEY), 0);
    }
}
