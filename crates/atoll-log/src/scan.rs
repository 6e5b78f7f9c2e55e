//! Reading a log from a medium: at recovery, and for people.
//!
//! The log ends at the first place that is no block. Whether that is an end or damage, a block
//! behind it may know (`BLOCK-4`). A log whose files end without an end has lost a file, since
//! there always is room behind the last block.

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

/// Bytes that are read at once where nothing is read ahead.
const READ_BYTES: usize = 4 << 20;

/// Reads the blocks of a log one after the other.
pub struct Scan {
    /// For the name of a file that is missing.
    medium: Option<Arc<dyn Medium>>,
    tablespace: u8,
    pieces: Pieces,
    /// The position behind the last file, and whether the log may end with it.
    files_end: u64,
    is_end: bool,
    /// Where it is reading, and what comes next.
    chunk: Arc<LogChunk>,
    ahead: Option<Ahead>,
    may_read_ahead: bool,
    /// What is read elsewhere, between [`Scan::go_to`] and [`Scan::go_back`].
    aside: Arc<LogChunk>,
    is_aside: bool,
    at: u64,
    incarnation: u32,
    gsn: u64,
    /// Blocks of lives before this one count up to this position only.
    cut: (u32, u64),
    /// Greatest position that a block said was durable.
    durable: u64,
    /// See [`Scan::reach`].
    reach: u64,
}

/// Where a scan is.
#[derive(Debug, Clone, Copy)]
pub struct ScanPosition {
    at: u64,
    incarnation: u32,
    gsn: u64,
}

/// Files that are read instead of those in a folder.
pub(crate) struct Span {
    pub(crate) files: BTreeMap<u64, Arc<dyn MediumFile>>,
    /// The position behind the last byte that counts.
    pub(crate) end: u64,
    /// The log may end there, within a block too: these are not all of its files.
    pub(crate) is_end: bool,
}

/// What is wrong with the bytes at a place.
struct NoBlock(&'static str);

impl Scan {
    /// Reads the log of a tablespace from a block that begins at `start` on.
    ///
    /// # Errors
    /// [`LogError::Missing`] when the file of that position, or one between others, is not there.
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
        // A file that was being made when the machine stopped holds nothing.
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

    /// Reads these files instead.
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

    /// How people find a file of the log.
    fn path(&self, number: u64) -> String {
        let name = file_name(number);
        match (self.pieces.files.get(&number), &self.medium) {
            (Some(file), _) => file.path().to_owned(),
            (None, Some(medium)) => medium.path(&name),
            (None, None) => name,
        }
    }

    /// From the life `incarnation` on the log went on at `lsn`: what lies there, or behind it, and
    /// is of an earlier life, is not part of the log.
    pub fn cut(&mut self, incarnation: u32, lsn: u64) {
        self.cut = (incarnation, lsn);
    }

    /// The log was written through a ring of so many bytes (0: not known), so behind a place that
    /// was durable some block within its reach says so, if there are any.
    pub fn reach(&mut self, ring_bytes: u64) {
        let most = ring_bytes + SLACK_BYTES + PAYLOAD_BYTES_MAX as u64;
        self.reach = if ring_bytes == 0 { u64::MAX } else { most };
    }

    /// The place of the next block; after the last one, the end of the log.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Reads on from another place, where a block that was read before begins.
    pub fn go_to(&mut self, lsn: u64) {
        (self.at, self.incarnation, self.gsn) = (lsn, 0, 0);
        self.is_aside = true;
    }

    /// Where it is, for [`Scan::go_back`].
    pub fn place(&self) -> ScanPosition {
        ScanPosition { at: self.at, incarnation: self.incarnation, gsn: self.gsn }
    }

    /// Reads on from where it was.
    pub fn go_back(&mut self, place: ScanPosition) {
        (self.at, self.incarnation, self.gsn) = (place.at, place.incarnation, place.gsn);
        self.is_aside = false;
    }

    /// About where the log ends, for whoever wants to tell how far it has been read: where the last
    /// file ends in which a block begins.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn about_end(&self) -> Result<u64, LogError> {
        let Pieces { files, file_bytes } = &self.pieces;
        // Files behind the end are new, or hold blocks of other positions.
        let (mut low, mut high) = (self.at / file_bytes, self.files_end / file_bytes);
        let mut bytes = Vec::new();
        while low + 1 < high {
            let number = low.midpoint(high);
            // What begins in the file before ends within so many bytes.
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

    /// Makes durable what has been read: of a process that was killed, it may be there and not be
    /// durable, and what is built on it must not be more durable than it is.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn sync(&self) -> Result<(), LogError> {
        Ok(self.pieces.files.values().try_for_each(|file| file.sync())?)
    }

    /// The greatest life seen.
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// The greatest GSN seen.
    pub fn gsn(&self) -> u64 {
        self.gsn
    }

    /// The next block; `None` at the end.
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

    /// Where the block lies that was read last: whoever wants to keep its payload keeps this.
    pub fn chunk(&self) -> &Arc<LogChunk> {
        if self.is_aside { &self.aside } else { &self.chunk }
    }

    /// The block at a place, if there is one; its bytes are in the buffer then.
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
            return Ok(Err(NoBlock("a block of another place")));
        }
        let is_cut = header.incarnation < self.cut.0 && at >= self.cut.1;
        if is_cut || header.incarnation < self.incarnation || header.gsn < self.gsn {
            return Ok(Err(NoBlock("a block of an earlier life")));
        }
        if !self.load(at, header.block_bytes() as usize)? {
            return Ok(Err(NoBlock("the files end within a block")));
        }
        if crc(&bytes, self.chunk().payload(&header)) != stored_crc(&bytes) {
            return Ok(Err(NoBlock("a block with a wrong checksum")));
        }
        Ok(Ok(header))
    }

    /// Brings bytes into the window; false when the files end before.
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

    /// Goes on to a place in what is being read ahead, from where it was; false when it is not
    /// there.
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
            // There is less behind every later place, and no more threads.
            self.may_read_ahead = self.ahead.is_some();
        }
        let Some(ahead) = &mut self.ahead else { return Ok(false) };
        let gone_on = ahead.go_on(chunk, at);
        if gone_on.is_err() {
            self.ahead = None; // A piece is missing.
        }
        Ok(gone_on?)
    }

    /// That the log ends at a place where there is no block.
    fn check_end(&mut self, at: u64, why: &NoBlock) -> Result<(), LogError> {
        let damaged = |scan: &Self| {
            let (file, offset) = scan.place_of(at);
            LogError::damaged(file, offset, "a block of the log", why.0)
        };
        if self.durable > at {
            return Err(damaged(self));
        }
        // There always is room behind the last block, so a log does not end with its files, and a
        // block whose header is whole lies in files that were there.
        let is_cut = !self.load(at, HEADER_BYTES)? || why.0 == "the files end within a block";
        if is_cut && self.is_end {
            return Ok(());
        }
        if is_cut {
            return Err(LogError::Missing {
                file: self.path(self.files_end / self.pieces.file_bytes),
            });
        }
        // What was copied from a log is all blocks.
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

    /// The first block that begins between two places.
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

    /// Goes on to the next place where a block is, behind damage or from where no block need begin;
    /// false when there is none. For whoever looks at what is left: a log with damage is none.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn go_on_to_block(&mut self) -> Result<bool, LogError> {
        let found = self.find(self.at, u64::MAX)?;
        self.at = found.map_or(self.at, |header| header.lsn);
        Ok(found.is_some())
    }

    /// The file that a position lies in, as people find it, and where in it.
    pub fn place_of(&self, lsn: u64) -> (String, u64) {
        (self.path(lsn / self.pieces.file_bytes), lsn % self.pieces.file_bytes)
    }
}
