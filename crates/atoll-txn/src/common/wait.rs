//! The wait of a transaction for a place, for the schemes that bound it.
//!
//! A step that is refused a place starts over and asks again for all that comes before it. To be
//! granted something on the way ends no wait, unless it is the place that is waited for; else a
//! transaction that waits with another one for each other would begin to wait anew with each try.
//! So the bound is of a step, which may be several rows that are inserted together.

use atoll_machine::Machine;

use crate::scheme::Place;

/// See the module.
#[derive(Debug, Default)]
pub struct Wait {
    /// Waited for, until it is granted.
    place: Option<Place>,
    /// When the step was first refused something.
    since_ns: u64,
}

impl Wait {
    /// The step waits for a place, in its round of this number, counted from 0; for how long it has
    /// waited, for this place and others.
    pub fn go_on<M: Machine>(&mut self, place: Place, round: u32) -> u64 {
        let now = M::now_ns();
        if round == 0 {
            self.since_ns = now;
        }
        self.place = Some(place);
        now - self.since_ns
    }

    /// Whether this is what is waited for.
    #[inline]
    pub fn is_for(&self, place: Place) -> bool {
        self.place.is_some_and(|waited_for| waited_for == place)
    }

    /// Nothing is waited for any more; what was.
    pub fn end(&mut self) -> Option<Place> {
        self.place.take()
    }
}
