//! Transactions: concurrency-control schemes, their row states, undo, and the engine that joins
//! them to tables.
//!
//! The user chooses a [scheme](scheme::Scheme) when a database is opened. The engine is compiled
//! once for each scheme, so its calls of the scheme are static. A scheme accesses all its
//! shared words through [`Machine`](atoll_machine::Machine), so the same code runs natively and on
//! a simulated machine. This crate knows neither disks nor SQL.
#![deny(unsafe_code)]

pub mod accounting;
mod alter_table;
pub mod any;
mod any_engine;
mod any_txn;
pub mod before_image;
pub mod bulk;
mod column_set;
pub mod common;
pub mod describe;
mod drop_table;
pub mod edits;
pub mod engine;
pub mod error;
mod garbage;
pub mod history;
mod index_set;
pub mod journal;
mod kept;
mod place;
pub mod registry;
pub mod row;
mod row_header;
pub mod scheme;
pub mod schemes;
mod table_options;
pub mod tables;
mod work;
pub mod worker;

pub use accounting::{Component, Components};
pub use common::timestamp::{TimestampKind, UnknownTimestamps};
pub use engine::{Engine, EngineOptions};
pub use error::OpError;
pub use journal::{Journal, JournalError};
pub use registry::{Counts, Taking};
pub use row::{Row, RowEdit};
pub use scheme::{AbortReason, Scheme, TXNS_MAX};
pub use schemes::{SchemeKind, SchemeOptions, SchemeVisitor, UnknownScheme};
pub use tables::{IndexSpec, TableOptions};
pub use worker::{
    Altered, Begin, Buffers, Call, Committed, Define, Impatience, Patience, Pool, Range, RowCursor,
    RowOp, Txn, Visit, WORKERS_MAX, Want, Worker,
};
