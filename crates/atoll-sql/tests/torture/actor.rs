//! A session on a thread, which carries out plans and records what it was told.

use std::collections::BTreeMap;

use atoll_sql::{Cause, FromRow, Literal, SqlError, SqlErrorKind, SqlSession};
use atoll_txn::history::{End, Left, Over, Recorder};

use super::plan::{KEYS, Plan, Random, Statement, Step};
use super::record::{Found, Record};

/// What happened.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    pub committed: u64,
    pub aborted: u64,
    /// Statements and commits that failed for other transactions.
    pub conflicts: u64,
    /// Statements that failed for what they found, and were undone.
    pub failed: u64,
    /// Times that a transaction went on behind a savepoint.
    pub rolled_back_to: u64,
    /// Changes of a range that changed several rows.
    pub ranges: u64,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.committed += other.committed;
        self.aborted += other.aborted;
        self.conflicts += other.conflicts;
        self.failed += other.failed;
        self.rolled_back_to += other.rolled_back_to;
        self.ranges += other.ranges;
    }
}

/// How a statement ended that did not go well.
enum Halt {
    /// For other transactions.
    Conflict,
    /// For a row that it found.
    Failed,
}

pub struct Actor<'r> {
    pub session: SqlSession,
    pub recorder: &'r Recorder,
    pub thread: u32,
    /// The scheme gives READ COMMITTED where it is asked for.
    pub reads_committed: bool,
    pub random: Random,
    pub tally: Tally,
    /// How often each key was counted by transactions that committed.
    pub counted: BTreeMap<i32, i64>,
}

impl Actor<'_> {
    /// Carries out random plans.
    ///
    /// # Errors
    /// The first fault that shows without the history.
    pub fn run(&mut self, plans: usize) -> Result<(), String> {
        for _ in 0..plans {
            let plan = self.random.plan();
            self.carry_out(&plan).map_err(|fault| format!("{fault}\nin {plan:?}"))?;
        }
        Ok(())
    }

    fn carry_out(&mut self, plan: &Plan) -> Result<(), String> {
        let is_low = match plan {
            // It is a transaction of its own, whatever the level.
            Plan::Alone(_) => false,
            Plan::Transaction { level, .. } => *level == "READ COMMITTED",
        };
        let reads_committed = self.reads_committed && is_low;
        let mut record = Record::begin(self.recorder, self.thread, reads_committed);
        let end = match plan {
            Plan::Alone(statement) => match self.statement(&mut record, statement)? {
                Ok(()) => End::Committed,
                // It has told what it had found.
                Err(Halt::Failed) => End::Committed,
                Err(Halt::Conflict) => End::Aborted,
            },
            Plan::Transaction { level, read_only, steps, commits } => {
                let mode = if *read_only { "READ ONLY" } else { "READ WRITE" };
                self.control(&format!("BEGIN ISOLATION LEVEL {level} {mode}"))?;
                let end = self.steps(&mut record, steps)?;
                let commits = *commits && end == End::Committed;
                match self.control_or_conflict(if commits { "COMMIT" } else { "ROLLBACK" })? {
                    Ok(()) if commits => End::Committed,
                    _ => End::Aborted,
                }
            }
        };
        match end {
            End::Committed => self.tally.committed += 1,
            _ => self.tally.aborted += 1,
        }
        for (key, times) in record.end(end)? {
            *self.counted.entry(key).or_default() += times;
        }
        Ok(())
    }

    /// Whether the transaction can commit.
    fn steps(&mut self, record: &mut Record<'_>, steps: &[Step]) -> Result<End, String> {
        for step in steps {
            if self.random.below(2) == 0 {
                std::thread::yield_now();
            }
            let set = record.savepoints();
            let done = match step {
                Step::Do(statement) => self.statement(record, statement)?,
                Step::Savepoint => {
                    self.control(&format!("SAVEPOINT s{set}"))?;
                    record.savepoint();
                    Ok(())
                }
                Step::RollBackTo(_) | Step::Release(_) if set == 0 => Ok(()),
                Step::RollBackTo(number) => self.roll_back_to(record, number % set)?,
                Step::Release(number) => {
                    self.control(&format!("RELEASE SAVEPOINT s{}", number % set))?;
                    record.release(number % set);
                    Ok(())
                }
            };
            let set = record.savepoints();
            match done {
                Ok(()) => {}
                Err(Halt::Failed) if set > 0 => {
                    if self.roll_back_to(record, set - 1)?.is_err() {
                        return Ok(End::Aborted);
                    }
                }
                Err(_) => return Ok(End::Aborted),
            }
        }
        Ok(End::Committed)
    }

    fn roll_back_to(
        &mut self,
        record: &mut Record<'_>,
        savepoint: usize,
    ) -> Result<Result<(), Halt>, String> {
        let done = self.control_or_conflict(&format!("ROLLBACK TO SAVEPOINT s{savepoint}"))?;
        if done.is_ok() {
            record.roll_back_to(savepoint);
            self.tally.rolled_back_to += 1;
        }
        Ok(done)
    }

    fn control(&mut self, sql: &str) -> Result<(), String> {
        self.session.execute(sql).map(drop).map_err(|error| format!("{sql}: {error}"))
    }

    fn control_or_conflict(&mut self, sql: &str) -> Result<Result<(), Halt>, String> {
        let done = self.session.execute(sql).map(drop);
        self.sort(done).map_err(|error| format!("{sql}: {error}"))
    }

    fn query<T: FromRow>(
        &mut self,
        sql: &str,
        values: &[Literal],
    ) -> Result<Result<Vec<T>, Halt>, String> {
        let done = self.session.query(sql, values);
        self.sort(done).map_err(|error| format!("{sql} {values:?}: {error}"))
    }

    /// Tells conflicts and the errors that plans provoke from others.
    fn sort<T>(&mut self, done: Result<T, SqlError>) -> Result<Result<T, Halt>, SqlError> {
        let error = match done {
            Ok(done) => return Ok(Ok(done)),
            Err(error) => error,
        };
        if error.kind() == SqlErrorKind::Aborted {
            self.tally.conflicts += 1;
            return Ok(Err(Halt::Conflict));
        }
        match error.cause() {
            Some(Cause::DuplicateKey | Cause::DivisionByZero) => Ok(Err(Halt::Failed)),
            _ => Err(error),
        }
    }

    /// Runs a statement and records what it tells.
    fn statement(
        &mut self,
        record: &mut Record<'_>,
        statement: &Statement,
    ) -> Result<Result<(), Halt>, String> {
        let done = self.run_statement(record, statement)?;
        if let Err(Halt::Failed) = done {
            self.tally.failed += 1;
        }
        Ok(done)
    }

    fn run_statement(
        &mut self,
        record: &mut Record<'_>,
        statement: &Statement,
    ) -> Result<Result<(), Halt>, String> {
        let number = record.statement();
        let version = |key: i32| number + key as u64;
        /// The rows, or the end of the statement.
        macro_rules! rows {
            ($type:ty, $sql:expr, $($value:expr),*) => {
                match self.query::<$type>($sql, &[$(Literal::from($value)),*])? {
                    Ok(rows) => rows,
                    Err(halt) => return Ok(Err(halt)),
                }
            };
        }
        match statement {
            Statement::Read(key) => {
                let rows = rows!((i64,), "SELECT version FROM t WHERE id = $1", *key);
                record.read(*key, rows.first().map(|row| row.0 as u64));
            }
            Statement::ReadForUpdate(key) => {
                let sql = "SELECT version FROM t WHERE id = $1 FOR UPDATE";
                let rows = rows!((i64,), sql, *key);
                record.locked(*key, rows.first().map(|row| row.0 as u64));
            }
            Statement::ScanKeys(span) => {
                let sql = "SELECT id, version FROM t WHERE id BETWEEN $1 AND $2";
                let rows = rows!((i32, i64), sql, *span.start(), *span.end());
                record.scanned(Over::Key, span, &found(&rows));
            }
            Statement::ScanPlaces(span) => {
                let sql = "SELECT id, version FROM t WHERE place BETWEEN $1 AND $2";
                let rows = rows!((i32, i64), sql, *span.start(), *span.end());
                record.scanned(Over::Place, span, &found(&rows));
            }
            Statement::ScanAll => {
                let rows = rows!((i32, i64), "SELECT id, version FROM t",);
                record.scanned(Over::Key, &(0..=KEYS), &found(&rows));
            }
            Statement::Insert(key, place) => {
                let sql = "INSERT INTO t VALUES ($1, $2, 0, $3)";
                let values = [*key, version(*key) as i32, *place].map(Literal::from);
                match self.query::<(i32,)>(sql, &values)? {
                    Ok(_) => record.wrote(*key, None, left(version(*key), *place)),
                    Err(Halt::Failed) => {
                        record.exists(*key);
                        return Ok(Err(Halt::Failed));
                    }
                    Err(halt) => return Ok(Err(halt)),
                }
            }
            Statement::InsertMany(keys, place) => {
                let row = |key: &i32| format!("({key}, {}, 0, {place})", version(*key));
                let list = keys.iter().map(row).collect::<Vec<_>>().join(", ");
                rows!((i32,), &format!("INSERT INTO t VALUES {list}"),);
                for key in keys {
                    record.wrote(*key, None, left(version(*key), *place));
                }
            }
            Statement::Upsert(key, place) => {
                let sql = "INSERT INTO t VALUES ($1, $2, 0, $3) ON CONFLICT (id) DO UPDATE SET \
                           before = t.version, version = excluded.version, \
                           place = excluded.place RETURNING before";
                let rows = rows!((i64,), sql, *key, version(*key) as i64, *place);
                let before = rows.first().map(|row| row.0 as u64).filter(|before| *before > 0);
                record.wrote(*key, before, left(version(*key), *place));
            }
            Statement::Update(key) => {
                let sql = "UPDATE t SET before = version, version = $2 WHERE id = $1 \
                           RETURNING id, before, place";
                let rows = rows!((i32, i64, i32), sql, *key, version(*key) as i64);
                self.updated(record, &rows, number);
                if rows.is_empty() {
                    record.range(Over::Key, &(*key..=*key), &Vec::new());
                }
            }
            Statement::Move(key, place) => {
                let sql = "UPDATE t SET before = version, version = $2, place = $3 WHERE id = $1 \
                           RETURNING id, before, place";
                let rows = rows!((i32, i64, i32), sql, *key, version(*key) as i64, *place);
                self.updated(record, &rows, number);
                if rows.is_empty() {
                    record.range(Over::Key, &(*key..=*key), &Vec::new());
                }
            }
            Statement::UpdateKeys(span) => {
                let sql = "UPDATE t SET before = version, version = $1 + id \
                           WHERE id BETWEEN $2 AND $3 RETURNING id, before, place";
                let (from, to) = (*span.start(), *span.end());
                let rows = rows!((i32, i64, i32), sql, number as i64, from, to);
                record.range(Over::Key, span, &found_before(&rows));
                self.updated(record, &rows, number);
            }
            Statement::UpdatePlaces(span) => {
                let sql = "UPDATE t SET before = version, version = $1 + id \
                           WHERE place BETWEEN $2 AND $3 RETURNING id, before, place";
                let (from, to) = (*span.start(), *span.end());
                let rows = rows!((i32, i64, i32), sql, number as i64, from, to);
                record.range(Over::Place, span, &found_before(&rows));
                self.updated(record, &rows, number);
            }
            Statement::FailAt(span, at) => {
                let sql = "UPDATE t SET before = version, version = $1 + id + 0 / (id - $4) \
                           WHERE id BETWEEN $2 AND $3 RETURNING id, before, place";
                let (from, to) = (*span.start(), *span.end());
                let rows = rows!((i32, i64, i32), sql, number as i64, from, to, *at);
                record.range(Over::Key, span, &found_before(&rows));
                self.updated(record, &rows, number);
            }
            Statement::Delete(key) => {
                let rows = rows!((i64,), "DELETE FROM t WHERE id = $1 RETURNING version", *key);
                match rows.first() {
                    Some(row) => record.wrote(*key, Some(row.0 as u64), None),
                    None => record.range(Over::Key, &(*key..=*key), &Vec::new()),
                }
            }
            Statement::DeleteKeys(span) => {
                let sql = "DELETE FROM t WHERE id BETWEEN $1 AND $2 RETURNING id, version";
                let rows = rows!((i32, i64), sql, *span.start(), *span.end());
                record.range(Over::Key, span, &found(&rows));
                rows.iter().for_each(|row| record.wrote(row.0, Some(row.1 as u64), None));
            }
            Statement::Count(span) => {
                let sql = "UPDATE counter SET n = n + 1 WHERE id BETWEEN $1 AND $2 RETURNING id";
                let rows = rows!((i32,), sql, *span.start(), *span.end());
                record.count(&rows.iter().map(|row| row.0).collect::<Vec<_>>());
            }
        }
        Ok(Ok(()))
    }

    fn updated(&mut self, record: &mut Record<'_>, rows: &[(i32, i64, i32)], number: u64) {
        self.tally.ranges += u64::from(rows.len() > 1);
        for (key, before, place) in rows {
            record.wrote(*key, Some(*before as u64), left(number + *key as u64, *place));
        }
    }
}

fn left(version: u64, place: i32) -> Option<Left> {
    Some(Left { version, place: place.into() })
}

fn found(rows: &[(i32, i64)]) -> Found {
    rows.iter().map(|row| (row.0, row.1 as u64)).collect()
}

fn found_before(rows: &[(i32, i64, i32)]) -> Found {
    rows.iter().map(|row| (row.0, row.1 as u64)).collect()
}
