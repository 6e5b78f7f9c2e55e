//! Read-ahead for a scan of a log, with direct I/O.
//!
//! Four threads read large pieces in turn, each thread every fourth piece, so some reads are in
//! flight while the scan works on another piece. The reads bypass the page cache: each byte is used
//! once, so caching it would only cost memory and a copy.
//!
//! Chunks are shared: a reader of a block may keep its chunk ([`LogChunk`]). When the last
//! reference is dropped, the memory goes back to the thread that filled it.
//!
//! - `AHEAD-1`: the scan receives the pieces in the order of their positions, without a gap.

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
/// Finished pieces of a thread that may wait for the scan.
const PIECES: usize = 1;
/// For fewer bytes than this, no threads are started.
const BYTES_MIN: u64 = 16 << 20;
/// Room in front of a piece, for the first part of a block that continues in the piece.
const FRONT_BYTES: usize =
    (PAYLOAD_BYTES_MAX + HEADER_BYTES).next_multiple_of(UNIT_BYTES_MAX as usize);

/// Bytes of a log that were read in one request.
#[derive(Default)]
pub struct LogChunk {
    memory: UnitBuffer,
    /// The bytes are `memory[start..end]`.
    start: usize,
    end: usize,
    /// Position of the first byte.
    lsn: u64,
    /// The thread that reuses the memory.
    filler: Option<Sender<UnitBuffer>>,
}

impl Drop for LogChunk {
    fn drop(&mut self) {
        if let Some(filler) = &self.filler {
            // If the thread has ended, the memory is freed.
            let _ = filler.send(std::mem::take(&mut self.memory));
        }
    }
}

impl LogChunk {
    /// An empty chunk at a position.
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

    /// The payload of a block in this chunk.
    ///
    /// # Panics
    /// When the block is not in this chunk.
    pub fn payload(&self, header: &Header) -> &[u8] {
        &self.from(header.lsn)[HEADER_BYTES..][..header.payload_bytes as usize]
    }

    /// The bytes from a position in the chunk on.
    pub(crate) fn from(&self, lsn: u64) -> &[u8] {
        &self.memory[self.start + (lsn - self.lsn) as usize..self.end]
    }

    /// Replaces `chunk` by the bytes at a position; reuses its memory if there is no other
    /// reference to it.
    pub(crate) fn read(
        chunk: &mut Arc<Self>,
        span: &Pieces,
        lsn: u64,
        len: usize,
    ) -> Result<(), MediumError> {
        if Arc::get_mut(chunk).is_none() {
            *chunk = Arc::default();
        }
        let own = Arc::get_mut(chunk).expect("a new chunk has one reference");
        // Empty until the read has succeeded.
        (own.start, own.end, own.lsn) = (0, 0, lsn);
        own.memory.set_len(len);
        span.read(lsn, &mut own.memory, |file, offset, bytes| file.read_at(offset, bytes))?;
        own.end = len;
        Ok(())
    }

    /// Copies the bytes of `other` from a position on in front of this chunk.
    fn prepend(&mut self, other: &Self, lsn: u64) {
        let bytes = &other.from(lsn)[..(self.lsn - lsn) as usize];
        let start = self.start - bytes.len();
        self.memory[start..self.start].copy_from_slice(bytes);
        (self.start, self.lsn) = (start, lsn);
    }
}

/// The files of a log, by number, and the size of each.
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

/// The read-ahead of one scan; see the module.
pub(crate) struct Ahead {
    lanes: Vec<Lane>,
    /// The lane with the next piece.
    turn: usize,
    /// Position of the next piece.
    next: u64,
}

/// The pieces that one thread has read.
type Lane = Receiver<Result<LogChunk, MediumError>>;

impl Ahead {
    /// Begins to read from `from` to `end`. Returns `None` if that is less than [`BYTES_MIN`], if
    /// the files do not support direct I/O, or if a thread cannot be started.
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

    /// Replaces `chunk` by the next piece, with the bytes of `chunk` from `lsn` on in front of it;
    /// false when there is no further piece.
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

/// The body of a thread: reads every fourth piece until `end`, or until the scan is dropped.
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
