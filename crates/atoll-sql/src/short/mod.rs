//! The short executor: statements that touch few rows, on a live transaction.
//!
//! A statement is planned and optimized by DataFusion, as a query is, so both give expressions the
//! same meaning. The plan is then compiled into a few nodes ([`plan`]) over the accesses that a
//! transaction has: a row by its primary key, a range of an ordered index ([`access`]). Values are
//! those of a transaction, and no batch is made, so such a statement takes microseconds.
//!
//! In reading order: [`value`], [`scalar`], [`list`], [`run`], [`access`], [`aggregate`], [`plan`],
//! [`compile`], [`columns`], [`explain`].

pub(crate) mod access;
pub(crate) mod aggregate;
pub(crate) mod columns;
pub(crate) mod compile;
pub(crate) mod explain;
pub(crate) mod list;
pub(crate) mod plan;
pub(crate) mod run;
pub(crate) mod scalar;
pub(crate) mod value;
