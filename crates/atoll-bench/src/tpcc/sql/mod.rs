//! TPC-C as SQL statements, for Atoll's sessions and for other databases.
//!
//! The tables have the columns of the parent module, with ordered primary keys. A transaction
//! begins with `BEGIN` at the database's usual isolation level, and one that conflicts with others
//! is tried again from its begin, which is counted.

mod client;
mod statements;
mod tables;
mod transactions;

use atoll::Value;

use crate::tpcc::args::Mix;
use crate::tpcc::drawn::{Drawer, Pool};
use crate::tpcc::fill;
use crate::tpcc::population::Size;
use crate::tpcc::random::{Constants, TpccRandom};

use crate::sql::{Connection, Failure};
pub use crate::tpcc::args::KINDS;
pub use crate::tpcc::schema::Kind;
pub use client::SqlClient;
pub use tables::{SqlTables, definitions, definitions_with_indexes};

use tables::in_sql;
pub use transactions::SqlTransactions;

/// Hands the initial rows of all tables to `put`, as they are in SQL.
///
/// # Errors
/// The first one of `put`.
pub fn each_row<E>(
    size: Size,
    seed: u64,
    mut put: impl FnMut(Kind, &[Value]) -> Result<(), E>,
) -> Result<(), E> {
    fill::each_row(size, seed, |kind, row| {
        put(kind, &row.iter().map(in_sql).collect::<Vec<Value>>())
    })
}

/// A client of another database with tables of this size, for the thread with the number `worker`.
/// It runs the standard mix.
///
/// # Errors
/// A statement cannot be prepared.
pub fn client<C: Connection>(
    connection: C,
    size: Size,
    seed: u64,
    worker: u16,
    draws: usize,
) -> Result<SqlClient<C>, Failure> {
    let constants = Constants::of_load(seed).of_run(seed);
    let random = TpccRandom::new(seed.wrapping_add((u64::from(worker) + 1) << 32), constants);
    let home = (worker % size.warehouses) as i16 + 1;
    let mut drawer = Drawer::of_mix(random, Mix::STANDARD, Some(home));
    let pool = Pool::draw(&mut drawer, size, draws);
    Ok(SqlClient::new(SqlTransactions::new(connection, worker as i16)?, pool))
}
