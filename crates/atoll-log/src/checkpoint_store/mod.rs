//! The checkpoint store of a tablespace: one file of blocks, and the maps and steps that say which
//! block holds which part of which table.
//!
//! A checkpoint never overwrites a block that an earlier kept checkpoint needs: changed blocks go
//! to free blocks (shadow paging), and the few changed lines of a block go to the step. Each
//! checkpoint writes one file of its own: a map, which lists all blocks, or a step, which lists the
//! differences from the previous checkpoint. So the last two checkpoints are intact at every
//! moment, everything has a checksum, and a crash during a checkpoint leaves the previous one.
//!
//! | module | what it holds |
//! |---|---|
//! | [`map`] | maps and their encoding |
//! | [`step`] | steps and their encoding |
//! | [`store`] | the files: reading them, removing those that are no longer needed |
//! | [`writer`] | writing a checkpoint: finding free blocks, finding what has changed |

pub mod map;
pub mod step;
pub mod store;
#[cfg(test)]
mod tests;
pub mod writer;

pub use map::{BlockRef, ColumnMap, Map, Part, SegmentMap, TableMap};
pub use step::{FileRef, Holding, Lines, PartName};
pub use store::{CheckpointPart, CheckpointStore};
pub use writer::{Changed, Waiting, Writer};

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Bytes of a line, the smallest unit that a step writes.
pub const LINE_BYTES: usize = 64;
/// How many copies of a map its file contains.
pub const MAP_COPIES: u64 = 2;
/// Name of the file of blocks.
pub const FILE: &str = "home";

/// The name of the map of a checkpoint.
pub fn map_name(checkpoint: u64) -> String {
    format!("map-{checkpoint:012x}")
}

/// The name of the step to a checkpoint.
pub fn step_name(checkpoint: u64) -> String {
    format!("step-{checkpoint:012x}")
}

/// The number of a checkpoint, from the name of its map.
pub fn map_number(name: &str) -> Option<u64> {
    number_of(name, "map-")
}

/// The number of a checkpoint, from the name of the step to it.
pub fn step_number(name: &str) -> Option<u64> {
    number_of(name, "step-")
}

fn number_of(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix).filter(|digits| digits.len() == 12)?;
    u64::from_str_radix(digits, 16).ok()
}
