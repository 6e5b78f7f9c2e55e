//! Attaching to a database that another process owns.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use atoll_machine::{Machine, Native, fork};
use atoll_memory::Store;
use atoll_memory::lease::{Client, Descriptor, RuntimeDir};

use crate::counters::MemoryAccount;
use crate::error::{Error, Result};
use crate::leases::{SnapshotInfo, Status};
use crate::snapshot::{Origin, Snapshot, SnapshotParts};

/// The stores that this process has mapped. A process maps a store once, whichever process sent the
/// descriptor; the mapping lives while a snapshot of the store, or an attachment that mapped it,
/// lives.
static STORES: Mutex<Option<HashMap<u128, Weak<Store>>>> = Mutex::new(None);

/// A connection to a database of another process. A forked child cannot use its parent's connection
/// ([`atoll_memory::lease::LeaseError::ForkedChild`]); it attaches for itself.
pub struct Attachment {
    client: Client,
    /// Keeps each store mapped from one snapshot to the next.
    stores: Mutex<Vec<Arc<Store>>>,
}

/// Attaches to the database with this name, in `runtime_dir` or the user's own.
///
/// # Errors
/// [`Error::Lease`]: there is no such name (the error lists the names that exist), the owner is
/// gone or does not answer, the name belongs to another user, or the owner has another version.
pub fn attach(name: &str, runtime_dir: Option<&Path>) -> Result<Attachment> {
    let client = Client::connect(name, &RuntimeDir::open(runtime_dir)?)?;
    Ok(Attachment { client, stores: Mutex::default() })
}

impl Attachment {
    /// Name of the database.
    pub fn name(&self) -> &str {
        &self.client.owner().database
    }

    /// Process that owns the database.
    pub fn owner_pid(&self) -> u32 {
        self.client.owner().pid
    }

    /// Takes a snapshot. Nothing is copied.
    ///
    /// # Errors
    /// [`Error::Lease`] when the owner refuses, with its reason, or is gone; [`Error::Memory`] when
    /// the store cannot be mapped.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let begin = Native::now_ns();
        let descriptor = self.client.take()?;
        let snapshot = open(descriptor, begin)?;
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        keep(&snapshot, &mut stores);
        Ok(snapshot)
    }

    /// The snapshots of the database that are held, with their holders.
    ///
    /// # Errors
    /// [`Error::Lease`], [`Error::BadStatus`].
    pub fn snapshots(&self) -> Result<Vec<SnapshotInfo>> {
        Ok(self.status()?.snapshots)
    }

    /// Where the memory of the owner's process is.
    ///
    /// # Errors
    /// As [`Attachment::snapshots`].
    pub fn memory(&self) -> Result<MemoryAccount> {
        Ok(self.status()?.memory)
    }

    /// Both at one time.
    ///
    /// # Errors
    /// As [`Attachment::snapshots`].
    pub fn status(&self) -> Result<Status> {
        let text = self.client.status()?;
        let name = || self.name().to_owned();
        serde_json::from_str(&text).map_err(|_| Error::BadStatus { name: name() })
    }
}

fn keep(snapshot: &Snapshot, stores: &mut Vec<Arc<Store>>) {
    let store = snapshot.store();
    if !stores.iter().any(|kept| kept.id() == store.id()) {
        stores.push(Arc::clone(store));
    }
    snapshot.bases().iter().for_each(|base| keep(base, stores));
}

fn open(mut descriptor: Descriptor, begin: u64) -> Result<Snapshot> {
    let bases = std::mem::take(&mut descriptor.bases);
    let bases = bases.into_iter().map(|base| open(base, begin)).collect::<Result<Vec<_>>>()?;
    let store = mapped(&descriptor)?;
    Snapshot::open(SnapshotParts {
        database: descriptor.database.clone(),
        store,
        root: descriptor.root,
        epoch: descriptor.epoch,
        patch: descriptor.patch,
        line: descriptor.lease_word,
        take_ns: descriptor.take_ns,
        attach_ns: Native::now_ns() - begin,
        origin: Origin::There(Box::new(descriptor)),
        bases,
    })
}

/// The store of a descriptor; maps it unless this process has mapped it already.
fn mapped(descriptor: &Descriptor) -> Result<Arc<Store>> {
    // A fork while another thread holds the latch would leave the latch locked in the child for
    // ever.
    let _no_fork = fork::delay();
    let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    let stores = stores.get_or_insert_with(HashMap::new);
    if let Some(store) = stores.get(&descriptor.store_id).and_then(Weak::upgrade) {
        return Ok(store);
    }
    let fd = descriptor.store.try_clone().map_err(|source| {
        Error::Memory(atoll_memory::MemoryError::System { call: "dup of a store", source })
    })?;
    let store = Arc::new(Store::attach(fd)?);
    stores.retain(|_, store| store.strong_count() > 0);
    stores.insert(store.id().0, Arc::downgrade(&store));
    Ok(store)
}
