//! The thread that waits for new clients, and for messages of those that are idle.
//!
//! 1. A connection that rests ([`Reactor::rest`]) is kept here and its socket is armed.
//! 2. When something comes, the thread takes the connection and gives it to a thread of the pool.
//! 3. So it does when there is something for the client ([`Reactor::wake`]).
//!
//! `REACTOR-1`: a connection is in the room or with one thread. The socket reports once, and is
//! armed again when the connection rests again. `REACTOR-2`: what has come for a client before its
//! connection rests keeps that from resting, and what comes later wakes it.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};

/// The number of the descriptor that wakes the thread, and the first of those of listeners.
const WAKE: u64 = u64::MAX;
const FIRST_LISTENER: u64 = 1 << 40;
/// Pause after the system refused a descriptor for a new client.
const PAUSE: Duration = Duration::from_millis(20);
const EVENTS: usize = 256;

/// What rests until its socket has something.
pub(crate) trait Rests: Send + 'static {
    /// Its number, less than 2^40.
    fn number(&self) -> u64;
    /// Its socket.
    fn socket(&self) -> &dyn AsFd;
    /// Whether there is something for its client.
    fn has_news(&self) -> bool;
}

/// What has come.
pub(crate) enum Happened<C> {
    /// Something of a connection.
    Connection(C),
    /// Clients of a listener, by its place.
    Listener(usize),
}

/// See the module.
pub(crate) struct Reactor<C> {
    epoll: OwnedFd,
    wake: OwnedFd,
    room: Mutex<Room<C>>,
}

struct Room<C> {
    resting: HashMap<u64, C>,
    /// Those that are woken and wait for the thread.
    woken: Vec<C>,
    /// Nothing rests any more.
    is_closed: bool,
}

impl<C: Rests> Reactor<C> {
    /// A reactor for listeners that do not block.
    ///
    /// # Errors
    /// The system has no descriptors.
    pub(crate) fn new<L: AsFd>(listeners: &[L]) -> io::Result<Arc<Self>> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        for (at, listener) in listeners.iter().enumerate() {
            let number = EventData::new_u64(FIRST_LISTENER + at as u64);
            epoll::add(&epoll, listener.as_fd(), number, EventFlags::IN)?;
        }
        let room =
            Mutex::new(Room { resting: HashMap::new(), woken: Vec::new(), is_closed: false });
        Ok(Arc::new(Self { epoll, wake, room }))
    }

    fn room(&self) -> MutexGuard<'_, Room<C>> {
        // Nothing under the lock panics halfway through a change.
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a connection until something comes; `is_known` says whether it has rested before.
    /// Returns it if nothing may rest any more, there is something for its client, or its socket
    /// cannot be waited for.
    pub(crate) fn rest(&self, connection: C, is_known: bool) -> Result<(), C> {
        let number = connection.number();
        let data = EventData::new_u64(number);
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ONESHOT;
        let mut room = self.room();
        if room.is_closed || connection.has_news() {
            return Err(connection);
        }
        // The thread finds it in the room only when the lock is free again.
        let armed = match is_known {
            true => epoll::modify(&self.epoll, connection.socket().as_fd(), data, flags),
            false => epoll::add(&self.epoll, connection.socket().as_fd(), data, flags),
        };
        if armed.is_err() {
            return Err(connection);
        }
        room.resting.insert(number, connection);
        Ok(())
    }

    /// There is something for the client of a connection.
    pub(crate) fn wake(&self, number: u64) {
        {
            let mut room = self.room();
            let Some(connection) = room.resting.remove(&number) else { return };
            room.woken.push(connection);
        }
        self.wake_thread();
    }

    fn wake_thread(&self) {
        // A write to a descriptor of this kind fails only where the number in it is too large.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Ends [`Reactor::run`] and returns what rests.
    pub(crate) fn close(&self) -> Vec<C> {
        let (resting, woken) = {
            let mut room = self.room();
            room.is_closed = true;
            (std::mem::take(&mut room.resting), std::mem::take(&mut room.woken))
        };
        self.wake_thread();
        resting.into_values().chain(woken).collect()
    }

    /// Waits and tells what comes, until the reactor is closed.
    ///
    /// # Errors
    /// The system cannot wait.
    pub(crate) fn run(&self, mut happened: impl FnMut(Happened<C>)) -> io::Result<()> {
        let mut events = [MaybeUninit::<Event>::uninit(); EVENTS];
        loop {
            let (came, _) = match epoll::wait(&self.epoll, &mut events, None) {
                Err(rustix::io::Errno::INTR) => continue,
                came => came?,
            };
            for event in came.iter() {
                match event.data.u64() {
                    WAKE => {
                        // It counts to zero, or did before.
                        let _ = rustix::io::read(&self.wake, &mut [0u8; 8][..]);
                    }
                    number @ FIRST_LISTENER.. => {
                        happened(Happened::Listener((number - FIRST_LISTENER) as usize));
                    }
                    number => {
                        let connection = self.room().resting.remove(&number);
                        connection.into_iter().for_each(|one| happened(Happened::Connection(one)));
                    }
                }
            }
            let woken = {
                let mut room = self.room();
                if room.is_closed {
                    return Ok(());
                }
                std::mem::take(&mut room.woken)
            };
            woken.into_iter().for_each(|one| happened(Happened::Connection(one)));
        }
    }
}

/// Waits a moment after the system has refused a descriptor.
pub(crate) fn pause() {
    std::thread::sleep(PAUSE);
}
