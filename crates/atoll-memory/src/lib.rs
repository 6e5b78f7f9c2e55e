//! Memory that several processes share: stores, the allocator in a store, epochs and leases.
//!
//! A [`Store`] is a sparse file that each process maps once as a whole; [`SwingMalloc`] allocates
//! extents of it. All references are offsets, so a store can be mapped at a different address in
//! each process. The crate knows nothing of tables.
//!
//! | module | what it holds |
//! |---|---|
//! | [`store`] | the sparse file: mapping, committed space, residency in DRAM |
//! | [`swing`] | the allocator of extents |
//! | [`access`] | bounds-checked reads and writes by offset |
//! | [`gate`] | the epoch barrier between workers and snapshots |
//! | [`epochs`] | the epochs that leases hold, and the extents that wait for them |
//! | [`memory`] | all of these together: the memory of one database |
//! | [`stitch`] | extents of a column, mapped side by side |
//! | [`lease`] | names of databases, and snapshots for other processes |
//! | [`error`] | the errors of stores and the allocator |

#![cfg(target_os = "linux")]

pub mod access;
pub mod epochs;
pub mod error;
pub mod gate;
pub mod lease;
pub mod memory;
mod shared;
pub mod stitch;
pub mod store;
pub mod swing;
mod sync;

#[cfg(test)]
#[path = "../../atoll-machine/tests/skipped/mod.rs"]
mod skipped;

pub use access::{Access, View};
pub use epochs::Retired;
pub use error::{MemoryError, Shortage};
pub use gate::{Gate, Inside, Member, Section};
pub use memory::{CopyCount, Cut, Memory, Purpose};
pub use store::{CHUNK_BYTES, Residency, Store, StoreId, StoreOptions, Tended};
pub use swing::{Extent, SwingConfig, SwingMalloc};
