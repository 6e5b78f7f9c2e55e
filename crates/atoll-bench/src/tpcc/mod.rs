//! TPC-C: a wholesale supplier with its warehouses, districts, customers, orders and stocks.
//!
//! The tables, their initial rows, the five transactions and the twelve consistency conditions are
//! those of the specification. The result is not an audited one: there are no keying and think
//! times, the number of threads is free instead of ten terminals for each warehouse, and a delivery
//! is not queued but executed at once, all ten districts in one transaction.
//!
//! `--reduced` runs new-order and payment as the engine of "Staring into the Abyss" does, without
//! inserts, rollbacks, and reads that are only for the terminal's display.
//!
//! After every run the conditions are checked on a snapshot; a violated condition is an error.

mod args;
pub mod check;
mod client;
mod delivery;
mod drawn;
mod facts;
mod field;
mod fill;
mod new_order;
mod order_status;
mod payment;
mod population;
mod random;
mod schema;
pub mod sql;
mod stock_level;
mod stop;

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use atoll::Database;

pub use args::{Home, KINDS, Mix, TpccArgs};
use client::TpccClient;
use drawn::{Drawer, Pool};
use field::Field;
pub use population::Size;
use random::{Constants, TpccRandom};
use schema::Tables;

use crate::error::BenchError;
use crate::keys::drawn_by_each;
use crate::machine_facts::MachineFacts;
use crate::oltp::report::About;
use crate::oltp::{LoadReport, OltpReport, Opened, Workload, drive, require};
use crate::progress::Progress;
use crate::sql::{Connection, Failure};
use sql::{SqlClient, SqlTables, SqlTransactions, definitions_with_indexes};

/// How a thread connects to the database to run SQL statements.
pub type Connect<C> = fn(&Database) -> Result<C, Failure>;

struct Tpcc<'a> {
    args: &'a TpccArgs,
    field: &'a Arc<Field>,
    draws: Draws<'a>,
}

impl Workload for Tpcc<'_> {
    type Client = TpccClient;

    fn kinds(&self) -> &'static [&'static str] {
        KINDS
    }

    fn client(&self, worker: usize) -> Result<TpccClient, BenchError> {
        let writer = self.field.writers.fetch_add(1, Ordering::Relaxed) as i16;
        let pool = self.draws.pool(worker);
        Ok(TpccClient::new(Arc::clone(self.field), pool, self.args, writer))
    }
}

/// The transactions as SQL statements.
struct SqlTpcc<'a, C> {
    db: &'a Database,
    connect: Connect<C>,
    draws: Draws<'a>,
}

impl<C: Connection<Statement: Send> + Send> Workload for SqlTpcc<'_, C> {
    type Client = SqlClient<C>;

    fn kinds(&self) -> &'static [&'static str] {
        KINDS
    }

    fn client(&self, worker: usize) -> Result<SqlClient<C>, BenchError> {
        let connection = (self.connect)(self.db)?;
        let transactions = SqlTransactions::new(connection, worker as i16)?;
        Ok(SqlClient::new(transactions, self.draws.pool(worker)))
    }
}

/// Draws the transactions of the threads.
struct Draws<'a> {
    args: &'a TpccArgs,
    size: Size,
    constants: Constants,
    /// Number of transactions that each thread draws beforehand.
    each: usize,
}

impl Draws<'_> {
    fn pool(&self, worker: usize) -> Pool {
        let args = self.args;
        let seed = args.oltp.seed.wrapping_add((worker as u64 + 1) << 32);
        let random = TpccRandom::new(seed, self.constants);
        let of_worker = (worker % usize::from(args.warehouses)) as i16 + 1;
        let home = (args.home == Home::Worker).then_some(of_worker);
        Pool::draw(&mut Drawer::new(random, args, home), self.size, self.each)
    }
}

/// A database with the nine tables, filled.
pub struct Loaded {
    /// The database.
    pub db: Opened,
    /// The result of filling it.
    pub load: LoadReport,
    /// Partitions of the database.
    pub partitions: u32,
    field: Arc<Field>,
}

impl Loaded {
    /// Creates and fills a database, with tables for the transactions that are not SQL.
    ///
    /// # Errors
    /// [`BenchError`].
    pub fn fill(args: &TpccArgs, progress: Progress<'_>) -> Result<Self, BenchError> {
        let (args, size, db, partitions) = opened(args)?;
        let tables = Tables::create(&db)?;
        let load = fill::fill(&db, &tables, size, args.oltp.seed, progress)?;
        let field = Arc::new(Field { tables, size, writers: AtomicU16::new(0) });
        Ok(Self { db, load, partitions, field })
    }

    /// The sizes of the tables.
    pub fn size(&self) -> Size {
        self.field.size
    }

    /// Runs the transactions and checks the result.
    ///
    /// # Errors
    /// [`BenchError`]; [`BenchError::Inconsistent`] when a condition is violated or a row is
    /// missing.
    pub fn run(&self, args: &TpccArgs, progress: Progress<'_>) -> Result<OltpReport, BenchError> {
        let args = &args.complete()?;
        let workload = Tpcc { args, field: &self.field, draws: draws(args, self.size())? };
        report(args, &self.db, &workload, (self.load.clone(), self.partitions), progress)
    }
}

/// The complete arguments, the sizes of the tables, and the empty database.
fn opened(args: &TpccArgs) -> Result<(TpccArgs, Size, Opened, u32), BenchError> {
    let mut args = args.complete()?;
    args.oltp.waits = args.sql;
    let size = args.size();
    let partitions = args.oltp.partitions.unwrap_or(args.warehouses.min(1024).into());
    let db = args.oltp.open(partitions)?;
    Ok((args, size, db, partitions))
}

fn draws(args: &TpccArgs, size: Size) -> Result<Draws<'_>, BenchError> {
    let oltp = &args.oltp;
    let constants = Constants::of_load(oltp.seed).of_run(oltp.seed);
    // An order has ten lines on average, and most accessed rows belong to orders.
    let each = drawn_by_each(oltp.thread_count()?, 10);
    let each = each.min(oltp.transactions.map_or(usize::MAX, |most| most as usize));
    Ok(Draws { args, size, constants, each })
}

/// Runs a workload, and checks and describes the result.
fn report<W: Workload>(
    args: &TpccArgs,
    db: &Database,
    workload: &W,
    (load, partitions): (LoadReport, u32),
    progress: Progress<'_>,
) -> Result<OltpReport, BenchError> {
    let (machine, oltp) = (MachineFacts::gather(), &args.oltp);
    let measured = drive(db, workload, oltp, progress)?;
    progress.say("checking the twelve consistency conditions");
    let left_out: &[u8] = if args.reduced { &check::BROKEN_BY_REDUCED } else { &[] };
    let checks = check::check(db, args.size(), left_out)?;
    let threads = oltp.thread_count()?;
    let what = match (args.reduced, args.sql) {
        (true, _) => ", reduced",
        (_, true) => " by SQL",
        _ => "",
    };
    let title = format!(
        "TPC-C{what}, {} warehouse(s), {}; {}, {threads} thread(s), seed {}",
        args.warehouses,
        args.mix.unwrap_or(Mix::STANDARD),
        oltp.scheme,
        oltp.seed
    );
    let (workload_name, config) = ("tpcc", args);
    let about =
        About { workload: workload_name, title, machine, config, threads, partitions, load };
    OltpReport::new(about, workload, &measured, checks)
}

/// Fills a database, runs TPC-C and checks the result.
///
/// # Errors
/// As [`Loaded::run`]; SQL is asked for.
pub fn run(args: &TpccArgs, progress: Progress<'_>) -> Result<OltpReport, BenchError> {
    require(!args.sql, "--sql", "given", "this program has no SQL; `atoll bench tpcc` has")?;
    Loaded::fill(args, progress)?.run(args, progress)
}

/// As [`run`], but the transactions are SQL statements, for which each thread connects.
///
/// # Errors
/// As [`Loaded::run`].
pub fn run_sql<C: Connection<Statement: Send> + Send>(
    args: &TpccArgs,
    connect: Connect<C>,
    progress: Progress<'_>,
) -> Result<OltpReport, BenchError> {
    let (args, size, db, partitions) = opened(args)?;
    let mut connection = connect(&db)?;
    for statement in definitions_with_indexes() {
        connection.run(&statement)?;
    }
    let load = fill::fill(&db, &SqlTables::find(&db)?, size, args.oltp.seed, progress)?;
    let workload = SqlTpcc { db: &db, connect, draws: draws(&args, size)? };
    report(&args, &db, &workload, (load, partitions), progress)
}

/// Arguments for small tables with `warehouses` warehouses.
#[cfg(test)]
fn small(warehouses: u16) -> Loaded {
    let args = small_args(warehouses);
    Loaded::fill(&args, &mut crate::progress::Unwatched).expect("there is memory for so little")
}

#[cfg(test)]
fn small_args(warehouses: u16) -> TpccArgs {
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: TpccArgs,
    }
    let warehouses = warehouses.to_string();
    let line = ["tpcc", "--threads", "1", "--warehouses", &warehouses, "--items", "100"];
    Line::parse_from(line.into_iter().chain(["--customers-per-district", "10"])).args
}
