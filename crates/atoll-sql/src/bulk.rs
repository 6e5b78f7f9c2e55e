//! A file into a table that no transaction has used: its rows are loaded in bulk.
//!
//! The thread that runs the statement reads the file and fills buffers; the threads of
//! [`Database::load`] build the table from them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType as ArrowType;
use atoll::load::{self, LoadOptions, RowSource, SegmentBuffer, Stopped};
use atoll::{AbortReason, ArrowRows, DataType, Database, Error, StorageError, Table, Value};

use crate::arrow_value;
use crate::error::{ApplyError, SqlError};
use crate::interrupt::Interrupt;
use crate::load::{Progress, Source};
use crate::settings::Choice;
use crate::sink::Sink;

/// Buffers that may wait for a thread of the load.
const WAITING: usize = 4;

/// The buffers that are on their way to the load.
struct Feed {
    /// `None` once the load has ended.
    receiver: Mutex<Option<Receiver<(u64, SegmentBuffer)>>>,
    /// Whether the whole file was read.
    is_complete: AtomicBool,
}

impl Feed {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Receiver<(u64, SegmentBuffer)>>> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes a feed at the end of its load, since the reading thread may be waiting for a place in the
/// channel.
struct Closing<'f>(&'f Feed);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

impl RowSource for Feed {
    fn next(&self, rows: &mut SegmentBuffer) -> Result<Option<u64>, Stopped> {
        let next = self.lock().as_ref().and_then(|receiver| receiver.recv().ok());
        match next {
            Some((number, filled)) => {
                *rows = filled;
                Ok(Some(number))
            }
            None if self.is_complete.load(Ordering::Acquire) => Ok(None),
            None => Err(Stopped),
        }
    }
}

/// Fills buffers with the rows of a file.
struct Filler<'s> {
    table: &'s Table,
    interrupt: &'s Interrupt,
    sender: SyncSender<(u64, SegmentBuffer)>,
    rows: SegmentBuffer,
    number: u64,
}

impl Filler<'_> {
    /// Sends the buffer.
    fn send(&mut self) -> Result<(), ApplyError> {
        let filled = std::mem::replace(&mut self.rows, SegmentBuffer::new(self.table.schema()));
        let sent = self.sender.send((self.number, filled));
        self.number += 1;
        sent.map_err(|_| ApplyError::Abort(AbortReason::Requested))
    }

    fn send_full(&mut self) -> Result<(), ApplyError> {
        if self.rows.room() == 0 { self.send() } else { Ok(()) }
    }
}

impl Sink for Filler<'_> {
    fn row(&mut self, row: &[Value], place: &dyn Fn() -> String) -> Result<(), ApplyError> {
        self.interrupt.check_row()?;
        let mut numbered: Vec<Value>;
        let row = match self.table.schema().is_keyless() {
            true => {
                numbered = row.to_vec();
                self.table.number_in(&mut numbered);
                &numbered
            }
            false => row,
        };
        let checked = self.table.schema().check_row(row);
        checked.map_err(|error| SqlError::from(Error::from(error)).within(&place()))?;
        self.rows.push(row);
        self.send_full()
    }

    fn batch(&mut self, columns: &[usize], batch: &RecordBatch) -> Result<bool, ApplyError> {
        let schema = self.table.schema();
        let mut arrays = vec![None; schema.columns().len()];
        for (array, column) in batch.columns().iter().zip(columns) {
            let data_type = schema.columns()[*column].data_type;
            let Some(array) = exactly(array, data_type) else { return Ok(false) };
            arrays[*column] = Some(array);
        }
        let given = ArrowRows { rows: batch.num_rows(), columns: arrays };
        if load::check(schema, &given).is_err() {
            return Ok(false);
        }
        let given = given.numbered(self.table);
        let mut from = 0;
        while from < given.rows {
            self.interrupt.check_now()?;
            let to = given.rows.min(from + self.rows.room());
            given.append(from..to, &mut self.rows);
            self.send_full()?;
            from = to;
        }
        Ok(true)
    }
}

/// The array with the type of a column, if no value has to be checked for that.
fn exactly(array: &ArrayRef, data_type: DataType) -> Option<ArrayRef> {
    use ArrowType::{
        Binary, Int8, Int16, Int32, Int64, LargeBinary, LargeUtf8, UInt8, UInt16, UInt32, Utf8,
    };
    let array = arrow_value::plain(array).ok()?;
    let wanted = atoll::arrow_type(data_type);
    let is_exact = match (array.data_type(), &wanted) {
        (given, wanted) if given == wanted => return Some(array),
        (Utf8 | LargeUtf8, ArrowType::Utf8View) => true,
        (Binary | LargeBinary, ArrowType::BinaryView) => true,
        (Int8 | UInt8, Int16 | Int32 | Int64) => true,
        (Int16 | UInt16, Int32 | Int64) | (Int32 | UInt32, Int64) => true,
        _ => false,
    };
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    if is_exact { cast_with_options(&array, &wanted, &strict).ok() } else { None }
}

impl Source {
    /// Loads the file in bulk, if no transaction has used the table; returns the number of rows.
    /// `None` means that nothing was loaded and that a transaction has to insert the rows: the
    /// table was used, or a row cannot be inserted, which is treated as the options say.
    pub(crate) fn load_in_bulk(
        &self,
        db: &Database,
        durability: Choice,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Option<u64>, SqlError> {
        let (sender, receiver) = sync_channel(WAITING);
        let receiver = Mutex::new(Some(receiver));
        let feed = Feed { receiver, is_complete: AtomicBool::new(false) };
        std::thread::scope(|scope| {
            let loader = scope.spawn(|| {
                let options = LoadOptions { threads: None, durability };
                let _closing = Closing(&feed);
                db.load(&self.table, &feed, options)
            });
            let rows = SegmentBuffer::new(self.table.schema());
            let mut filler = Filler { table: &self.table, interrupt, sender, rows, number: 0 };
            let read = self.read(&mut filler, progress);
            let read = read.and_then(|()| match filler.rows.rows() {
                0 => Ok(()),
                _ => filler.send(),
            });
            feed.is_complete.store(read.is_ok(), Ordering::Release);
            drop(filler);
            let loaded = loader.join().expect("no panic in a thread");
            match (loaded, read) {
                (Ok(rows), Ok(())) => Ok(rows),
                // A transaction finds the line of a row that cannot be inserted.
                (
                    Ok(None) | Err(Error::DuplicateKey { .. } | Error::DuplicateIndexKey { .. }),
                    _,
                ) => Ok(None),
                (Err(Error::Storage(StorageError::IndexKeyTooLong { .. })), _) => Ok(None),
                (_, Err(ApplyError::Error(error))) => Err(error),
                (Err(error), _) => Err(error.into()),
                // The load cannot have more rows than the file.
                (Ok(Some(_)), Err(ApplyError::Abort(_))) => Ok(None),
            }
        })
    }
}
