//! The machine: Atoll's only access to the outside world.
//!
//! The outside world is the clock, the words that threads share, the CPUs and the affinity of
//! threads, the memory nodes and their distances, the amount of memory that the process may use,
//! media for durable data, and the kernel's barrier across threads. The layers above use this crate
//! and nothing else, so each part can be replaced: a simulator implements [`Machine`], and a folder
//! of text files stands in for another machine.
//!
//! | module | question it answers |
//! |---|---|
//! | [`machine`] | what does transaction code run on? |
//! | [`native`] | the answer for the real machine |
//! | [`latch`] | how do threads exclude each other for a short time? |
//! | [`mod@pause`] | how does code wait that is not generic over the machine? |
//! | [`topology`] | which nodes exist, with which CPUs, memory and distances? |
//! | [`affinity`] | which CPUs may this process use, and how does a thread stay on one? |
//! | [`mapping`] | how is memory mapped, and which value owns the addresses? |
//! | [`binding`] | how is memory placed on a node, and on which node is it? |
//! | [`memory_limit`] | how much memory may this process use, and how much has a node left? |
//! | [`huge_pages`] | how are large arrays allocated on huge pages? |
//! | [`mod@zero_default`] | which values need not be written into new memory? |
//! | [`fork`] | which objects of its parent must a forked child not use? |
//! | [`hints`] | how are prefetches batched? |
//! | [`lines`] | how are bytes written through the caches to persistent memory? |
//! | [`medium`] | where are durable bytes stored, and what survives a crash? |
//! | [`mod@membarrier`] | how does one thread order the memory accesses of all threads? |
//! | [`process`] | which user, limits and signals does the process have? |
//! | [`sysfs`] | what do the kernel's small text files contain? |
//! | [`ids`], [`error`], [`warn_once`] | numbers, errors and warnings of the above |
//!
//! Nothing here knows tables or transactions, and nothing panics because of the environment. If a
//! container forbids a call, the result is an error that says what to do or, where work can
//! continue without the call, a value that says so.

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
pub mod mapping;
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
pub mod zero_default;

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
pub use mapping::Mapping;
pub use medium::{CrashMedium, FileMedium, Medium, MediumError, MediumFile, MediumKind, PmCost};
pub use membarrier::membarrier;
pub use memory_limit::{MemoryAllowed, memory_allowed, room_on};
pub use native::{Native, NativeWord};
pub use pause::{lock_patiently, pause, pause_with};
pub use topology::{FarPair, Node, Topology};
pub use warn_once::WarnOnce;
pub use zero_default::{ZeroBytes, ZeroDefault};
