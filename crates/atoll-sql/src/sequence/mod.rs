//! Sequences: numbers that are given once.
//!
//! A sequence is an object of the catalog. Its definition is part of transactions, as that of a
//! table; its numbers are not: what was given is not taken back by a rollback, and no number is
//! given twice after a crash.
//!
//! - `SEQUENCE-1`: the state of a sequence is in memory ([`values`]), and its one row is ahead of
//!   it. So a number is given only if the row that is durable before any commit that could contain
//!   the number is at that number or past it.
//! - `SEQUENCE-2`: the row is written by a transaction of its own, which is durable when it ends;
//!   or, if the sequence is one that only the running transaction knows, and under a scheme in
//!   which that transaction has all rows, as part of the running transaction.
//!
//! In reading order: [`definition`], [`states`], [`context`], [`values`], [`mentions`], [`owned`];
//! `sequence_syntax` reads their clauses.

pub(crate) mod context;
pub(crate) mod definition;
pub(crate) mod mentions;
pub(crate) mod owned;
pub(crate) mod states;
pub(crate) mod values;
