//! Results of statements as Arrow streams.

use std::sync::Arc;

use adbc_core::error::{Error, Status};
use arrow_array::{
    Array, ArrayRef, RecordBatch, RecordBatchOptions, RecordBatchReader, new_null_array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use atoll_sql::{QueryMemory, QueryResult, QueryStream};

use crate::errors::{Result, error, of_sql};
use crate::stream_errors::{self, Failure};

/// A stream, as the driver gives it away.
pub(crate) type Stream = Box<dyn RecordBatchReader + Send + 'static>;

/// The rows of a statement. They are kept, with memory that counts as that of queries, or computed
/// while they are read.
pub(crate) struct Rows {
    schema: SchemaRef,
    batches: Box<dyn Iterator<Item = Batch> + Send>,
    _memory: Vec<QueryMemory>,
}

type Batch = std::result::Result<RecordBatch, ArrowError>;

impl Rows {
    fn new(
        schema: SchemaRef,
        batches: impl IntoIterator<Item = Batch, IntoIter: Send + 'static>,
    ) -> Self {
        Self { schema, batches: Box::new(batches.into_iter()), _memory: Vec::new() }
    }

    /// No rows with these columns.
    pub(crate) fn none(schema: SchemaRef) -> Self {
        Self::new(schema, [])
    }

    /// The rows of all results, which are those of one statement with different parameters.
    ///
    /// # Errors
    /// The columns have other types for other parameters.
    pub(crate) fn of(results: Vec<QueryResult>) -> Result<Self> {
        let memory = results.iter().filter_map(QueryResult::memory).collect();
        let schema = common(&results)?;
        let mut batches = Vec::new();
        for batch in results.into_iter().flat_map(QueryResult::into_batches) {
            batches.push(Ok(under(&schema, &batch, |column, wanted| {
                // All are NULL, see `common`.
                let same = column.data_type() == wanted;
                if same { Arc::clone(column) } else { new_null_array(wanted, column.len()) }
            })?));
        }
        Ok(Self { _memory: memory, ..Self::new(schema, batches) })
    }

    /// The rows of a statement with this text, as they come. The first batch is waited for, because
    /// many clients get no more than a text of an error of the stream. One that goes on reading
    /// behind an error gets it again, not the end of the rows.
    ///
    /// # Errors
    /// Those of the statement that come before its first rows.
    pub(crate) fn streamed(mut stream: QueryStream, text: &str) -> Result<Self> {
        let first = stream.next_batch().map_err(|error| of_sql(&error, text))?;
        let failure = Arc::new(Failure::default());
        stream_errors::made(&failure);
        let (schema, text) = (stream.schema(), text.to_owned());
        let mut ended: Option<Error> = None;
        let rest = std::iter::from_fn(move || {
            if ended.is_none() {
                match stream.next_batch() {
                    Ok(batch) => return batch.map(Ok),
                    Err(error) => {
                        let error = of_sql(&error, &text);
                        failure.note(&error);
                        ended = Some(error);
                    }
                }
            }
            ended.clone().map(|error| Err(ArrowError::ExternalError(Box::new(error))))
        });
        Ok(Self::new(schema, first.into_iter().map(Ok).chain(rest)))
    }

    /// The same rows, with texts and bytes in the types that all functions of older libraries
    /// support. More than two gigabytes of text in a batch are an error of the batch.
    pub(crate) fn without_views(self) -> Self {
        let schema = Arc::new(schema_without_views(&self.schema));
        let wanted = Arc::clone(&schema);
        let batches = self.batches.map(move |batch| {
            let batch = batch?;
            let columns = batch.columns().iter().zip(wanted.fields());
            let columns =
                columns.map(|(column, field)| arrow_cast::cast(column, field.data_type()));
            made(&wanted, columns.collect::<std::result::Result<_, _>>()?, batch.num_rows())
        });
        Self { _memory: self._memory, ..Self::new(schema, batches) }
    }
}

impl Iterator for Rows {
    type Item = Batch;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.next()
    }
}

impl RecordBatchReader for Rows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// The columns without views.
pub(crate) fn schema_without_views(schema: &Schema) -> Schema {
    let fields = schema.fields().iter().map(|field| {
        let plain = match field.data_type() {
            DataType::Utf8View => DataType::LargeUtf8,
            DataType::BinaryView => DataType::LargeBinary,
            other => other.clone(),
        };
        field.as_ref().clone().with_data_type(plain)
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// One batch as a stream.
pub(crate) fn stream_of(batch: RecordBatch) -> Stream {
    Box::new(Rows::new(batch.schema(), [Ok(batch)]))
}

/// The columns of all results. A column of NULLs only has the type that it has for other
/// parameters.
fn common(results: &[QueryResult]) -> Result<SchemaRef> {
    let Some(first) = results.first() else { return Ok(Arc::new(Schema::empty())) };
    let schemas: Vec<SchemaRef> = results.iter().map(QueryResult::schema).collect();
    if schemas.iter().all(|schema| *schema == first.schema()) {
        return Ok(first.schema());
    }
    let field = |(at, field): (usize, &Arc<Field>)| {
        let with_values = results.iter().zip(&schemas).filter(|(result, _)| {
            result.batches().iter().any(|batch| {
                let column = batch.column(at);
                column.logical_null_count() < column.len()
            })
        });
        let mut types = with_values.map(|(_, schema)| schema.field(at).data_type());
        let chosen = types.next().unwrap_or(field.data_type());
        if types.any(|other| other != chosen) {
            let message = format!(
                "column \"{}\" has other types for other parameters; cast it to one",
                field.name()
            );
            return Err(error(Status::InvalidData, "42804", message));
        }
        Ok(Field::new(field.name(), chosen.clone(), true))
    };
    let fields =
        first.schema().fields().iter().enumerate().map(field).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Schema::new(fields)))
}

/// The batch with another schema, its columns changed by `change`.
fn under(
    schema: &SchemaRef,
    batch: &RecordBatch,
    change: impl Fn(&ArrayRef, &DataType) -> ArrayRef,
) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| change(column, field.data_type())).collect();
    Ok(made(schema, columns, batch.num_rows())?)
}

fn made(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> std::result::Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}
