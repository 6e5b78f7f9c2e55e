//! A database under a name: what other processes ask of it.

use std::sync::{Arc, PoisonError, Weak};

use atoll_memory::lease::{LeaseId, Offer, Peer, Publisher, Refusal, RefusalCode};

use crate::error::Error;
use crate::inner::Inner;

/// Answers the lease server. Keeps no database alive: the server goes with the database's handle.
pub(crate) struct Publication(Weak<Inner>);

impl Publication {
    pub(crate) fn new(inner: &Arc<Inner>) -> Self {
        Self(Arc::downgrade(inner))
    }

    fn inner(&self) -> Result<Arc<Inner>, Refusal> {
        let text = "the database is being closed".to_owned();
        self.0.upgrade().ok_or(Refusal { code: RefusalCode::Closing, text })
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

fn offer(inner: &Inner, lease: LeaseId, peer: &Peer) -> Result<Offer, Error> {
    let store = inner.memory().store();
    let fd = store.read_only_fd()?;
    let bases = inner.bases.iter().map(|base| base.descriptor()).collect::<Result<Vec<_>, _>>()?;
    let taken = inner.take(lease, peer.clone(), false)?;
    Ok(Offer {
        store: fd,
        store_id: store.id().0,
        root: taken.root,
        epoch: taken.epoch,
        patch: taken.patch,
        lease_word: taken.line,
        take_ns: taken.take_ns,
        bases,
    })
}

impl Publisher for Publication {
    fn take(&self, lease: LeaseId, peer: &Peer) -> Result<Offer, Refusal> {
        offer(&*self.inner()?, lease, peer).map_err(|error| refusal(&error))
    }

    fn lease_ended(&self, lease: LeaseId) {
        if let Some(inner) = self.0.upgrade()
            && inner.end_lease(lease)
        {
            inner.errands.reclaim();
        }
    }

    fn status(&self) -> String {
        let list = self.0.upgrade().map_or_else(Vec::new, |inner| {
            let leases = inner.leases.lock().unwrap_or_else(PoisonError::into_inner);
            leases.list(inner.memory())
        });
        serde_json::to_string(&list).unwrap_or_else(|_| "[]".to_owned())
    }
}
