//! The clients that are connected, by the numbers under which they may be cancelled.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use atoll_sql::{Question, SystemClient, Waker};
use ring::rand::{SecureRandom, SystemRandom};

use crate::activity::Activity;
use crate::socket::Socket;

/// Bytes of a key for cancellation: of protocol 3.0, and of later ones.
const KEY_BYTES: usize = 4;
const LONG_KEY_BYTES: usize = 32;

/// Whether and why the work of a client is to end.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    /// Its running statement.
    cancel: AtomicBool,
    /// Its connection.
    terminate: AtomicBool,
    /// How often the running statement has asked.
    asked: AtomicU32,
}

/// A client.
pub(crate) struct Client {
    pub(crate) number: i32,
    pub(crate) key: Vec<u8>,
    pub(crate) wishes: Wishes,
    pub(crate) socket: Arc<Socket>,
    pub(crate) activity: Activity,
    /// Tells the reactor that there is something for the client.
    waker: OnceLock<Arc<Waker>>,
}

impl Client {
    /// Sets what wakes its connection, once.
    pub(crate) fn set_waker(&self, waker: Arc<Waker>) {
        // It is set once.
        let _ = self.waker.set(waker);
    }

    /// A statement begins: what was to end before it has ended.
    pub(crate) fn begin(&self) {
        self.wishes.cancel.store(false, Ordering::Relaxed);
        self.wishes.asked.store(0, Ordering::Relaxed);
    }

    /// Whether its connection is to end.
    pub(crate) fn is_terminated(&self) -> bool {
        self.wishes.terminate.load(Ordering::Acquire)
    }

    pub(crate) fn terminate(&self) {
        self.wishes.terminate.store(true, Ordering::Release);
        if let Some(wake) = self.waker.get() {
            wake();
        }
    }

    fn cancel(&self) {
        self.wishes.cancel.store(true, Ordering::Relaxed);
    }

    /// Whether what is sent to it is to be sent on: the running statement is not cancelled.
    pub(crate) fn goes_on(&self) -> bool {
        !self.is_terminated() && !self.wishes.cancel.load(Ordering::Relaxed)
    }

    /// The question that tells the session whether a statement is to end: it was cancelled, or its
    /// client has gone. A statement asks first when it begins; the socket is looked at only when it
    /// asks again, so that short ones do not pay for it.
    pub(crate) fn question(self: &Arc<Self>) -> Arc<Question> {
        // What has asked may keep the question for longer than the connection lives.
        let client = Arc::downgrade(self);
        Arc::new(move || {
            let Some(client) = client.upgrade() else { return true };
            !client.goes_on()
                || client.wishes.asked.fetch_add(1, Ordering::Relaxed) > 1
                    && client.socket.is_closed()
        })
    }
}

/// Compares secrets in a time that does not depend on where they differ.
pub(crate) fn are_equal(one: &[u8], other: &[u8]) -> bool {
    let differing = one.iter().zip(other).fold(0, |differing, (a, b)| differing | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differing) == 0
}

/// All clients.
#[derive(Default)]
pub(crate) struct Clients {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    by_number: HashMap<i32, Arc<Client>>,
    last: i32,
}

impl Clients {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock panics halfway through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a client, unless there are so many already; `None` also without randomness for its key.
    pub(crate) fn add(&self, socket: Arc<Socket>, long: bool, most: usize) -> Option<Arc<Client>> {
        let mut key = vec![0; if long { LONG_KEY_BYTES } else { KEY_BYTES }];
        SystemRandom::new().fill(&mut key).ok()?;
        let mut state = self.state();
        if state.by_number.len() >= most {
            return None;
        }
        loop {
            state.last = state.last.checked_add(1).unwrap_or(1);
            if !state.by_number.contains_key(&state.last) {
                break;
            }
        }
        let number = state.last;
        let client = Arc::new(Client {
            number,
            key,
            wishes: Wishes::default(),
            socket,
            activity: Activity::default(),
            waker: OnceLock::new(),
        });
        state.by_number.insert(number, Arc::clone(&client));
        Some(client)
    }

    pub(crate) fn remove(&self, number: i32) {
        self.state().by_number.remove(&number);
    }

    /// Cancels the running statement of a client. One with another key is none that may.
    pub(crate) fn cancel(&self, number: i32, key: &[u8]) {
        let client = self.state().by_number.get(&number).cloned();
        if let Some(client) = client
            && are_equal(&client.key, key)
        {
            client.cancel();
        }
    }

    /// Ends the running statement of a client, or its connection; false if there is no such one.
    pub(crate) fn end(&self, number: i32, connection: bool) -> bool {
        let client = self.state().by_number.get(&number).cloned();
        client.map(|one| if connection { one.terminate() } else { one.cancel() }).is_some()
    }

    /// Ends all connections.
    pub(crate) fn terminate_all(&self) {
        self.all().iter().for_each(|client| client.terminate());
    }

    /// What each client does, in the order of their numbers.
    pub(crate) fn shown(&self) -> Vec<SystemClient> {
        let mut all = self.all();
        all.sort_by_key(|client| client.number);
        let shown = |one: &Arc<Client>| one.activity.shown(one.number, one.socket.peer());
        all.iter().filter_map(shown).collect()
    }

    fn all(&self) -> Vec<Arc<Client>> {
        self.state().by_number.values().cloned().collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.state().by_number.len()
    }
}
