//! The rows of a result on their way to a client.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use atoll_sql::{QueryResult, QueryStream, SqlError, SqlSession};

use super::report::{of_error, report};
use crate::link::{Fault, Wire};
use crate::values::{Cell, Column, Reader, columns_of, put_row};
use crate::wire::out::RESULT_CHANGED;

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
    Ended,
}

/// Takes the values of a row.
pub(crate) type Put<'p> =
    &'p mut dyn FnMut(&mut dyn Iterator<Item = Result<Cell<'_>, String>>) -> Result<(), Fault>;

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
        let stopped = self.send_some(columns, &mut left, &mut |cells| {
            put_row(cells, columns, formats, &mut wire.out)
                .map_err(|why| Fault::from(report("22P03", why)))?;
            wire.flush_if_full(goes_on).map_err(Fault::from)
        })?;
        if stopped == Stopped::End {
            self.source = Source::Ended;
        }
        Ok(stopped)
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

    /// Passes over so many rows at most, 0 for all.
    ///
    /// # Errors
    /// Those of the query.
    pub(crate) fn skip(&mut self, columns: &[Column], most: u64) -> Result<(), Fault> {
        let mut left = if most == 0 { u64::MAX } else { most };
        self.send_some(columns, &mut left, &mut |_| Ok(())).map(drop)
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
            Source::Ended => Ok(Stopped::End),
        }
    }
}

fn failed(error: &SqlError) -> Fault {
    of_error(error, "", 0).into()
}
