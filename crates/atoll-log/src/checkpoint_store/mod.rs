//! The home of a tablespace's tables: blocks in one file, and files that say which hold what.
//!
//! A checkpoint never writes over a block that an earlier one needs: what has changed goes to free
//! blocks, or, where only a few lines of a block have, into a file of its own, which says where
//! everything lies: a map of it, or what is different from the checkpoint before. So the homes of
//! the last two checkpoints are whole at every moment, everything has a checksum that must fit, and
//! a crash inside a checkpoint is a crash before it.
//!
//! | module | room for |
//! |---|---|
//! | [`map`] | what a map says, and its bytes |
//! | [`step`] | what is different from the checkpoint before, and its bytes |
//! | [`store`] | the files: reading them, and keeping those that are needed |
//! | [`writer`] | writing a checkpoint: finding free blocks, telling what has changed |

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
/// Bytes of a line, the least that is written of a part that has changed.
pub const LINE_BYTES: usize = 64;
/// A map is in its file so often.
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
