//! Operations on rows, as the caller describes them and as they are checked.

use std::ops::Range;

use atoll_machine::{Hints, Machine};
use atoll_storage::{PlainColumn, Slot, StorageError, Table};

use crate::error::OpError;
use crate::row::{Row, RowEdit};

/// The operation of a transaction on a row.
#[derive(Debug, Clone, Copy)]
pub struct Want<'c> {
    /// Columns that will be read or changed; a hint for prefetching.
    pub columns: &'c [usize],
    /// Whether the row may be changed.
    pub update: bool,
}

impl<'c> Want<'c> {
    /// Reads these columns.
    pub const fn read(columns: &'c [usize]) -> Self {
        Self { columns, update: false }
    }

    /// Reads and changes these columns.
    pub const fn update(columns: &'c [usize]) -> Self {
        Self { columns, update: true }
    }
}

/// What the callback gets for a key.
pub enum Visit<'v, 'a, M: Machine> {
    /// There is no row with the key.
    Absent,
    /// The row, for reading.
    Read(&'v Row<'a, M>),
    /// The row, for reading and changing.
    Update(&'v mut RowEdit<'a, M>),
}

/// A callback that gets the position of a key and its row.
pub type Visitor<'b, M> = &'b mut dyn FnMut(usize, Visit<'_, '_, M>);

/// An operation on one value of the row of a key. Values are encoded as in tables: numbers
/// little-endian, all bytes of a `binary(n)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOp {
    /// Reads a column.
    Get {
        /// Its position.
        column: usize,
        /// Position of the value's first byte in the output.
        to: usize,
    },
    /// Replaces a column.
    Put {
        /// Its position.
        column: usize,
        /// Position of the value's first byte in the input.
        from: usize,
    },
}

/// The buffers that operations read and write.
pub struct Buffers<'b> {
    /// The values that are put.
    pub input: &'b [u8],
    /// Receives the values that are got.
    pub output: &'b mut [u8],
}

/// The operation on the row of a key.
pub(super) trait Aim: Copy {
    /// Whether it may change the row.
    fn updates(self) -> bool;
    /// Adds prefetch hints for `line`, if there is one, and for what the operation accesses besides
    /// `columns`.
    fn hint<M: Machine>(
        self,
        line: Option<*const u8>,
        table: &Table<M>,
        slot: Slot<'_, M>,
        hints: &mut Hints,
    );
    /// Columns that it accesses; they are prefetched for all rows together.
    fn columns<'a>(self) -> &'a [usize]
    where
        Self: 'a;
}

/// The operations on the rows of all keys, by the position of the key.
pub(super) trait Aims<A> {
    /// The operation; `None` if it is invalid.
    fn of(&self, at: usize) -> Option<A>;
    /// Why an operation is invalid.
    fn misfit(&self, at: usize) -> OpError;
}

impl Aim for Want<'_> {
    #[inline]
    fn updates(self) -> bool {
        self.update
    }

    #[inline]
    fn hint<M: Machine>(
        self,
        line: Option<*const u8>,
        _: &Table<M>,
        _: Slot<'_, M>,
        hints: &mut Hints,
    ) {
        line.iter().for_each(|line| hints.add_line::<M>(*line));
    }

    #[inline]
    fn columns<'a>(self) -> &'a [usize]
    where
        Self: 'a,
    {
        self.columns
    }
}

pub(super) struct Wants<'f, 'c>(pub(super) &'f dyn Fn(usize) -> Want<'c>);

impl<'c> Aims<Want<'c>> for Wants<'_, 'c> {
    #[inline]
    fn of(&self, at: usize) -> Option<Want<'c>> {
        Some(self.0(at))
    }

    fn misfit(&self, at: usize) -> OpError {
        unreachable!("anything can be done with row {at}")
    }
}

/// An operation that has been checked against its table and its buffers.
#[derive(Clone, Copy)]
pub(super) struct Checked {
    pub(super) column: PlainColumn,
    /// Position of its first byte in the input or the output.
    begin: usize,
    pub(super) is_put: bool,
}

impl Checked {
    /// An operation on the first bytes of a buffer. The length of the buffer is not checked.
    #[inline(always)]
    pub(super) fn alone<M: Machine>(table: &Table<M>, column: usize, is_put: bool) -> Option<Self> {
        let column = table.plain(column)?;
        let is_allowed = !(is_put & column.is_in_key());
        is_allowed.then_some(Self { column, begin: 0, is_put })
    }

    #[inline]
    pub(super) fn bytes(self) -> Range<usize> {
        self.begin..self.begin + self.column.width()
    }
}

impl Aim for Checked {
    #[inline]
    fn updates(self) -> bool {
        self.is_put
    }

    #[inline(always)]
    fn hint<M: Machine>(
        self,
        line: Option<*const u8>,
        table: &Table<M>,
        slot: Slot<'_, M>,
        hints: &mut Hints,
    ) {
        table.hint_at_plain(line, slot, self.column, hints);
    }

    #[inline(always)]
    fn columns<'a>(self) -> &'a [usize]
    where
        Self: 'a,
    {
        &[] // `hint` prefetches the column.
    }
}

pub(super) struct Ops<'o, M: Machine> {
    pub(super) table: &'o Table<M>,
    pub(super) ops: &'o [RowOp],
    /// Bytes of the input and of the output.
    pub(super) input: usize,
    pub(super) output: usize,
}

impl<M: Machine> Aims<Checked> for Ops<'_, M> {
    #[inline(always)]
    fn of(&self, at: usize) -> Option<Checked> {
        let (column, is_put, begin, given) = self.parts(at);
        let column = self.table.plain(column)?;
        let fits = begin.saturating_add(column.width()) <= given;
        // A CPU cannot predict which operations are puts, so this must not branch on it.
        let is_allowed = fits & !(is_put & column.is_in_key());
        is_allowed.then_some(Checked { column, begin, is_put })
    }

    #[cold]
    fn misfit(&self, operation: usize) -> OpError {
        let (at, is_put, begin, given) = self.parts(operation);
        let Some(column) = self.table.plain(at) else {
            let described = self.table.schema().columns().get(at);
            let what = match described {
                None => "does not exist".to_owned(),
                Some(one) if one.nullable => "may be NULL".to_owned(),
                Some(one) => format!("holds {}", one.data_type),
            };
            return StorageError::NotPlain { column: at, what }.into();
        };
        if is_put && column.is_in_key() {
            return OpError::key_update(self.table, at);
        }
        let needed = column.width();
        StorageError::OutsideBuffer { operation, begin, needed, given }.into()
    }
}

impl<M: Machine> Ops<'_, M> {
    /// Column, whether it is a put, position of the first byte, and length of the buffer.
    #[inline(always)]
    fn parts(&self, at: usize) -> (usize, bool, usize, usize) {
        match self.ops[at] {
            RowOp::Get { column, to } => (column, false, to, self.output),
            RowOp::Put { column, from } => (column, true, from, self.input),
        }
    }
}
