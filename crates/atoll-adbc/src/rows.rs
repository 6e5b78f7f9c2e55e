//! Rows in Arrow format that are to be rows of a table.
//!
//! `CONVERT-1`: a given value is converted exactly or refused: nothing is rounded, truncated or
//! wrapped.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Float64Type, Time64NanosecondType, TimestampMicrosecondType,
    TimestampNanosecondType,
};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader, StringViewArray};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType as ArrowType, SchemaRef, TimeUnit};
use atoll::{ArrowRows, Column, DataType, JSON, JSONB, Labels, Schema, UTC, UUID, arrow_type};
use atoll_sql::{Declared, SqlError, in_words_of_sql, narrowest_column_type};

/// Why rows cannot be those of a table.
#[derive(Debug)]
pub enum RowsError {
    /// The columns are not those of the table.
    Mismatch(String),
    /// A column that must not be NULL is.
    Null(String),
    /// A value cannot be stored exactly.
    Value(String),
    /// The source of the rows fails.
    Source(ArrowError),
    /// No table has such columns.
    Database(atoll::Error),
}

type Result<T> = std::result::Result<T, RowsError>;

/// Incoming rows as record batches.
pub struct IncomingRows {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl IncomingRows {
    /// Reads everything.
    ///
    /// # Errors
    /// Those of the source of the data.
    pub fn read(reader: impl RecordBatchReader) -> Result<Self> {
        let schema = reader.schema();
        let batches = reader.collect::<std::result::Result<Vec<_>, _>>();
        let batches = batches.map_err(RowsError::Source)?;
        Ok(Self { schema, batches })
    }

    /// The schema of a table for these rows. Columns may be NULL unless they are in the key or
    /// their source declares them not nullable; one without a type holds nothing else.
    ///
    /// # Errors
    /// [`RowsError::Value`] for an unsupported type; [`RowsError::Database`] for a schema that no
    /// table can have, such as one with a missing key column.
    pub fn schema(&self, key: &[String]) -> Result<Schema> {
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for field in self.schema.fields() {
            let (name, arrow) = (field.name(), field.data_type());
            // A column without any value can have any type.
            let untyped = is_untyped(arrow);
            let data_type = match field.extension_type_name() {
                _ if untyped => Some(DataType::Text),
                Some(UUID) => Some(DataType::Uuid),
                Some(JSON) if field.metadata().contains_key(JSONB) => Some(DataType::Jsonb),
                Some(JSON) => Some(DataType::Json),
                _ => narrowest_column_type(arrow),
            };
            let data_type = data_type.ok_or_else(|| {
                let arrow = in_words_of_sql(&arrow.to_string());
                RowsError::Value(format!("column \"{name}\" has type {arrow}, which no table has"))
            })?;
            let nullable = (untyped || field.is_nullable()) && !key.contains(name);
            columns.push(Column { name: name.clone(), data_type, nullable });
        }
        let key: Vec<&str> = key.iter().map(String::as_str).collect();
        Schema::new(columns, &key).map_err(|error| RowsError::Database(error.into()))
    }

    /// The names of the columns.
    pub fn names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The columns without a value and without a type.
    pub fn untyped(&self) -> Vec<String> {
        let fields = self.schema.fields().iter();
        let untyped = fields.filter(|field| is_untyped(field.data_type()));
        untyped.map(|field| field.name().clone()).collect()
    }

    /// Converts the rows to the types and the order of a table's columns, matched by name.
    ///
    /// # Errors
    /// [`RowsError::Mismatch`] for an extra or a missing column or one of another type, and those
    /// of values that do not fit.
    pub fn fit(self, schema: &Schema) -> Result<Vec<ArrowRows>> {
        let known = |name: &str| schema.visible().iter().any(|column| column.name == name);
        if let Some(extra) = self.schema.fields().iter().find(|field| !known(field.name())) {
            let name = extra.name();
            return Err(RowsError::Mismatch(format!("the table has no column \"{name}\"")));
        }
        let unreadable = |error: SqlError| RowsError::Mismatch(error.to_string());
        let declared = Declared::of(schema).map_err(unreadable)?;
        let places = schema.columns().iter().enumerate().map(|(at, column)| {
            if at == schema.visible().len() {
                // The numbers of rows come later.
                return Ok(None);
            }
            let place = self.schema.index_of(&column.name).ok();
            if place.is_none() && !column.nullable && !declared.has_value(&column.name) {
                let name = &column.name;
                return Err(RowsError::Mismatch(format!("the data has no column \"{name}\"")));
            }
            Ok(place)
        });
        let places = places.collect::<Result<Vec<_>>>()?;
        let fit = |batch: &RecordBatch| {
            let columns = schema.columns().iter().zip(&places);
            let arrays = columns.map(|(column, place)| {
                place.map(|place| fit_array(column, batch.column(place))).transpose()
            });
            Ok(ArrowRows { rows: batch.num_rows(), columns: arrays.collect::<Result<_>>()? })
        };
        self.batches.iter().map(fit).collect()
    }
}

/// Converts the values of a column to the type of the table's column.
fn fit_array(column: &Column, array: &ArrayRef) -> Result<ArrayRef> {
    let told = |what: String| format!("column \"{}\" {what}", column.name);
    let refuse = |what: String| RowsError::Value(told(what));
    let wanted = arrow_type(column.data_type);
    if !fits(array.data_type(), column.data_type) {
        let given = in_words_of_sql(&array.data_type().to_string());
        let what = format!("holds {}, not values of type {given}", column.data_type);
        return Err(RowsError::Mismatch(told(what)));
    }
    let plain =
        without_encoding(array).map_err(|error| refuse(in_words_of_sql(&error.to_string())))?;
    if let ArrowType::Time64(TimeUnit::Nanosecond) = plain.data_type() {
        let times = plain.as_primitive::<Time64NanosecondType>();
        if let Some(odd) = times.iter().flatten().find(|time| time % 1000 != 0) {
            return Err(refuse(format!("holds a time finer than a microsecond: {odd} ns")));
        }
    }
    if let ArrowType::Timestamp(TimeUnit::Nanosecond, _) = plain.data_type() {
        let instants = plain.as_primitive::<TimestampNanosecondType>();
        if let Some(odd) = instants.iter().flatten().find(|instant| instant % 1000 != 0) {
            return Err(refuse(format!("holds an instant finer than a microsecond: {odd} ns")));
        }
    }
    let says_time = matches!(plain.data_type(), ArrowType::Timestamp(..) | ArrowType::Date64);
    if column.data_type == DataType::Date && says_time {
        check_midnights(&plain).map_err(refuse)?;
    }
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let cast = match plain.data_type() {
        _ if let DataType::Enum(labels) = column.data_type => {
            let texts = cast_with_options(&plain, &ArrowType::Utf8View, &strict);
            texts.and_then(|texts| of_labels(&texts, labels))
        }
        // The instant itself, not the local time in its zone.
        ArrowType::Timestamp(_, Some(zone)) => {
            let zoned = ArrowType::Timestamp(TimeUnit::Microsecond, Some(Arc::clone(zone)));
            cast_with_options(&plain, &zoned, &strict).map(|array| {
                let instants = array.as_primitive::<TimestampMicrosecondType>().clone();
                let zone = (column.data_type == DataType::TimestampTz).then_some(UTC);
                Arc::new(instants.with_timezone_opt(zone)) as ArrayRef
            })
        }
        _ => cast_with_options(&plain, &wanted, &strict),
    };
    let mut fitted = cast.map_err(|error| {
        let told = in_words_of_sql(&error.to_string());
        refuse(format!("holds a value out of range: {told}"))
    })?;
    if let DataType::Char(_) | DataType::Varchar(_) | DataType::Json | DataType::Jsonb =
        column.data_type
    {
        fitted =
            fit_texts(&fitted, column).map_err(|reason| refuse(format!("holds a {reason}")))?;
    }
    if matches!(column.data_type, DataType::Float32 | DataType::Float64)
        && let Some(odd) = rounded(&plain, &fitted)
    {
        return Err(refuse(format!("cannot hold {odd} exactly as {}", column.data_type)));
    }
    if !column.nullable && fitted.null_count() > 0 {
        let what = "must not be NULL, and the data holds NULL in it";
        return Err(RowsError::Null(told(what.to_owned())));
    }
    Ok(fitted)
}

/// Labels of an enum as its column has them.
fn of_labels(texts: &ArrayRef, labels: Labels) -> std::result::Result<ArrayRef, ArrowError> {
    let code = |text: &str| {
        labels.code(text).ok_or_else(|| {
            let message = format!("invalid input value for enum {}: \"{text}\"", labels.shown());
            ArrowError::CastError(message)
        })
    };
    let codes = texts.as_string_view().iter().map(|text| text.map(code).transpose());
    atoll::dictionary(codes.collect::<std::result::Result<_, _>>()?, labels)
}

/// The texts as a column with a limit of characters stores them.
fn fit_texts(texts: &ArrayRef, column: &Column) -> std::result::Result<ArrayRef, String> {
    let texts = texts.as_string_view().iter();
    let fit = |text| atoll_sql::text_in_column(text, column.data_type);
    let fitted = texts.map(|text: Option<&str>| text.map(fit).transpose());
    Ok(Arc::new(fitted.collect::<std::result::Result<StringViewArray, String>>()?))
}

/// Whether values of an Arrow type do not determine the type of a column: all are NULL.
pub fn is_untyped(arrow: &ArrowType) -> bool {
    match arrow {
        ArrowType::Null => true,
        ArrowType::Dictionary(_, values) => is_untyped(values),
        ArrowType::RunEndEncoded(_, values) => is_untyped(values.data_type()),
        _ => false,
    }
}

/// Whether values of an Arrow type can be stored in a column; [`fit_array`] refuses those that
/// cannot be stored exactly.
fn fits(given: &ArrowType, wanted: DataType) -> bool {
    if is_untyped(given) {
        return true;
    }
    let Some(narrowest) = narrowest_column_type(given) else { return false };
    let integer = |data_type| {
        matches!(data_type, DataType::Int16 | DataType::Int32 | DataType::Int64)
            || matches!(data_type, DataType::Decimal { scale: 0, .. })
    };
    match (narrowest, wanted) {
        (DataType::Decimal { scale, .. }, DataType::Decimal { scale: places, .. }) => {
            scale <= places
        }
        (DataType::Float32, DataType::Float64) => true,
        (from, DataType::Float32 | DataType::Float64) => from == wanted || integer(from),
        // A timestamp at midnight is a date, unless it is at midnight only in some zone.
        (DataType::Timestamp, DataType::Date) => true,
        // Of an instant, the timestamp in UTC.
        (DataType::TimestampTz, DataType::Timestamp) => true,
        (DataType::Text, DataType::Varchar(_) | DataType::Char(_) | DataType::Enum(_)) => true,
        (DataType::Text, DataType::Json | DataType::Jsonb) => true,
        (DataType::FixedBinary(16), DataType::Uuid) => true,
        (from, DataType::Decimal { .. }) => integer(from),
        (from, to) => from == to || integer(from) && integer(to),
    }
}

/// Checks that all instants are midnights.
fn check_midnights(array: &ArrayRef) -> std::result::Result<(), String> {
    const DAY_US: i64 = 86_400_000_000;
    let micros = ArrowType::Timestamp(TimeUnit::Microsecond, None);
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let instants = cast_with_options(array, &micros, &strict)
        .map_err(|_| "holds an instant out of range".to_owned())?;
    let instants = instants.as_primitive::<TimestampMicrosecondType>();
    match instants.iter().flatten().find(|instant| instant % DAY_US != 0) {
        Some(odd) => {
            Err(format!("is a date, and {} is not at midnight", atoll_sql::show_timestamp(odd)))
        }
        None => Ok(()),
    }
}

/// The first integer that floating point cannot represent exactly.
fn rounded(given: &ArrayRef, fitted: &ArrayRef) -> Option<i128> {
    if given.data_type().is_floating() || given.data_type().is_null() {
        return None;
    }
    // Wide enough for every integer.
    let digits = ArrowType::Decimal128(38, 0);
    let given = arrow_cast::cast(given, &digits).ok()?;
    let given = given.as_primitive::<Decimal128Type>();
    let doubles = arrow_cast::cast(fitted, &ArrowType::Float64).ok()?;
    let doubles = doubles.as_primitive::<Float64Type>();
    let pairs = given.iter().zip(doubles).filter_map(|(given, double)| Some((given?, double?)));
    pairs.into_iter().find(|(given, double)| *double as i128 != *given).map(|(given, _)| given)
}

/// The array without dictionary or run-length encoding.
fn without_encoding(array: &ArrayRef) -> std::result::Result<ArrayRef, ArrowError> {
    match array.data_type() {
        ArrowType::Dictionary(_, values) => arrow_cast::cast(array, values),
        ArrowType::RunEndEncoded(_, values) => arrow_cast::cast(array, values.data_type()),
        _ => Ok(Arc::clone(array)),
    }
}
