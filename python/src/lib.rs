//! The compiled half of the Python package `atolldb`.
//!
//! Python programs attach to databases of other processes, read their snapshots as Arrow data or
//! NumPy arrays in the owner's memory, and build databases of their own on them. No function holds
//! the GIL while it waits, reads a table or runs a query.

#![deny(clippy::unwrap_used)]

mod attach;
mod column;
mod convert;
mod database;
mod errors;
mod interrupt;
mod leases;
mod limits;
mod line;
mod memory;
mod numpy;
mod parameters;
mod query_stream;
mod render;
mod result;
mod schema;
mod session;
mod stream;
mod table;
mod values;

use pyo3::prelude::*;

/// The compiled half of the package `atolldb`; import `atolldb` instead.
#[pymodule]
fn _atolldb(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // The GIL is held, so no other thread forks meanwhile.
    atoll::machine::fork::prepare();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<attach::Connection>()?;
    module.add_class::<database::snapshot::Snapshot>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<column::Column>()?;
    module.add_class::<result::QueryResult>()?;
    module.add_class::<result::RowIterator>()?;
    module.add_class::<query_stream::Stream>()?;
    module.add_class::<schema::Schema>()?;
    module.add_class::<database::Database>()?;
    module.add_class::<session::Session>()?;
    module.add_function(wrap_pyfunction!(attach::attach, module)?)?;
    module.add_function(wrap_pyfunction!(database::create, module)?)?;
    module.add_function(wrap_pyfunction!(database::open, module)?)?;
    module.add_function(wrap_pyfunction!(limits::set_query_limits, module)?)?;
    module.add_function(wrap_pyfunction!(database::derive, module)?)
}
