//! `EXPLAIN` with options.

use arrow_array::{Array, StringArray};
use arrow_schema::DataType;
use sqlparser::ast::Statement;

use super::{Outcome, SqlSession};
use crate::error::{SqlError, SqlErrorKind};
use crate::result::QueryResult;
use crate::{clauses, explain_json};

impl SqlSession {
    /// Carries out an `EXPLAIN` with a list of options.
    ///
    /// # Errors
    /// Those of the statement; an option that is not supported.
    pub(super) fn explain_with_options(
        &mut self,
        mut statement: Statement,
    ) -> Result<Outcome, SqlError> {
        let mut is_json = false;
        if let Statement::Explain { options, .. } = &mut statement {
            is_json = explain_json::take_format(options)?;
        }
        clauses::explain(&mut statement)?;
        // They are read here, whole.
        let streams = self.streams && !is_json;
        let before = std::mem::replace(&mut self.streams, streams);
        let shown = self.dispatch(statement);
        self.streams = before;
        match shown? {
            Outcome::Rows(rows) if is_json => {
                let text = explain_json::of_lines(lines(&rows)?.iter().map(String::as_str));
                Ok(Outcome::Rows(QueryResult::of_json("QUERY PLAN", &text)))
            }
            shown => Ok(shown),
        }
    }
}

/// The lines of a plan. Of one that runs on a snapshot, they are those of the physical plan, which
/// is in the last row.
fn lines(shown: &QueryResult) -> Result<Vec<String>, SqlError> {
    let mut all: Vec<Vec<String>> = Vec::new();
    for batch in shown.batches() {
        let column = batch.column(batch.num_columns() - 1);
        let text = arrow_cast::cast(column, &DataType::Utf8)
            .map_err(|error| SqlError::new(SqlErrorKind::Database, error.to_string()))?;
        let text = text.as_any().downcast_ref::<StringArray>();
        let rows = text.into_iter().flat_map(|text| text.iter().flatten());
        all.extend(rows.map(|text| text.lines().map(str::to_owned).collect()));
    }
    let is_of_snapshot = shown.schema().fields().len() > 1;
    Ok(match is_of_snapshot {
        true => all.pop().unwrap_or_default(),
        false => all.concat(),
    })
}
