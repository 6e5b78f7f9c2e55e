//! The owner's end: a name, a socket and the thread that serves them.
//!
//! Starting claims the name, opens the socket and starts the thread; a failure at any step gives
//! the name back. Dropping runs the steps backwards: the socket disappears first, so that no new
//! client finds it, then the thread ends, then the name is free. Leases stay with their holders,
//! and their memory stays mapped; the end of a lease is not reported any more (`LEASE-2`).

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use atoll_machine::fork::{Here, Unshared};

use super::Publisher;
use super::error::LeaseError;
use super::event_loop::EventLoop;
use super::fds;
use super::names::{Name, RuntimeDir};
use super::owned::OwnedName;

/// A database that other processes can find; see the [module](super).
pub struct Server {
    owned: OwnedName,
    stop: Here<File>,
    thread: Option<Here<JoinHandle<()>>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Server {
    /// Publishes `publisher` under `name`.
    ///
    /// A child that is forked from this process serves no clients and keeps no name and no socket.
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
        let heard = Unshared::make(|| stop.try_clone());
        let heard = heard.map_err(LeaseError::io("make an event counter"))?;
        let listener = owned.listen()?;
        let thread = spawn(name.to_owned(), listener, heard, publisher)?;
        Ok(Self { owned, stop: Here::new(File::from(stop)), thread: Some(Here::new(thread)) })
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
    listener: Unshared,
    stop: Unshared,
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
        // In a forked child the thread does not exist and the files are the parent's.
        let Some(thread) = self.thread.take().and_then(Here::into_inner) else {
            return;
        };
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
