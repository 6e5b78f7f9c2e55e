//! The owner's end: a name, a socket and the thread that serves them.
//!
//! Starting claims the name, opens the socket and starts the thread; a failure at any step gives
//! the name back. Dropping runs the steps backwards: the socket disappears first, so that no new
//! client finds it, then the thread ends, then the name is free. Leases that were given stay with
//! their holders, whose memory stays mapped; their end is not reported any more (`LEASE-2`).

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::Publisher;
use super::error::LeaseError;
use super::event_loop::EventLoop;
use super::fds;
use super::names::{Name, RuntimeDir};
use super::owned::OwnedName;

/// A database that other processes can find; see the [module](super).
pub struct Server {
    owned: OwnedName,
    stop: File,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Server {
    /// Publishes `publisher` under `name`.
    ///
    /// A process that forks must not rely on leases that its child inherited: use exec, which
    /// closes them.
    ///
    /// # Errors
    /// [`LeaseError::BadName`], [`LeaseError::NameTaken`], [`LeaseError::PathTooLong`],
    /// [`LeaseError::DirForeign`], or [`LeaseError::Io`] with the step that failed.
    pub fn start(
        name: &str,
        dir: &RuntimeDir,
        publisher: Arc<dyn Publisher>,
    ) -> Result<Self, LeaseError> {
        let owned = OwnedName::claim(Name::new(name)?, dir)?;
        let stop = fds::event().map_err(LeaseError::io("make an event counter"))?;
        let heard = stop.try_clone().map_err(LeaseError::io("make an event counter"))?;
        let listener = owned.listen()?;
        let thread = spawn(name.to_owned(), listener, heard, publisher)?;
        Ok(Self { owned, stop: File::from(stop), thread: Some(thread) })
    }

    /// The name that the database is published under.
    pub fn name(&self) -> &str {
        self.owned.name().as_str()
    }

    /// Where the socket is.
    pub fn socket_path(&self) -> &Path {
        self.owned.socket()
    }
}

fn spawn(
    name: String,
    listener: OwnedFd,
    stop: OwnedFd,
    publisher: Arc<dyn Publisher>,
) -> Result<JoinHandle<()>, LeaseError> {
    let mut events = EventLoop::new(name, listener, stop, publisher)
        .map_err(LeaseError::io("set up waiting for clients"))?;
    thread::Builder::new()
        .name("atoll-lease".to_owned())
        .spawn(move || events.run())
        .map_err(LeaseError::io("start the thread that serves clients"))
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        // In a forked child the thread does not exist and the files are the parent's.
        if !self.owned.is_mine() {
            return;
        }
        self.owned.hide();
        // An event counter takes 2^64 - 2 signals before a write can fail.
        let _ = self.stop.write_all(&1u64.to_ne_bytes());
        // A publisher that drops its own server from a callback cannot wait for itself.
        if thread.thread().id() != thread::current().id() {
            // A panic of the publisher was reported by the thread already.
            let _ = thread.join();
        }
    }
}
