//! The home of a tablespace's tables: blocks in one file, and maps that say which hold what.
//!
//! A checkpoint never writes over a block that an earlier one needs: what has changed goes to free
//! blocks, and a map of its own says where everything lies. So the homes of the last two
//! checkpoints are whole at every moment, every block has a checksum that must fit, and a crash
//! inside a checkpoint is a crash before it.
//!
//! | module | room for |
//! |---|---|
//! | [`map`] | what a map says, and its bytes |
//! | [`store`] | the file of blocks: finding free ones, writing, reading |

pub mod map;
pub mod store;

pub use map::{BlockRef, ColumnMap, Map, Part, SegmentMap, TableMap};
pub use store::{Home, Writer};

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Name of the file of blocks.
pub const FILE: &str = "home";

/// The name of the map of a checkpoint.
pub fn map_name(checkpoint: u64) -> String {
    format!("map-{checkpoint:012x}")
}

/// The number of a checkpoint, from the name of its map.
pub fn map_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("map-").filter(|digits| digits.len() == 12)?;
    u64::from_str_radix(digits, 16).ok()
}
