//! Retiring all extents of a segment after its table was dropped.

use atoll_machine::Machine;
use atoll_memory::Retired;

use super::constant::SHARED;
use super::{Barrier, Segment};
use crate::layout::{column, column_line, heap_list, heap_list_bytes, segment_node_bytes};

impl<M: Machine> Barrier<M> {
    /// Passes all extents of a segment that no thread uses any more to `retire`.
    pub(crate) fn retire_segment(&self, target: &Segment<M>, retire: &mut impl FnMut(Retired)) {
        let (access, node) = (self.access(), target.node());
        let load = |at: u64| access.load_u64(node + at);
        for (_, what) in self.each(target) {
            let (offset, birth) = (load(what.place), load(what.birth));
            if birth == SHARED {
                continue; // The table retires it.
            }
            retire(Retired { offset, size_bytes: what.bytes(target.capacity()), birth });
        }
        for at in 0..target.columns() {
            target.heap(at).take().retire_blocks(retire);
            let line = column_line(at);
            let list = load(line + column::HEAP);
            if list != 0 {
                let size_bytes = heap_list_bytes(access.load_u64(list + heap_list::CAPACITY));
                let birth = load(line + column::HEAP_BIRTH);
                retire(Retired { offset: list, size_bytes, birth });
            }
        }
        let size_bytes = segment_node_bytes(target.columns());
        retire(Retired { offset: node, size_bytes, birth: load(0) });
    }
}
