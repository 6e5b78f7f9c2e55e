//! The rows of a result on their way to a client.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use atoll_sql::{QueryResult, QueryStream, SqlError, SqlSession};

use super::kept::{Kept, Put, Way};
use super::report::{of_error, report};
use crate::link::{Fault, Wire};
use crate::values::{Cell, Column, Reader, columns_of, put_row};
use crate::wire::out::{RESULT_CHANGED, Report};

/// The rows that are left of a result.
pub(crate) struct Rows {
    source: Source,
    schema: SchemaRef,
    /// The command tag of a change, without the number of its rows, or with it.
    tag: Tag,
    sent: u64,
}

/// The end of the command tag.
enum Tag {
    /// A query: the verb, and behind it the rows that were sent.
    Counted(&'static str),
    /// The whole tag.
    Whole(String),
}

enum Source {
    /// Of the short executor.
    Short {
        result: QueryResult,
        at: usize,
    },
    Stream {
        stream: QueryStream,
        batch: Option<RecordBatch>,
        at: usize,
    },
    Kept(Kept),
    Ended,
}

/// Why no more rows are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// There are no more.
    End,
    /// The client has asked for no more.
    Limit,
}

impl Rows {
    /// The rows of a result.
    pub(crate) fn of_result(result: QueryResult, verb: &'static str) -> Self {
        let tag = match result.change() {
            Some((tag, _)) => Tag::Whole(tag.to_owned()),
            None => Tag::Counted(verb),
        };
        let schema = result.schema();
        if result.rows().is_some() {
            return Self { source: Source::Short { result, at: 0 }, schema, tag, sent: 0 };
        }
        Self::of_stream(QueryStream::of_result(result), verb)
    }

    /// The rows of a query that runs on.
    pub(crate) fn of_stream(stream: QueryStream, verb: &'static str) -> Self {
        let tag = match stream.change() {
            Some((tag, _)) => Tag::Whole(tag.to_owned()),
            None => Tag::Counted(verb),
        };
        let schema = stream.schema();
        Self { source: Source::Stream { stream, batch: None, at: 0 }, schema, tag, sent: 0 }
    }

    /// Runs a query to its end and keeps its rows, which take so many bytes at most.
    ///
    /// # Errors
    /// Those of the query; 53200 for more bytes.
    pub(crate) fn keep(self, room: usize) -> Result<Self, Fault> {
        let stream = match self.source {
            Source::Short { result, .. } => QueryStream::of_result(result),
            Source::Stream { stream, .. } => stream,
            Source::Kept(_) | Source::Ended => return Ok(self),
        };
        Ok(Self { source: Source::Kept(Kept::of(stream, room)?), ..self })
    }

    /// The bytes of the rows that are kept.
    pub(crate) fn kept_bytes(&self) -> usize {
        match &self.source {
            Source::Kept(kept) => kept.bytes(),
            _ => 0,
        }
    }

    /// The columns, as they are described.
    pub(crate) fn columns(&self, session: &SqlSession) -> Vec<Column> {
        columns_of(&self.schema, session)
    }

    /// The rows that were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// The command tag at the end, for rows that were sent since the portal began.
    pub(crate) fn tag(&self, sent: u64) -> String {
        match &self.tag {
            Tag::Counted(verb @ ("SHOW" | "EXPLAIN")) => (*verb).to_owned(),
            Tag::Counted(verb) => format!("{verb} {sent}"),
            Tag::Whole(tag) => tag.clone(),
        }
    }

    /// Sends so many rows at most, 0 for all, as they were described.
    ///
    /// # Errors
    /// Those of the query, and values that have no binary form.
    pub(crate) fn send(
        &mut self,
        wire: &mut Wire,
        (columns, formats): (&[Column], &[i16]),
        most: u64,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Stopped, Fault> {
        if columns.len() != self.schema.fields().len() {
            return Err(report("0A000", RESULT_CHANGED).into());
        }
        let mut left = if most == 0 { u64::MAX } else { most };
        let mut put = to_wire(wire, columns, formats, goes_on);
        let stopped = self.send_some(columns, &mut left, &mut put)?;
        if stopped == Stopped::End && !matches!(self.source, Source::Kept(_)) {
            self.source = Source::Ended;
        }
        Ok(stopped)
    }

    /// Goes a way and passes the rows that are shown to `put`; returns how many they are.
    ///
    /// # Errors
    /// 55000 for a way back, unless the rows are kept; those of the query and of `put`.
    pub(crate) fn go(&mut self, way: Way, columns: &[Column], put: Put<'_>) -> Result<u64, Fault> {
        let before = self.sent;
        if let Source::Kept(kept) = &mut self.source {
            let shown = kept.each(way, columns, put)?;
            self.sent += shown;
            return Ok(shown);
        }
        let over = match way {
            Way::Forward(mut most) => {
                self.send_some(columns, &mut most, put)?;
                return Ok(self.sent - before);
            }
            Way::Absolute(position) => {
                u64::try_from(position).ok().and_then(|to| to.checked_sub(before))
            }
            Way::Relative(by) => u64::try_from(by).ok(),
            Way::Backward(_) => None,
        };
        // One that has not been read can be reached.
        let Some(over) = over.and_then(|rows| rows.checked_sub(1)) else {
            let hint = "Declare it with SCROLL option to enable backward scan.".to_owned();
            let report = report("55000", "cursor can only scan forward");
            return Err(Fault::Error(Report { hint: Some(hint), ..report }));
        };
        let (mut over, mut one) = (over, 1);
        self.send_some(columns, &mut over, &mut |_| Ok(()))?;
        let before = self.sent;
        if over == 0 {
            self.send_some(columns, &mut one, put)?;
        }
        Ok(self.sent - before)
    }

    /// Passes all rows to `put`.
    ///
    /// # Errors
    /// Those of the query and of `put`.
    pub(crate) fn each(&mut self, columns: &[Column], put: Put<'_>) -> Result<(), Fault> {
        let mut all = u64::MAX;
        self.send_some(columns, &mut all, put).map(drop)
    }

    /// Passes so many rows at most to `put`.
    ///
    /// # Errors
    /// Those of the query and of `put`.
    pub(crate) fn some(
        &mut self,
        columns: &[Column],
        most: u64,
        put: Put<'_>,
    ) -> Result<Stopped, Fault> {
        let mut left = most;
        self.send_some(columns, &mut left, put)
    }

    /// Passes rows to `put`.
    fn send_some(
        &mut self,
        columns: &[Column],
        left: &mut u64,
        put: Put<'_>,
    ) -> Result<Stopped, Fault> {
        let sent = &mut self.sent;
        match &mut self.source {
            Source::Short { result, at } => {
                let Some((rows, types)) = result.rows() else { return Ok(Stopped::End) };
                let count = rows.len();
                for row in rows.skip(*at) {
                    if *left == 0 {
                        return Ok(Stopped::Limit);
                    }
                    put(&mut row
                        .iter()
                        .zip(types)
                        .map(|(value, data_type)| Ok(Cell::of_value(value, *data_type))))?;
                    (*at, *left, *sent) = (*at + 1, *left - 1, *sent + 1);
                }
                // As in PostgreSQL, a limit that is just reached is one.
                Ok(if *left == 0 && count > 0 { Stopped::Limit } else { Stopped::End })
            }
            Source::Stream { stream, batch, at } => loop {
                let Some(now) = &*batch else {
                    if *left == 0 {
                        return Ok(Stopped::Limit);
                    }
                    let next = stream.next_batch().map_err(|error| failed(&error))?;
                    let Some(next) = next else { return Ok(Stopped::End) };
                    (*batch, *at) = (Some(next), 0);
                    continue;
                };
                let readers: Vec<Reader<'_>> = now
                    .columns()
                    .iter()
                    .zip(columns)
                    .map(|(array, column)| Reader::of(array, column.data_type))
                    .collect();
                while *at < now.num_rows() {
                    if *left == 0 {
                        return Ok(Stopped::Limit);
                    }
                    put(&mut readers.iter().map(|reader| reader.cell(*at)))?;
                    (*at, *left, *sent) = (*at + 1, *left - 1, *sent + 1);
                }
                drop(readers);
                *batch = None;
            },
            Source::Kept(kept) => {
                let shown = kept.each(Way::Forward(*left), columns, put)?;
                (*left, *sent) = (*left - shown, *sent + shown);
                Ok(if *left == 0 { Stopped::Limit } else { Stopped::End })
            }
            Source::Ended => Ok(Stopped::End),
        }
    }
}

/// Sends a row, in these formats.
pub(crate) fn to_wire<'w>(
    wire: &'w mut Wire,
    columns: &'w [Column],
    formats: &'w [i16],
    goes_on: &'w dyn Fn() -> bool,
) -> impl FnMut(&mut dyn Iterator<Item = Result<Cell<'_>, String>>) -> Result<(), Fault> + 'w {
    move |cells| {
        put_row(cells, columns, formats, &mut wire.out)
            .map_err(|why| Fault::from(report("22P03", why)))?;
        wire.flush_if_full(goes_on).map_err(Fault::from)
    }
}

fn failed(error: &SqlError) -> Fault {
    of_error(error, "", 0).into()
}
