//! All extents of a segment: retiring them after its table was dropped, and their size.

use atoll_machine::Machine;
use atoll_memory::Retired;

use super::constant::SHARED;
use super::{Barrier, Segment};
use crate::layout::{column, column_line, heap_list, heap_list_bytes, segment_node_bytes};

impl<M: Machine> Barrier<M> {
    /// Passes all extents of a segment that no thread uses any more to `retire`.
    pub(crate) fn retire_segment(&self, target: &Segment<M>, retire: &mut impl FnMut(Retired)) {
        self.each_extent(target, retire);
        for at in 0..target.columns() {
            target.heap(at).take().retire_blocks(retire);
        }
    }

    /// Bytes of the extents of a segment, without those that segments share. The caller is inside
    /// the gate.
    pub(crate) fn segment_bytes(&self, target: &Segment<M>) -> u64 {
        let mut bytes = 0;
        self.each_extent(target, &mut |extent| bytes += extent.size_bytes);
        let heaps = (0..target.columns()).map(|at| target.heap(at).take().bytes());
        bytes + heaps.sum::<u64>()
    }

    /// Visits the extents of a segment but for the blocks of its heaps.
    fn each_extent(&self, target: &Segment<M>, visit: &mut impl FnMut(Retired)) {
        let (access, node) = (self.access(), target.node());
        let load = |at: u64| access.load_u64(node + at);
        for (_, what) in self.each(target) {
            let (offset, birth) = (load(what.place), load(what.birth));
            if birth == SHARED {
                continue; // The table retires it.
            }
            visit(Retired { offset, size_bytes: what.bytes(target.capacity()), birth });
        }
        for at in 0..target.columns() {
            let line = column_line(at);
            let list = load(line + column::HEAP);
            if list != 0 {
                let size_bytes = heap_list_bytes(access.load_u64(list + heap_list::CAPACITY));
                let birth = load(line + column::HEAP_BIRTH);
                visit(Retired { offset: list, size_bytes, birth });
            }
        }
        let size_bytes = segment_node_bytes(target.columns());
        visit(Retired { offset: node, size_bytes, birth: load(0) });
    }
}
