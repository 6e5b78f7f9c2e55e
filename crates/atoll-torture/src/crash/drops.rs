//! The tables that a run alters, drops and creates again. Each thread has one of its own, each time
//! in another tablespace and with another number of rows; the slot of a dropped table is that of
//! the next one that any thread creates. Definitions are ordered with all commits, so the
//! judge knows what may be left: the state after the first steps of the thread, at least those that
//! were acknowledged, and the entries of exactly these steps in the journals.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use atoll::{
    Column, DataType, Database, Error, IndexSpec, Range, Result, Schema, Session, Table,
    TableChange, TableOptions, Value,
};

use super::scene::{TABLESPACES, Tables};
use atoll_bench::keys::Random;

/// In a journal entry, in place of the number of a table: the entry of a step.
const DROPS: i64 = -4;

/// What a thread does with its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Create,
    /// Gives the column of texts, and an index of it, other names; the first time it makes the
    /// index. Adds a column, in which all rows have the number of the transaction.
    Alter,
    /// Sets the texts of all rows by the number of the transaction, and makes an entry. The first
    /// time it inserts the rows, with its number in the columns that were added.
    Fill,
    Drop,
    /// Makes an entry only.
    Note,
}

/// The steps of a thread, each with the number of its transaction.
#[derive(Debug, Default)]
pub struct Steps {
    thread: u64,
    steps: Vec<(i64, What)>,
}

/// What is left of a table: nothing, or the names of its columns behind the key, and its rows with
/// the numbers in the columns that were added.
type Left = Option<(Vec<String>, Vec<(i64, String, Vec<i64>)>)>;

fn name(thread: u64) -> String {
    format!("dropped_{thread}")
}

/// The name of the column that one transaction has given it, or that it has had from the first.
fn column(altered: Option<i64>) -> String {
    altered.map_or_else(|| "text".to_owned(), |altered| format!("text_{altered}"))
}

/// The column that a transaction has added.
fn added_column(id: i64) -> Column {
    Column::new(format!("added_{id}"), DataType::Int64)
}

/// The rows of a table that was created by one transaction and filled by another.
fn rows(created: i64, filled: i64) -> Vec<(i64, String)> {
    let text = |key| format!("row {key} of table {created}, filled by {filled}");
    (0..1 + created % 5).map(|key| (key, text(key))).collect()
}

fn create(db: &Database, thread: u64, random: &mut Random) -> Result<Table> {
    let columns = vec![Column::new("id", DataType::Int64), Column::new("text", DataType::Text)];
    let tablespace = Some(random.below(TABLESPACES as u64) as u32);
    let options = TableOptions { tablespace, ..TableOptions::default() };
    db.create_table_with(&name(thread), Schema::new(columns, &["id"])?, &options)
}

/// Alters a table, as the transaction `id`.
fn alter(session: &mut Session, table: &Table, id: i64) -> Result<()> {
    let column = column(Some(id));
    let mut columns = table.schema().columns().to_vec();
    columns[1].name.clone_from(&column);
    columns.push(added_column(id));
    let index = IndexSpec {
        name: column.clone(),
        columns: vec![column],
        unique: false,
        nulls_not_distinct: false,
    };
    let schema = Schema::new(columns, &["id"])?;
    let (name, added) = (table.name().to_owned(), vec![Value::Int64(id)]);
    let to = TableChange { name, schema, added, indexes: vec![index] };
    let names_only = TableChange { indexes: Vec::new(), ..to.clone() };
    session.transaction(|tx| {
        // Under some schemes a transaction cannot make an index.
        match tx.alter_table(table, &to)? {
            Some(_) => Ok(()),
            None => {
                let altered = tx.alter_table(table, &names_only)?;
                assert!(altered.is_some(), "columns of one value need no copy");
                Ok(())
            }
        }
    })
}

/// The number of rows to which the index of a table leads, if it has one.
fn indexed(db: &Database, table: &Table) -> Result<Option<u64>> {
    let Some(spec) = table.indexes().pop() else { return Ok(None) };
    let index = table.index(&spec.name)?;
    db.transaction(|tx| {
        let mut count = 0;
        tx.scan(
            &index,
            Range::ALL,
            |_| (),
            |()| {
                count += 1;
                ControlFlow::Continue(())
            },
        )?;
        Ok(Some(count))
    })
}

impl Steps {
    /// No steps of a thread.
    pub fn of(thread: u64) -> Self {
        Self { thread, steps: Vec::new() }
    }

    /// The number of the transaction that has created the table, if there is one.
    fn created(steps: &[(i64, What)]) -> Option<i64> {
        let defined = |(_, what): &&(i64, What)| matches!(what, What::Create | What::Drop);
        let last = steps.iter().rev().find(defined);
        last.filter(|(_, what)| *what == What::Create).map(|(id, _)| *id)
    }

    /// The number of the transaction that has altered the table last.
    fn altered(steps: &[(i64, What)]) -> Option<i64> {
        let since = steps.iter().rev().take_while(|(_, what)| *what != What::Create);
        since.into_iter().find(|(_, what)| *what == What::Alter).map(|(id, _)| *id)
    }

    /// Creates, alters, fills or drops the table of the thread, as the transaction `id`.
    ///
    /// # Errors
    /// Those of the database; it is unknown then what has happened.
    pub fn act(
        &mut self,
        db: &Database,
        session: &mut Session,
        tables: &Tables,
        (id, random): (i64, &mut Random),
    ) -> Result<()> {
        let exists = Self::created(&self.steps).is_some();
        let (is_dropped, is_filled) = (exists && random.below(3) > 0, random.below(4) > 0);
        if is_dropped {
            self.steps.push((id, What::Drop));
            db.drop_table(&name(self.thread))?;
        }
        if !exists || is_dropped && is_filled {
            self.steps.push((id, What::Create));
            create(db, self.thread, random)?;
        }
        if exists && !is_dropped && random.below(2) > 0 {
            self.steps.push((id, What::Alter));
            let table = db.table(&name(self.thread))?;
            alter(session, &table, id)?;
        }
        let created = Self::created(&self.steps);
        self.steps.push((id, if created.is_some() { What::Fill } else { What::Note }));
        let table = created.map(|created| Ok::<_, Error>((created, db.table(&name(self.thread))?)));
        let table = table.transpose()?;
        let journal = &tables.journals[random.below(TABLESPACES as u64) as usize];
        session.transaction(|tx| {
            if let Some((created, table)) = &table {
                for (key, text) in rows(*created, id) {
                    let (key, text) = (Value::Int64(key), Value::Text(text));
                    if !tx.update(table, std::slice::from_ref(&key), &[(1, text.clone())])? {
                        let added = table.schema().columns().len() - 2;
                        let added = std::iter::repeat_n(Value::Int64(id), added);
                        let row: Vec<_> = [key, text].into_iter().chain(added).collect();
                        tx.insert(table, &row)?;
                    }
                }
            }
            tx.insert(journal, &[id, DROPS, 0, 0, 0, -1, 0, 0].map(Value::Int64))
        })
    }

    /// Returns what is wrong with the table of the thread, if anything.
    ///
    /// # Errors
    /// Those of the database.
    pub fn wrong(&self, db: &Database, acknowledged: &[u64]) -> Result<Option<String>> {
        let (tables, name) = (Tables::find(db)?, name(self.thread));
        let table = db.table(&name).ok();
        let (left, noted) = db.transaction(|tx| {
            let names = |table: &Table| {
                table.schema().columns()[1..].iter().map(|column| column.name.clone()).collect()
            };
            let mut left: Left = table.as_ref().map(|table| (names(table), Vec::new()));
            for key in 0..8 {
                let Some(table) = &table else { break };
                let row = tx.read(table, &[Value::Int64(key)])?;
                left.iter_mut().for_each(|(_, left)| match row.as_deref() {
                    Some([_, Value::Text(text), added @ ..]) => {
                        let number = |value: &Value| match value {
                            Value::Int64(number) => *number,
                            _ => i64::MIN,
                        };
                        left.push((key, text.clone(), added.iter().map(number).collect()));
                    }
                    Some(row) => left.push((key, format!("{row:?}"), Vec::new())),
                    None => {}
                });
            }
            let mut noted = BTreeSet::new();
            for (id, _) in &self.steps {
                for journal in &tables.journals {
                    if tx.read(journal, &[Value::Int64(*id)])?.is_some() {
                        noted.insert(*id);
                    }
                }
            }
            Ok((left, noted))
        })?;
        if let (Some((_, rows)), Some(table)) = (&left, &table) {
            let snapshot = db.snapshot()?;
            let (shown, indexed) = (snapshot.table(&name)?, indexed(db, table)?);
            let counted = shown.row_count()?;
            if counted != rows.len() as u64 || indexed.is_some_and(|indexed| indexed != counted) {
                let rows = rows.len();
                return Ok(Some(format!(
                    "{name} has {rows} rows, a snapshot shows {counted}, an index {indexed:?}"
                )));
            }
            if shown.schema() != table.schema() {
                return Ok(Some(format!("a snapshot shows {name} with {:?}", shown.schema())));
            }
        }
        let is_acknowledged = |(id, _): &(i64, What)| acknowledged.contains(&(*id as u64));
        let least = self.steps.iter().rposition(is_acknowledged).map_or(0, |last| last + 1);
        let fits = |count: &usize| {
            let steps = &self.steps[..*count];
            let is_entry = |what: What| matches!(what, What::Fill | What::Note);
            let entries = steps.iter().filter(|(_, what)| is_entry(*what)).map(|(id, _)| *id);
            Self::state(steps) == left && entries.eq(noted.iter().copied())
        };
        if (least..=self.steps.len()).any(|count| fits(&count)) {
            return Ok(None);
        }
        let steps = &self.steps;
        Ok(Some(format!(
            "{name} is {left:?} with the entries {noted:?}, after at least {least} of {steps:?}"
        )))
    }

    fn state(steps: &[(i64, What)]) -> Left {
        let created = Self::created(steps)?;
        let last = steps.iter().rev().find(|(_, what)| matches!(what, What::Create | What::Fill));
        let filled = last.filter(|(_, what)| *what == What::Fill);
        let start = steps.iter().rposition(|(_, what)| *what == What::Create)?;
        let since = &steps[start..];
        let first = since.iter().position(|(_, what)| *what == What::Fill).unwrap_or(since.len());
        // A column that was there before the rows has the number of the transaction that has
        // inserted them.
        let altered = since.iter().enumerate().filter(|(_, (_, what))| *what == What::Alter);
        let (mut names, mut numbers) = (vec![column(Self::altered(steps))], Vec::new());
        for (at, (id, _)) in altered {
            names.push(added_column(*id).name);
            numbers.push(if at < first {
                since.get(first).map_or(*id, |(id, _)| *id)
            } else {
                *id
            });
        }
        let rows = filled.map_or(Vec::new(), |(filled, _)| rows(created, *filled));
        let rows = rows.into_iter().map(|(key, text)| (key, text, numbers.clone())).collect();
        Some((names, rows))
    }
}
