//! A published database: the answers to requests of other processes.

use std::sync::{Arc, PoisonError, Weak};

use atoll_memory::lease::{LeaseId, Offer, Peer, Publisher, Refusal, RefusalCode};

use crate::core::Core;
use crate::error::Error;
use crate::leases::Status;
use crate::snapshot::Snapshot;

/// Answers the requests that the lease server receives. It holds the core weakly: the server is
/// dropped with the database's handle.
pub(crate) struct Publication {
    core: Weak<Core>,
    bases: Vec<Snapshot>,
}

impl Publication {
    /// `bases` are the snapshots that the database is built on.
    pub(crate) fn new(core: &Arc<Core>, bases: Vec<Snapshot>) -> Self {
        Self { core: Arc::downgrade(core), bases }
    }

    fn core(&self) -> Result<Arc<Core>, Refusal> {
        let text = "the database is being closed".to_owned();
        self.core.upgrade().ok_or(Refusal { code: RefusalCode::Closing, text })
    }
}

fn refusal(error: &Error) -> Refusal {
    let code = match error {
        Error::SnapshotLimit { .. } | Error::TooManySnapshots(_) => RefusalCode::SnapshotLimit,
        Error::SnapshotExpired(_) => RefusalCode::Expired,
        Error::Memory(_) => RefusalCode::OutOfMemory,
        _ => RefusalCode::Other,
    };
    Refusal { code, text: error.to_string() }
}

fn offer(core: &Core, bases: &[Snapshot], lease: LeaseId, peer: &Peer) -> Result<Offer, Error> {
    let store = core.memory().store();
    let fd = store.read_only_fd()?;
    let descriptors = bases.iter().map(Snapshot::descriptor).collect::<Result<Vec<_>, _>>()?;
    bases.iter().try_for_each(Snapshot::check)?;
    let taken = core.take(lease, peer.clone(), false)?;
    Ok(Offer {
        store: fd,
        store_id: store.id().0,
        root: taken.root,
        epoch: taken.epoch,
        patch: taken.patch,
        lease_word: taken.line,
        take_ns: taken.take_ns,
        bases: descriptors,
    })
}

impl Publisher for Publication {
    fn take(&self, lease: LeaseId, peer: &Peer) -> Result<Offer, Refusal> {
        offer(&*self.core()?, &self.bases, lease, peer).map_err(|error| refusal(&error))
    }

    fn lease_ended(&self, lease: LeaseId) {
        if let Some(core) = self.core.upgrade()
            && core.end_lease(lease)
        {
            core.errands.reclaim();
        }
    }

    fn status(&self) -> String {
        let status = self.core.upgrade().map_or_else(Status::default, |core| {
            let memory = core.memory_account();
            let leases = core.leases.lock().unwrap_or_else(PoisonError::into_inner);
            Status { snapshots: leases.list(core.memory()), memory }
        });
        serde_json::to_string(&status).unwrap_or_else(|_| "{}".to_owned())
    }
}
