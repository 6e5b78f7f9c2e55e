//! The nodes of a short plan and how they run.
//!
//! A node makes its rows in one go, because a transaction runs one operation at a time: a join
//! cannot look up rows while the scan of its other side is open. A limit, and an order that an
//! index has, reach down into the access, so a short statement makes few rows.
//!
//! `PLAN-1`: the scalars of the keys of an access refer to the row of the *outer* side of the
//! nearest join, all others to rows of the node's input.

use std::cmp::Ordering;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use atoll::Value;

use super::access::Access;
use super::aggregate::Aggregate;
use super::run::{Rows, Run, Stop};
use super::scalar::{Scalar, Surroundings};
use super::value::{self, Direction, GroupKey};
use crate::error::SqlError;

/// Rows of which the cache lines are fetched at the same time.
const PREFETCHED: usize = 16;

/// A step of a plan.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    /// One row without columns, or no row.
    Empty {
        has_row: bool,
        width: usize,
    },
    /// Rows that are written out.
    Values(Vec<Vec<Scalar>>),
    Access(Box<Access>),
    /// Columns of the row that the caller gives at a place, which is of no table.
    Given {
        at: usize,
        columns: Vec<usize>,
    },
    Filter {
        input: Box<Node>,
        condition: Scalar,
    },
    Project {
        input: Box<Node>,
        columns: Vec<Scalar>,
    },
    Join(Box<Join>),
    Aggregate {
        input: Box<Node>,
        aggregate: Box<Aggregate>,
    },
    Sort {
        input: Box<Node>,
        keys: Vec<(Scalar, Direction)>,
        limit: Option<usize>,
    },
    Limit {
        input: Box<Node>,
        skip: Option<Scalar>,
        fetch: Option<Scalar>,
    },
    Distinct {
        input: Box<Node>,
    },
}

/// A join of two nodes by nested loops, or by a hash table of the right side.
#[derive(Debug, Clone)]
pub(crate) struct Join {
    pub(super) left: Node,
    pub(super) right: Node,
    pub(super) kind: JoinKind,
    /// Pairs that are equal, over the rows of the left and of the right side.
    pub(super) keys: Vec<(Scalar, Scalar)>,
    /// Over both rows, the left one first.
    pub(super) condition: Option<Scalar>,
    /// The right side has keys that refer to the row of the left side (`PLAN-1`).
    pub(super) is_dependent: bool,
    pub(super) right_width: usize,
    /// NULL among the right keys makes every left row no match and no miss, as for NOT IN.
    pub(super) null_aware: bool,
}

/// Which rows a join returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JoinKind {
    Inner,
    /// Also left rows without a match.
    Left,
    /// Left rows with a match.
    Semi,
    /// Left rows without one.
    Anti,
    /// All left rows, with whether there is a match.
    Mark,
}

impl Node {
    /// Number of columns of its rows.
    pub(crate) fn width(&self) -> usize {
        match self {
            Self::Empty { width, .. } => *width,
            Self::Values(rows) => rows.first().map_or(0, Vec::len),
            Self::Access(access) => access.output.len(),
            Self::Given { columns, .. } => columns.len(),
            Self::Project { columns, .. } => columns.len(),
            Self::Filter { input, .. }
            | Self::Sort { input, .. }
            | Self::Limit { input, .. }
            | Self::Distinct { input } => input.width(),
            Self::Join(join) => join.width(),
            Self::Aggregate { aggregate, .. } => aggregate.width(),
        }
    }

    /// Whether it reads a table.
    pub(crate) fn reads_a_table(&self) -> bool {
        match self {
            Self::Empty { .. } | Self::Values(_) | Self::Given { .. } => false,
            Self::Access(access) => !access.is_given(),
            Self::Join(join) => join.left.reads_a_table() || join.right.reads_a_table(),
            Self::Filter { input, .. }
            | Self::Project { input, .. }
            | Self::Sort { input, .. }
            | Self::Limit { input, .. }
            | Self::Aggregate { input, .. }
            | Self::Distinct { input } => input.reads_a_table(),
        }
    }

    /// Calls `look` with each of its accesses.
    pub(crate) fn accesses<'n>(&'n self, look: &mut dyn FnMut(&'n Access)) {
        match self {
            Self::Empty { .. } | Self::Values(_) | Self::Given { .. } => {}
            Self::Access(access) => look(access),
            Self::Join(join) => {
                join.left.accesses(look);
                join.right.accesses(look);
            }
            Self::Filter { input, .. }
            | Self::Project { input, .. }
            | Self::Sort { input, .. }
            | Self::Limit { input, .. }
            | Self::Aggregate { input, .. }
            | Self::Distinct { input } => input.accesses(look),
        }
    }

    /// Makes its rows.
    ///
    /// # Errors
    /// An abort, an error of an expression, or more rows than it may look at.
    pub(crate) fn run(&self, run: &mut Run<'_>, outer: &[Value]) -> Result<Rows, Stop> {
        match self {
            Self::Empty { has_row, width } => {
                Ok(Rows { width: *width, count: usize::from(*has_row), values: Vec::new() })
            }
            Self::Values(list) => {
                let mut rows = Rows::new(self.width());
                for row in list {
                    let row = row.iter().map(|one| Ok(one.eval(&[], run.around)?.into_owned()));
                    rows.push(row.collect::<Result<Vec<_>, SqlError>>()?);
                }
                Ok(rows)
            }
            Self::Access(access) => access.run(run, outer),
            Self::Given { at, columns } => {
                let mut rows = Rows::new(columns.len());
                rows.push(columns.iter().map(|column| run.given[*at][*column].clone()));
                Ok(rows)
            }
            Self::Filter { input, condition } => {
                let rows = input.run(run, outer)?;
                let mut kept = Rows::new(rows.width);
                for row in rows.iter() {
                    if condition.truth(row, run.around)? == Some(true) {
                        kept.push(row.iter().cloned());
                    }
                }
                Ok(kept)
            }
            Self::Project { input, columns } => {
                let rows = input.run(run, outer)?;
                let mut made = Rows::new(columns.len());
                made.values.reserve(rows.count * columns.len());
                for row in rows.iter() {
                    for column in columns {
                        made.values.push(column.eval(row, run.around)?.into_owned());
                    }
                    made.count += 1;
                }
                Ok(made)
            }
            Self::Join(join) => join.run(run, outer),
            Self::Aggregate { input, aggregate } => {
                let rows = input.run(run, outer)?;
                Ok(aggregate.run(&rows, run.around)?)
            }
            Self::Sort { input, keys, limit } => {
                let rows = input.run(run, outer)?;
                sorted(&rows, keys, *limit, run.around)
            }
            Self::Limit { input, skip, fetch } => {
                let number = |scalar: &Option<Scalar>| match scalar {
                    Some(scalar) => row_count(scalar, run.around),
                    None => Ok(None),
                };
                let (skip, fetch) = (number(skip)?.unwrap_or(0), number(fetch)?);
                let rows = input.run(run, outer)?;
                if skip == 0 && fetch.is_none_or(|fetch| fetch >= rows.count) {
                    return Ok(rows);
                }
                let end = fetch.map_or(rows.count, |fetch| skip.saturating_add(fetch));
                Ok(rows.take(skip.min(rows.count)..end.min(rows.count)))
            }
            Self::Distinct { input } => {
                let rows = input.run(run, outer)?;
                let mut seen = HashSet::new();
                let is_new = |at: &usize| seen.insert(GroupKey(rows.row(*at).to_vec()));
                Ok(rows.take((0..rows.count).filter(is_new)))
            }
        }
    }
}

/// The number of rows behind LIMIT or OFFSET; `None` for NULL, which is no limit.
fn row_count(scalar: &Scalar, around: &Surroundings) -> Result<Option<usize>, SqlError> {
    let value = scalar.eval(&[], around)?;
    let number = match &*value {
        Value::Null => return Ok(None),
        Value::Int16(v) => i64::from(*v),
        Value::Int32(v) => i64::from(*v),
        Value::Int64(v) => *v,
        other => {
            let message = format!("LIMIT and OFFSET take whole numbers, not a {}", other.kind());
            return Err(SqlError::new(crate::SqlErrorKind::Type, message));
        }
    };
    usize::try_from(number).map(Some).map_err(|_| {
        let message = "LIMIT and OFFSET must not be negative";
        SqlError::new(crate::SqlErrorKind::Type, message)
    })
}

fn sorted(
    rows: &Rows,
    keys: &[(Scalar, Direction)],
    limit: Option<usize>,
    around: &Surroundings,
) -> Result<Rows, Stop> {
    let mut order = Vec::with_capacity(rows.count);
    for (at, row) in rows.iter().enumerate() {
        let key = keys.iter().map(|(key, _)| Ok(key.eval(row, around)?.into_owned()));
        order.push((key.collect::<Result<Vec<Value>, SqlError>>()?, at));
    }
    // Stable, so that rows with equal keys stay in the order of the input.
    order.sort_by(|(a, _), (b, _)| {
        let each = a.iter().zip(b).zip(keys).map(|((a, b), (_, how))| value::in_order(a, b, *how));
        each.fold(Ordering::Equal, Ordering::then)
    });
    let kept = limit.unwrap_or(usize::MAX);
    Ok(rows.take(order.into_iter().take(kept).map(|(_, at)| at)))
}

impl Join {
    fn run(&self, run: &mut Run<'_>, outer: &[Value]) -> Result<Rows, Stop> {
        let left = self.left.run(run, outer)?;
        let mut rows = Rows::new(self.width());
        if left.count == 0 {
            return Ok(rows);
        }
        if self.is_dependent {
            for (at, row) in left.iter().enumerate() {
                if let Node::Access(access) = &self.right
                    && at % PREFETCHED == 0
                {
                    let next = left.iter().skip(at).take(PREFETCHED);
                    run.has_prefetched = access.prefetch(next, run)?;
                }
                let right = self.right.run(run, row)?;
                self.match_row(row, &right, &mut (0..right.count), run.around, &mut rows)?;
            }
            run.has_prefetched = false;
            return Ok(rows);
        }
        // Its own outer row is that of the join around it.
        let right = self.right.run(run, outer)?;
        if self.keys.is_empty() {
            for row in left.iter() {
                run.look()?;
                self.match_row(row, &right, &mut (0..right.count), run.around, &mut rows)?;
            }
            return Ok(rows);
        }
        let mut table: HashMap<GroupKey, Vec<usize>> = HashMap::new();
        let mut right_has_null = false;
        for (at, row) in right.iter().enumerate() {
            match key(self.keys.iter().map(|(_, right)| right), row, run.around)? {
                Some(key) => match table.entry(key) {
                    Entry::Occupied(mut same) => same.get_mut().push(at),
                    Entry::Vacant(free) => drop(free.insert(vec![at])),
                },
                None => right_has_null = true,
            }
        }
        if self.null_aware && right_has_null {
            return Ok(rows);
        }
        for row in left.iter() {
            let key = key(self.keys.iter().map(|(left, _)| left), row, run.around)?;
            if key.is_none() && self.null_aware && right.count > 0 {
                continue;
            }
            let same = key.and_then(|key| table.get(&key)).map(Vec::as_slice).unwrap_or_default();
            self.match_row(row, &right, &mut same.iter().copied(), run.around, &mut rows)?;
        }
        Ok(rows)
    }

    fn width(&self) -> usize {
        self.left.width()
            + match self.kind {
                JoinKind::Inner | JoinKind::Left => self.right_width,
                JoinKind::Semi | JoinKind::Anti => 0,
                JoinKind::Mark => 1,
            }
    }

    /// Joins a left row with those of the right rows that match it.
    fn match_row(
        &self,
        left: &[Value],
        right: &Rows,
        candidates: &mut dyn Iterator<Item = usize>,
        around: &Surroundings,
        rows: &mut Rows,
    ) -> Result<(), SqlError> {
        let mut both = left.to_vec();
        let mut found = false;
        for at in candidates {
            both.truncate(left.len());
            both.extend_from_slice(right.row(at));
            if !self.holds(&both, left.len(), around)? {
                continue;
            }
            found = true;
            match self.kind {
                JoinKind::Inner | JoinKind::Left => rows.push(both.iter().cloned()),
                JoinKind::Semi | JoinKind::Anti | JoinKind::Mark => break,
            }
        }
        match self.kind {
            JoinKind::Left if !found => {
                let nulls = std::iter::repeat_n(Value::Null, self.right_width);
                rows.push(left.iter().cloned().chain(nulls));
            }
            JoinKind::Semi if found => rows.push(left.iter().cloned()),
            JoinKind::Anti if !found => rows.push(left.iter().cloned()),
            JoinKind::Mark => {
                rows.push(left.iter().cloned().chain([Value::Bool(found)]));
            }
            _ => {}
        }
        Ok(())
    }

    fn holds(&self, both: &[Value], left: usize, around: &Surroundings) -> Result<bool, SqlError> {
        for (a, b) in &self.keys {
            let (a, b) = (a.eval(&both[..left], around)?, b.eval(&both[left..], around)?);
            if *a == Value::Null || *b == Value::Null || value::compare(&a, &b).is_ne() {
                return Ok(false);
            }
        }
        match &self.condition {
            Some(condition) => Ok(condition.truth(both, around)? == Some(true)),
            None => Ok(true),
        }
    }
}

/// The values of keys for a row; `None` if one is NULL, which equals nothing.
fn key<'s>(
    scalars: impl Iterator<Item = &'s Scalar>,
    row: &[Value],
    around: &Surroundings,
) -> Result<Option<GroupKey>, SqlError> {
    let mut values = Vec::new();
    for scalar in scalars {
        match scalar.eval(row, around)?.into_owned() {
            Value::Null => return Ok(None),
            value => values.push(value),
        }
    }
    Ok(Some(GroupKey(values)))
}
