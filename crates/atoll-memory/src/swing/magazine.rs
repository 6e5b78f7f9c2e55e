//! Magazines: caches of freed extents of the sizes that copy-on-write uses, in the private DRAM of
//! the process, so that they can be allocated again without access to the tree.
//!
//! There are a few shelves, each with one stack per order, each with a latch of its own; a thread
//! uses one shelf. Invariant `MAG-1`: an extent is in at most one stack, and its node in the tree
//! is `CACHED` for as long. By that flag the next process finds the extents that a dead process had
//! in its magazines.

use super::layout::MIN_ORDER;
use super::tree::Node;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The largest order that is kept: 1 MiB.
const MAX_ORDER: u32 = 20;
const ORDERS: usize = (MAX_ORDER - MIN_ORDER + 1) as usize;
const SHELVES: usize = 4;
/// The limits of one stack, in bytes and in extents.
const STACK_BYTES: u64 = 2 << 20;
const STACK_MIN: usize = 4;
const STACK_MAX: usize = 64;

/// Keeps shelves from sharing cache lines.
#[repr(align(128))]
#[derive(Debug)]
struct Stack(Mutex<Vec<u64>>);

/// All shelves.
#[derive(Debug)]
pub(super) struct Magazines {
    shelves: Vec<[Stack; ORDERS]>,
}

/// The most extents that a stack of this order holds.
fn stack_extents(order: u32) -> usize {
    ((STACK_BYTES >> order) as usize).clamp(STACK_MIN, STACK_MAX)
}

/// The calling thread's shelf.
fn shelf() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHELF: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    SHELF.with(|shelf| {
        if shelf.get() == usize::MAX {
            shelf.set(NEXT.fetch_add(1, Ordering::Relaxed) % SHELVES);
        }
        shelf.get()
    })
}

impl Magazines {
    /// Empty magazines.
    pub(super) fn new() -> Magazines {
        let shelf = || std::array::from_fn(|_| Stack(Mutex::new(Vec::new())));
        Magazines { shelves: (0..SHELVES).map(|_| shelf()).collect() }
    }

    /// Whether extents of this order are kept at all.
    pub(super) fn keeps(order: u32) -> bool {
        (MIN_ORDER..=MAX_ORDER).contains(&order)
    }

    fn stack(&self, shelf: usize, order: u32) -> MutexGuard<'_, Vec<u64>> {
        let stack = &self.shelves[shelf][(order - MIN_ORDER) as usize];
        // A stack is a plain vector; a panic cannot leave a half-done change in it.
        stack.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an extent of this order out, the one that was put in last; from another thread's
    /// shelf if this one has none, because often one thread frees what others allocate.
    pub(super) fn pop(&self, order: u32) -> Option<Node> {
        let own = shelf();
        let mut shelves = (own..SHELVES).chain(0..own);
        let index = shelves.find_map(|shelf| self.stack(shelf, order).pop())?;
        Some(Node { order, index })
    }

    /// Adds an extent. If the stack was full, returns its older half, which the caller must return
    /// to the tree.
    pub(super) fn push(&self, node: Node) -> Vec<Node> {
        let most = stack_extents(node.order);
        let mut stack = self.stack(shelf(), node.order);
        let over = if stack.len() >= most {
            let older = stack.drain(..most / 2);
            older.map(|index| Node { order: node.order, index }).collect()
        } else {
            Vec::new()
        };
        stack.push(node.index);
        over
    }

    /// Takes all extents out.
    pub(super) fn drain(&self) -> Vec<Node> {
        let mut all = Vec::new();
        for shelf in 0..SHELVES {
            for order in MIN_ORDER..=MAX_ORDER {
                let mut stack = self.stack(shelf, order);
                all.extend(stack.drain(..).map(|index| Node { order, index }));
            }
        }
        all
    }

    /// Number and bytes of the extents inside.
    pub(super) fn held(&self) -> (u64, u64) {
        let mut held = (0, 0);
        for shelf in 0..SHELVES {
            for order in MIN_ORDER..=MAX_ORDER {
                let extents = self.stack(shelf, order).len() as u64;
                held = (held.0 + extents, held.1 + (extents << order));
            }
        }
        held
    }
}
