//! How parents are found for the rows that refer to them, and rows for their parents.

use std::ops::ControlFlow;

use atoll::{
    DataType, IndexSpec, Range, Schema, Table, Transaction, TxnResult, Value, Visit, Want,
};

use crate::about::About;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::foreign_key::ForeignKey;
use crate::literal::Literal;

/// A foreign key with the tables of a catalog.
#[derive(Debug)]
pub(crate) struct Constraint {
    pub(crate) key: ForeignKey,
    /// The table that refers, and its columns.
    pub(crate) child: Side,
    /// The table that is referred to, and its columns.
    pub(crate) parent: Side,
}

/// How the parents of rows are held until the transaction ends (`FOREIGN-1`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// As everything that it reads.
    Reads,
    /// The transaction lets go of what it reads, but not of parents. Other reads of the statement
    /// are over.
    Parents,
    /// The same, but the statement still needs its other reads, so they are kept too.
    All,
}

/// One end of a foreign key.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) table: Table,
    pub(crate) columns: Vec<usize>,
    types: Vec<DataType>,
    way: Way,
}

/// A way to the rows with some values; the numbers are places in the columns of a [`Side`].
#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// By the primary key, of which these are the columns.
    Key(Vec<usize>),
    /// By an index that begins with these.
    Index(String, Vec<usize>),
    /// Past all rows.
    Scan,
}

impl Way {
    fn of(table: &Table, columns: &[usize]) -> Self {
        let schema = table.schema();
        if let Some(order) = order(schema.primary_key(), columns)
            && schema.primary_key().len() == columns.len()
        {
            return Self::Key(order);
        }
        let by_index = |spec: IndexSpec| {
            let of_index = spec.columns.iter().filter_map(|name| schema.position(name));
            let of_index: Vec<usize> = of_index.collect();
            let first = of_index.get(..columns.len())?;
            order(first, columns).map(|order| Self::Index(spec.name, order))
        };
        table.indexes().into_iter().find_map(by_index).unwrap_or(Self::Scan)
    }
}

/// Where in `columns` each of `wanted` is.
fn order(wanted: &[usize], columns: &[usize]) -> Option<Vec<usize>> {
    wanted.iter().map(|at| columns.iter().position(|column| column == at)).collect()
}

impl Side {
    /// # Errors
    /// A column does not exist any more.
    fn new(table: &Table, names: &[String]) -> Result<Self, SqlError> {
        let schema = table.schema();
        let columns = names.iter().map(|name| schema.position(name)).collect::<Option<Vec<_>>>();
        let columns = columns.ok_or_else(|| {
            let message = format!("table \"{}\" lacks a column of a foreign key", table.name());
            SqlError::new(SqlErrorKind::UnknownColumn, message)
        })?;
        let types = columns.iter().map(|at| schema.columns()[*at].data_type).collect();
        let way = Way::of(table, &columns);
        Ok(Self { table: table.clone(), columns, types, way })
    }

    /// The values of the columns in a row; `None` if one is NULL.
    pub(crate) fn values(&self, row: &[Value]) -> Option<Vec<Value>> {
        let values = self.columns.iter().map(|at| row[*at].clone());
        let values: Vec<Value> = values.collect();
        (!values.contains(&Value::Null)).then_some(values)
    }

    /// Whether two rows have the same values in the columns.
    pub(crate) fn is_same(&self, one: &[Value], other: &[Value]) -> bool {
        self.columns.iter().all(|at| one[*at] == other[*at])
    }

    /// Columns and values as a message shows them: `(a, b)=(1, x)`.
    fn show(&self, values: &[Value]) -> String {
        let schema = self.table.schema();
        let names: Vec<&str> =
            self.columns.iter().map(|at| schema.columns()[*at].name.as_str()).collect();
        let text = |(value, data_type): (&Value, &DataType)| {
            Literal::of(value.clone(), *data_type).to_text().unwrap_or_else(|| "null".to_owned())
        };
        let values: Vec<String> = values.iter().zip(&self.types).map(text).collect();
        format!("({})=({})", names.join(", "), values.join(", "))
    }
}

impl Constraint {
    /// A foreign key of a table, with its parent.
    ///
    /// # Errors
    /// A column does not exist any more.
    pub(crate) fn new(key: ForeignKey, child: &Table, parent: &Table) -> Result<Self, SqlError> {
        let child = Side::new(child, &key.columns)?;
        let parent = Side::new(parent, &key.referenced)?;
        Ok(Self { key, child, parent })
    }

    /// The values by which a row refers to a parent; `None` if it refers to none.
    ///
    /// # Errors
    /// Some of them are NULL where all or none must be.
    pub(crate) fn referring(&self, row: &[Value]) -> Result<Option<Vec<Value>>, SqlError> {
        let values = self.child.values(row);
        let has_some = || self.child.columns.iter().any(|at| row[*at] != Value::Null);
        if values.is_none() && self.key.match_full && has_some() {
            let detail = "MATCH FULL does not allow mixing of null and nonnull key values.";
            return Err(self.broken_by_child(detail.to_owned()));
        }
        Ok(values)
    }

    /// The values of a parent for those of a row that refers to it; `None` if no parent can have
    /// them.
    fn of_parent(&self, values: &[Value]) -> Option<Vec<Value>> {
        convert(values, &self.child.types, &self.parent.types)
    }

    /// The values of rows that refer, for those of their parent.
    pub(crate) fn of_child(&self, values: &[Value]) -> Option<Vec<Value>> {
        convert(values, &self.parent.types, &self.child.types)
    }

    /// The values of a row that refers to a parent which becomes `new`.
    ///
    /// # Errors
    /// The columns cannot hold them.
    pub(crate) fn following(&self, new: &[Value]) -> Result<Vec<Value>, SqlError> {
        let Self { child, parent, .. } = self;
        let schema = child.table.schema();
        let mut values = Vec::with_capacity(child.columns.len());
        for ((from, at), to) in parent.columns.iter().zip(&parent.types).zip(&child.columns) {
            let value = Literal::of(new[*from].clone(), *at);
            // NULL may stand here, and the row is checked when it is stored.
            values.push(match value {
                Literal::Null => Value::Null,
                value => value.into_column_exactly(schema, *to)?,
            });
        }
        Ok(values)
    }

    /// Which of these have a parent, each the values of a row that refers to it. No other
    /// transaction changes those parents before this one ends.
    pub(crate) fn have_parents(
        &self,
        transaction: &mut Transaction,
        rows: &[Vec<Value>],
        hold: Hold,
    ) -> TxnResult<Vec<bool>> {
        let wanted: Vec<_> = rows.iter().map(|values| self.of_parent(values)).collect();
        let Side { table, columns, way, .. } = &self.parent;
        let mut keys: Vec<Option<Vec<Value>>> = Vec::with_capacity(rows.len());
        for values in &wanted {
            keys.push(match (values, way) {
                (None, _) => None,
                (Some(values), Way::Key(order)) => {
                    Some(order.iter().map(|at| values[*at].clone()).collect())
                }
                (Some(values), _) => self.parent.find(transaction, values, true)?.pop(),
            });
        }
        let mut have: Vec<bool> = keys.iter().map(Option::is_some).collect();
        if !matches!(way, Way::Key(_)) && hold == Hold::Reads {
            return Ok(have);
        }
        if hold == Hold::Parents {
            // What was searched for them is not kept.
            transaction.release_reads()?;
        }
        let places: Vec<usize> = (0..have.len()).filter(|at| have[*at]).collect();
        let found: Vec<Value> = keys.into_iter().flatten().flatten().collect();
        transaction.visit(
            table,
            &found,
            |_| Want::read(columns),
            |at, row| {
                let place = places[at];
                have[place] = match (&row, &wanted[place]) {
                    (Visit::Read(row), Some(values)) => {
                        columns.iter().zip(values).all(|(at, value)| row.value(*at) == *value)
                    }
                    _ => false,
                };
            },
        )?;
        if hold != Hold::Reads {
            transaction.keep_reads()?;
        }
        Ok(have)
    }

    /// The primary keys of the rows that have these values, or of one of them.
    pub(crate) fn children(
        &self,
        transaction: &mut Transaction,
        values: &[Value],
        only_one: bool,
    ) -> TxnResult<Vec<Vec<Value>>> {
        self.child.find(transaction, values, only_one)
    }

    /// Whether a parent with these values exists.
    pub(crate) fn has_parent(
        &self,
        transaction: &mut Transaction,
        values: &[Value],
    ) -> TxnResult<bool> {
        Ok(!self.parent.find(transaction, values, true)?.is_empty())
    }

    /// The error of a row that refers to nothing.
    pub(crate) fn no_parent(&self, values: &[Value]) -> SqlError {
        let parent = &self.key.table;
        let shown = self.child.show(values);
        self.broken_by_child(format!("Key {shown} is not present in table \"{parent}\"."))
    }

    fn broken_by_child(&self, detail: String) -> SqlError {
        let (child, name) = (self.child.table.name(), &self.key.name);
        let message = format!(
            "insert or update on table \"{child}\" violates foreign key constraint \"{name}\""
        );
        self.broken(message, detail)
    }

    /// The error of a parent that goes while rows refer to it.
    pub(crate) fn has_children(&self, values: &[Value]) -> SqlError {
        let (child, name) = (self.child.table.name(), &self.key.name);
        let message = format!(
            "update or delete on table \"{}\" violates foreign key constraint \"{name}\" on \
             table \"{child}\"",
            self.key.table
        );
        let shown = self.parent.show(values);
        self.broken(message, format!("Key {shown} is still referenced from table \"{child}\"."))
    }

    fn broken(&self, message: String, detail: String) -> SqlError {
        SqlError::new(SqlErrorKind::Constraint, message)
            .with_cause(Cause::ForeignKeyViolation)
            .with_detail(detail)
            .with_about(About::table(self.child.table.name()).constraint(&self.key.name))
    }
}

impl Side {
    /// The primary keys of the rows with these values, or of one of them.
    fn find(
        &self,
        transaction: &mut Transaction,
        values: &[Value],
        only_one: bool,
    ) -> TxnResult<Vec<Vec<Value>>> {
        let (table, schema) = (&self.table, self.table.schema());
        let key_of = |row: &atoll::Row<'_>| -> Vec<Value> {
            schema.primary_key().iter().map(|at| row.value(*at)).collect()
        };
        let mut found = Vec::new();
        let mut take = |key| {
            found.push(key);
            if only_one { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match &self.way {
            Way::Key(order) => {
                let key: Vec<Value> = order.iter().map(|at| values[*at].clone()).collect();
                if transaction.read_with(table, &key, |_| ())?.is_some() {
                    found.push(key);
                }
            }
            Way::Index(name, order) => {
                let prefix: Vec<Value> = order.iter().map(|at| values[*at].clone()).collect();
                let index = table.index(name)?;
                transaction.scan(&index, Range::prefix(&prefix), key_of, take)?;
            }
            Way::Scan => {
                let is_one = |row: &atoll::Row<'_>| {
                    let mut pairs = self.columns.iter().zip(values);
                    pairs.all(|(at, value)| row.value(*at) == *value).then(|| key_of(row))
                };
                transaction.scan_table(table, is_one, |key| {
                    key.map_or(ControlFlow::Continue(()), &mut take)
                })?;
            }
        }
        Ok(found)
    }
}

/// Whether values of a column can refer to those of another.
pub(crate) fn are_comparable(child: DataType, parent: DataType) -> bool {
    use DataType as T;
    let is_whole = |one| matches!(one, T::Int16 | T::Int32 | T::Int64);
    let is_exact = |one| is_whole(one) || matches!(one, T::Decimal { .. });
    let is_float = |one| matches!(one, T::Float32 | T::Float64);
    match parent {
        T::Int16 | T::Int32 | T::Int64 => is_whole(child),
        T::Decimal { .. } => is_exact(child),
        T::Float32 | T::Float64 => is_exact(child) || is_float(child),
        T::Text | T::Varchar(_) => matches!(child, T::Text | T::Varchar(_)),
        T::Char(_) => matches!(child, T::Char(_)),
        T::Binary | T::FixedBinary(_) => matches!(child, T::Binary | T::FixedBinary(_)),
        // While a type is altered, one of them has the labels of before.
        T::Enum(parent) => matches!(child, T::Enum(child) if child.name() == parent.name()),
        _ => child == parent,
    }
}

/// Values as columns of other types have them; `None` if those cannot.
fn convert(values: &[Value], from: &[DataType], to: &[DataType]) -> Option<Vec<Value>> {
    let one = |((value, from), to): ((&Value, &DataType), &DataType)| {
        if from == to {
            return Some(value.clone());
        }
        let converted = Literal::of(value.clone(), *from).into_value(*to).ok()?;
        // What is rounded is another value.
        let back = Literal::of(converted.clone(), *to).into_value(*from).ok()?;
        (back == *value).then_some(converted)
    };
    values.iter().zip(from).zip(to).map(one).collect()
}

/// Whether these columns of a table are its primary key, or unique by an index.
pub(crate) fn are_unique(schema: &Schema, indexes: &[IndexSpec], columns: &[String]) -> bool {
    let is_same = |of: &[&str]| {
        of.len() == columns.len() && columns.iter().all(|name| of.contains(&name.as_str()))
    };
    let key = schema.visible_key().iter().map(|at| schema.columns()[*at].name.as_str());
    let of_index = |spec: &IndexSpec| {
        spec.unique && is_same(&spec.columns.iter().map(String::as_str).collect::<Vec<_>>())
    };
    is_same(&key.collect::<Vec<_>>()) || indexes.iter().any(of_index)
}
