//! The wait of a transaction for a place, for schemes with a timeout.
//!
//! When a scheme refuses a place, the step starts over and requests again everything before that
//! place. Such a request does not end the wait when it is granted, unless it is for the place that
//! the transaction waits for. Otherwise each attempt would restart the timeout, and a deadlock
//! would never end. So the timeout is for a whole step, which may insert several rows.

use atoll_machine::Machine;

use crate::scheme::Place;

/// See the module.
#[derive(Debug, Default)]
pub struct Wait {
    /// The place that the transaction waits for, until it is granted.
    place: Option<Place>,
    /// When the step was first refused a place.
    since_ns: u64,
}

impl Wait {
    /// Waits for a place, in this round of the step, counted from 0. Returns how long the step has
    /// waited, for this place and for others.
    pub fn go_on<M: Machine>(&mut self, place: Place, round: u32) -> u64 {
        let now = M::now_ns();
        if round == 0 {
            self.since_ns = now;
        }
        self.place = Some(place);
        now - self.since_ns
    }

    /// Whether the transaction waits for this place.
    #[inline]
    pub fn is_for(&self, place: Place) -> bool {
        self.place.is_some_and(|waited_for| waited_for == place)
    }

    /// Ends the wait; returns the place that the transaction has waited for.
    pub fn end(&mut self) -> Option<Place> {
        self.place.take()
    }
}
