//! Atoll: an embedded database engine for one big machine.
//!
//! Transactions run on all cores at once, and any other process takes an instant, isolated,
//! zero-copy snapshot of the live database as Arrow data.
//!
//! [`Database::create`] creates a database in memory and [`Database::open`] one in a folder, from
//! which it is recovered after a crash. [`Database::transaction`] changes it and
//! [`Database::snapshot`] takes a snapshot of it; the README has an example. [`Database::publish`]
//! gives the database a name; another process calls [`attach`] with that name, takes snapshots, and
//! can build a database on them with [`Database::derive`].

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod acknowledger;
mod arrow_types;
mod attach;
mod catalog;
mod core;
mod counters;
mod database;
mod durability;
mod durable;
mod engine;
mod errands;
mod error;
mod evictor;
mod export;
mod keeper;
mod lanes;
mod leases;
mod lists;
pub mod load;
mod memory_setup;
mod options;
mod progress;
mod publish;
mod reservation;
pub mod restore;
mod restore_point;
mod session;
mod sharing;
mod snapshot;
mod snapshot_table;
mod table;
mod table_locks;
mod transaction;
mod turn;
mod unfinished;

pub use arrow_types::{BINARY, CHARACTER, ENUM, JSON, JSONB, UTC, UUID, arrow_field, arrow_type};
#[doc(hidden)]
pub use atoll_log::Planted;
pub use atoll_log::{LogError, LogsOptions};
pub use atoll_machine as machine;
pub use atoll_memory::MemoryError;
pub use atoll_memory::lease::{LeaseError, NameState, RefusalCode, RuntimeDir};
pub use atoll_storage::key::display as display_values;
pub use atoll_storage::labels::{LABEL_BYTES_MAX, Labels};
pub use atoll_storage::list::{decode as decode_list, encode as encode_list};
pub use atoll_storage::types::{CHARACTERS_MAX, COLUMNS_MAX, DAY_MICROS, Interval};
pub use atoll_storage::{Column, DataType, ROW_NUMBER, SEGMENT_ROWS, Schema, StorageError, Value};
pub use atoll_txn::{
    AbortReason, Buffers, IndexSpec, Patience, Range, RowOp, SchemeKind, TableOptions,
    TimestampKind, UnknownScheme, UnknownTimestamps, Want,
};
pub use attach::{Attachment, attach};
pub use catalog::Catalog;
pub use counters::{Accounting, Counters, MemoryAccount, TableBytes};
pub use database::Database;
pub use durability::{Durability, UnknownDurability};
pub use durable::health::{CheckpointFailure, Health};
pub use durable::inspect;
pub use durable::{BackupReport, CheckpointReport, RecoveryReport};
pub use error::{Error, Expiry, RestoreError, Result, TxnError, TxnResult};
pub use evictor::Budget;
pub use export::dictionary;
pub use lanes::{Lanes, Request};
pub use leases::{SnapshotInfo, Status};
pub use lists::{list_array, value_array};
pub use load::ArrowRows;
pub use options::DatabaseOptions;
pub use progress::{OpenPart, OpenProgress};
pub use restore::{RestoreReport, Until};
pub use restore_point::RestorePoint;
pub use session::Session;
pub use snapshot::Snapshot;
pub use snapshot_table::{Contiguous, SnapshotSegment, SnapshotTable};
pub use table::{Index, Table};
pub use transaction::{
    Cursor, DefinitionsMade, IndexBuild, Row, RowEdit, TableChange, Transaction,
    TransactionOptions, Visit,
};
