//! An ADBC driver: databases of this process, and snapshots of others, as Arrow clients see them.
//!
//! The traits of `adbc_core` are implemented over [`atoll_sql::SqlSession`], and `adbc_ffi` makes
//! the C interface of them. This crate is a shared object with the entry of the driver, and part of
//! that of the Python package, so that a driver manager in a Python process shares the databases of
//! the package ([`registry`]).
//!
//! In reading order: [`registry`], `driver`, `connection`, `statement`, `link` (the session),
//! `parameters`, `results`, `ingest`, [`rows`], `catalog`, `info`, `errors`, `entry`, `foreign`.

#![deny(unsafe_code)]

mod catalog;
mod connection;
mod driver;
#[allow(unsafe_code)]
mod entry;
mod errors;
#[allow(unsafe_code)]
mod foreign;
mod info;
mod ingest;
mod link;
mod options;
mod parameters;
pub mod registry;
mod results;
pub mod rows;
mod statement;
#[allow(unsafe_code)]
mod stream_errors;
mod tally;

pub use entry::{AdbcDriverInit, AtollDriverInit};
