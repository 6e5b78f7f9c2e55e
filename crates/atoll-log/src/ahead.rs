//! Reading a log ahead of whoever looks at it, past the system's cache.
//!
//! Threads read large pieces in turns, each the next but so many, so that some are always on their
//! way from the medium while another is looked at. What is read once need not be kept by the
//! system, nor copied out of its memory.
//!
//! Bytes that were read are shared: who looks at a block may keep them ([`LogChunk`]), and the last
//! one gives the memory back to the thread that filled it.
//!
//! - `AHEAD-1`: pieces come in the order of their positions, without a gap.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use atoll_machine::medium::{UNIT_BYTES_MAX, UnitBuffer};
use atoll_machine::{MediumError, MediumFile};

use crate::block::{HEADER_BYTES, Header, PAYLOAD_BYTES_MAX};

/// Bytes of a piece: the largest block fits.
const PIECE_BYTES: u64 = 2 << 20;
/// Threads that read.
const THREADS: u64 = 4;
/// Pieces of a thread that may wait to be looked at.
const PIECES: usize = 1;
/// Less than this is not worth threads.
const BYTES_MIN: u64 = 16 << 20;
/// Room in front of a piece: the beginning of the block that goes on in it.
const FRONT_BYTES: usize =
    (PAYLOAD_BYTES_MAX + HEADER_BYTES).next_multiple_of(UNIT_BYTES_MAX as usize);

/// Bytes of a log that were read together.
#[derive(Default)]
pub struct LogChunk {
    memory: UnitBuffer,
    /// Which of the memory are the bytes.
    start: usize,
    end: usize,
    /// Position of the first of them.
    lsn: u64,
    /// Who uses the memory again.
    filler: Option<Sender<UnitBuffer>>,
}

impl Drop for LogChunk {
    fn drop(&mut self) {
        if let Some(filler) = &self.filler {
            // A thread that has ended needs none.
            let _ = filler.send(std::mem::take(&mut self.memory));
        }
    }
}

impl LogChunk {
    /// Nothing, from a position on.
    pub(crate) fn at(lsn: u64) -> Self {
        let mut chunk = Self::default();
        chunk.lsn = lsn;
        chunk
    }

    /// The position of its first byte.
    pub(crate) fn lsn(&self) -> u64 {
        self.lsn
    }

    /// The position behind its last byte.
    pub(crate) fn end_lsn(&self) -> u64 {
        self.lsn + (self.end - self.start) as u64
    }

    /// The payload of a block that was found in it.
    ///
    /// # Panics
    /// When the block lies elsewhere.
    pub fn payload(&self, header: &Header) -> &[u8] {
        &self.from(header.lsn)[HEADER_BYTES..][..header.payload_bytes as usize]
    }

    /// The bytes from a position in it on.
    pub(crate) fn from(&self, lsn: u64) -> &[u8] {
        &self.memory[self.start + (lsn - self.lsn) as usize..self.end]
    }

    /// Makes a window one of what lies at a position, in the same memory if nobody keeps it.
    pub(crate) fn read(
        chunk: &mut Arc<Self>,
        span: &Pieces,
        lsn: u64,
        len: usize,
    ) -> Result<(), MediumError> {
        if Arc::get_mut(chunk).is_none() {
            *chunk = Arc::default();
        }
        let own = Arc::get_mut(chunk).expect("nobody else knows a new one");
        // Nothing until it has been read.
        (own.start, own.end, own.lsn) = (0, 0, lsn);
        own.memory.set_len(len);
        span.read(lsn, &mut own.memory, |file, offset, bytes| file.read_at(offset, bytes))?;
        own.end = len;
        Ok(())
    }

    /// Puts what another one has from a position on in front of where this one begins.
    fn prepend(&mut self, other: &Self, lsn: u64) {
        let bytes = &other.from(lsn)[..(self.lsn - lsn) as usize];
        let start = self.start - bytes.len();
        self.memory[start..self.start].copy_from_slice(bytes);
        (self.start, self.lsn) = (start, lsn);
    }
}

/// The files of a log, by number, and their size.
#[derive(Clone)]
pub(crate) struct Pieces {
    pub(crate) files: Arc<BTreeMap<u64, Arc<dyn MediumFile>>>,
    pub(crate) file_bytes: u64,
}

impl Pieces {
    fn read(
        &self,
        lsn: u64,
        into: &mut [u8],
        read: impl Fn(&dyn MediumFile, u64, &mut [u8]) -> Result<(), MediumError>,
    ) -> Result<(), MediumError> {
        let mut done = 0;
        while done < into.len() {
            let place = lsn + done as u64;
            let (number, offset) = (place / self.file_bytes, place % self.file_bytes);
            let len = ((self.file_bytes - offset) as usize).min(into.len() - done);
            read(&*self.files[&number], offset, &mut into[done..done + len])?;
            done += len;
        }
        Ok(())
    }
}

/// See the module.
pub(crate) struct Ahead {
    lanes: Vec<Lane>,
    /// Whose turn it is.
    turn: usize,
    /// Where the next piece begins.
    next: u64,
}

/// What a thread has read.
type Lane = Receiver<Result<LogChunk, MediumError>>;

impl Ahead {
    /// Begins to read at a position, up to another; `None` where that is not worth it, or where
    /// the files know no units.
    pub(crate) fn start(span: &Pieces, from: u64, end: u64) -> Option<Self> {
        let first = span.files.get(&(from / span.file_bytes))?;
        let is_worth_it = end.saturating_sub(from) >= BYTES_MIN && first.unit() == UNIT_BYTES_MAX;
        if !is_worth_it {
            return None;
        }
        let begin = from / UNIT_BYTES_MAX * UNIT_BYTES_MAX;
        let lane = |number: u64| {
            let (sender, read) = sync_channel(PIECES);
            let (span, first) = (span.clone(), begin + number * PIECE_BYTES);
            let body = move || read_pieces(&span, (first, end), &sender);
            std::thread::Builder::new().name("atoll-ahead".into()).spawn(body).ok()?;
            Some(read)
        };
        let lanes = (0..THREADS).map(lane).collect::<Option<_>>()?;
        Some(Self { lanes, turn: 0, next: begin })
    }

    /// Makes a window one that goes on with the next piece, and keeps what it has from a position
    /// on; false when there is none.
    pub(crate) fn go_on(
        &mut self,
        chunk: &mut Arc<LogChunk>,
        lsn: u64,
    ) -> Result<bool, MediumError> {
        let Ok(read) = self.lanes[self.turn].recv() else { return Ok(false) };
        let mut read = read?;
        debug_assert_eq!(read.lsn, self.next);
        self.next = read.end_lsn();
        self.turn = (self.turn + 1) % self.lanes.len();
        if lsn < read.lsn {
            read.prepend(chunk, lsn);
        }
        *chunk = Arc::new(read);
        Ok(true)
    }
}

/// What a thread does, until all is read or nobody wants more.
fn read_pieces(
    span: &Pieces,
    (first, end): (u64, u64),
    sender: &SyncSender<Result<LogChunk, MediumError>>,
) {
    let (used, free) = channel::<UnitBuffer>();
    let mut lsn = first;
    while lsn < end {
        let mut memory = free.try_recv().unwrap_or_default();
        let (start, len) = (FRONT_BYTES, PIECE_BYTES.min(end - lsn) as usize);
        memory.set_len(start + len);
        let filler = Some(used.clone());
        let mut chunk = LogChunk { memory, start, end: start + len, lsn, filler };
        let bytes = &mut chunk.memory[start..start + len];
        let done = span.read(lsn, bytes, |file, offset, into| file.read_units(offset, into));
        if sender.send(done.map(|()| chunk)).is_err() {
            return;
        }
        lsn += THREADS * PIECE_BYTES;
    }
}
