//! What several schemes are made of.

pub mod active;
#[cfg(test)]
pub(crate) mod few;
pub mod gap;
pub mod held;
pub mod image;
pub mod lock;
pub mod moment;
pub mod past;
pub mod read_set;
pub mod timestamp;
pub mod version;
pub mod wait;
