//! The accesses of a transaction to rows.

use std::ops::{Bound, ControlFlow};

use atoll::{Buffers, Range, Row, RowEdit, RowOp, Transaction, TxnResult, Value, Visit, Want};

use super::args::ReadColumns;
use super::field::Field;
use super::rows;

/// The operation of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

impl Operation {
    /// Whether the operation changes the table.
    #[inline]
    pub fn writes(self) -> bool {
        matches!(self, Self::Update | Self::Insert | Self::ReadModifyWrite)
    }
}

/// Names of [`Operation`]s, in order.
pub const OPERATIONS: &[&str] = &["read", "update", "insert", "scan", "read-modify-write"];

/// An access of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    pub operation: Operation,
    pub column: usize,
    /// Most rows of a scan.
    pub rows: u32,
}

/// Buffers of one client: the bytes that transactions write, and the target of what they read.
pub struct ClientBuffers {
    /// Random bytes from which updates take their values.
    pub source: Vec<u8>,
    pub at: usize,
    pub target: Vec<u8>,
    /// The row that is inserted.
    pub row: Vec<Value>,
}

impl Access {
    /// Whether it is an operation on an existing row by its key.
    pub fn is_point(&self) -> bool {
        !matches!(self.operation, Operation::Insert | Operation::Scan)
    }

    /// The [`RowOp`] of a read of one column or of an update: from the first byte of the input, or
    /// to the first byte of the output.
    #[inline]
    pub fn op(self) -> RowOp {
        let Self { operation, column, .. } = self;
        // The CPU cannot predict which of the two it is, so the two arms do the same otherwise.
        match operation {
            Operation::Update => RowOp::Put { column, from: 0 },
            _ => RowOp::Get { column, to: 0 },
        }
    }

    /// The columns of the row that the access needs.
    pub fn columns<'f>(&'f self, field: &'f Field) -> &'f [usize] {
        let reads_all = field.plan.read_columns == ReadColumns::All;
        // The CPU cannot predict which of the two it is, so nothing here depends on it.
        if !reads_all && matches!(self.operation, Operation::Read | Operation::Update) {
            return std::slice::from_ref(&self.column);
        }
        match self.operation {
            Operation::ReadModifyWrite | Operation::Read => &field.columns,
            Operation::Insert | Operation::Scan => &[],
            Operation::Update => std::slice::from_ref(&self.column),
        }
    }

    fn read(&self, field: &Field, row: &Row<'_>, room: &mut ClientBuffers) {
        let bytes = field.plan.column_bytes as usize;
        if field.plan.read_columns == ReadColumns::All {
            read_all(row, bytes, &mut room.target);
        } else {
            row.bytes(self.column, &mut room.target[..bytes]);
        }
    }

    fn change(&self, field: &Field, row: &mut RowEdit<'_>, room: &mut ClientBuffers) {
        let (bytes, column) = (field.plan.column_bytes as usize, self.column);
        let ClientBuffers { source, at, target, .. } = room;
        let value = &source[*at..][..bytes];
        if self.operation == Operation::Update {
            return row.set_bytes(column, value);
        }
        read_all(row, bytes, target);
        let changed = &mut target[(column - 1) * bytes..][..bytes];
        changed.iter_mut().zip(value).for_each(|(old, new)| *old ^= new);
        row.set_bytes(column, changed);
    }

    /// Performs the access for this key; by `op` if it is a single operation.
    ///
    /// # Errors
    /// Those of the database.
    #[inline]
    pub fn perform_as(
        &self,
        op: Option<&RowOp>,
        tx: &mut Transaction,
        field: &Field,
        key: &[Value],
        room: &mut ClientBuffers,
    ) -> TxnResult<()> {
        let Some(op) = op else { return self.perform(tx, field, key, room) };
        let ClientBuffers { source, at, target, .. } = room;
        let buffers = Buffers { input: &source[*at..], output: target };
        tx.apply(&field.table, key, std::slice::from_ref(op), buffers, |_| ())
    }

    /// Performs the access for this key.
    ///
    /// # Errors
    /// Those of the database.
    pub fn perform(
        &self,
        tx: &mut Transaction,
        field: &Field,
        key: &[Value],
        room: &mut ClientBuffers,
    ) -> TxnResult<()> {
        let table = &field.table;
        match self.operation {
            Operation::Read => {
                tx.read_with(table, key, |row| self.read(field, row, room))?;
            }
            Operation::Update | Operation::ReadModifyWrite => {
                tx.update_with(table, key, |row| self.change(field, row, room))?;
            }
            Operation::Insert => {
                rows::set_key(&mut room.row, key);
                tx.insert(table, &room.row)?;
            }
            Operation::Scan => self.scan(tx, field, key, room)?,
        }
        Ok(())
    }

    fn scan(
        &self,
        tx: &mut Transaction,
        field: &Field,
        key: &[Value],
        room: &mut ClientBuffers,
    ) -> TxnResult<()> {
        let Some(index) = &field.index else { return Ok(()) };
        let range = Range { from: Bound::Included(key), to: Bound::Unbounded, descending: false };
        let mut left = self.rows;
        let look =
            |row: &Row<'_>| read_all(row, field.plan.column_bytes as usize, &mut room.target);
        tx.scan(index, range, look, |()| {
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    }
}

fn read_all(row: &Row<'_>, bytes: usize, target: &mut [u8]) {
    for (column, target) in (1..).zip(target.chunks_mut(bytes)) {
        row.bytes(column, target);
    }
}

/// Performs all accesses of a transaction, each to an existing row, with all keys given together.
///
/// # Errors
/// Those of the database.
pub fn perform_all(
    tx: &mut Transaction,
    field: &Field,
    accesses: &[Access],
    keys: &[Value],
    room: &mut ClientBuffers,
) -> TxnResult<()> {
    let wants = |at: usize| {
        let access = &accesses[at];
        Want { columns: access.columns(field), update: access.operation.writes() }
    };
    tx.visit(&field.table, keys, wants, |at, row| match row {
        Visit::Read(row) => accesses[at].read(field, row, room),
        Visit::Update(row) => accesses[at].change(field, row, room),
        Visit::Absent => {}
    })
}

/// Performs all accesses of a transaction, each to an existing row, one after the other.
///
/// # Errors
/// Those of the database.
pub fn perform_each(
    tx: &mut Transaction,
    field: &Field,
    ops: &[RowOp],
    keys: &[Value],
    room: &mut ClientBuffers,
) -> TxnResult<()> {
    let ClientBuffers { source, at, target, .. } = room;
    let input = &source[*at..];
    tx.cursor(&field.table, |rows| {
        for (op, key) in ops.iter().zip(keys) {
            let key = std::slice::from_ref(key);
            match *op {
                RowOp::Get { column, to } => rows.get(key, column, &mut target[to..])?,
                RowOp::Put { column, from } => rows.put(key, column, &input[from..])?,
            };
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::args::plan_of;
    use super::super::choice::Layout;
    use super::*;
    use crate::progress::Unwatched;

    #[test]
    fn a_scan_reads_the_rows_from_its_key_on_and_ends_at_its_length_or_with_the_table() {
        const ROWS: u64 = 60;
        let words = "ycsb --workload e --rows 60 --columns 2 --column-bytes 16 --threads 1";
        let plan = plan_of(words);
        let db = plan.oltp.open(1).expect("a database");
        let table = rows::create(&db, &plan).expect("a table");
        let layout = Layout { rows: ROWS, partitions: 1 };
        rows::fill(&db, &table, &plan, layout, &mut Unwatched).expect("there is room");
        let index = Some(table.index(rows::BY_KEY).expect("it has scans"));
        let (columns, next) = (vec![1, 2], ROWS.into());
        let row = rows::empty_row(&plan);
        let field = Arc::new(Field { plan, table, columns, index, next });
        let mut room = ClientBuffers { source: Vec::new(), at: 0, target: vec![0; 32], row };
        let mut session = db.session().expect("a session");
        let mut last_of = |operation, key: u64, rows: u64| {
            let access = Access { operation, column: 1, rows: rows as u32 };
            let key = [Value::Int64(key as i64)];
            room.target.fill(0);
            let done = session.transaction(|tx| access.perform(tx, &field, &key, &mut room));
            done.expect("there is no conflict");
            room.target.clone()
        };
        for key in [0, 1, 17, 50, ROWS - 1] {
            for length in [1, 2, 7, 30, 100] {
                let last = (key + length).min(ROWS) - 1;
                let scanned = last_of(Operation::Scan, key, length);
                assert_eq!(scanned, last_of(Operation::Read, last, 1), "{length} from {key}");
            }
        }
        assert_ne!(last_of(Operation::Read, 3, 1), last_of(Operation::Read, 4, 1));
    }
}
