//! Tables at rest: types, segments in Arrow layout, the directory, the write barrier, the index.
//!
//! A database is a tree in a [store](atoll_memory::Store): directory, tables, segments of 8,192
//! rows, and an extent for each column of a segment ([`layout`] draws it). The owner changes it
//! through the [write barrier](segment), which copies what a snapshot shows before it changes; a
//! snapshot, in any process, is the offset of a root and is read by [`reader`].
//!
//! This crate knows nothing of transactions: it never asks who may change a row, only how.

mod bucket_arrays;
mod data_type;
pub mod directory;
pub mod error;
mod flat;
pub mod image;
pub mod index;
pub mod key;
pub mod layout;
pub mod ordered;
pub mod reader;
pub mod redo;
pub mod restore;
pub mod schema_codec;
pub mod segment;
pub mod stable;
pub mod table;
pub mod types;
pub mod undo;
pub mod zone;

pub use directory::{Change, Directory};
pub use error::StorageError;
pub use layout::{RowId, SEGMENT_ROWS, TableId};
pub use segment::{DENSE_ROWS, Number, ValuePlace};
pub use table::{Filling, KeyRun, PlainColumn, PredictorView, Slot, Table};
pub use types::{Column, DataType, Schema, Value};
