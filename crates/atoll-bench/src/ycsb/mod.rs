//! YCSB: transactions that read and update rows by key.
//!
//! One table of `--rows` rows: a `bigint` key and `--columns` columns of `--column-bytes` bytes. As
//! in "Staring into the Abyss", a transaction makes `--accesses` accesses to keys that follow
//! Zipf's law; each access reads or updates one column, chosen at random. With `--workload` it is
//! one of the standard workloads, with one operation for each transaction:
//!
//! - A, B, C: reads of whole rows and updates of one column;
//! - D: reads of recently inserted rows, and inserts. A read may draw a row that is not committed
//!   yet; it finds nothing then;
//! - E: scans of up to `--scan-max` rows by the ordered index on the key, and inserts;
//! - F: reads, and reads that write back one column changed.
//!
//! Keys are scattered (see [`crate::keys`]), so popular rows are not adjacent.

mod access;
mod args;
mod choice;
mod client;
mod drawn;
mod field;
mod pool;
mod rows;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use access::OPERATIONS;
use args::Plan;
pub use args::{Letter, Mix, ReadColumns, YcsbArgs};
use choice::{Choice, Layout, Spread};
use client::YcsbClient;
use field::Field;

use crate::error::BenchError;
use crate::floor;
use crate::keys::drawn_by_each;
use crate::machine_facts::MachineFacts;
use crate::oltp::report::{About, FloorShare};
use crate::oltp::{CheckReport, OltpReport, Workload, drive};
use crate::progress::Progress;

struct Ycsb {
    field: Arc<Field>,
    layout: Layout,
    /// Number of transactions that each thread draws beforehand.
    draws: usize,
}

impl Workload for Ycsb {
    type Client = YcsbClient;

    fn kinds(&self) -> &'static [&'static str] {
        if self.field.plan.accesses == 1 { OPERATIONS } else { &["transaction"] }
    }

    fn lanes(&self) -> usize {
        self.field.plan.lanes
    }

    fn client(&self, worker: usize) -> Result<YcsbClient, BenchError> {
        let plan = &self.field.plan;
        // The seeds of threads are far apart, and so are the seeds of a thread's two generators.
        let seed = plan.oltp.seed.wrapping_add((worker as u64 + 1) << 32);
        let spread = Spread {
            home: worker as u32 % self.layout.partitions,
            multi: plan.multi_partition,
            per_transaction: plan.partitions_per_txn.min(plan.accesses as u32),
        };
        let spread = plan.oltp.is_partitioned().then_some(spread);
        let choice = Choice::new(self.layout, plan.theta, seed, spread);
        Ok(YcsbClient::new(Arc::clone(&self.field), choice, !seed, self.draws))
    }
}

/// Runs YCSB.
///
/// # Errors
/// [`BenchError`]; [`BenchError::Inconsistent`] when rows are missing afterwards.
pub fn run(args: &YcsbArgs, progress: Progress<'_>) -> Result<OltpReport, BenchError> {
    let plan = Plan::new(args)?;
    let machine = MachineFacts::gather();
    let threads = plan.oltp.thread_count()?;
    let partitions = plan.oltp.partitions.unwrap_or(threads as u32);
    // Measured before the database exists, because both together may not fit into memory.
    let floor = plan.floor.then(|| floor::run(&plan.floor(threads), progress)).transpose()?;
    let db = plan.oltp.open(partitions)?;
    let table = rows::create(&db, &plan)?;
    let layout = Layout { rows: plan.rows, partitions };
    let load = rows::fill(&db, &table, &plan, layout, progress)?;
    let index = if plan.has_scans() { Some(table.index(rows::BY_KEY)?) } else { None };
    let next = AtomicU64::new(plan.rows);
    let columns = (1..=plan.columns).collect();
    let field = Arc::new(Field { plan, table, columns, index, next });
    let most = field.plan.oltp.transactions.unwrap_or(u64::MAX);
    let draws = drawn_by_each(threads, field.plan.accesses)
        .min(usize::try_from(most).unwrap_or(usize::MAX));
    let workload = Ycsb { field: Arc::clone(&field), layout, draws };
    let measured = drive(&db, &workload, &field.plan.oltp, progress)?;
    let inserted: u64 = measured.clients.iter().map(|client| client.inserted).sum();
    let checks = vec![check_rows(&field, inserted)?];
    let plan = &field.plan;
    let about = About {
        workload: "ycsb",
        title: title(plan, threads),
        machine,
        config: plan,
        threads,
        partitions,
        load,
    };
    let mut report = OltpReport::new(about, &workload, &measured, checks)?;
    report.floor = floor.map(|floor| {
        let txn_s = if plan.batch { floor.together_txn_s } else { floor.key_by_key_txn_s };
        FloorShare { txn_s, share: report.throughput_txn_s / txn_s }
    });
    Ok(report)
}

fn title(plan: &Plan, threads: usize) -> String {
    let what = match plan.workload {
        Some(letter) => format!("workload {letter:?}"),
        None => format!("{:.0} % reads", plan.mix.reads * 100.0),
    };
    format!(
        "YCSB, {what}, {} access(es) a transaction, theta {}, {} rows of {} x {} bytes; {}, {} \
         thread(s), seed {}",
        plan.accesses,
        plan.theta,
        plan.rows,
        plan.columns,
        plan.column_bytes,
        plan.oltp.scheme,
        threads,
        plan.oltp.seed
    )
}

/// Checks that every row that was filled in or inserted is there, and no other.
fn check_rows(field: &Field, inserted: u64) -> Result<CheckReport, BenchError> {
    let (rows, expected) = (field.table.row_count(), field.plan.rows + inserted);
    if rows != expected {
        return Err(BenchError::Inconsistent(format!(
            "table \"{}\" has {rows} rows, but {expected} were inserted",
            rows::TABLE
        )));
    }
    let name = "the table has every row that was inserted and no other".to_owned();
    Ok(CheckReport { name, left_out: None })
}
