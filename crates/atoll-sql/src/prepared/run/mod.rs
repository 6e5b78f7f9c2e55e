//! Running bound statements on a transaction.

mod copy;
mod foreign;
mod insert;
mod lock;
mod update;

pub(crate) use self::foreign::{Loading, Part};
pub(crate) use self::insert::value_of;

use std::borrow::Cow;

use atoll::{Error, Table, Transaction, TxnError, Value};

use self::foreign::Keeper;
use super::change::{Change, Checks, Condition, Foreign, Generated, Verb};
use super::{Body, Prepared};
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::foreign::deferred::{Deferred, Modes};
use crate::foreign::find::Hold;
use crate::interrupt::Interrupt;
use crate::journal::Journal;
use crate::literal::Literal;
use crate::sequence::context;
use crate::short::plan::Node;
use crate::short::run::{Rows, Run, Stop};
use crate::short::scalar::Surroundings;

/// What a statement has done.
pub(crate) struct Ran {
    /// Rows changed; 0 for a query.
    pub(crate) changed: u64,
    /// What it returns, of a query or of RETURNING.
    pub(crate) rows: Option<Rows>,
}

/// How a statement runs.
pub(crate) struct How<'r> {
    pub(crate) interrupt: &'r Interrupt,
    /// Rows that it may look at.
    pub(crate) rows_left: u64,
    /// The rows that an `INSERT` inserts, where a query on a snapshot has delivered them.
    pub(crate) delivered: Option<&'r [Vec<Value>]>,
    /// The number of the first row that an `INSERT` writes out, if the rows have theirs already.
    pub(crate) first_number: Option<i64>,
    /// Each statement of the transaction sees what others have committed before it. It holds
    /// nothing that it has only read while it waits for others.
    pub(crate) read_committed: bool,
    /// Where changes are noted, if they may have to be undone.
    pub(crate) journal: Option<&'r mut Journal>,
    /// Where checks go that are made when the transaction commits, if it goes on behind the
    /// statement.
    pub(crate) deferred: Option<&'r mut Deferred>,
}

impl<'r> How<'r> {
    /// A statement of a serializable transaction, to the end.
    pub(crate) fn serializable(interrupt: &'r Interrupt) -> Self {
        Self {
            interrupt,
            rows_left: u64::MAX,
            delivered: None,
            first_number: None,
            read_committed: false,
            journal: None,
            deferred: None,
        }
    }
}

/// Times that a statement starts again, under READ COMMITTED, after it has waited for a row that it
/// reads. From then on it holds what it has read while it waits.
const STARTS_MAX: u32 = 16;

/// A statement on its way through a transaction.
struct Runner<'r> {
    transaction: &'r mut Transaction,
    around: Cow<'r, Surroundings>,
    /// The conditions for new rows.
    checks: Option<&'r Checks>,
    /// The columns that are computed for them.
    generated: Option<&'r Generated>,
    /// The foreign keys of the tables that it changes, and the place of the table that it is at.
    keeper: Option<Keeper<'r>>,
    at: usize,
    how: How<'r>,
    /// Reads pass by the rows that others hold; then the statement waits and starts again.
    passes: bool,
}

/// Runs a statement.
///
/// # Errors
/// [`Stop`]; the transaction then has a part of its changes.
pub(crate) fn run<'r>(
    prepared: &'r Prepared,
    around: &'r Surroundings,
    transaction: &'r mut Transaction,
    how: How<'r>,
) -> Result<Ran, Stop> {
    let interrupt = how.interrupt.clone();
    let patience = interrupt.patience();
    let is_patient = patience.is_none();
    if !is_patient {
        transaction.set_patience(patience)?;
    }
    let passes = how.read_committed;
    let checks = prepared.checks();
    let keeper = prepared.foreign().map(|foreign| keeper(foreign, prepared, &how));
    let around = Cow::Borrowed(around);
    let (generated, at) = (prepared.generated(), 0);
    let mut runner = Runner { transaction, around, checks, generated, keeper, at, how, passes };
    let ran = runner.use_tables(prepared).and_then(|()| runner.run(prepared)).and_then(|ran| {
        if let Body::Change(_) = prepared.body {
            context::write_pending(runner.transaction)?;
        }
        Ok(ran)
    });
    if !is_patient {
        // One that was rolled back asks no more.
        let _ = runner.transaction.set_patience(None);
        if matches!(ran, Err(Stop::Transaction(_))) {
            interrupt.check_now()?;
        }
    }
    ran
}

/// What keeps the foreign keys of a statement.
fn keeper<'f>(foreign: &'f Foreign, prepared: &Prepared, how: &How<'_>) -> Keeper<'f> {
    let modes = how.deferred.as_ref().map_or_else(Modes::default, |one| one.modes.clone());
    let needs_its_reads = match &prepared.body {
        Body::Change(change) => {
            matches!(&change.verb, Verb::Update(assignments) if assignments.again.is_none())
        }
        _ => false,
    };
    Keeper::new(foreign, modes, hold(how.read_committed, needs_its_reads))
}

/// How parents are held.
pub(crate) fn hold(read_committed: bool, needs_its_reads: bool) -> Hold {
    match (read_committed, needs_its_reads) {
        (false, _) => Hold::Reads,
        (true, false) => Hold::Parents,
        (true, true) => Hold::All,
    }
}

/// Collects what `RETURNING` returns.
struct Returned<'c> {
    change: &'c Change,
    rows: Option<Rows>,
}

impl<'c> Returned<'c> {
    fn new(change: &'c Change) -> Self {
        let width = change.returning.as_ref().map(|returning| returning.node.width());
        Self { change, rows: width.map(Rows::new) }
    }

    fn wants_rows(&self) -> bool {
        self.rows.is_some()
    }

    /// Adds what is returned of a row that was changed.
    fn add(&mut self, row: &[Value], runner: &Runner<'_>) -> Result<(), Stop> {
        self.add_with(row, &[], runner)
    }

    /// The same, with what was found beside the row.
    fn add_with(
        &mut self,
        row: &[Value],
        found: &[Value],
        runner: &Runner<'_>,
    ) -> Result<(), Stop> {
        if let (Some(rows), Some(returning)) = (&mut self.rows, &self.change.returning) {
            let mut beside = vec![Value::Null; returning.beside_width];
            for (at, value) in returning.beside.iter().zip(found) {
                beside[*at].clone_from(value);
            }
            let both = [row, &beside];
            for returned in
                given(&returning.node, &both, &runner.around, runner.how.interrupt)?.iter()
            {
                rows.push(returned.iter().cloned());
            }
        }
        Ok(())
    }
}

/// Runs a plan over rows that are given, which reads no table.
fn given(
    node: &Node,
    given: &[&[Value]],
    around: &Surroundings,
    interrupt: &Interrupt,
) -> Result<Rows, Stop> {
    let run = &mut Run {
        transaction: None,
        around,
        given,
        interrupt,
        rows_left: u64::MAX,
        has_prefetched: false,
    };
    node.run(run, &[])
}

/// Checks the conditions for a new row.
pub(crate) fn check(
    checks: Option<&Checks>,
    table: &Table,
    row: &[Value],
    around: &Surroundings,
    interrupt: &Interrupt,
) -> Result<(), Stop> {
    let Some(checks) = checks else { return Ok(()) };
    let found = given(&checks.node, &[row], around, interrupt)?;
    Ok(found.iter().try_for_each(|values| checks.hold(table, values))?)
}

/// Whether the condition of a load is true for a row.
pub(crate) fn holds(
    condition: &Condition,
    row: &[Value],
    around: &Surroundings,
    interrupt: &Interrupt,
) -> Result<bool, Stop> {
    let found = given(&condition.node, &[row], around, interrupt)?;
    Ok(found.iter().next().is_some_and(|values| values == [Value::Bool(true)]))
}

/// Computes the generated columns of a new row.
pub(crate) fn compute(
    generated: Option<&Generated>,
    table: &Table,
    row: &mut [Value],
    around: &Surroundings,
    interrupt: &Interrupt,
) -> Result<(), Stop> {
    let Some(generated) = generated else { return Ok(()) };
    let made = given(&generated.node, &[row], around, interrupt)?;
    if let Some(values) = made.iter().next() {
        for (column, value) in fit(table, &generated.columns, values)? {
            row[column] = value;
        }
    }
    Ok(())
}

/// The values that are assigned to columns of a row, as the columns have them.
fn fit(
    table: &Table,
    columns: &[(usize, atoll::DataType)],
    values: &[Value],
) -> Result<Vec<(usize, Value)>, SqlError> {
    let fit = |((column, from), value): (&(usize, _), &Value)| {
        Ok((*column, Literal::of(value.clone(), *from).into_column(table.schema(), *column)?))
    };
    columns.iter().zip(values).map(fit).collect()
}

impl Runner<'_> {
    /// Uses all tables, so that one which has changed is found before anything is done.
    fn use_tables(&mut self, prepared: &Prepared) -> Result<(), Stop> {
        for table in &prepared.tables {
            self.transaction.use_table(table)?;
        }
        // Another definition may have made a foreign key that the change has to keep (`FOREIGN-2`).
        match (prepared.version, &prepared.body) {
            (Some(version), Body::Change(change))
                if version != self.transaction.committed_catalog_version() =>
            {
                let name = change.table.name().to_owned();
                Err(TxnError::from(Error::TableChanged(name)).into())
            }
            _ => Ok(()),
        }
    }

    fn run(&mut self, prepared: &Prepared) -> Result<Ran, Stop> {
        for start in 1.. {
            self.passes &= start < STARTS_MAX;
            let ran = self.run_once(prepared);
            if !matches!(ran, Err(Stop::Passed)) {
                return ran;
            }
            self.around.to_mut().subqueries.clear();
            self.transaction.release_reads()?;
            self.transaction.await_passed()?;
        }
        unreachable!("the last start passes nothing by")
    }

    fn run_once(&mut self, prepared: &Prepared) -> Result<Ran, Stop> {
        for subquery in &prepared.subqueries {
            let rows = self.node(subquery)?;
            if rows.count() > 1 {
                let message = "a subquery that stands for a value returns more than one row";
                let error = SqlError::new(SqlErrorKind::Query, message);
                return Err(error.with_cause(Cause::SecondRow).into());
            }
            let value = rows.iter().next().and_then(<[Value]>::first).cloned();
            self.around.to_mut().subqueries.push(value.unwrap_or(Value::Null));
        }
        match &prepared.body {
            Body::Query(query) => {
                let rows = match &query.lock {
                    Some(lock) => self.lock(&query.node, lock)?,
                    None => self.node(&query.node)?,
                };
                Ok(Ran { changed: 0, rows: Some(rows) })
            }
            Body::Change(change) => self.change(change),
            Body::NotShort(query) => Err(query.error().into()),
        }
    }

    /// Runs a plan, before the statement has changed anything.
    fn node(&mut self, node: &Node) -> Result<Rows, Stop> {
        if !self.passes {
            return self.node_as_it_is(node);
        }
        self.transaction.read_past(true)?;
        let rows = self.node_as_it_is(node);
        match self.transaction.read_past(false)? {
            None | Some(0) => rows,
            Some(_) => Err(Stop::Passed),
        }
    }

    fn node_as_it_is(&mut self, node: &Node) -> Result<Rows, Stop> {
        let mut run = Run {
            transaction: Some(self.transaction),
            around: &self.around,
            given: &[],
            interrupt: self.how.interrupt,
            rows_left: self.how.rows_left,
            has_prefetched: false,
        };
        let rows = node.run(&mut run, &[]);
        self.how.rows_left = run.rows_left;
        rows
    }

    fn change(&mut self, change: &Change) -> Result<Ran, Stop> {
        let mut returned = Returned::new(change);
        let changed = match &change.verb {
            Verb::Insert { rows, on_conflict } => {
                let mut rows = self.rows_of(rows, &change.table)?;
                match self.how.first_number {
                    Some(first) => change.table.number_from(&mut rows, first),
                    None => change.table.number_in(&mut rows),
                }
                self.compute_all(&change.table, &mut rows)?;
                match on_conflict {
                    None => self.insert(&change.table, &rows, &mut returned)?,
                    Some(conflict) => {
                        self.insert_or(&change.table, &rows, conflict, &mut returned)?
                    }
                }
            }
            Verb::Update(assignments) => self.update(&change.table, assignments, &mut returned)?,
            Verb::Delete { find, again } => {
                self.delete(&change.table, find, again.as_ref(), &mut returned)?
            }
            Verb::Copy(copied) => self.copy(&change.table, copied)?,
        };
        self.finish()?;
        Ok(Ran { changed, rows: returned.rows })
    }
}

/// The primary key of a whole row.
fn key_of(table: &Table, row: &[Value]) -> Vec<Value> {
    table.schema().primary_key().iter().map(|at| row[*at].clone()).collect()
}
