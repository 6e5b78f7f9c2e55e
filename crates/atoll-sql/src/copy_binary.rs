//! The binary format of PostgreSQL's `COPY`: a head, rows of fields with their lengths, an end.
//!
//! `COPYBINARY-1`: the end may be missing, as some clients send it, but no row is cut off.

use atoll::Value;

use crate::binary::from_binary;
use crate::error::{ApplyError, SqlError, SqlErrorKind};
use crate::input::Reader;
use crate::load::{Progress, ROWS_PER_REPORT, Source};
use crate::names;
use crate::sink::Sink;

/// What the data begin with.
const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// A flag in the head: rows have numbers of their own.
const HAS_OIDS: u32 = 1 << 16;
/// Flags that change the format of the rows.
const CRITICAL: u32 = 0xffff_0000;
/// Bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 18;
/// Longest field.
const FIELD_BYTES_MAX: usize = 1 << 30;

/// Passes every row of the data to a sink.
pub(crate) fn load(
    source: &Source,
    sink: &mut dyn Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), ApplyError> {
    let bytes_total = source.input.bytes();
    let mut data = Data::new(source.input.reader()?);
    data.head()?;
    let schema = source.table.schema();
    let targets = match &source.columns {
        Some(columns) => columns.clone(),
        None => names::copied_columns(schema)?,
    };
    names::check_copied(schema, &targets)?;
    sink.columns(&targets);
    let mut row = vec![Value::Null; schema.columns().len()];
    let mut rows = 0;
    while let Some(count) = data.row()? {
        let number = rows + 1;
        if count != targets.len() {
            let message =
                format!("row {number}: row field count is {count}, expected {}", targets.len());
            return Err(fault(message).into());
        }
        for column in &targets {
            row[*column] = match data.field()? {
                None => Value::Null,
                Some(bytes) => {
                    let definition = &schema.columns()[*column];
                    let literal = from_binary(bytes, definition.data_type).map_err(|error| {
                        error.within(&format!("row {number}, column \"{}\"", definition.name))
                    })?;
                    literal.into_column(schema, *column)?
                }
            };
            if row[*column] == Value::Null {
                schema.check_value(*column, &Value::Null).map_err(SqlError::from)?;
            }
        }
        sink.row(&row, &|| format!("row {number}"))?;
        rows += 1;
        if rows % ROWS_PER_REPORT == 0 {
            let bytes_done = data.reader.bytes_done().min(bytes_total);
            progress(Progress { bytes_done, bytes_total, rows });
        }
    }
    progress(Progress { bytes_done: bytes_total, bytes_total, rows });
    Ok(())
}

fn fault(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlErrorKind::Input, message).with_state("22P04")
}

/// Reads the data piece by piece.
struct Data {
    reader: Reader,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Data {
    fn new(reader: Reader) -> Self {
        Self { reader, buffer: vec![0; CHUNK_BYTES], start: 0, end: 0 }
    }

    /// The next bytes; `None` if there are no more at all.
    fn take(&mut self, count: usize) -> Result<Option<&[u8]>, SqlError> {
        while self.end - self.start < count {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            // It grows by what there is, not by what a length says.
            if self.end == self.buffer.len() {
                self.buffer.resize(self.end * 2, 0);
            }
            match self.reader.read(&mut self.buffer[self.end..])? {
                0 if self.end == 0 => return Ok(None),
                0 => return Err(fault("unexpected EOF in COPY data")),
                read => self.end += read,
            }
        }
        let from = self.start;
        self.start += count;
        Ok(Some(&self.buffer[from..from + count]))
    }

    fn array<const N: usize>(&mut self) -> Result<Option<[u8; N]>, SqlError> {
        let bytes = self.take(N)?;
        Ok(bytes.and_then(|bytes| bytes.first_chunk().copied()))
    }

    fn i32(&mut self) -> Result<i32, SqlError> {
        let bytes = self.array()?.ok_or_else(|| fault("unexpected EOF in COPY data"))?;
        Ok(i32::from_be_bytes(bytes))
    }

    fn head(&mut self) -> Result<(), SqlError> {
        if self.array()?.as_ref() != Some(SIGNATURE) {
            return Err(fault("COPY file signature not recognized"));
        }
        let flags = self.i32()? as u32;
        if flags & HAS_OIDS != 0 {
            return Err(fault("invalid COPY file header (WITH OIDS)"));
        }
        if flags & CRITICAL != 0 {
            return Err(fault("unrecognized critical flags in COPY file header"));
        }
        let length = usize::try_from(self.i32()?).ok().filter(|length| *length <= CHUNK_BYTES);
        let length = length.ok_or_else(|| fault("invalid COPY file header (wrong length)"))?;
        self.take(length)?;
        Ok(())
    }

    /// How many fields the next row has; `None` at the end.
    fn row(&mut self) -> Result<Option<usize>, SqlError> {
        match self.array()?.map(i16::from_be_bytes) {
            None => Ok(None),
            Some(-1) => match self.take(1)? {
                None => Ok(None),
                Some(_) => Err(fault("received copy data after EOF marker")),
            },
            Some(count) => match usize::try_from(count) {
                Ok(count) => Ok(Some(count)),
                Err(_) => Err(fault(format!("row field count is {count}"))),
            },
        }
    }

    fn field(&mut self) -> Result<Option<&[u8]>, SqlError> {
        match self.i32()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).ok().filter(|one| *one <= FIELD_BYTES_MAX);
                let length = length.ok_or_else(|| fault("invalid field size"))?;
                let bytes = self.take(length)?;
                bytes.map(Some).ok_or_else(|| fault("unexpected EOF in COPY data"))
            }
        }
    }
}
