//! `COPY … FROM STDIN`: data that the client sends between two statements.
//!
//! `COPYIN-1`: the data are spooled before they are loaded, in memory and beyond a limit in a file,
//! so a load that has to begin again can, and a client that is slow holds no lock.

use std::io::{self, Read};
use std::ops::Range;
use std::time::Duration;

use atoll_sql::Input;

use super::Connection;
use super::report::{of_copy_error, of_error, report};
use crate::clients::Client;
use crate::link::{Fault, Gone, Wire};
use crate::socket::Came;
use crate::wire::fields::Fields;

/// Time between two looks whether the statement is cancelled.
const PERIOD: Duration = Duration::from_millis(100);

impl Connection {
    /// Carries out a `COPY … FROM STDIN`, and returns its command tag.
    pub(super) fn copy_in(&mut self, sql: &str, before: usize) -> Result<String, Fault> {
        let failed = |error| of_error(&error, sql, before);
        self.client.begin();
        let shape = self.session.copy_in_shape(sql).map_err(failed)?;
        let out = &mut self.wire.out;
        let open = out.begin(b'G');
        let format = i16::from(shape.is_binary);
        out.raw().push(format as u8);
        out.i16(shape.columns as i16);
        (0..shape.columns).for_each(|_| out.i16(format));
        out.end(open);
        self.flush()?;
        let mut data = Data {
            wire: &mut self.wire,
            client: &self.client,
            piece: 0..0,
            has_ended: false,
            fault: None,
        };
        let spooled = Input::spool("the data of the client", &mut data);
        if let Some(fault) = data.fault {
            return Err(fault);
        }
        let wrong = |error| of_copy_error(&error, &shape.table, sql, before);
        let done = self.session.copy_in(sql, spooled.map_err(failed)?).map_err(wrong)?;
        Ok(done.tag().unwrap_or_default().to_owned())
    }
}

/// The data of a client, up to their end.
struct Data<'c> {
    wire: &'c mut Wire,
    client: &'c Client,
    /// What is left of the last message.
    piece: Range<usize>,
    has_ended: bool,
    /// Why they end otherwise.
    fault: Option<Fault>,
}

impl Data<'_> {
    /// The next message with data; `None` at the end.
    fn next(&mut self) -> Result<Option<Range<usize>>, Fault> {
        loop {
            let Some(frame) = self.wire.next()? else {
                match self.wire.fill(PERIOD)? {
                    Came::Bytes(_) => {}
                    Came::Nothing if self.client.is_terminated() => {
                        let message = "terminating connection due to administrator command";
                        return Err(Gone::Told(report("57P01", message)).into());
                    }
                    Came::Nothing if !self.client.goes_on() => {
                        let message = "canceling statement due to user request";
                        return Err(report("57014", message).into());
                    }
                    Came::Nothing => {}
                    Came::Closed => return Err(Gone::Left.into()),
                }
                continue;
            };
            match frame.kind {
                b'd' => return Ok(Some(frame.range())),
                b'c' => return Ok(None),
                b'f' => {
                    let why = Fields::new(self.wire.frames.body(&frame)).text()?;
                    return Err(report("57014", format!("COPY from stdin failed: {why}")).into());
                }
                // Clients send these ahead of the data.
                b'H' | b'S' => {}
                b'X' => return Err(Gone::Left.into()),
                other => {
                    let message =
                        format!("unexpected message type 0x{other:02X} during COPY from stdin");
                    return Err(report("08P01", message).into());
                }
            }
        }
    }
}

impl Read for Data<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() && !self.has_ended {
            match self.next() {
                Ok(Some(piece)) => self.piece = piece,
                Ok(None) => self.has_ended = true,
                Err(fault) => {
                    self.fault = Some(fault);
                    return Err(io::Error::other("the data have no end"));
                }
            }
        }
        let piece = self.wire.frames.bytes(self.piece.clone());
        let count = piece.len().min(into.len());
        into[..count].copy_from_slice(&piece[..count]);
        self.piece.start += count;
        Ok(count)
    }
}
