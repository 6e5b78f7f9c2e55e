//! Ranges of ordered indexes, and the buffers in which a scan keeps the bounds and the entries.

use std::ops::Bound;

use atoll_machine::Machine;
use atoll_storage::Value;
use atoll_storage::ordered::Batch;
use atoll_storage::ordered::encode::{encode, successor};

use crate::index_set::Ordered;
use crate::scheme::Scheme;

/// Keys of an index between two bounds. A bound may have values for the first columns only; it then
/// stands for all keys with this prefix. NULL is greater than all values, in a column that can be
/// NULL.
#[derive(Debug, Clone, Copy)]
pub struct Range<'k> {
    /// The lower bound.
    pub from: Bound<&'k [Value]>,
    /// The upper bound.
    pub to: Bound<&'k [Value]>,
    /// Whether the scan is in descending order.
    pub descending: bool,
}

impl<'k> Range<'k> {
    /// All keys.
    pub const ALL: Self = Self { from: Bound::Unbounded, to: Bound::Unbounded, descending: false };

    /// All keys with these values in the first columns.
    pub fn prefix(values: &'k [Value]) -> Self {
        Self { from: Bound::Included(values), to: Bound::Included(values), descending: false }
    }

    /// The keys between two bounds, both included.
    pub fn between(from: &'k [Value], to: &'k [Value]) -> Self {
        Self { from: Bound::Included(from), to: Bound::Included(to), descending: false }
    }

    /// The same range in descending order.
    pub fn descending(self) -> Self {
        Self { descending: true, ..self }
    }

    pub(super) fn sides(&self) -> [Option<&'k [Value]>; 2] {
        [self.from, self.to].map(|bound| match bound {
            Bound::Included(values) | Bound::Excluded(values) => Some(values),
            Bound::Unbounded => None,
        })
    }
}

/// A worker's buffers for scans.
#[derive(Debug, Default)]
pub(super) struct ScanBuffers {
    pub(super) batch: Batch,
    pub(super) from: Vec<u8>,
    pub(super) to: Vec<u8>,
}

impl ScanBuffers {
    /// Encodes the bounds; the second one is excluded. Returns false if no key can be in the range.
    pub(super) fn bounds<S: Scheme<M>, M: Machine>(
        &mut self,
        ordered: &Ordered<S, M>,
        range: &Range<'_>,
    ) -> bool {
        self.from.clear();
        self.to.clear();
        match range.from {
            Bound::Included(values) => encode(&ordered.key, values, &mut self.from),
            Bound::Excluded(values) => {
                encode(&ordered.key, values, &mut self.from);
                if !successor(&mut self.from) {
                    return false;
                }
            }
            Bound::Unbounded => {}
        }
        match range.to {
            Bound::Included(values) => {
                encode(&ordered.key, values, &mut self.to);
                successor(&mut self.to);
            }
            Bound::Excluded([]) => return false,
            Bound::Excluded(values) => encode(&ordered.key, values, &mut self.to),
            Bound::Unbounded => {}
        }
        true
    }
}
