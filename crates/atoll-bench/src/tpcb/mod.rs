//! TPC-B: transfers in a bank of branches, tellers and accounts.
//!
//! A transaction changes the balance of an account by some amount, and with it those of a teller
//! and of the teller's branch, and adds a row to the history. 85 of 100 accounts belong to the
//! teller's own branch. After a run the sums of balances must agree with each other, with the
//! history, and with the committed changes that the threads counted. `--operation` runs one part
//! alone: reading a balance, changing one, or adding to the history.

mod args;
mod check;
mod client;
mod tables;

pub use args::{Operation, TpcbArgs};
use check::{Done, check};
use client::TpcbClient;
use tables::Tables;

use crate::error::BenchError;
use crate::machine_facts::MachineFacts;
use crate::oltp::report::About;
use crate::oltp::{LoadReport, OltpReport, Opened, Workload, drive};
use crate::progress::Progress;

struct Tpcb<'a> {
    args: &'a TpcbArgs,
    tables: Tables,
}

impl Workload for Tpcb<'_> {
    type Client = TpcbClient;

    fn kinds(&self) -> &'static [&'static str] {
        match self.args.operation {
            Operation::Transfer => &["transfer"],
            Operation::Select => &["select"],
            Operation::Update => &["update"],
            Operation::Insert => &["insert"],
        }
    }

    fn client(&self, worker: usize) -> Result<TpcbClient, BenchError> {
        // With partitions, a thread uses only the tellers of one branch.
        let home = || (worker % usize::from(self.args.scale)) as i16 + 1;
        let home = self.args.oltp.is_partitioned().then(home);
        Ok(TpcbClient::new(self.tables.clone(), self.args, worker, home))
    }
}

/// A database with the filled tables of the bank.
pub struct Loaded {
    /// The database.
    pub db: Opened,
    /// The result of filling it.
    pub load: LoadReport,
    /// Partitions of the database.
    pub partitions: u32,
    tables: Tables,
}

impl Loaded {
    /// Creates and fills a database.
    ///
    /// # Errors
    /// [`BenchError`].
    pub fn fill(args: &TpcbArgs, progress: Progress<'_>) -> Result<Self, BenchError> {
        args.check()?;
        let partitions = args.oltp.partitions.unwrap_or(args.scale.min(1024).into());
        let db = args.oltp.open(partitions)?;
        let tables = Tables::create(&db)?;
        let load = tables.fill(&db, args, progress)?;
        Ok(Self { db, load, partitions, tables })
    }

    /// Runs the transactions, once, and checks the result.
    ///
    /// # Errors
    /// [`BenchError`]; [`BenchError::Inconsistent`] when sums do not agree.
    pub fn run(self, args: &TpcbArgs, progress: Progress<'_>) -> Result<OltpReport, BenchError> {
        let machine = MachineFacts::gather();
        let oltp = &args.oltp;
        let threads = oltp.thread_count()?;
        let workload = Tpcb { args, tables: self.tables };
        let measured = drive(&self.db, &workload, oltp, progress)?;
        let clients = measured.clients.iter();
        let done = clients.fold(Done::default(), |done, client| Done {
            changed: done.changed + client.changed,
            committed: done.committed + client.committed,
        });
        progress.say("checking the sums");
        let checks = check(&self.db.snapshot()?, args.operation, done)?;
        let title = format!(
            "TPC-B, {} branch(es), {:?}; {}, {threads} thread(s), seed {}",
            args.scale, args.operation, oltp.scheme, oltp.seed
        );
        let about = About {
            workload: "tpcb",
            title,
            machine,
            config: args,
            threads,
            partitions: self.partitions,
            load: self.load,
        };
        OltpReport::new(about, &workload, &measured, checks)
    }
}

/// Fills a database, runs TPC-B and checks the result.
///
/// # Errors
/// As [`Loaded::run`].
pub fn run(args: &TpcbArgs, progress: Progress<'_>) -> Result<OltpReport, BenchError> {
    Loaded::fill(args, progress)?.run(args, progress)
}
