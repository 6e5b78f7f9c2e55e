//! Acknowledgement of commits: how long a transaction waits until its commit is durable.

pub(crate) mod due;

use std::sync::Arc;

use atoll_log::Logs;
use atoll_txn::Committed;

use self::due::Due;
use crate::durability::{Durability, PERIOD_MIN};
use crate::error::Result;

/// The logs as transactions see them.
pub(crate) struct Acknowledger {
    pub(crate) logs: Arc<Logs>,
    pub(crate) durability: Durability,
    pub(crate) due: Arc<Due>,
}

impl Acknowledger {
    /// Waits until every visible commit is durable, if the database's durability is strict.
    pub(crate) fn acknowledge_all(&self) -> Result<()> {
        self.acknowledge(Committed { gsn: self.logs.clock(), has_changes: true }, None)
    }

    /// As [`Acknowledger::acknowledge_all`], for a caller that only reads.
    pub(crate) fn show_all(&self) {
        // A failed flush does not prevent reads, as in `acknowledge`.
        let _ = self.acknowledge_all();
    }

    /// Whether a commit is acknowledged only when it is durable. For a commit with a shorter bound
    /// than the database's, sets the deadline of the next flush.
    fn is_strict(&self, committed: Committed, wanted: Option<Durability>) -> bool {
        match wanted.unwrap_or(self.durability) {
            Durability::Strict => return true,
            Durability::Group(bound) if committed.has_changes => {
                let period = self.durability.period();
                if bound < period {
                    self.due.within(bound.max(PERIOD_MIN));
                }
            }
            Durability::Group(_) | Durability::None => {}
        }
        false
    }

    /// Whether a commit can be acknowledged without waiting.
    pub(crate) fn is_acknowledged(&self, committed: Committed, wanted: Option<Durability>) -> bool {
        // If the log has failed, the commit never becomes durable; waiting would not help.
        !self.is_strict(committed, wanted)
            || self.logs.horizon() >= committed.gsn
            || self.logs.is_poisoned()
    }

    /// Waits as long as the requested durability demands.
    pub(crate) fn acknowledge(
        &self,
        committed: Committed,
        wanted: Option<Durability>,
    ) -> Result<()> {
        if !self.is_strict(committed, wanted) {
            return Ok(());
        }
        match self.logs.settle(committed.gsn) {
            // After a failed flush, a transaction can still read what is in memory.
            Err(_) if !committed.has_changes => Ok(()),
            done => Ok(done?),
        }
    }
}
