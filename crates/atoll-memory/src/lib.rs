//! Memory that several processes share: stores, the allocator inside them, and its errors.
//!
//! A [`Store`] is a sparse file mapped whole once per process; [`SwingMalloc`] hands out extents
//! of it. Everything is addressed by offset, so that the same store can lie at another address in
//! every process. Nothing here knows of tables.

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
