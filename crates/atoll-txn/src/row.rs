//! A row as a transaction sees it: the newest version in the table or an older one, with the
//! transaction's own changes on top.

use std::cell::RefCell;
use std::hint::cold_path;
use std::ops::Deref;

use atoll_machine::Machine;
use atoll_storage::image::{self, Plain};
use atoll_storage::undo::UndoList;
use atoll_storage::{
    Change, Column, DataType, Number, PlainColumn, Slot, StorageError, Table, Value,
};

use crate::before_image::BeforeImage;
use crate::column_set::ColumnSet;
use crate::edits::{Edits, Savepoint};
use crate::error::OpError;

/// Width of the widest image that is read without allocating.
const IMAGE_INLINE_MAX: usize = 128;

// Not `Copy`: a copy that outlives a change of the row would read a write set that is borrowed.
/// A row that is being read. Its values count only if the call that passed it to the caller
/// succeeds: a scheme that reads without locks may pass the row several times.
pub struct Row<'a, M: Machine> {
    pub(crate) table: &'a Table<M>,
    pub(crate) slot: Slot<'a, M>,
    pub(crate) before_image: Option<&'a BeforeImage>,
    pub(crate) own: Option<Own<'a>>,
}

/// The transaction's own changes of a row.
#[derive(Clone, Copy)]
pub(crate) struct Own<'a> {
    pub(crate) edits: &'a RefCell<Edits>,
    /// The row's position in the write set.
    pub(crate) at: Option<usize>,
    /// Cells that were put since this savepoint belong to the row, too.
    pub(crate) since: Option<Savepoint>,
}

impl Own<'_> {
    /// Whether the transaction may have set the column.
    #[inline]
    fn may_have(self, column: usize) -> bool {
        self.at.is_some() || (self.since.is_some() && self.edits.borrow().may_have_since(column))
    }
}

macro_rules! getter {
    ($name:ident) => {
        /// A column of this type; 0 for NULL.
        ///
        /// # Panics
        /// When the column is of another type.
        #[inline]
        pub fn $name(&self, column: usize) -> $name {
            if !self.table.has_numbers::<$name>(column) {
                self.holds_other(column, stringify!($name));
            }
            if self.is_stored(column) {
                return self.table.number(self.slot, column);
            }
            cold_path();
            let mut bytes = [0; size_of::<$name>()];
            self.copy(column, &mut bytes);
            <$name>::from_le_bytes(bytes)
        }
    };
}

impl<'a, M: Machine> Row<'a, M> {
    /// The version in the table.
    #[inline]
    pub(crate) fn stored(table: &'a Table<M>, slot: Slot<'a, M>) -> Self {
        Self { table, slot, before_image: None, own: None }
    }

    /// The row with an older version, and with the transaction's own changes, on top.
    #[inline]
    pub(crate) fn under<'b>(
        &self,
        before_image: Option<&'b BeforeImage>,
        own: Option<Own<'b>>,
    ) -> Row<'b, M>
    where
        'a: 'b,
    {
        Row { table: self.table, slot: self.slot, before_image, own }
    }

    /// Whether the table certainly holds the value of a column: no older version and no change of
    /// the transaction replaces it.
    #[inline]
    fn is_stored(&self, column: usize) -> bool {
        self.before_image.is_none() && self.own.is_none_or(|own| !own.may_have(column))
    }

    fn data_type(&self, column: usize) -> DataType {
        self.table.schema().columns()[column].data_type
    }

    /// Calls `body` with the plain bytes that the transaction itself has put into a column; if it
    /// has put none, returns `body` as an error.
    #[inline]
    fn with_own<R, F: FnOnce(Plain<'_>) -> R>(&self, column: usize, body: F) -> Result<R, F> {
        let Some(own) = self.own.filter(|own| own.may_have(column)) else { return Err(body) };
        cold_path();
        let edits = own.edits.borrow();
        let since = own.since.and_then(|savepoint| edits.get_since(savepoint, column));
        match since.or_else(|| own.at.and_then(|at| edits.get(at, column))) {
            Some(plain) => Ok(body(plain)),
            None => Err(body),
        }
    }

    /// Copies the bytes of a column of a fixed width. Returns false for NULL and copies nothing.
    #[inline]
    fn copy(&self, column: usize, into: &mut [u8]) -> bool {
        let own =
            self.with_own(column, |plain| plain.map(|bytes| into.copy_from_slice(bytes)).is_some());
        if let Ok(valid) = own {
            return valid;
        }
        match self.before_image.and_then(|before| before.get(column)) {
            Some((valid, bytes)) => {
                into.copy_from_slice(bytes);
                valid
            }
            None => self.table.load(self.slot, column, into),
        }
    }

    getter!(i16);
    getter!(i32);
    getter!(i64);

    #[cold]
    fn holds_other(&self, column: usize, wanted: &str) -> ! {
        panic!("column {column} holds {}, not {wanted}", self.data_type(column));
    }

    /// A column of this type; NaN for NULL.
    ///
    /// # Panics
    /// When the column is of another type.
    #[inline]
    pub fn f64(&self, column: usize) -> f64 {
        let data_type = self.data_type(column);
        assert!(data_type == DataType::Float64, "column {column} holds {data_type}, not f64");
        let mut bytes = [0; 8];
        if self.copy(column, &mut bytes) { f64::from_le_bytes(bytes) } else { f64::NAN }
    }

    /// Copies a `binary(n)` into a buffer of `n` bytes. Returns false for NULL.
    ///
    /// # Panics
    /// When the column is of another type or width.
    #[inline]
    pub fn bytes(&self, column: usize, into: &mut [u8]) -> bool {
        let data_type = self.data_type(column);
        let stored = data_type.stored_as();
        assert!(
            matches!(stored, DataType::FixedBinary(width) if width as usize == into.len()),
            "column {column} holds {data_type}, not {} bytes",
            into.len()
        );
        if self.is_stored(column) {
            return self.table.load(self.slot, column, into);
        }
        self.copy(column, into)
    }

    /// Copies a value of a plain column of the table into a buffer of its width.
    #[inline(always)]
    pub(crate) fn plain(&self, column: PlainColumn, into: &mut [u8]) {
        if self.is_stored(column.position()) {
            return self.table.load_plain(self.slot, column, into);
        }
        self.copy(column.position(), into);
    }

    /// A column of any type.
    ///
    /// # Panics
    /// When there is no such column.
    pub fn value(&self, column: usize) -> Value {
        let data_type = self.data_type(column);
        let own = self.with_own(column, |plain| image::value_of_plain(data_type, plain));
        if let Ok(value) = own {
            return value.unwrap_or(Value::Null);
        }
        match self.before_image.and_then(|before| before.get(column)) {
            Some((true, bytes)) => self.table.value_of_image(self.slot, column, bytes),
            Some((false, _)) => Value::Null,
            None => self.table.value(self.slot.id(), column),
        }
    }

    /// Calls `body` with the bytes of a value, or `None` for NULL: numbers little-endian, one byte
    /// for a `bool`, all bytes of a text or binary. Allocates only for long values. While another
    /// transaction changes the row (see [`Row`]), the bytes may not be those of any value.
    ///
    /// # Panics
    /// When there is no such column.
    #[inline]
    pub fn show<R>(&self, column: usize, body: impl FnOnce(Option<&[u8]>) -> R) -> R {
        let body = match self.with_own(column, body) {
            Ok(shown) => return shown,
            Err(body) => body,
        };
        match self.before_image.and_then(|before| before.get(column)) {
            Some((true, bytes)) => self.table.show_plain_of_image(self.slot, column, bytes, body),
            Some((false, _)) => body(None),
            None => self.table.show_plain(self.slot, column, body),
        }
    }

    /// A text; empty for NULL.
    ///
    /// # Panics
    /// When the column is of another type.
    pub fn text(&self, column: usize) -> String {
        match self.value(column) {
            Value::Text(text) => text,
            Value::Null => String::new(),
            other => panic!("column {column} holds {}, not text", other.kind()),
        }
    }

    /// Whether the column is NULL.
    pub fn is_null(&self, column: usize) -> bool {
        let width = self.data_type(column).width().max(1);
        if width > IMAGE_INLINE_MAX {
            return self.value(column) == Value::Null;
        }
        let own = self.with_own(column, |plain| plain.is_none());
        if let Ok(null) = own {
            return null;
        }
        match self.before_image.and_then(|before| before.get(column)) {
            Some((valid, _)) => !valid,
            None => !self.table.load(self.slot, column, &mut [0; IMAGE_INLINE_MAX][..width]),
        }
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.table.schema().columns().len()
    }
}

/// A row that is being changed. A read of a column after it was set returns the new value.
pub struct RowEdit<'a, M: Machine> {
    row: Row<'a, M>,
    direct: Option<Direct<'a, M>>,
    failed: Option<OpError>,
    changed: ColumnSet,
}

/// How to store in place.
pub(crate) struct Direct<'a, M: Machine> {
    pub(crate) change: Change,
    pub(crate) undo: &'a mut UndoList<M>,
    pub(crate) moves: Moves<'a, M>,
}

/// Detects changes that move the row in an index.
pub(crate) struct Moves<'a, M: Machine> {
    /// Columns in which a change moves the row.
    pub(crate) columns: &'a ColumnSet,
    /// Called with the row before the first change of one of them, or of a column that shares its
    /// bit.
    pub(crate) before: &'a mut dyn FnMut(&Row<'_, M>),
}

impl<'a, M: Machine> Deref for RowEdit<'a, M> {
    type Target = Row<'a, M>;

    fn deref(&self) -> &Row<'a, M> {
        &self.row
    }
}

impl<'a, M: Machine> RowEdit<'a, M> {
    pub(crate) fn new(row: Row<'a, M>, direct: Option<Direct<'a, M>>) -> Self {
        Self { row, direct, failed: None, changed: ColumnSet::default() }
    }

    /// The columns that were set, or the first error.
    pub(crate) fn finish(self) -> Result<ColumnSet, OpError> {
        self.failed.map_or(Ok(self.changed), Err)
    }

    fn fail(&mut self, error: OpError) {
        self.failed.get_or_insert(error);
    }

    /// Sets a column. If the value does not fit, the whole call fails and the transaction is rolled
    /// back.
    ///
    /// # Panics
    /// When there is no such column.
    pub fn set(&mut self, column: usize, value: &Value) {
        if let Err(error) = self.row.table.schema().check_value(column, value) {
            return self.fail(error.into());
        }
        if self.row.table.schema().is_in_key(column) {
            if self.row.value(column) != *value {
                self.fail(OpError::key_update(self.row.table, column));
            }
            return;
        }
        let mut buffer = [0; 16];
        self.put(column, image::plain(value, &mut buffer));
    }

    /// Sets a `bigint` or a `timestamp`.
    ///
    /// # Panics
    /// When there is no such column.
    #[inline]
    pub fn set_i64(&mut self, column: usize, value: i64) {
        if self.row.table.sets_numbers::<i64>(column) {
            return self.put_number(column, value);
        }
        match self.row.data_type(column) {
            DataType::Timestamp | DataType::TimestampTz => {
                self.set(column, &Value::Timestamp(value));
            }
            _ => self.set(column, &Value::Int64(value)),
        }
    }

    /// Sets an `integer` or a `date`.
    ///
    /// # Panics
    /// When there is no such column.
    #[inline]
    pub fn set_i32(&mut self, column: usize, value: i32) {
        if self.row.table.sets_numbers::<i32>(column) {
            return self.put_number(column, value);
        }
        match self.row.data_type(column) {
            DataType::Date => self.set(column, &Value::Date(value)),
            _ => self.set(column, &Value::Int32(value)),
        }
    }

    /// Adds to a `bigint` or a `timestamp`, and returns the sum; NULL counts as 0. If the sum is
    /// out of range, the whole call fails and the transaction is rolled back.
    ///
    /// # Panics
    /// When the column is of another type.
    #[inline]
    pub fn add_i64(&mut self, column: usize, amount: i64) -> i64 {
        self.add(column, amount, |row| row.i64(column), |row, sum| row.set_i64(column, sum))
    }

    /// As [`RowEdit::add_i64`], to an `integer` or a `date`.
    ///
    /// # Panics
    /// As there.
    #[inline]
    pub fn add_i32(&mut self, column: usize, amount: i32) -> i32 {
        self.add(column, amount, |row| row.i32(column), |row, sum| row.set_i32(column, sum))
    }

    /// Adds to a number. In place, this locates the value only once.
    #[inline(always)]
    fn add<N: Number>(
        &mut self,
        column: usize,
        amount: N,
        get: impl FnOnce(&Self) -> N,
        set: impl FnOnce(&mut Self, N),
    ) -> N {
        if self.direct.is_some() && self.row.table.sets_numbers::<N>(column) {
            return self.add_number(column, amount);
        }
        let sum = get(self).plus(amount);
        match sum {
            Some(sum) => set(self, sum),
            None => self.is_out_of_range(column),
        }
        sum.unwrap_or_default()
    }

    /// Adds to a number in place.
    fn add_number<N: Number>(&mut self, column: usize, amount: N) -> N {
        if !self.begin_put(column) {
            return N::default();
        }
        let (table, slot) = (self.row.table, self.row.slot);
        let Some(direct) = &mut self.direct else { return N::default() };
        let plus = |old: N| old.plus(amount);
        match table.store_number(direct.change, slot, column, plus, direct.undo) {
            Ok(Some(sum)) => return sum,
            Ok(None) => self.is_out_of_range(column),
            Err(error) => self.fail(error.into()),
        }
        N::default()
    }

    #[cold]
    fn is_out_of_range(&mut self, column: usize) {
        let Column { name, data_type, .. } = &self.row.table.schema().columns()[column];
        let (column, expected) = (name.clone(), *data_type);
        self.fail(StorageError::OutOfRange { column, expected }.into());
    }

    /// Sets a `binary(n)`, a `bytea` or a `text`.
    ///
    /// # Panics
    /// When there is no such column.
    #[inline]
    pub fn set_bytes(&mut self, column: usize, bytes: &[u8]) {
        let data_type = self.row.data_type(column).stored_as();
        let fits =
            matches!(data_type, DataType::FixedBinary(width) if width as usize == bytes.len());
        if fits && !self.row.table.schema().is_in_key(column) {
            return self.put(column, Some(bytes));
        }
        match (data_type, std::str::from_utf8(bytes)) {
            (DataType::Text, Ok(text)) => self.set(column, &Value::Text(text.to_owned())),
            _ => self.set(column, &Value::Binary(bytes.to_vec())),
        }
    }

    /// Sets a plain column of the table.
    #[inline]
    pub(crate) fn set_plain(&mut self, column: PlainColumn, bytes: &[u8]) {
        self.put(column.position(), Some(bytes));
    }

    fn put(&mut self, column: usize, plain: Plain<'_>) {
        if !self.begin_put(column) {
            return;
        }
        let (table, slot) = (self.row.table, self.row.slot);
        match (&mut self.direct, self.row.own) {
            (Some(direct), _) => {
                let stored = table.store(direct.change, slot, column, plain, direct.undo);
                self.end_put(stored);
            }
            (None, Some(own)) => own.edits.borrow_mut().put(column, plain),
            (None, None) => {}
        }
    }

    /// As `put`, for a column that [takes](Table::sets_numbers) numbers of this type.
    fn put_number<N: Number>(&mut self, column: usize, value: N) {
        if !self.begin_put(column) {
            return;
        }
        let (table, slot) = (self.row.table, self.row.slot);
        match (&mut self.direct, self.row.own) {
            (Some(direct), _) => {
                let put = |_| Some(value);
                let stored = table.store_number(direct.change, slot, column, put, direct.undo);
                self.end_put(stored.map(|_| ()));
            }
            (None, Some(own)) => {
                let bytes = &value.padded().to_le_bytes()[..size_of::<N>()];
                own.edits.borrow_mut().put(column, Some(bytes));
            }
            (None, None) => {}
        }
    }

    /// Prepares a change of a column; returns false if a change before it has failed.
    #[inline(always)]
    fn begin_put(&mut self, column: usize) -> bool {
        if self.failed.is_some() {
            return false;
        }
        if let Some(Direct { moves, .. }) = &mut self.direct
            && moves.columns.may_have(column)
            && !self.changed.meets(moves.columns)
        {
            (moves.before)(&self.row);
        }
        self.changed.add(column);
        true
    }

    #[inline(always)]
    fn end_put(&mut self, stored: Result<(), StorageError>) {
        if let Err(error) = stored {
            self.failed = Some(error.into());
        }
    }
}
