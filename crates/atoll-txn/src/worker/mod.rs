//! Workers execute transactions.
//!
//! A [`Worker`] belongs to a thread and a [`Txn`] to a transaction, and neither keeps a reference
//! to the other. A [`Call`] joins the two while operations run: [`Txn::on`]. Between calls, an open
//! [`Txn`] holds no thread, no slot at the gate and no segment, and may move to another thread
//! ([`crate::any`] keeps a worker with it until it is parked).
//!
//! | state | belongs to | in |
//! |---|---|---|
//! | slot at the gate, newest sealed epoch | thread | [`thread`] |
//! | segments that are being filled, training of the key predictor | thread | [`thread`] |
//! | garbage queue | thread | [`thread`] |
//! | buffers for keys, scans and pending stores, empty between calls | thread | [`thread`] |
//! | the scheme's local state and all its arrays by transaction number | transaction | [`txn`] |
//! | undo list and write set, index entries, rows made and deleted | transaction | [`txn`] |
//! | what takers of snapshots see, redo records, GSNs | transaction | [`txn`] |
//! | the keys that it has prefetched, the time that it has spent | transaction | [`txn`] |
//!
//! Schemes number transactions and not threads: active timestamps, the board of waiting
//! transactions, the queues of partitions, the timestamps of commits and the chunks of delta
//! records are all by [transaction number](crate::scheme::TXNS_MAX).
//!
//! The way of an operation to a row, in the order of reading:
//! - [`ops`]: what the caller wants, and the checks of it
//! - [`found`], [`step`]: a lookup, and the section of the gate in which it is used
//! - [`fast`]: the fast path to a single value
//! - [`point`]: the general path, for closures, NULL, texts, own writes, and measured transactions
//! - [`key_batch`], [`many`]: keys that are known together, in windows of 32
//! - [`cursor`]: keys that depend on the row before, with the same fast path
//! - [`prefetch`]: keys that will be accessed later
//!
//! Invariants
//! - `WORKER-1`: a call finds a row, asks the scheme and reads the row in one section of the gate.
//!   If the scheme would have to wait, it refuses; the call then waits outside the gate and starts
//!   over.
//! - `WORKER-2`: a call unlocks places only after it has closed its publication. So a cut never
//!   shows a transaction that has read from another one which the cut undoes.
//! - `WORKER-3`: an error while storing leaves a transaction half done, so the call rolls it back
//!   at once. An error that is found before anything is stored leaves the transaction as it was.
//! - `WORKER-4`: a slot is used again only when no index entry leads to it and, for schemes that
//!   store at commit, no transaction can be reading its old row (`worker/garbage.rs`).
//! - `WORKER-5`: a transaction ends in a section of a sealed epoch, so no worker is inside the gate
//!   under an older epoch. Hence all commits of earlier epochs have happened before the transaction
//!   validates (`SCHEME-4`), and a transaction that reads its results does so after the cut of
//!   every snapshot that undoes it.

mod add_entry;
mod call;
mod commit;
mod cursor;
mod defined;
mod definitions;
mod delete;
mod entries;
mod fast;
mod found;
mod garbage;
mod heap_scan;
mod index_fill;
mod insert;
mod key_batch;
mod many;
mod ops;
mod point;
mod pool;
mod prefetch;
mod prefetched;
mod publication;
mod range;
mod redo;
mod rollback;
mod row_changes;
mod scan;
mod step;
mod store_buffer;
mod thread;
mod txn;
mod unique_check;
mod upkeep;
mod write_down;

pub use call::{Begin, Call, Committed};
pub use cursor::RowCursor;
pub use defined::{Altered, Define};
pub use index_fill::Impatience;
pub use ops::{Buffers, RowOp, Visit, Visitor, Want};
pub use pool::{Pool, Txn, WORKERS_MAX, Worker};
pub use range::Range;
pub use txn::Patience;
