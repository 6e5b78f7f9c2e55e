//! Reading a log from a medium, for recovery and for tools.
//!
//! The log ends at the first position without a valid block. If a block behind that position says
//! that the log was durable beyond it, the position is damage and not the end (`BLOCK-4`). A log
//! that reaches the end of its files has lost a file, since there is always room behind the last
//! block.

use std::collections::BTreeMap;
use std::sync::Arc;

use atoll_machine::medium::Open;
use atoll_machine::{Medium, MediumFile};

pub use crate::ahead::LogChunk;
use crate::ahead::{Ahead, Pieces};
use crate::block::{ALIGN, HEADER_BYTES, Header, PAYLOAD_BYTES_MAX, crc, stored_crc};
use crate::error::LogError;
use crate::files::{file_name, file_number};
use crate::log::SLACK_BYTES;

/// Bytes of one read without read-ahead.
const READ_BYTES: usize = 4 << 20;

/// Reads the blocks of a log one after the other.
pub struct Scan {
    /// Names the path of a missing file.
    medium: Option<Arc<dyn Medium>>,
    tablespace: u8,
    pieces: Pieces,
    /// The position behind the last file.
    files_end: u64,
    /// Whether the log may end at `files_end`.
    is_end: bool,
    /// The bytes at the current position.
    chunk: Arc<LogChunk>,
    /// Reads the chunks that follow.
    ahead: Option<Ahead>,
    may_read_ahead: bool,
    /// The bytes at the position of [`Scan::go_to`], until [`Scan::go_back`].
    aside: Arc<LogChunk>,
    is_aside: bool,
    at: u64,
    incarnation: u32,
    gsn: u64,
    /// Blocks of incarnations before the first number count only before the second, a position.
    cut: (u32, u64),
    /// The greatest `durable` position of the blocks so far.
    durable: u64,
    /// See [`Scan::reach`].
    reach: u64,
}

/// A position of a scan, see [`Scan::place`].
#[derive(Debug, Clone, Copy)]
pub struct ScanPosition {
    at: u64,
    incarnation: u32,
    gsn: u64,
}

/// Files of a log that need not be in one folder.
pub(crate) struct Span {
    pub(crate) files: BTreeMap<u64, Arc<dyn MediumFile>>,
    /// The position behind the last byte that counts.
    pub(crate) end: u64,
    /// The log may end there, even within a block: these need not be all of its files.
    pub(crate) is_end: bool,
}

/// Why the bytes at a position are not a block.
struct NoBlock(&'static str);

impl Scan {
    /// Opens the log of a tablespace, to be read from the block at `start` on.
    ///
    /// # Errors
    /// [`LogError::Missing`] when the file with that position, or one between others, does not
    /// exist; [`LogError::Medium`].
    pub fn open(
        medium: Arc<dyn Medium>,
        tablespace: u8,
        file_bytes: u64,
        start: u64,
    ) -> Result<Self, LogError> {
        let first = start / file_bytes;
        let mut files = BTreeMap::new();
        for number in medium.names()?.iter().filter_map(|name| file_number(name)) {
            if number >= first {
                files.insert(number, medium.open(&file_name(number), Open::Read)?);
            }
        }
        let mut end = first;
        for number in files.keys() {
            if *number != end {
                return Err(LogError::Missing { file: medium.path(&file_name(end)) });
            }
            end += 1;
        }
        if end == first {
            return Err(LogError::Missing { file: medium.path(&file_name(first)) });
        }
        // A crash has interrupted the creation of a file that is too short: it has no blocks.
        let mut whole = first;
        while let Some(file) = files.get(&whole)
            && file.size()? >= file_bytes
        {
            whole += 1;
        }
        let span = Span { files, end: whole * file_bytes, is_end: false };
        let scan = Self::over(tablespace, file_bytes, start, span);
        Ok(Self { medium: Some(medium), ..scan })
    }

    /// Reads the files of a span.
    pub(crate) fn over(tablespace: u8, file_bytes: u64, start: u64, span: Span) -> Self {
        let Span { files, end, is_end } = span;
        Self {
            medium: None,
            tablespace,
            pieces: Pieces { files: Arc::new(files), file_bytes },
            files_end: end,
            is_end,
            chunk: Arc::new(LogChunk::at(start)),
            ahead: None,
            may_read_ahead: true,
            aside: Arc::default(),
            is_aside: false,
            at: start,
            incarnation: 0,
            gsn: 0,
            cut: (0, 0),
            durable: 0,
            reach: u64::MAX,
        }
    }

    /// The path of a file of the log.
    fn path(&self, number: u64) -> String {
        let name = file_name(number);
        match (self.pieces.files.get(&number), &self.medium) {
            (Some(file), _) => file.path().to_owned(),
            (None, Some(medium)) => medium.path(&name),
            (None, None) => name,
        }
    }

    /// States that `incarnation` continued the log at `lsn`: blocks of earlier incarnations at or
    /// behind this position are not part of the log.
    pub fn cut(&mut self, incarnation: u32, lsn: u64) {
        self.cut = (incarnation, lsn);
    }

    /// States that the log was written through a ring of `ring_bytes` (0: unknown). A writer cannot
    /// run further ahead of the durable position than that. So if a position was durable and blocks
    /// follow it, one of them within this distance says so, and the search for it can end there.
    pub fn reach(&mut self, ring_bytes: u64) {
        let most = ring_bytes + SLACK_BYTES + PAYLOAD_BYTES_MAX as u64;
        self.reach = if ring_bytes == 0 { u64::MAX } else { most };
    }

    /// The position of the next block; after the last block, the end of the log.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Continues at the position of a block that was read before.
    pub fn go_to(&mut self, lsn: u64) {
        (self.at, self.incarnation, self.gsn) = (lsn, 0, 0);
        self.is_aside = true;
    }

    /// The current position, for [`Scan::go_back`].
    pub fn place(&self) -> ScanPosition {
        ScanPosition { at: self.at, incarnation: self.incarnation, gsn: self.gsn }
    }

    /// Continues at a position of [`Scan::place`].
    pub fn go_back(&mut self, place: ScanPosition) {
        (self.at, self.incarnation, self.gsn) = (place.at, place.incarnation, place.gsn);
        self.is_aside = false;
    }

    /// Estimates the end of the log, for a progress display: the end of the last file in which a
    /// block begins.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn about_end(&self) -> Result<u64, LogError> {
        let Pieces { files, file_bytes } = &self.pieces;
        // Files behind the end are new, or contain blocks with other LSNs.
        let (mut low, mut high) = (self.at / file_bytes, self.files_end / file_bytes);
        let mut bytes = Vec::new();
        while low + 1 < high {
            let number = low.midpoint(high);
            // A block that begins in the file before ends within these bytes.
            bytes.resize((*file_bytes).min(2 * PAYLOAD_BYTES_MAX as u64) as usize, 0);
            files[&number].read_at(0, &mut bytes)?;
            let start = number * file_bytes;
            let is_own = |at: usize| {
                let place = (start + at as u64).to_le_bytes();
                bytes.get(at + 8..at + 16).is_some_and(|lsn| *lsn == place)
                    && bytes[at..].first_chunk().and_then(Header::decode).is_some()
            };
            if (0..bytes.len()).step_by(ALIGN as usize).any(is_own) {
                low = number;
            } else {
                high = number;
            }
        }
        Ok((low + 1) * file_bytes)
    }

    /// Makes the files durable. After a process was killed, they may contain blocks that are not
    /// durable yet, and a recovery must not make anything durable that depends on such blocks.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn sync(&self) -> Result<(), LogError> {
        Ok(self.pieces.files.values().try_for_each(|file| file.sync())?)
    }

    /// The greatest incarnation so far.
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// The greatest GSN so far.
    pub fn gsn(&self) -> u64 {
        self.gsn
    }

    /// Reads the next block; `None` at the end of the log.
    ///
    /// # Errors
    /// [`LogError::Damaged`], [`LogError::Missing`], [`LogError::Medium`].
    pub fn read_next(&mut self) -> Result<Option<(Header, &[u8])>, LogError> {
        let at = self.at;
        match self.block(at)? {
            Ok(header) => {
                self.at += header.block_bytes();
                (self.incarnation, self.gsn) = (header.incarnation, header.gsn);
                self.durable = self.durable.max(header.durable);
                Ok(Some((header, self.chunk().payload(&header))))
            }
            Err(why) => {
                self.check_end(at, &why)?;
                Ok(None)
            }
        }
    }

    /// The chunk with the block that was read last; a caller that keeps it keeps the payload.
    pub fn chunk(&self) -> &Arc<LogChunk> {
        if self.is_aside { &self.aside } else { &self.chunk }
    }

    /// Decodes and verifies the block at a position; its bytes are in the current chunk then.
    fn block(&mut self, at: u64) -> Result<Result<Header, NoBlock>, LogError> {
        if !self.load(at, HEADER_BYTES)? {
            return Ok(Err(NoBlock("the files end")));
        }
        let Some(bytes) = self.chunk().from(at).first_chunk::<HEADER_BYTES>().copied() else {
            return Ok(Err(NoBlock("the files end")));
        };
        let Some(header) = Header::decode(&bytes) else {
            return Ok(Err(NoBlock("bytes that are no header")));
        };
        if header.lsn != at || header.tablespace != self.tablespace {
            return Ok(Err(NoBlock("a block with another LSN or of another tablespace")));
        }
        let is_cut = header.incarnation < self.cut.0 && at >= self.cut.1;
        if is_cut || header.incarnation < self.incarnation || header.gsn < self.gsn {
            return Ok(Err(NoBlock("a block of an earlier incarnation")));
        }
        if !self.load(at, header.block_bytes() as usize)? {
            return Ok(Err(NoBlock("the files end within a block")));
        }
        if crc(&bytes, self.chunk().payload(&header)) != stored_crc(&bytes) {
            return Ok(Err(NoBlock("a block with a wrong checksum")));
        }
        Ok(Ok(header))
    }

    /// Loads bytes into the current chunk; false when the files end before `at + len`.
    fn load(&mut self, at: u64, len: usize) -> Result<bool, LogError> {
        let (chunk, until) = (self.chunk(), at + len as u64);
        if at >= chunk.lsn() && until <= chunk.end_lsn() {
            return Ok(true);
        }
        if until > self.files_end {
            return Ok(false);
        }
        if !self.is_aside && self.go_on(at)? {
            return Ok(true);
        }
        let wanted = (len.max(READ_BYTES) as u64).min(self.files_end - at) as usize;
        let chunk = if self.is_aside { &mut self.aside } else { &mut self.chunk };
        LogChunk::read(chunk, &self.pieces, at, wanted)?;
        Ok(true)
    }

    /// Moves the chunk to the next piece of the read-ahead, starting it if that is worth it; false
    /// when `at` does not follow the current chunk, or when there is no read-ahead.
    fn go_on(&mut self, at: u64) -> Result<bool, LogError> {
        let chunk = &mut self.chunk;
        let end = chunk.end_lsn();
        let follows = at >= chunk.lsn() && at <= end;
        if !follows {
            self.ahead = None;
            return Ok(false);
        }
        if self.ahead.is_none() && self.may_read_ahead {
            self.ahead = Ahead::start(&self.pieces, end, self.files_end);
            // Less remains behind every later position, so read-ahead is not worth it there either.
            self.may_read_ahead = self.ahead.is_some();
        }
        let Some(ahead) = &mut self.ahead else { return Ok(false) };
        let gone_on = ahead.go_on(chunk, at);
        if gone_on.is_err() {
            self.ahead = None; // A piece could not be read.
        }
        Ok(gone_on?)
    }

    /// Checks that a position without a block is the end of the log and not damage.
    fn check_end(&mut self, at: u64, why: &NoBlock) -> Result<(), LogError> {
        let damaged = |scan: &Self| {
            let (file, offset) = scan.place_of(at);
            LogError::damaged(file, offset, "a block of the log", why.0)
        };
        if self.durable > at {
            return Err(damaged(self));
        }
        // There is always room behind the last block, so a log does not end where its files end;
        // and the files of a block with a valid header existed when it was written.
        let is_cut = !self.load(at, HEADER_BYTES)? || why.0 == "the files end within a block";
        if is_cut && self.is_end {
            return Ok(());
        }
        if is_cut {
            return Err(LogError::Missing {
                file: self.path(self.files_end / self.pieces.file_bytes),
            });
        }
        // An archived copy consists of valid blocks only.
        if self.is_end {
            return Err(damaged(self));
        }
        let last = at.saturating_add(self.reach);
        let mut place = at + ALIGN;
        while let Some(header) = self.find(place, last)? {
            if header.durable > at {
                return Err(damaged(self));
            }
            place = header.lsn + ALIGN;
        }
        Ok(())
    }

    /// The first block with an LSN from `first` to `last`.
    fn find(&mut self, first: u64, last: u64) -> Result<Option<Header>, LogError> {
        let mut place = first;
        while place <= last && self.load(place, HEADER_BYTES)? {
            let bytes = self.chunk().from(place);
            let lsn = u64::from_le_bytes(std::array::from_fn(|i| bytes[8 + i]));
            if lsn == place
                && let Ok(header) = self.block(place)?
            {
                return Ok(Some(header));
            }
            place += ALIGN;
        }
        Ok(None)
    }

    /// Moves to the next valid block, from damage or from any position; false when there is none.
    /// For tools that show what is left of a damaged log; recovery does not use it.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn go_on_to_block(&mut self) -> Result<bool, LogError> {
        let found = self.find(self.at, u64::MAX)?;
        self.at = found.map_or(self.at, |header| header.lsn);
        Ok(found.is_some())
    }

    /// The path of the file that contains a position, and the offset in the file.
    pub fn place_of(&self, lsn: u64) -> (String, u64) {
        (self.path(lsn / self.pieces.file_bytes), lsn % self.pieces.file_bytes)
    }
}
