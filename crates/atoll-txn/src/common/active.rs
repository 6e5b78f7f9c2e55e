//! The timestamps of active transactions, from which garbage collection computes its low-water
//! mark.
//!
//! Protocol
//! 1. A transaction that begins announces that it is choosing, takes a timestamp, checks that it is
//!    above the floor (else it takes another one), and announces the timestamp.
//! 2. A collector proposes the greatest timestamp that is smaller than all announced ones, raises
//!    the floor to it, and reads the announcements again. If no transaction is choosing or at or
//!    below the floor, all transactions are above it and will stay so.

use atoll_machine::{Machine, Ordering, Word};

use crate::scheme::TXNS_MAX;

const IDLE: u64 = 0;
const CHOOSING: u64 = 1;

#[repr(align(64))]
struct Line<W>(W);

/// See the module.
pub struct Active<M: Machine> {
    slots: Box<[Line<M::Word>]>,
    used: M::Word,
    floor: Line<M::Word>,
}

impl<M: Machine> Default for Active<M> {
    fn default() -> Self {
        Self {
            slots: (0..TXNS_MAX).map(|_| Line(M::Word::new(IDLE))).collect(),
            used: M::Word::new(0),
            floor: Line(M::Word::new(0)),
        }
    }
}

impl<M: Machine> Active<M> {
    /// Registers a transaction number.
    pub fn add(&self, number: u32) {
        let mut used = self.used.load(Ordering::Relaxed);
        while used <= u64::from(number) {
            let wanted = u64::from(number) + 1;
            let grown =
                self.used.compare_exchange(used, wanted, Ordering::SeqCst, Ordering::Relaxed);
            used = grown.err().unwrap_or(wanted);
        }
    }

    /// Begins the transaction with this number. Returns the first timestamp of `choose` that is
    /// above the floor.
    pub fn begin(&self, number: u32, mut choose: impl FnMut() -> u64) -> u64 {
        let slot = &self.slots[number as usize].0;
        slot.store(CHOOSING, Ordering::SeqCst);
        loop {
            let timestamp = choose();
            if timestamp > self.floor.0.load(Ordering::SeqCst) {
                slot.store(timestamp, Ordering::SeqCst);
                return timestamp;
            }
        }
    }

    /// Ends the transaction with this number.
    pub fn end(&self, number: u32) {
        self.slots[number as usize].0.store(IDLE, Ordering::Release);
    }

    /// A timestamp below those of all transactions that are active or will begin; `now` if no
    /// transaction is active; 0 if the low-water mark cannot be determined at the moment.
    pub fn horizon(&self, now: u64) -> u64 {
        let announced = || {
            let used = self.used.load(Ordering::SeqCst) as usize;
            let slots = self.slots[..used].iter().map(|slot| slot.0.load(Ordering::SeqCst));
            slots.filter(|timestamp| *timestamp != IDLE)
        };
        let mut proposed = now;
        for timestamp in announced() {
            if timestamp == CHOOSING {
                return 0;
            }
            proposed = proposed.min(timestamp - 1);
        }
        // If the floor is too high, a transaction has to choose again; nothing else happens.
        self.raise(proposed);
        let settled = announced().all(|timestamp| timestamp != CHOOSING && timestamp > proposed);
        if settled { proposed } else { 0 }
    }

    fn raise(&self, to: u64) {
        let mut floor = self.floor.0.load(Ordering::SeqCst);
        while floor < to {
            let raised =
                self.floor.0.compare_exchange(floor, to, Ordering::SeqCst, Ordering::Relaxed);
            floor = raised.err().unwrap_or(to);
        }
    }
}
