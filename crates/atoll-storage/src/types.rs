//! Values, columns and schemas; [`DataType`] is re-exported from its own module.
//!
//! The type of a column fixes the layout of its values in a segment (see [`crate::segment`]):
//! fixed-width little-endian words, one bit for `bool`, and 16-byte views for `text` and `binary`.
//! Every layout is the Arrow layout of the same type, so a reader uses a segment without
//! conversion.

pub use crate::data_type::{CHARACTERS_MAX, DAY_MICROS, DataType, Element, FIXED_BINARY_BYTES_MAX};
use crate::error::StorageError;
pub use crate::interval::Interval;
pub use crate::labels::NAME_BYTES_MAX;
use crate::value::Kinds;
pub use crate::value::{Value, has_room_for};

/// Longest name of a table or another object, with the mark of a hidden one.
pub const OBJECT_NAME_BYTES_MAX: usize = NAME_BYTES_MAX + MARK.len_utf8();
/// Stands before the kind of an object that is no table, and before a hidden name.
const MARK: char = '\u{1}';
/// Most columns of one table.
pub const COLUMNS_MAX: usize = 1600;
/// The last column of a table without a primary key, which takes the place of one: a number for
/// each row. No other column has a control character in its name.
pub const ROW_NUMBER: &str = "\u{1}row";
/// Longest text or binary, in bytes; one extent holds it.
pub const VALUE_BYTES_MAX: usize = 256 << 20;

/// Longest text of what a layer above has declared of a table, in bytes.
pub const DECLARED_BYTES_MAX: usize = 256 << 10;

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name, unique in the table.
    pub name: String,
    /// Type of its values.
    pub data_type: DataType,
    /// Whether the column can hold NULL.
    pub nullable: bool,
}

impl Column {
    /// A NOT NULL column.
    pub fn new(name: impl Into<String>, data_type: DataType) -> Self {
        Self { name: name.into(), data_type, nullable: false }
    }

    /// A nullable column.
    pub fn nullable(name: impl Into<String>, data_type: DataType) -> Self {
        Self { name: name.into(), data_type, nullable: true }
    }

    /// The kinds of values of which the column can hold every value. Values of other kinds need a
    /// further check (length, digits).
    fn plain_kinds(&self) -> Kinds {
        let one = match self.data_type.stored_as() {
            _ if matches!(self.data_type, DataType::Time | DataType::Enum(_)) => None,
            DataType::Int16 => Some(Value::Int16(0)),
            DataType::Int32 => Some(Value::Int32(0)),
            DataType::Int64 => Some(Value::Int64(0)),
            DataType::Float32 => Some(Value::Float32(0.0)),
            DataType::Float64 => Some(Value::Float64(0.0)),
            DataType::Bool => Some(Value::Bool(false)),
            DataType::Date => Some(Value::Date(0)),
            DataType::Timestamp => Some(Value::Timestamp(0)),
            DataType::Interval => Some(Value::Interval(Interval { months: 0, days: 0, nanos: 0 })),
            _ => None,
        };
        let null = self.nullable.then_some(Value::Null);
        one.iter().chain(&null).fold(0, |kinds, value| kinds | value.bit())
    }
}

/// The columns of a table and its primary key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    columns: Vec<Column>,
    primary_key: Vec<usize>,
    /// For each column, whether it belongs to the primary key.
    in_key: Vec<bool>,
    /// For each column, the kinds of values that need no further check.
    plain_kinds: Vec<Kinds>,
    declared: String,
}

impl Schema {
    /// A schema; its primary key is the named columns, in that order.
    ///
    /// # Errors
    /// [`StorageError::Schema`] for no column, too many columns, a name that is empty, too long or
    /// used twice, a type out of range, and a primary key that is missing, unknown, nullable or of
    /// a floating-point type.
    pub fn new(columns: Vec<Column>, primary_key: &[&str]) -> Result<Self, StorageError> {
        let fault = |text: String| Err(StorageError::Schema(text));
        if columns.is_empty() {
            return fault(format!("a table has 1 to {COLUMNS_MAX} columns, not 0"));
        }
        if let Some(first) = columns.get(COLUMNS_MAX) {
            return fault(format!(
                "a table has at most {COLUMNS_MAX} columns, not {}; the first too many is \"{}\"",
                columns.len(),
                first.name
            ));
        }
        let labels_bytes: usize = columns.iter().map(|one| one.data_type.definition_bytes()).sum();
        if labels_bytes > DECLARED_BYTES_MAX {
            return fault(format!(
                "the labels of the columns of a table take {DECLARED_BYTES_MAX} bytes at most, not \
                 {labels_bytes}"
            ));
        }
        let is_keyless = *primary_key == [ROW_NUMBER] && columns.last() == Some(&row_number());
        let named = &columns[..columns.len() - usize::from(is_keyless)];
        named.iter().try_for_each(|column| check_name("column", &column.name))?;
        for (i, column) in columns.iter().enumerate() {
            let checked = column.data_type.check();
            checked.map_err(|text| StorageError::Schema(format!("{}: {text}", column.name)))?;
            if columns[..i].iter().any(|other| other.name == column.name) {
                return fault(format!("column \"{}\" is named twice", column.name));
            }
        }
        let mut key = Vec::new();
        for name in primary_key {
            let Some(at) = columns.iter().position(|column| column.name == *name) else {
                return fault(format!("primary key column \"{name}\" is not in the table"));
            };
            if columns[at].nullable {
                return fault(format!("primary key column \"{name}\" must be NOT NULL"));
            }
            if matches!(columns[at].data_type, DataType::Float32 | DataType::Float64) {
                return fault(format!("primary key column \"{name}\" cannot be floating point"));
            }
            // A key is looked up by its bytes, and equal intervals may have different ones.
            if columns[at].data_type == DataType::Interval {
                return fault(format!("primary key column \"{name}\" cannot be an interval"));
            }
            if key.contains(&at) {
                return fault(format!("primary key column \"{name}\" is named twice"));
            }
            key.push(at);
        }
        if key.is_empty() {
            return fault("a table needs a primary key".into());
        }
        let in_key = (0..columns.len()).map(|at| key.contains(&at)).collect();
        let plain_kinds = columns.iter().map(Column::plain_kinds).collect();
        Ok(Self { columns, primary_key: key, in_key, plain_kinds, declared: String::new() })
    }

    /// The schema of a table without a primary key, with these columns and one for the numbers of
    /// its rows ([`ROW_NUMBER`]).
    ///
    /// # Errors
    /// As [`Schema::new`].
    pub fn keyless(mut columns: Vec<Column>) -> Result<Self, StorageError> {
        let (count, most) = (columns.len(), COLUMNS_MAX - 1);
        if columns.is_empty() || count > most {
            return Err(StorageError::Schema(format!(
                "a table without a primary key has 1 to {most} columns, not {count}"
            )));
        }
        columns.push(row_number());
        Self::new(columns, &[ROW_NUMBER])
    }

    /// Whether the table has no primary key but numbers of rows ([`ROW_NUMBER`]).
    #[inline]
    pub fn is_keyless(&self) -> bool {
        self.columns.last().is_some_and(|column| column.name == ROW_NUMBER)
    }

    /// The columns that users know: all but numbers of rows ([`ROW_NUMBER`]).
    pub fn visible(&self) -> &[Column] {
        &self.columns[..self.columns.len() - usize::from(self.is_keyless())]
    }

    /// The positions of the primary key's columns; none if the table has no key that users know.
    pub fn visible_key(&self) -> &[usize] {
        if self.is_keyless() { &[] } else { &self.primary_key }
    }

    /// The same schema with what a layer above declares beyond columns and key, such as defaults
    /// and constraints: a text that only that layer reads.
    ///
    /// # Errors
    /// [`StorageError::Schema`] for a text that is too long.
    pub fn with_declared(self, declared: String) -> Result<Self, StorageError> {
        if declared.len() > DECLARED_BYTES_MAX {
            let bytes = declared.len();
            return Err(StorageError::Schema(format!(
                "the defaults and constraints of a table take {DECLARED_BYTES_MAX} bytes at most, \
                 not {bytes}"
            )));
        }
        Ok(Self { declared, ..self })
    }

    /// The same schema with further columns behind the others.
    ///
    /// # Errors
    /// As [`Schema::new`].
    pub fn with_columns(&self, added: impl Iterator<Item = Column>) -> Result<Self, StorageError> {
        let columns = self.columns.iter().cloned().chain(added).collect();
        let key: Vec<&str> =
            self.primary_key.iter().map(|at| self.columns[*at].name.as_str()).collect();
        Self::new(columns, &key)?.with_declared(self.declared.clone())
    }

    /// The same schema as that of an object which is no table, such as a view: its kind, and what a
    /// layer above declares of it. Such an object has a name among those of tables, and is created,
    /// dropped, logged and restored as a table, but lists of tables leave it out.
    ///
    /// # Errors
    /// As [`Schema::with_declared`].
    pub fn of_object(self, kind: &str, declared: &str) -> Result<Self, StorageError> {
        self.with_declared(format!("{MARK}{kind}{MARK}{declared}"))
    }

    /// The kind of an object that is no table, and what was declared of it.
    pub fn object(&self) -> Option<(&str, &str)> {
        self.declared.strip_prefix(MARK)?.split_once(MARK)
    }

    /// What was declared beyond columns and key; empty if nothing was.
    pub fn declared(&self) -> &str {
        &self.declared
    }

    /// The columns in order.
    #[inline]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Positions of the primary key's columns, in key order.
    #[inline]
    pub fn primary_key(&self) -> &[usize] {
        &self.primary_key
    }

    /// Whether a column belongs to the primary key.
    #[inline]
    pub fn is_in_key(&self, column: usize) -> bool {
        self.in_key[column]
    }

    /// Whether the table's first columns are the primary key, in key order.
    #[inline]
    pub fn starts_with_key(&self) -> bool {
        self.primary_key.iter().enumerate().all(|(at, column)| at == *column)
    }

    /// Position of a column.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Checks that a column can hold a value.
    ///
    /// # Errors
    /// [`StorageError::Type`] names the column, its type and the type of the value;
    /// [`StorageError::NullInColumn`], [`StorageError::TooLong`].
    #[inline]
    pub fn check_value(&self, column: usize, value: &Value) -> Result<(), StorageError> {
        if self.plain_kinds[column] & value.bit() != 0 {
            Ok(())
        } else {
            self.check_any(column, value)
        }
    }

    fn check_any(&self, column: usize, value: &Value) -> Result<(), StorageError> {
        let expected = &self.columns[column];
        if let (Value::Binary(bytes), DataType::FixedBinary(width)) =
            (value, expected.data_type.stored_as())
            && bytes.len() == width as usize
        {
            return Ok(());
        }
        if matches!(value, Value::Null) && !expected.nullable {
            return Err(StorageError::NullInColumn { column: expected.name.clone() });
        }
        let bytes = match value {
            Value::Text(text) => text.len(),
            Value::Binary(bytes) => bytes.len(),
            _ => 0,
        };
        if bytes > VALUE_BYTES_MAX {
            let (column, bytes_max) = (expected.name.clone(), VALUE_BYTES_MAX);
            return Err(StorageError::TooLong { column, bytes, bytes_max });
        }
        if value.fits(expected.data_type) {
            return Ok(());
        }
        if let (Value::Text(_), DataType::Text) = (value, expected.data_type.stored_as()) {
            let (column, expected) = (expected.name.clone(), expected.data_type);
            return Err(StorageError::TooManyCharacters { column, expected });
        }
        Err(StorageError::Type {
            column: expected.name.clone(),
            expected: expected.data_type,
            given: value.kind(),
        })
    }

    /// Checks a whole row.
    ///
    /// # Errors
    /// [`StorageError::ColumnCount`], and those of [`Schema::check_value`].
    pub fn check_row(&self, row: &[Value]) -> Result<(), StorageError> {
        if row.len() != self.columns.len() {
            return Err(StorageError::ColumnCount {
                expected: self.columns.len(),
                given: row.len(),
            });
        }
        self.check_rows(row)
    }

    /// Checks several rows, given as consecutive values, column by column.
    ///
    /// # Errors
    /// As [`Schema::check_row`]; if several values do not fit, the error names the one in the first
    /// column.
    pub fn check_rows(&self, rows: &[Value]) -> Result<(), StorageError> {
        let width = self.columns.len();
        if !rows.len().is_multiple_of(width) || rows.is_empty() {
            let (expected, given) = (width, rows.len() % width);
            return Err(StorageError::ColumnCount { expected, given });
        }
        for (column, plain_kinds) in self.plain_kinds.iter().enumerate() {
            let mut at = column;
            while let Some(value) = rows.get(at) {
                if plain_kinds & value.bit() == 0 {
                    self.check_any(column, value)?;
                }
                at += width;
            }
        }
        Ok(())
    }

    /// Checks a primary key.
    ///
    /// # Errors
    /// [`StorageError::KeyCount`], and those of [`Schema::check_value`].
    #[inline]
    pub fn check_key(&self, key: &[Value]) -> Result<(), StorageError> {
        if key.len() != self.primary_key.len() {
            return Err(StorageError::KeyCount {
                expected: self.primary_key.len(),
                given: key.len(),
            });
        }
        key.iter()
            .zip(&self.primary_key)
            .try_for_each(|(value, column)| self.check_value(*column, value))
    }
}

/// See [`ROW_NUMBER`].
fn row_number() -> Column {
    Column::new(ROW_NUMBER, DataType::Int64)
}

/// Checks the name of a table, or of an object that is none. That of an object may be hidden: it
/// begins with a mark that no other name has.
///
/// # Errors
/// As [`check_name`].
pub fn check_object_name(name: &str, schema: &Schema) -> Result<(), StorageError> {
    match name.strip_prefix(MARK).filter(|_| schema.object().is_some()) {
        Some(hidden) => check_name("object", hidden),
        None => check_name("table", name),
    }
}

/// Checks the name of a table or column.
///
/// # Errors
/// [`StorageError::Schema`] for a name that is empty, too long or has a control character.
pub fn check_name(what: &str, name: &str) -> Result<(), StorageError> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(StorageError::Schema(format!(
            "\"{}\" is not a {what} name; use 1 to {NAME_BYTES_MAX} bytes, none \
             of them a control character",
            name.escape_debug()
        )));
    }
    Ok(())
}
