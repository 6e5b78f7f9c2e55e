//! SQL sessions as the connections of a benchmark.

use atoll::Database;
use atoll_bench::sql::{Connection, Failure, Fields, Param};
use atoll_sql::{Literal, Outcome, PreparedStatement, Row, SqlError, SqlSession};

/// A session.
pub(super) struct SqlConnection {
    session: SqlSession,
    /// Room for the values of a statement.
    values: Vec<Literal>,
}

impl SqlConnection {
    /// A session on the database.
    pub(super) fn new(db: &Database) -> Result<Self, Failure> {
        let session = SqlSession::on_database(db.clone());
        Ok(Self { session, values: Vec::new() })
    }

    fn outcome(
        &mut self,
        statement: &PreparedStatement,
        params: &[Param<'_>],
    ) -> Result<Outcome, Failure> {
        let values = params.iter().map(|param| match *param {
            Param::Int(number) => Literal::from(number),
            Param::Text(text) => Literal::from(text),
            Param::Time(micros) => Literal::Timestamp(micros),
            Param::Null => Literal::Null,
        });
        self.values.clear();
        self.values.extend(values);
        self.session.execute_with(statement, &self.values).map_err(failure)
    }
}

/// SQLSTATEs of class 40 say that others are to blame.
fn failure(error: SqlError) -> Failure {
    match error.sqlstate().starts_with("40") {
        true => Failure::Conflict(error.to_string()),
        false => Failure::Other(error.to_string()),
    }
}

/// Why reading rows stopped.
struct Stopped(Failure);

impl From<SqlError> for Stopped {
    fn from(error: SqlError) -> Self {
        Self(failure(error))
    }
}

struct Shown<'r>(&'r Row<'r>);

impl Fields for Shown<'_> {
    fn int(&self, at: usize) -> Result<i64, Failure> {
        self.0.get(at).map_err(failure)
    }

    fn text(&self, at: usize, read: &mut dyn FnMut(&str)) -> Result<(), Failure> {
        self.0.text(at).map(read).map_err(failure)
    }
}

impl Connection for SqlConnection {
    type Statement = PreparedStatement;

    fn run(&mut self, sql: &str) -> Result<(), Failure> {
        self.session.execute(sql).map(drop).map_err(failure)
    }

    fn prepare(&mut self, sql: &str) -> Result<PreparedStatement, Failure> {
        self.session.prepare(sql).map_err(failure)
    }

    fn execute(
        &mut self,
        statement: &PreparedStatement,
        params: &[Param<'_>],
    ) -> Result<u64, Failure> {
        Ok(self.outcome(statement, params)?.row_count())
    }

    fn query(
        &mut self,
        statement: &PreparedStatement,
        params: &[Param<'_>],
        each: &mut dyn FnMut(&dyn Fields) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Outcome::Rows(rows) = self.outcome(statement, params)? else {
            return Err(Failure::Other("the statement returns no rows".to_owned()));
        };
        rows.for_each_row(|row| each(&Shown(row)).map_err(Stopped)).map_err(|stopped| stopped.0)
    }
}
