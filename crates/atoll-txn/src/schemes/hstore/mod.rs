//! HSTORE: one lock for each partition, taken before the transaction begins.
//!
//! A transaction names the partitions that it is going to access and locks them; the oldest waiting
//! transaction gets a lock first. Then it runs alone in these partitions, and the scheme refuses
//! none of its requests ("Staring into the Abyss", section 2.2). A worker accesses the rows of any
//! partition directly, since memory is shared (section 4.3). Transactions lock partitions in
//! ascending order, so there is no deadlock. Timestamps only order waiting transactions, so a
//! transaction that does not wait takes none.

mod local;
mod queue;
mod state;

use atoll_machine::Machine;

pub use local::Local;
use queue::Queue;
pub use state::State;

use crate::common::timestamp::Timestamps;
use crate::scheme::{Conflict, Fetch, Place, Scheme, Seen, Start, StatesOf, Target, Writes};
use crate::schemes::SchemeOptions;

/// See the module.
pub struct HStore<M: Machine> {
    timestamps: Timestamps<M>,
    partitions: Box<[Queue<M>]>,
}

impl<M: Machine> HStore<M> {
    /// The scheme.
    pub fn new(options: &SchemeOptions) -> Self {
        Self {
            timestamps: Timestamps::new(options.timestamps),
            partitions: (0..options.partitions.max(1)).map(|_| Queue::default()).collect(),
        }
    }
}

impl<M: Machine> Scheme<M> for HStore<M> {
    const NAME: &'static str = "HSTORE";
    const WRITES: Writes = Writes::InPlace;
    const PARTITIONED: bool = true;
    type State = State;
    type Gap = State;
    type Local = Local;

    fn local(&self, number: u32) -> Local {
        Local::new(number)
    }

    fn begin(&self, local: &mut Local, start: &Start<'_>) -> Result<(), Conflict> {
        if local.wanted.is_empty() {
            if start.partitions.is_empty() {
                local.wanted.extend(0..self.partitions.len() as u32);
            } else {
                local.wanted.extend_from_slice(start.partitions);
            }
        }
        while let Some(partition) = local.wanted.get(local.granted) {
            let queue = &self.partitions[*partition as usize];
            if !queue.take_idle() {
                // Timestamps order only waiting transactions.
                if local.timestamp == 0 {
                    local.timestamp = self.timestamps.next(&mut local.source);
                }
                if !queue.take(local.number, local.timestamp) {
                    return Err(Conflict::WouldBlock(Place::partition(*partition)));
                }
            }
            local.granted += 1;
        }
        Ok(())
    }

    #[inline]
    fn read(
        &self,
        _local: &mut Local,
        _states: &impl StatesOf<Self, M>,
        _target: Target<'_, State>,
        fetch: Fetch<'_>,
    ) -> Result<Seen, Conflict> {
        Ok(if fetch(None) { Seen::Present } else { Seen::Absent })
    }

    #[inline]
    fn write(
        &self,
        _local: &mut Local,
        _states: &impl StatesOf<Self, M>,
        _target: Target<'_, State>,
        _present: bool,
    ) -> Result<(), Conflict> {
        Ok(())
    }

    fn read_gap(&self, _local: &mut Local, _place: Place, _gap: &State) -> Result<(), Conflict> {
        Ok(())
    }

    fn insert_into_gap(
        &self,
        _local: &mut Local,
        _place: Place,
        _gap: &State,
    ) -> Result<(), Conflict> {
        Ok(())
    }

    fn split(&self, _local: &mut Local, _old: (Place, &State), _new: (Place, &State)) -> bool {
        true
    }

    fn adopt(_state: &Self::State) {}

    fn end(&self, local: &mut Local, _states: &impl StatesOf<Self, M>, _committed: bool) {
        let granted = local.wanted[..local.granted].iter();
        granted.for_each(|partition| self.partitions[*partition as usize].release());
        if let Some(partition) = local.wanted.get(local.granted) {
            self.partitions[*partition as usize].leave(local.number);
        }
        local.wanted.clear();
        local.granted = 0;
        local.timestamp = 0;
    }
}
