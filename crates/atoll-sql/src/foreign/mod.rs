//! Foreign keys: columns of which each row names a row of another table, the parent.
//!
//! A foreign key ([`crate::foreign_key`]) is declared with the table that has its columns.
//!
//! In reading order: [`define`] (clauses of `CREATE TABLE`), [`references`] (which refer to a
//! table), `prepared/change/foreign.rs` (what a change has to keep), [`find`],
//! `prepared/run/foreign/` (checks and actions), [`deferred`].
//!
//! - `FOREIGN-1`: no commit leaves a row without its parent. The transaction that stores a
//!   row has read its parent, and one that removes a parent has read that no row refers to it; the
//!   scheme keeps both true until they end. READ COMMITTED lets go of reads, but not of a parent's
//!   ([`atoll::Transaction::keep_reads`]); the removal of a parent has its row alone before it
//!   looks for children.
//! - `FOREIGN-2`: a change is bound to the foreign keys of a catalog, and refused under another
//!   one. A foreign key comes and goes while its definition has both tables alone.

pub(crate) mod deferred;
pub(crate) mod define;
pub(crate) mod find;
pub(crate) mod references;
