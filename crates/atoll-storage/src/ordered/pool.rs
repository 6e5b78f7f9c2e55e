//! A pool of nodes, addressed by number. Nodes never move, and a node that leaves the tree is
//! reused.
//!
//! - `NODEPOOL-1`: a number that was ever allocated belongs to a node as long as the index lives,
//!   and the version of the node only rises. A reader that follows an outdated number finds some
//!   node, and then that the number was outdated.

use atoll_machine::huge_pages::{self, Array};
use atoll_machine::{Machine, Ordering, Word};

use super::node::{Node, NodeId, Visit};
use crate::stable::StableVec;

/// Binary logarithm of the nodes that are allocated together.
const PIECE_BITS: u32 = 5;

/// A spin latch, held for a few accesses.
pub(super) struct Spin<'w, M: Machine>(&'w M::Word);

impl<'w, M: Machine> Spin<'w, M> {
    pub(super) fn take(word: &'w M::Word) -> Self {
        let mut round = 0;
        while word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            M::wait(round);
            round = round.saturating_add(1);
        }
        Self(word)
    }
}

impl<M: Machine> Drop for Spin<'_, M> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

/// See the module.
pub(super) struct Pool<M: Machine> {
    kind: u32,
    pieces: StableVec<Array<Node<M>>, M>,
    latch: M::Word,
    /// Numbers allocated.
    used: M::Word,
    /// Number of the first free node plus 1, or 0.
    free: M::Word,
}

impl<M: Machine> Pool<M> {
    pub(super) fn new(is_leaf: bool) -> Self {
        Self {
            kind: if is_leaf { NodeId::LEAF } else { 0 },
            pieces: StableVec::default(),
            latch: M::Word::new(0),
            used: M::Word::new(0),
            free: M::Word::new(0),
        }
    }

    #[inline]
    pub(super) fn get(&self, id: NodeId) -> &Node<M> {
        let number = id.0 & !NodeId::LEAF;
        let piece = self.pieces.get(u64::from(number >> PIECE_BITS));
        let piece = piece.expect("NODEPOOL-1: the number was allocated, so its piece exists");
        &piece[(number & ((1 << PIECE_BITS) - 1)) as usize]
    }

    /// An empty node that is not in the tree.
    pub(super) fn take(&self) -> Visit<'_, M> {
        let latch = Spin::<M>::take(&self.latch);
        let free = self.free.load(Ordering::Relaxed);
        let number = match free.checked_sub(1) {
            Some(number) => {
                let next = self.get(NodeId(number as u32)).free_link().load(Ordering::Relaxed);
                self.free.store(next, Ordering::Relaxed);
                number
            }
            None => self.used.fetch_add(1, Ordering::Relaxed),
        };
        drop(latch);
        assert!(number < u64::from(NodeId::LEAF), "2^31 nodes would take terabytes");
        let make = |_| Node::new(self.kind != 0);
        self.pieces
            .get_or_init(number >> PIECE_BITS, || huge_pages::collect(1 << PIECE_BITS, make));
        let id = NodeId(number as u32 | self.kind);
        Visit::begin(id, self.get(id))
    }

    /// Frees a node that has left the tree and that the caller has latched.
    pub(super) fn give_back(&self, id: NodeId, node: &Node<M>) {
        let _latch = Spin::<M>::take(&self.latch);
        node.free_link().store(self.free.load(Ordering::Relaxed), Ordering::Release);
        self.free.store(u64::from(id.0 & !NodeId::LEAF) + 1, Ordering::Relaxed);
    }

    /// Bytes of all nodes that are in memory and not in the heap.
    pub(super) fn resident_bytes(&self) -> u64 {
        let pieces = (0..).map_while(|piece| self.pieces.get(piece));
        pieces.map(|piece| piece.resident_bytes() as u64).sum()
    }

    /// Numbers ever allocated.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}
