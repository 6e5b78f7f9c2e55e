//! The machine: everything of the outside world that Atoll touches enters through this crate.
//!
//! The outside world is the clock, the words that threads share, the CPUs and which of them a
//! thread may run on, the memory nodes and how far apart they are, how much memory the process
//! may use, and the barrier that the kernel offers across threads. The layers above ask here and
//! nowhere else, so each of these can be replaced: a simulator implements [`Machine`], and a
//! folder of text files stands in for a machine that is not at hand.
//!
//! | module | question it answers |
//! |---|---|
//! | [`machine`] | what does transaction code run on? |
//! | [`native`] | the answer for the real machine |
//! | [`latch`] | how does one thread at a time change something? |
//! | [`mod@pause`] | how does code wait that does not know what it runs on? |
//! | [`topology`] | which nodes are there, with which CPUs, memory and distances? |
//! | [`affinity`] | which CPUs may this process use, and how does a thread stay on one? |
//! | [`binding`] | how does memory come to lie on a node, and where does it lie? |
//! | [`memory_limit`] | how much memory may this process use, and a node still take? |
//! | [`huge_pages`] | how do large arrays come to lie on huge pages? |
//! | [`fork`] | what does a forked child leave alone of its parent's? |
//! | [`hints`] | how is the processor told what will be touched next? |
//! | [`lines`] | how do bytes leave the caches for persistent memory? |
//! | [`medium`] | where do bytes lie that outlive the process, and what survives a crash? |
//! | [`mod@membarrier`] | how does one thread order the memory accesses of all? |
//! | [`sysfs`] | what do the kernel's small text files say? |
//! | [`ids`], [`error`], [`warn_once`] | numbers, errors and warnings of the above |
//!
//! Nothing here knows tables or transactions, and nothing panics on a bad environment: what a
//! container forbids is either an error that says what to do or, where work can go on without it,
//! a value that says so.

pub mod affinity;
pub mod binding;
pub mod error;
pub mod fork;
pub mod hints;
pub mod huge_pages;
pub mod ids;
mod kernel_files;
pub mod latch;
pub mod lines;
pub mod machine;
pub mod medium;
pub mod membarrier;
pub mod memory_limit;
pub mod native;
pub mod pause;
pub mod process;
pub mod sysfs;
pub mod topology;
pub mod warn_once;
mod word_line;

#[cfg(test)]
#[path = "../tests/skipped/mod.rs"]
mod skipped;

pub use affinity::{allowed_cpus, current_cpu, pin_current_thread};
pub use binding::{Binding, bind_memory, move_pages, node_of, nodes_of, page_bytes};
pub use error::MachineError;
pub use hints::Hints;
pub use ids::{CpuId, NodeId};
pub use latch::{Latch, Latched};
pub use machine::{Machine, Ordering, Word, WordLine};
pub use medium::{CrashMedium, FileMedium, Medium, MediumError, MediumFile, MediumKind, PmCost};
pub use membarrier::membarrier;
pub use memory_limit::{MemoryAllowed, memory_allowed, room_on};
pub use native::{Native, NativeWord};
pub use pause::{lock_patiently, pause, pause_with};
pub use topology::{FarPair, Node, Topology};
pub use warn_once::WarnOnce;
