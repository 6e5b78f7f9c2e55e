//! Atoll: a database for one big machine.
//!
//! Transactions run on all nodes at once, and any other process takes an instant, isolated,
//! zero-copy snapshot of the live database as Arrow data.
//!
//! ```
//! use atoll::{Column, DataType, Database, DatabaseOptions, Schema};
//!
//! let db = Database::create(DatabaseOptions::default())?;
//! let columns = vec![Column::new("id", DataType::Int64), Column::new("balance", DataType::Int64)];
//! let accounts = db.create_table("accounts", Schema::new(columns, &["id"])?)?;
//! db.transaction(|tx| {
//!     tx.insert(&accounts, &[1i64.into(), 500i64.into()])?;
//!     tx.insert(&accounts, &[2i64.into(), 300i64.into()])
//! })?;
//! let before = db.snapshot()?; // instant, whatever the size
//! db.transaction(|tx| tx.update(&accounts, &[1i64.into()], &[(1, 0i64.into())]))?;
//! let balances = before.table("accounts")?.segment(0)?.array(1)?; // Arrow, not a byte copied
//! assert_eq!(arrow_array::cast::AsArray::as_primitive::<arrow_array::types::Int64Type>(&balances)
//!     .values()[0], 500);
//! # Ok::<(), atoll::Error>(())
//! ```
//!
//! [`Database::publish`] gives it a name; another process calls [`attach`] and takes snapshots
//! there, and can build on them with [`Database::derive`].

mod attach;
mod database;
mod error;
mod export;
mod keeper;
mod leases;
mod publish;
mod snapshot;
mod snapshot_table;
mod transaction;

pub use atoll_machine as machine;
pub use atoll_memory::MemoryError;
pub use atoll_memory::lease::{LeaseError, NameState, RefusalCode, RuntimeDir};
pub use atoll_storage::{Column, DataType, SEGMENT_ROWS, Schema, StorageError, Value};
pub use atoll_txn::AbortReason;
pub use attach::{Attachment, attach};
pub use database::{Counters, Database, DatabaseOptions, Table};
pub use error::{Error, Expiry, Result, TxnError, TxnResult};
pub use leases::SnapshotInfo;
pub use snapshot::Snapshot;
pub use snapshot_table::{Contiguous, SnapshotSegment, SnapshotTable};
pub use transaction::Transaction;
