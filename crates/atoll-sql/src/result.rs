//! Results of statements.

use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow_schema::{DataType as ArrowType, Field, Schema, SchemaRef};
use atoll::{DataType, Value};

use crate::json::Form;
use crate::lengths;
use crate::limits::QueryMemory;
use crate::short::columns::Columns;
use crate::short::run::Rows;
use crate::short::value;

/// The rows that a statement returned. Its buffers may belong to the snapshot; they keep the
/// snapshot's lease.
#[derive(Debug, Clone)]
pub struct QueryResult {
    schema: SchemaRef,
    data: Data,
    memory: Option<QueryMemory>,
    /// Of a change with RETURNING: the command tag, and how many rows it changed.
    change: Option<(String, u64)>,
}

#[derive(Debug, Clone)]
enum Data {
    Batches(Vec<RecordBatch>),
    /// Of the short executor; the batch is made when it is asked for.
    Rows(Arc<ShortRows>),
}

#[derive(Debug)]
struct ShortRows {
    rows: Rows,
    columns: Arc<Columns>,
    batch: OnceLock<Vec<RecordBatch>>,
}

impl QueryResult {
    /// Batches of a query.
    pub(crate) fn of_batches(
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
        memory: QueryMemory,
    ) -> Self {
        Self { schema, data: Data::Batches(batches), memory: Some(memory), change: None }
    }

    /// Rows of the short executor.
    pub(crate) fn of_rows(mut rows: Rows, columns: &Arc<Columns>) -> Self {
        for (at, data_type) in columns.types.iter().enumerate() {
            if let DataType::Char(most) = data_type {
                rows.change(at, |text| lengths::padded(text, *most).into_owned());
            }
        }
        let rows = ShortRows { rows, columns: Arc::clone(columns), batch: OnceLock::new() };
        let schema = Arc::clone(&columns.schema);
        Self { schema, data: Data::Rows(Arc::new(rows)), memory: None, change: None }
    }

    /// One row with one text.
    pub(crate) fn of_text(column: &str, text: &str) -> Self {
        Self::of_lines(column, &[text.to_owned()])
    }

    /// One row with one text of JSON.
    pub(crate) fn of_json(column: &str, text: &str) -> Self {
        let result = Self::of_text(column, text);
        let field = Form::Json.mark(result.schema.field(0).clone());
        let schema = Arc::new(Schema::new(vec![field]));
        let batches = result.batches().iter();
        let batches = batches.map(|batch| batch.clone().with_schema(Arc::clone(&schema)));
        let batches = batches.collect::<Result<Vec<_>, _>>();
        let batches = batches.expect("the type of the column is the same");
        Self { schema, data: Data::Batches(batches), ..result }
    }

    /// A row for each text.
    pub(crate) fn of_lines(column: &str, lines: &[String]) -> Self {
        let field = Field::new(column, ArrowType::Utf8, false);
        let schema = Arc::new(Schema::new(vec![field]));
        let text = Arc::new(StringArray::from_iter_values(lines));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![text]);
        let batch = batch.expect("the column is the schema's");
        Self { schema, data: Data::Batches(vec![batch]), memory: None, change: None }
    }

    /// The same result, of a change.
    pub(crate) fn of_change(self, tag: String, rows: u64) -> Self {
        Self { change: Some((tag, rows)), ..self }
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The command tag of a change with `RETURNING`, and how many rows it changed.
    pub fn change(&self) -> Option<(&str, u64)> {
        self.change.as_ref().map(|(tag, rows)| (tag.as_str(), *rows))
    }

    /// The rows, as Arrow data.
    pub fn batches(&self) -> &[RecordBatch] {
        match &self.data {
            Data::Batches(batches) => batches,
            Data::Rows(rows) => rows.batch.get_or_init(|| vec![rows.batch(&self.schema)]),
        }
    }

    /// The rows of a short statement, without a step through Arrow, and the types of the columns;
    /// `None` for a result that is Arrow data.
    pub fn rows(&self) -> Option<(impl ExactSizeIterator<Item = &[Value]>, &[DataType])> {
        match &self.data {
            Data::Rows(short) => {
                let rows = &short.rows;
                let each = (0..rows.count()).map(|at| rows.row(at));
                Some((each, short.columns.types.as_slice()))
            }
            Data::Batches(_) => None,
        }
    }

    /// The query memory that it holds. It counts as long as this value lives, so it is kept beside
    /// batches that are given away.
    pub fn memory(&self) -> Option<QueryMemory> {
        self.memory.clone()
    }

    /// The rows, given away.
    pub fn into_batches(self) -> Vec<RecordBatch> {
        match self.data {
            Data::Batches(batches) => batches,
            Data::Rows(_) => self.batches().to_vec(),
        }
    }

    /// How many rows there are.
    pub fn row_count(&self) -> usize {
        match &self.data {
            Data::Batches(batches) => batches.iter().map(RecordBatch::num_rows).sum(),
            Data::Rows(short) => short.rows.count(),
        }
    }
}

impl ShortRows {
    fn batch(&self, schema: &SchemaRef) -> RecordBatch {
        let column = |(at, field): (usize, &Arc<Field>)| -> ArrayRef {
            let values: Vec<&Value> = self.rows.iter().map(|row| &row[at]).collect();
            if let DataType::Enum(labels) = self.columns.types[at] {
                let codes = values.into_iter().map(|value| match value {
                    Value::Int32(code) => Some(*code),
                    _ => None,
                });
                return atoll::dictionary(codes.collect(), labels)
                    .expect("a value has the type of its column");
            }
            value::to_array(values.into_iter(), field.data_type())
                .expect("a value has the type of its column")
        };
        let columns = schema.fields().iter().enumerate().map(column).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows.count()));
        // A column that the planner takes for NOT NULL has no NULL.
        RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
            .expect("the columns are those of the schema")
    }
}
