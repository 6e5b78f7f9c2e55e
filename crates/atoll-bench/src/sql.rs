//! What a database has to do to run workloads of SQL statements.

/// A connection to a database that runs SQL statements.
pub trait Connection {
    /// A statement that has been prepared.
    type Statement;

    /// Runs a statement without parameters and without a result.
    ///
    /// # Errors
    /// [`Failure`].
    fn run(&mut self, sql: &str) -> Result<(), Failure>;

    /// Prepares a statement. Its parameters are `$1`, `$2` and so on, in the order of their first
    /// use.
    ///
    /// # Errors
    /// [`Failure`].
    fn prepare(&mut self, sql: &str) -> Result<Self::Statement, Failure>;

    /// Runs a statement that returns no rows; returns the number of rows that it changed.
    ///
    /// # Errors
    /// [`Failure`].
    fn execute(
        &mut self,
        statement: &Self::Statement,
        params: &[Param<'_>],
    ) -> Result<u64, Failure>;

    /// Runs a statement and hands each of its rows to `each`.
    ///
    /// # Errors
    /// [`Failure`].
    fn query(
        &mut self,
        statement: &Self::Statement,
        params: &[Param<'_>],
        each: &mut dyn FnMut(&dyn Fields) -> Result<(), Failure>,
    ) -> Result<(), Failure>;
}

/// The value of a parameter.
#[derive(Debug, Clone, Copy)]
pub enum Param<'p> {
    /// A `smallint`, `integer` or `bigint`.
    Int(i64),
    /// A `text`.
    Text(&'p str),
    /// A `timestamp`, in microseconds since 1970.
    Time(i64),
    /// NULL.
    Null,
}

/// A row of a result.
pub trait Fields {
    /// A number that is not NULL, by its position from 0.
    ///
    /// # Errors
    /// The value is something else.
    fn int(&self, at: usize) -> Result<i64, Failure>;

    /// Hands a text that is not NULL to `read`.
    ///
    /// # Errors
    /// The value is something else.
    fn text(&self, at: usize, read: &mut dyn FnMut(&str)) -> Result<(), Failure>;
}

/// Why a statement failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Other transactions are to blame: it was rolled back, and may be tried again.
    #[error("{0}")]
    Conflict(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}
