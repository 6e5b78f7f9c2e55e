//! The rows of a cursor that are kept: of one that scrolls, and of one that outlives its
//! transaction.
//!
//! A cursor is before the first row, on a row, or behind the last one. Positions are counted from 1
//! as in SQL.

use arrow_array::RecordBatch;
use atoll_sql::QueryStream;

use super::report::{of_error, report};
use crate::link::Fault;
use crate::values::{Cell, Column, Reader};
use crate::wire::out::Report;

/// Bytes of the rows that the cursors of a connection keep together.
pub(crate) const KEPT_BYTES_MAX: usize = 256 << 20;

/// Takes the values of a row.
pub(crate) type Put<'p> =
    &'p mut dyn FnMut(&mut dyn Iterator<Item = Result<Cell<'_>, String>>) -> Result<(), Fault>;

/// Where a `FETCH` or a `MOVE` goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Over so many rows, each of which is shown.
    Forward(u64),
    /// The same, to the rows before.
    Backward(u64),
    /// To the row of this position; from the last row if it is negative.
    Absolute(i64),
    /// To the row so far from here.
    Relative(i64),
}

/// See the module.
pub(crate) struct Kept {
    batches: Vec<RecordBatch>,
    /// The rows before each batch.
    starts: Vec<usize>,
    count: usize,
    bytes: usize,
    at: usize,
}

impl Kept {
    /// The rows of a query, which take so many bytes at most.
    ///
    /// # Errors
    /// Those of the query; 53200 for more bytes.
    pub(crate) fn of(mut stream: QueryStream, room: usize) -> Result<Self, Fault> {
        let (batches, starts) = (Vec::new(), Vec::new());
        let mut kept = Self { batches, starts, count: 0, bytes: 0, at: 0 };
        while let Some(batch) = stream.next_batch().map_err(|error| of_error(&error, "", 0))? {
            kept.bytes += batch.get_array_memory_size();
            if kept.bytes > room {
                let message = format!(
                    "the rows that cursors of a connection keep take more than {} MiB",
                    KEPT_BYTES_MAX >> 20
                );
                let hint = "a cursor without SCROLL and WITH HOLD keeps none".to_owned();
                return Err(Fault::Error(Report { hint: Some(hint), ..report("53200", message) }));
            }
            if batch.num_rows() > 0 {
                kept.starts.push(kept.count);
                kept.count += batch.num_rows();
                kept.batches.push(batch);
            }
        }
        Ok(kept)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Goes a way; returns the positions of the rows that are shown, in their order.
    fn go(&mut self, way: Way) -> Box<dyn Iterator<Item = usize>> {
        let (at, count) = (self.at, self.count);
        let rows = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
        let to =
            |position: i128| usize::try_from(position.max(0)).unwrap_or(usize::MAX).min(count + 1);
        match way {
            Way::Forward(most) => {
                self.at = at.saturating_add(rows(most)).min(count + 1);
                return Box::new(at + 1..=self.at.min(count));
            }
            Way::Backward(most) => {
                self.at = at.saturating_sub(rows(most));
                return Box::new((self.at.max(1)..at).rev());
            }
            Way::Absolute(position) if position < 0 => {
                self.at = to(count as i128 + 1 + i128::from(position));
            }
            Way::Absolute(position) => self.at = to(position.into()),
            Way::Relative(by) => self.at = to(at as i128 + i128::from(by)),
        }
        let is_on_a_row = (1..=count).contains(&self.at);
        Box::new(std::iter::once(self.at).filter(move |_| is_on_a_row))
    }

    /// Goes a way and passes the rows that are shown to `put`; returns how many they are.
    ///
    /// # Errors
    /// Those of `put`.
    pub(crate) fn each(
        &mut self,
        way: Way,
        columns: &[Column],
        put: Put<'_>,
    ) -> Result<u64, Fault> {
        let mut positions = self.go(way).peekable();
        let mut shown = 0;
        while let Some(first) = positions.peek() {
            let batch = self.starts.partition_point(|start| start < first) - 1;
            let (start, batch) = (self.starts[batch], &self.batches[batch]);
            let arrays = batch.columns().iter().zip(columns);
            let readers: Vec<Reader<'_>> =
                arrays.map(|(array, column)| Reader::of(array, column.data_type)).collect();
            let is_here = |position: &usize| (1..=batch.num_rows()).contains(&(position - start));
            while let Some(position) =
                positions.next_if(|position| *position > start && is_here(position))
            {
                put(&mut readers.iter().map(|reader| reader.cell(position - start - 1)))?;
                shown += 1;
            }
        }
        Ok(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(count: usize) -> Kept {
        Kept { batches: Vec::new(), starts: Vec::new(), count, bytes: 0, at: 0 }
    }

    #[test]
    fn a_cursor_goes_where_postgresql_goes() {
        use Way::{Absolute, Backward, Forward, Relative};
        // What PostgreSQL 15 shows of three rows, one after the other.
        let mut cursor = kept(3);
        for (way, shown, at) in [
            (Forward(1), vec![1], 1),
            (Relative(0), vec![1], 1),
            (Backward(1), vec![], 0),
            (Relative(0), vec![], 0),
            (Forward(3), vec![1, 2, 3], 3),
            (Backward(1), vec![2], 2),
            (Forward(u64::MAX), vec![3], 4),
            (Forward(1), vec![], 4),
            (Backward(2), vec![3, 2], 2),
            (Absolute(-1), vec![3], 3),
            (Absolute(1), vec![1], 1),
            (Absolute(9), vec![], 4),
            (Backward(u64::MAX), vec![3, 2, 1], 0),
            (Absolute(-3), vec![1], 1),
            (Absolute(-4), vec![], 0),
            (Relative(2), vec![2], 2),
            (Relative(-1), vec![1], 1),
            (Absolute(0), vec![], 0),
            (Relative(i64::MAX), vec![], 4),
            (Relative(i64::MIN), vec![], 0),
        ] {
            assert_eq!(cursor.go(way).collect::<Vec<_>>(), shown, "{way:?}");
            assert_eq!(cursor.at, at, "{way:?}");
        }
        let mut empty = kept(0);
        for way in [Forward(1), Backward(1), Absolute(1), Absolute(-1), Relative(0)] {
            assert_eq!(empty.go(way).count(), 0);
        }
    }
}
