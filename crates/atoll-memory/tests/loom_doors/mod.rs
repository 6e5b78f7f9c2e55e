//! The gates of the models in `loom_gate.rs`: the real one, and copies of its design that have a
//! fault or the store buffers of a processor.

use std::sync::Arc;

use atoll_memory::{Gate, Inside, Member, Section};
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

/// What a model needs of a gate.
pub trait Door: Send + Sync + 'static {
    type Pass: Send;
    fn pass(self: &Arc<Self>) -> Self::Pass;
    fn inside<R>(pass: &mut Self::Pass, body: impl FnOnce(Inside) -> R) -> R;
    fn epoch(&self) -> u64;
    fn advance(&self, frontier: u64) -> u64;
    fn drain(&self, epoch: u64);
}

impl Door for Gate {
    type Pass = Member;

    fn pass(self: &Arc<Self>) -> Member {
        self.join().unwrap()
    }

    fn inside<R>(pass: &mut Member, body: impl FnOnce(Inside) -> R) -> R {
        let section: Section<'_> = pass.enter();
        body(section.inside())
    }

    fn epoch(&self) -> u64 {
        Gate::epoch(self)
    }

    fn advance(&self, frontier: u64) -> u64 {
        Gate::advance(self, frontier, false)
    }

    fn drain(&self, epoch: u64) {
        Gate::drain(self, epoch);
    }
}

/// The planted faults of a gate.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    /// A member announces the epoch that it has read and does not read it again.
    NoSecondLook,
    /// A member has no fence between its announcement and the second read.
    NoFence,
    /// A member enters without Release, so that a drain does not see its stores before it left.
    RelaxedEntry,
    /// The taker relies on the epoch without draining.
    NoDrain,
}

/// A gate of the same design with a fault.
pub struct Faulty {
    fault: Fault,
    epoch: AtomicU64,
    frontier: [AtomicU64; 2],
    slots: [AtomicU64; 2],
    joined: std::sync::atomic::AtomicUsize,
}

pub struct FaultyPass(Arc<Faulty>, usize);

impl Faulty {
    pub fn new(fault: Fault) -> Self {
        Self {
            fault,
            epoch: AtomicU64::new(1),
            frontier: [AtomicU64::new(0), AtomicU64::new(0)],
            slots: [AtomicU64::new(0), AtomicU64::new(0)],
            joined: Default::default(),
        }
    }
}

impl Door for Faulty {
    type Pass = FaultyPass;

    fn pass(self: &Arc<Self>) -> FaultyPass {
        FaultyPass(Arc::clone(self), self.joined.fetch_add(1, Ordering::Relaxed))
    }

    fn inside<R>(pass: &mut FaultyPass, body: impl FnOnce(Inside) -> R) -> R {
        let gate = &pass.0;
        let slot = &gate.slots[pass.1];
        let mut epoch = gate.epoch.load(Ordering::Acquire);
        loop {
            let relaxed = gate.fault == Fault::RelaxedEntry;
            slot.store(epoch, if relaxed { Ordering::Relaxed } else { Ordering::Release });
            if gate.fault != Fault::NoFence {
                fence(Ordering::SeqCst);
            }
            let seen = gate.epoch.load(Ordering::Acquire);
            if seen == epoch || gate.fault == Fault::NoSecondLook {
                break;
            }
            epoch = seen;
        }
        let frontier = gate.frontier[(epoch % 2) as usize].load(Ordering::Relaxed);
        let result = body(Inside { epoch, frontier });
        slot.store(0, Ordering::Release);
        result
    }

    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    fn advance(&self, frontier: u64) -> u64 {
        let next = self.epoch.load(Ordering::Relaxed) + 1;
        self.frontier[(next % 2) as usize].store(frontier, Ordering::Relaxed);
        self.epoch.store(next, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        next
    }

    fn drain(&self, epoch: u64) {
        if self.fault == Fault::NoDrain {
            return;
        }
        fence(Ordering::SeqCst);
        self.slots.iter().for_each(|slot| wait_for(slot, epoch));
    }
}

fn wait_for(slot: &AtomicU64, epoch: u64) {
    loop {
        let announced = slot.load(Ordering::Acquire);
        if announced == 0 || announced >= epoch {
            return;
        }
        thread::yield_now();
    }
}

/// The gate with `membarrier`: a member's announcement waits in a store buffer until the member
/// stores again or a thread executes the barrier for all.
pub struct Buffered {
    /// Every thread that drains executes the barrier, and not only the one that advances.
    barrier_of_all: bool,
    epoch: AtomicU64,
    frontier: [AtomicU64; 2],
    slots: [AtomicU64; 2],
    buffers: [Mutex<Option<u64>>; 2],
    joined: std::sync::atomic::AtomicUsize,
}

pub struct BufferedPass(Arc<Buffered>, usize);

impl Buffered {
    pub fn new(barrier_of_all: bool) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            barrier_of_all,
            epoch: AtomicU64::new(1),
            frontier: [zero(), zero()],
            slots: [zero(), zero()],
            buffers: [Mutex::new(None), Mutex::new(None)],
            joined: Default::default(),
        }
    }

    fn flush(&self, member: usize) {
        let mut buffer = self.buffers[member].lock().unwrap();
        if let Some(announced) = buffer.take() {
            self.slots[member].store(announced, Ordering::Release);
        }
    }

    fn membarrier(&self) {
        (0..2).for_each(|member| self.flush(member));
    }
}

impl Door for Buffered {
    type Pass = BufferedPass;

    fn pass(self: &Arc<Self>) -> BufferedPass {
        BufferedPass(Arc::clone(self), self.joined.fetch_add(1, Ordering::Relaxed))
    }

    fn inside<R>(pass: &mut BufferedPass, body: impl FnOnce(Inside) -> R) -> R {
        let (gate, member) = (&pass.0, pass.1);
        let mut epoch = gate.epoch.load(Ordering::Acquire);
        loop {
            *gate.buffers[member].lock().unwrap() = Some(epoch);
            let seen = gate.epoch.load(Ordering::Acquire);
            if seen == epoch {
                break;
            }
            epoch = seen;
        }
        let frontier = gate.frontier[(epoch % 2) as usize].load(Ordering::Relaxed);
        // Stores leave the buffer in order, so the announcement is visible before those of `body`.
        gate.flush(member);
        let result = body(Inside { epoch, frontier });
        gate.slots[member].store(0, Ordering::Release);
        result
    }

    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    fn advance(&self, frontier: u64) -> u64 {
        let next = self.epoch.load(Ordering::Relaxed) + 1;
        self.frontier[(next % 2) as usize].store(frontier, Ordering::Relaxed);
        self.epoch.store(next, Ordering::SeqCst);
        if !self.barrier_of_all {
            self.membarrier();
        }
        next
    }

    fn drain(&self, epoch: u64) {
        if self.barrier_of_all {
            self.membarrier();
        }
        self.slots.iter().for_each(|slot| wait_for(slot, epoch));
    }
}
