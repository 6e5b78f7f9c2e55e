//! The messages of one connection, in both directions.

use std::io;
use std::time::Duration;

use crate::socket::{Came, Stream};
use crate::wire::fields::Malformed;
use crate::wire::frames::{Frame, Frames, TooLong};
use crate::wire::out::{Out, Report, Severity};

/// Bytes that are collected before they are sent while a statement runs.
const SENT_BYTES: usize = 64 << 10;
/// Memory that the buffer keeps between two statements.
const KEPT_BYTES: usize = 16 << 10;

/// Why a connection ends.
#[derive(Debug)]
pub(crate) enum Gone {
    /// The client has left, or its socket fails.
    Left,
    /// The client is told why.
    Told(Report),
}

impl From<io::Error> for Gone {
    fn from(_: io::Error) -> Self {
        // The client does not hear it.
        Self::Left
    }
}

/// Why a message was not carried out.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The statement, or the message, fails.
    Error(Report),
    /// So does the connection.
    Gone(Gone),
}

impl From<Report> for Fault {
    fn from(report: Report) -> Self {
        Self::Error(report)
    }
}

impl From<Gone> for Fault {
    fn from(gone: Gone) -> Self {
        Self::Gone(gone)
    }
}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Self {
        let state = match malformed {
            Malformed::Length => "08P01",
            Malformed::Utf8 => "22021",
        };
        Self::Error(Report { state, message: malformed.to_string(), ..Report::default() })
    }
}

impl From<TooLong> for Gone {
    fn from(TooLong { kind, length }: TooLong) -> Self {
        let message = match kind {
            0 => format!("invalid length of startup packet: {length}"),
            kind => format!("invalid length {length} of a message of type {kind}"),
        };
        Self::Told(Report { state: "08P01", message, ..Report::default() })
    }
}

/// See the module.
pub(crate) struct Wire {
    pub(crate) stream: Stream,
    pub(crate) frames: Frames,
    pub(crate) out: Out,
}

impl Wire {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream, frames: Frames::default(), out: Out::default() }
    }

    /// Reads what comes within a time.
    pub(crate) fn fill(&mut self, wait: Duration) -> Result<Came, Gone> {
        let came = self.stream.read(self.frames.room(), wait)?;
        if let Came::Bytes(count) = came {
            self.frames.filled(count);
        }
        Ok(came)
    }

    /// The next message, if it has come.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, Gone> {
        Ok(self.frames.next(true)?)
    }

    /// Sends what has been written.
    pub(crate) fn flush(&mut self, goes_on: &dyn Fn() -> bool) -> Result<(), Gone> {
        if self.out.len() > 0 {
            self.stream.write(self.out.bytes(), goes_on)?;
            self.out.clear(SENT_BYTES * 2);
        }
        Ok(())
    }

    /// Sends what has been written if it is much.
    pub(crate) fn flush_if_full(&mut self, goes_on: &dyn Fn() -> bool) -> Result<(), Gone> {
        if self.out.len() < SENT_BYTES {
            return Ok(());
        }
        self.flush(goes_on)
    }

    /// Tells the client why its connection ends.
    pub(crate) fn end(&mut self, gone: Gone) {
        if let Gone::Told(report) = gone {
            self.out.report(Severity::Fatal, &report);
            // The connection ends in any case, and is not waited for.
            let _ = self.flush(&|| false);
        }
        self.stream.close();
    }

    /// Gives memory back while nothing comes. Answers that wait for a Flush or a Sync are kept.
    pub(crate) fn rest(&mut self) {
        self.frames.rest();
        if self.out.len() == 0 {
            self.out.clear(0);
        }
    }

    /// Gives memory back that a long message took.
    pub(crate) fn shrink(&mut self) {
        self.frames.shrink();
        if self.out.len() == 0 {
            self.out.clear(KEPT_BYTES);
        }
    }
}
