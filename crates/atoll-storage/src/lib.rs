//! Physical storage of tables: types, segments in Arrow layout, the directory, the write barrier
//! and the indexes.
//!
//! A database is a tree in a [store](atoll_memory::Store): the directory, tables, segments of 8,192
//! rows, and an extent for each column of a segment ([`layout`] draws the tree). The owner process
//! changes the tree through the [write barrier](segment), which copies an extent that a snapshot
//! shows before a store changes it. A snapshot is the offset of a root; any process reads it
//! through [`reader`].
//!
//! This crate knows nothing of transactions. The layer above decides which transaction may change a
//! row; this crate only carries the change out.

mod bucket_arrays;
mod data_type;
pub mod directory;
pub mod error;
mod flat;
pub mod image;
pub mod index;
mod interval;
pub mod key;
pub mod labels;
pub mod layout;
pub mod list;
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
mod value;
pub mod zone;

pub use directory::{Change, Directory, Shown};
pub use error::StorageError;
pub use layout::{RowId, SEGMENT_ROWS, TableId, TableSerial};
pub use segment::{DENSE_ROWS, Number, SegmentBuffer, ValuePlace};
pub use table::{
    BulkSegments, Filling, Former, KeyRun, PlainColumn, PredictorView, Remains, Slot, Table,
};
pub use types::{Column, DataType, Interval, ROW_NUMBER, Schema, Value};
