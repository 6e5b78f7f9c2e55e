//! Memory that is going to be touched, gathered before any of it is asked for.
//!
//! A prefetch whose page the processor does not know by heart does not retire until the page has
//! been found, and what follows waits behind it in the processor's window of instructions. Between
//! prefetches that are spread over code that does something else, only a few pages are searched
//! for at a time. So places are gathered first, and then named one right after the other.

use crate::machine::Machine;

/// Places are named when so many have been gathered: about as many lines as a first cache holds.
const GATHERED_MAX: usize = 256;

/// See the module.
#[derive(Debug, Default)]
pub struct Hints {
    /// Address and bytes of each place; nothing is ever read there.
    places: Vec<(usize, usize)>,
}

impl Hints {
    /// Gathers a place.
    #[inline]
    pub fn add<M: Machine>(&mut self, address: *const u8, bytes: usize) {
        if self.places.len() == GATHERED_MAX {
            self.give::<M>();
        }
        self.places.push((address.addr(), bytes));
    }

    /// Names all places, see [`Machine::touch`].
    #[inline]
    pub fn give<M: Machine>(&mut self) {
        for (address, bytes) in &self.places {
            M::touch(std::ptr::without_provenance(*address), *bytes);
        }
        self.places.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::{GATHERED_MAX, Hints};
    use crate::{Machine, NativeWord};

    thread_local! {
        static TOUCHED: RefCell<Vec<(usize, usize)>> = const { RefCell::new(Vec::new()) };
    }

    struct Watched;

    impl Machine for Watched {
        type Word = NativeWord;
        fn now_ns() -> u64 {
            0
        }
        fn wait(_round: u32) {}
        fn touch(address: *const u8, bytes: usize) {
            TOUCHED.with_borrow_mut(|touched| touched.push((address.addr(), bytes)));
        }
    }

    #[test]
    fn each_place_is_named_once_and_in_order() {
        let mut hints = Hints::default();
        let all: Vec<(usize, usize)> = (0..GATHERED_MAX * 2 + 3).map(|at| (at * 64, at)).collect();
        for (address, bytes) in &all {
            hints.add::<Watched>(std::ptr::without_provenance(*address), *bytes);
        }
        hints.give::<Watched>();
        hints.give::<Watched>();
        assert_eq!(TOUCHED.take(), all);
    }
}
