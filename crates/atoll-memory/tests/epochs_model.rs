//! The waiting lists of extents, against a model that looks at all extents in every step.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use atoll_memory::Retired;
use atoll_memory::epochs::Epochs;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    /// Allocates an extent of this many bytes.
    Allocate(u64),
    /// Replaces one of the extents in use: by a worker of this epoch, or by one that is still
    /// inside under the epoch before.
    Retire(usize, bool),
    /// A snapshot: holds the epoch that ends.
    Cut,
    /// Another lease on an epoch that is held.
    HoldAgain(usize),
    /// Ends one of the leases.
    Release(usize),
    /// A new epoch without a snapshot.
    Advance,
}

fn step() -> impl Strategy<Value = Step> {
    let which = any::<usize>;
    prop_oneof![
        4 => (1..1_000_000u64).prop_map(Step::Allocate),
        4 => (which(), any::<bool>()).prop_map(|(which, late)| Step::Retire(which, late)),
        2 => Just(Step::Cut),
        1 => which().prop_map(Step::HoldAgain),
        2 => which().prop_map(Step::Release),
        1 => Just(Step::Advance),
    ]
}

/// The extents and leases, and the current epoch.
#[derive(Default)]
struct Model {
    epoch: u64,
    next_offset: u64,
    in_use: Vec<Retired>,
    /// Retired extents that are not freed, each with the epoch in which it was retired.
    waiting: Vec<(Retired, u64)>,
    leases: Vec<u64>,
}

impl Model {
    /// The youngest held epoch that shows an extent.
    fn shown_by(&self, extent: &Retired, died: u64) -> Option<u64> {
        let shows = |epoch: &&u64| (extent.birth..died).contains(*epoch);
        self.leases.iter().filter(shows).max().copied()
    }

    /// The extents that have to be freed now, by offset.
    fn free(&mut self) -> Vec<u64> {
        let all = std::mem::take(&mut self.waiting);
        let (keep, free): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(extent, died)| self.shown_by(extent, *died).is_some());
        self.waiting = keep;
        let mut offsets: Vec<u64> = free.iter().map(|(extent, _)| extent.offset).collect();
        offsets.sort_unstable();
        offsets
    }

    fn check(&self, epochs: &Epochs) {
        assert_eq!(epochs.leases(), self.leases.len() as u64);
        assert_eq!(epochs.newest_held(), self.leases.iter().max().copied().unwrap_or(0));
        let mut by_epoch = BTreeMap::<u64, u64>::new();
        for (extent, died) in &self.waiting {
            let epoch = self.shown_by(extent, *died).unwrap();
            *by_epoch.entry(epoch).or_default() += extent.size_bytes;
        }
        for epoch in 0..=self.epoch {
            let expected = by_epoch.get(&epoch).copied().unwrap_or(0);
            assert_eq!(epochs.waiting_bytes(epoch), expected, "bytes of epoch {epoch}");
        }
        assert_eq!(epochs.waiting_bytes_all(), by_epoch.values().sum::<u64>());
    }

    fn retire(&mut self, epochs: &mut Epochs, which: usize, late: bool) -> Vec<Retired> {
        let extent = self.in_use.swap_remove(which % self.in_use.len());
        let died = (self.epoch - u64::from(late)).max(extent.birth);
        self.waiting.push((extent, died));
        epochs.retire(extent, died).into_iter().collect()
    }

    /// Takes a step in the model and in `epochs`; returns the extents that `epochs` returned.
    fn step(&mut self, epochs: &mut Epochs, step: Step) -> Vec<Retired> {
        match step {
            Step::Allocate(size_bytes) => {
                self.next_offset += 4096;
                let offset = self.next_offset;
                self.in_use.push(Retired { offset, size_bytes, birth: self.epoch });
            }
            Step::Retire(which, late) if !self.in_use.is_empty() => {
                return self.retire(epochs, which, late);
            }
            Step::Cut => {
                epochs.hold(self.epoch);
                self.leases.push(self.epoch);
                self.epoch += 1;
            }
            Step::HoldAgain(which) if !self.leases.is_empty() => {
                let epoch = self.leases[which % self.leases.len()];
                epochs.hold(epoch);
                self.leases.push(epoch);
            }
            Step::Release(which) if !self.leases.is_empty() => {
                let epoch = self.leases.swap_remove(which % self.leases.len());
                return epochs.release(epoch);
            }
            Step::Advance => self.epoch += 1,
            Step::Retire(..) | Step::HoldAgain(_) | Step::Release(_) => {}
        }
        Vec::new()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn an_extent_is_freed_once_and_as_soon_as_no_lease_shows_it(
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut model = Model { epoch: 1, ..Model::default() };
        let mut epochs = Epochs::default();
        for step in steps {
            let freed = model.step(&mut epochs, step);
            let mut offsets: Vec<u64> = freed.iter().map(|extent| extent.offset).collect();
            offsets.sort_unstable();
            prop_assert_eq!(offsets, model.free());
            model.check(&epochs);
        }
        while let Some(epoch) = model.leases.pop() {
            let mut offsets: Vec<u64> =
                epochs.release(epoch).iter().map(|extent| extent.offset).collect();
            offsets.sort_unstable();
            prop_assert_eq!(offsets, model.free());
        }
        model.check(&epochs);
        prop_assert!(model.waiting.is_empty());
    }
}
