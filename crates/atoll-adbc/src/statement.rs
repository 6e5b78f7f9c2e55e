//! Statements: a text with values for its parameters, or rows to be inserted.
//!
//! `STATEMENT-1`: a statement has a text or a target for bound rows, whichever was set last. Bound
//! data are used by the next execution, and only by it.

use std::sync::Arc;

use adbc_core::error::{Error, Status};
use adbc_core::options::{IngestMode, OptionStatement, OptionValue};
use adbc_core::{CancelHandle, Optionable, PartitionedResult};
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{DataType, Field, Schema};
use atoll::arrow_type;
use atoll_sql::{Literal, Outcome, QueryResult, Question, StatementScanner};

use crate::errors::{Result, error, guarded, of_rows, unsupported, wrong_argument, wrong_state};
use crate::ingest::{self, Target, Watched};
use crate::link::{Cancel, Core, Link, first_word};
use crate::options::{self, Defaults, only_texts};
use crate::parameters;
use crate::results::{Rows, Stream, schema_without_views};
use crate::rows::IncomingRows;
use crate::tally;

const BIND_BY_NAME: &str = "adbc.statement.bind_by_name";

/// A statement of a connection.
pub struct Statement {
    link: Arc<Link>,
    defaults: Defaults,
    text: Option<String>,
    target: Target,
    bound: Option<Box<dyn RecordBatchReader + Send>>,
    by_name: bool,
    cancel: Cancel,
}

/// What a statement, run for one or several rows of values, has returned.
#[derive(Default)]
struct Done {
    results: Vec<QueryResult>,
    /// Rows that were changed, or returned.
    rows: u64,
}

impl Done {
    fn add(&mut self, outcome: Outcome) {
        self.rows += outcome.row_count();
        if let Outcome::Rows(result) = outcome {
            self.results.push(result);
        }
    }
}

impl Statement {
    pub(crate) fn new(link: Arc<Link>, defaults: Defaults) -> Self {
        Self {
            link,
            defaults,
            text: None,
            target: Target::default(),
            bound: None,
            by_name: false,
            cancel: Cancel::default(),
        }
    }

    fn text(&self) -> Result<&str> {
        self.text.as_deref().ok_or_else(|| wrong_state("the statement has no query; set one"))
    }

    /// Runs it and returns what it has returned; if `streams`, the rows of a query are computed
    /// while they are read, and not counted.
    fn run(&mut self, streams: bool) -> Result<(Rows, Option<u64>)> {
        let bound = self.bound.take();
        let cancels = [self.cancel.clone(), self.link.cancel.clone()];
        cancels.iter().for_each(Cancel::clear);
        let question: Arc<Question> = {
            let cancels = cancels.clone();
            Arc::new(move || cancels.iter().any(Cancel::is_set))
        };
        let done = match (&self.target.table, bound) {
            (Some(table), Some(data)) => {
                self.insert(table, data, &question).map(|(rows, count)| (rows, Some(count)))
            }
            (Some(table), None) => {
                Err(wrong_state(format!("no data are bound for table \"{table}\"")))
            }
            (None, bound) => self.run_text(bound, &question, streams),
        };
        let (rows, count) = done.map_err(|error| match error.status {
            // A source of data that was cut off.
            Status::InvalidData if question() => cancelled(),
            _ => error,
        })?;
        Ok((if self.defaults.views { rows } else { rows.without_views() }, count))
    }

    fn insert(
        &self,
        table: &str,
        data: Box<dyn RecordBatchReader + Send>,
        question: &Arc<Question>,
    ) -> Result<(Rows, u64)> {
        self.link.with(|core| ingest::check(core, &self.target, table).map(drop))?;
        // Reading may run code of the client that uses the connection, so it is free meanwhile.
        let asked = Arc::clone(question);
        let data = Watched { data, is_cancelled: move || asked() };
        let rows = IncomingRows::read(data).map_err(of_rows)?;
        let key = self.defaults.primary_key.as_deref();
        let inserted =
            self.link.with(|core| ingest::ingest(core, &self.target, table, key, rows))?;
        Ok((Rows::none(Arc::new(Schema::empty())), inserted))
    }

    fn run_text(
        &self,
        bound: Option<Box<dyn RecordBatchReader + Send>>,
        question: &Arc<Question>,
        streams: bool,
    ) -> Result<(Rows, Option<u64>)> {
        let text = self.text()?;
        let texts = statements(text);
        let Some(bound) = bound else {
            return self.link.with(|core| run_each(core, &texts, question, streams));
        };
        let [text] = texts.as_slice() else {
            let count = texts.len();
            return Err(wrong_argument(format!(
                "values are bound, and the text holds {count} statements; run them one by one"
            )));
        };
        let asked = Arc::clone(question);
        let bound = Watched { data: bound, is_cancelled: move || asked() };
        let lists = parameters::lists(bound, self.by_name)?;
        let (rows, count) = self.link.with(|core| run_for(core, text, &lists, question))?;
        Ok((rows, Some(count)))
    }

    /// The description of its one statement.
    fn describe(&self) -> Result<atoll_sql::Description> {
        let text = self.text()?;
        match statements(text).as_slice() {
            [one] => self.link.with(|core| core.describe(one)),
            several => {
                let count = several.len();
                Err(wrong_argument(format!("the text holds {count} statements, not one")))
            }
        }
    }
}

fn cancelled() -> Error {
    let message = "the statement was cancelled and has changed nothing";
    error(Status::Cancelled, "57014", message)
}

/// Runs statements without values one after the other. The result is that of the last.
fn run_each(
    core: &mut Core,
    texts: &[&str],
    question: &Arc<Question>,
    streams: bool,
) -> Result<(Rows, Option<u64>)> {
    let Some((last, earlier)) = texts.split_last() else {
        return Err(error(Status::InvalidArguments, "42601", "the text holds no statement"));
    };
    let numbered = |at: usize| {
        let is_only = earlier.is_empty();
        move |mut error: Error| {
            if !is_only {
                error.message = format!("statement {}: {}", at + 1, error.message);
            }
            error
        }
    };
    for (at, text) in earlier.iter().enumerate() {
        core.run(text, &[], question).map_err(numbered(at))?;
    }
    let numbered = numbered(earlier.len());
    if streams {
        let stream = core.stream(last, question).map_err(&numbered)?;
        let returned = stream.row_count().map(|rows| rows as u64);
        let count = stream.change().map_or(returned, |(_, rows)| Some(rows));
        return Ok((Rows::streamed(stream, last).map_err(numbered)?, count));
    }
    let mut done = Done::default();
    done.add(core.run(last, &[], question).map_err(numbered)?);
    Ok((Rows::of(done.results)?, Some(done.rows)))
}

/// Runs a statement for each list of values: all changes or none, and all rows one after the other.
fn run_for(
    core: &mut Core,
    text: &str,
    lists: &[Vec<Literal>],
    question: &Arc<Question>,
) -> Result<(Rows, u64)> {
    let run = |core: &mut Core| {
        let mut done = Done::default();
        for (at, values) in lists.iter().enumerate() {
            done.add(core.run(text, values, question).map_err(|mut error| {
                if lists.len() > 1 {
                    error.message = format!("values {}: {}", at + 1, error.message);
                }
                error
            })?);
        }
        Ok(done)
    };
    if lists.is_empty() {
        return Ok((Rows::none(core.describe(text)?.columns), 0));
    }
    let changes = matches!(first_word(text).as_str(), "INSERT" | "UPDATE" | "DELETE");
    let together = changes && lists.len() > 1;
    let done = if together { core.together(run)? } else { run(core)? };
    Ok((Rows::of(done.results)?, done.rows))
}

/// The statements of a text.
fn statements(text: &str) -> Vec<&str> {
    let is_blank = |part: &str| {
        let mut scanner = StatementScanner::new();
        scanner.advance(part.strip_suffix(';').unwrap_or(part));
        scanner.is_blank()
    };
    let (mut found, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let end = StatementScanner::new().advance(rest).unwrap_or(rest.len());
        let (part, behind) = rest.split_at(end);
        if !is_blank(part) {
            found.push(part);
        }
        rest = behind;
    }
    found
}

impl Optionable for Statement {
    type Option = OptionStatement;

    fn set_option(&mut self, key: OptionStatement, value: OptionValue) -> Result<()> {
        let name = key.as_ref().to_owned();
        match key {
            OptionStatement::TargetTable => {
                self.target.table = Some(options::text(&name, value)?);
                self.text = None;
            }
            OptionStatement::IngestMode => {
                let mode = options::text(&name, value)?;
                self.target.mode = mode.parse::<IngestMode>().map_err(|_| {
                    wrong_argument(format!("{name} is create, append, replace or create_append"))
                })?;
            }
            OptionStatement::TargetCatalog => {
                self.target.catalog = Some(options::text(&name, value)?);
            }
            OptionStatement::TargetDbSchema => {
                self.target.db_schema = Some(options::text(&name, value)?);
            }
            OptionStatement::Temporary => {
                if options::truth(&name, value)? {
                    return Err(unsupported("there are no temporary tables"));
                }
            }
            OptionStatement::Incremental => {
                if options::truth(&name, value)? {
                    return Err(unsupported("results have no partitions"));
                }
            }
            _ => match name.as_str() {
                BIND_BY_NAME => self.by_name = options::truth(&name, value)?,
                _ => self.defaults.set(&name, value)?,
            },
        }
        Ok(())
    }

    fn get_option_string(&self, key: OptionStatement) -> Result<String> {
        let value = match key {
            OptionStatement::TargetTable => self.target.table.clone(),
            OptionStatement::TargetCatalog => self.target.catalog.clone(),
            OptionStatement::TargetDbSchema => self.target.db_schema.clone(),
            OptionStatement::IngestMode => Some(self.target.mode.into()),
            OptionStatement::Temporary | OptionStatement::Incremental => Some("false".to_owned()),
            _ if key.as_ref() == BIND_BY_NAME => Some(self.by_name.to_string()),
            _ => self.defaults.get(key.as_ref()),
        };
        value.ok_or_else(|| options::not_found(key.as_ref()))
    }

    only_texts!(OptionStatement);
}

impl adbc_core::Statement for Statement {
    fn bind(&mut self, batch: RecordBatch) -> Result<()> {
        let schema = batch.schema();
        self.bind_stream(Box::new(RecordBatchIterator::new([Ok(batch)], schema)))
    }

    fn bind_stream(&mut self, reader: Box<dyn RecordBatchReader + Send>) -> Result<()> {
        self.bound = Some(reader);
        Ok(())
    }

    fn execute(&mut self) -> Result<Stream> {
        let (rows, count) = guarded(|| self.run(true))?;
        tally::note(count);
        Ok(Box::new(rows))
    }

    fn execute_update(&mut self) -> Result<Option<i64>> {
        let (_, count) = guarded(|| self.run(false))?;
        Ok(count.and_then(|count| i64::try_from(count).ok()))
    }

    fn execute_schema(&mut self) -> Result<Schema> {
        // Values that are bound do not matter.
        self.bound = None;
        let columns = self.describe()?.columns;
        Ok(if self.defaults.views {
            columns.as_ref().clone()
        } else {
            schema_without_views(&columns)
        })
    }

    fn execute_partitions(&mut self) -> Result<PartitionedResult> {
        Err(unsupported("results have no partitions"))
    }

    fn get_parameter_schema(&self) -> Result<Schema> {
        let field = |(number, data_type): (usize, Option<atoll::DataType>)| {
            let arrow = data_type.map_or(DataType::Null, arrow_type);
            Field::new(format!("${number}"), arrow, true)
        };
        let parameters = (1..).zip(self.describe()?.parameters);
        Ok(Schema::new(parameters.map(field).collect::<Vec<_>>()))
    }

    fn prepare(&mut self) -> Result<()> {
        // Statements are planned once and kept by their text, whether they are prepared or not.
        self.text().map(drop)
    }

    fn set_sql_query(&mut self, query: impl AsRef<str>) -> Result<()> {
        self.text = Some(query.as_ref().to_owned());
        self.target = Target::default();
        Ok(())
    }

    fn set_substrait_plan(&mut self, _: impl AsRef<[u8]>) -> Result<()> {
        Err(unsupported("plans of Substrait are not supported; give SQL"))
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        Box::new(self.cancel.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_its_semicolons() {
        let cut = |text| statements(text);
        assert_eq!(cut("SELECT ';'; -- a; b\n SELECT 2"), ["SELECT ';';", " -- a; b\n SELECT 2"]);
        assert_eq!(cut(" ; -- nothing\n ;"), [""; 0]);
        assert_eq!(cut("SELECT 1; -- end"), ["SELECT 1;"]);
        assert_eq!(cut(""), [""; 0]);
    }
}
