//! Where the rows of a file go.

use arrow_array::RecordBatch;
use atoll::Value;

use crate::error::ApplyError;

/// The receiver of a file's rows.
pub(crate) trait Sink {
    /// Says which columns of the table the file has; the values of others are NULL.
    fn columns(&mut self, columns: &[usize]) {
        let _ = columns;
    }

    /// Takes one row; `place` is its position in the file.
    fn row(&mut self, row: &[Value], place: &dyn Fn() -> String) -> Result<(), ApplyError>;

    /// Takes a batch of rows as a whole; `columns` maps its columns to those of the table. False
    /// if the rows have to be passed one by one.
    fn batch(&mut self, columns: &[usize], batch: &RecordBatch) -> Result<bool, ApplyError> {
        let _ = (columns, batch);
        Ok(false)
    }
}
