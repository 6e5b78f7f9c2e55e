//! How long single SQL statements take that are prepared once: the price of a statement, without
//! that of a network.
//!
//! A table of two numbers has its rows in the order of their keys. Each statement is a transaction
//! by itself. Kinds take turns in rounds, so that a change of the machine's speed meets all.

use std::fmt;
use std::time::Instant;

use clap::Args;
use serde::Serialize;

use crate::error::BenchError;
use crate::keys::Random;
use crate::machine_facts::MachineFacts;
use crate::oltp::require;
use crate::progress::Progress;
use crate::sql::{Connection, Failure, Param};
use crate::stats::median;

/// Rows of a range.
const RANGE: i64 = 100;

/// Times single SQL statements.
#[derive(Debug, Clone, Args, Serialize)]
pub struct StatementsArgs {
    /// Rows of the table
    #[arg(long, default_value_t = 100_000)]
    pub rows: u32,
    /// Statements of a kind in a round
    #[arg(long, default_value_t = 20_000)]
    pub statements: u32,
    /// Rounds; the report has the median
    #[arg(long, default_value_t = 9)]
    pub rounds: usize,
    /// Seed of the keys
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Kinds of statements.
pub const KINDS: [&str; 4] = ["point SELECT", "UPDATE", "INSERT", "range of 100 rows"];

/// The result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct StatementsReport {
    /// The machine.
    pub machine: MachineFacts,
    /// The arguments.
    pub config: StatementsArgs,
    /// By kind.
    pub kinds: Vec<KindTime>,
}

/// The time of a kind of statements.
#[derive(Debug, Clone, Serialize)]
pub struct KindTime {
    /// The kind.
    pub name: &'static str,
    /// Median of the rounds, for one statement.
    pub nanoseconds: f64,
}

/// Makes the table and runs the statements.
///
/// # Errors
/// [`BenchError::Argument`], [`BenchError::Statement`].
pub fn run<C: Connection>(
    connection: &mut C,
    args: &StatementsArgs,
    progress: Progress<'_>,
) -> Result<StatementsReport, BenchError> {
    let enough = args.rows >= 1000;
    require(enough, "--rows", args.rows, "it must be at least 1000")?;
    require(args.statements > 0, "--statements", args.statements, "at least one is needed")?;
    require(args.rounds > 0, "--rounds", args.rounds, "at least one is needed")?;
    progress.say(&format!("filling a table with {} rows", args.rows));
    connection.run("CREATE TABLE t (id bigint PRIMARY KEY, v bigint NOT NULL)")?;
    let mut timed = Timed {
        select: connection.prepare("SELECT v FROM t WHERE id = $1")?,
        update: connection.prepare("UPDATE t SET v = v + $1 WHERE id = $2")?,
        insert: connection.prepare("INSERT INTO t VALUES ($1, $2)")?,
        range: connection.prepare("SELECT id, v FROM t WHERE id >= $1 AND id < $2")?,
        connection,
        random: Random::new(args.seed),
        rows: i64::from(args.rows),
        next: i64::from(args.rows),
    };
    timed.connection.run("BEGIN")?;
    for id in 0..timed.rows {
        timed.connection.execute(&timed.insert, &[Param::Int(id), Param::Int(7 * id)])?;
    }
    timed.connection.run("COMMIT")?;
    let mut rounds = KINDS.map(|_| Vec::new());
    for round in 0..args.rounds {
        progress.say(&format!("round {} of {}", round + 1, args.rounds));
        for (kind, times) in rounds.iter_mut().enumerate() {
            let count = if kind == 3 { args.statements / 10 } else { args.statements }.max(1);
            let begin = Instant::now();
            for _ in 0..count {
                timed.one(kind)?;
            }
            times.push(begin.elapsed().as_nanos() as f64 / f64::from(count));
        }
    }
    let kinds = KINDS.iter().zip(&rounds).map(|(name, times)| {
        let nanoseconds = median(times);
        KindTime { name, nanoseconds }
    });
    let machine = MachineFacts::gather();
    Ok(StatementsReport { machine, config: args.clone(), kinds: kinds.collect() })
}

struct Timed<'c, C: Connection> {
    connection: &'c mut C,
    select: C::Statement,
    update: C::Statement,
    insert: C::Statement,
    range: C::Statement,
    random: Random,
    /// The first rows, which have known values.
    rows: i64,
    /// The next key that no row has.
    next: i64,
}

impl<C: Connection> Timed<'_, C> {
    /// Runs a statement of a kind, and checks what it answers.
    fn one(&mut self, kind: usize) -> Result<(), Failure> {
        let id = self.random.below(self.rows as u64) as i64;
        let found = match kind {
            0 => {
                let mut found = None;
                self.connection.query(&self.select, &[Param::Int(id)], &mut |row| {
                    found = Some(row.int(0)?);
                    Ok(())
                })?;
                found.is_some_and(|v| v >= 7 * id)
            }
            1 => {
                let params = [Param::Int(1), Param::Int(id)];
                self.connection.execute(&self.update, &params)? == 1
            }
            2 => {
                self.next += 1;
                let params = [Param::Int(self.next), Param::Int(id)];
                self.connection.execute(&self.insert, &params)? == 1
            }
            _ => {
                let first = id.min(self.rows - RANGE);
                let (mut rows, mut sum) = (0, 0);
                let params = [Param::Int(first), Param::Int(first + RANGE)];
                self.connection.query(&self.range, &params, &mut |row| {
                    rows += 1;
                    sum += row.int(0)?;
                    std::hint::black_box(row.int(1)?);
                    Ok(())
                })?;
                rows == RANGE && sum == RANGE * first + RANGE * (RANGE - 1) / 2
            }
        };
        match found {
            true => Ok(()),
            false => Err(Failure::Other(format!("{} answers wrongly", KINDS[kind]))),
        }
    }
}

impl fmt::Display for StatementsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.machine)?;
        for KindTime { name, nanoseconds } in &self.kinds {
            writeln!(f, "{name:<20}{:>9.2} µs", nanoseconds / 1000.0)?;
        }
        Ok(())
    }
}
