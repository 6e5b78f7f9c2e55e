//! The recorder of a transaction, which writes its commits to the logs: it gets room promised, then
//! reserves a block in each log under one GSN, then fills these blocks.

use std::borrow::Cow;
use std::sync::Arc;

use atoll_storage::redo::Redo;
use atoll_txn::journal::{Commit, Definition, Journal, JournalError, Recorder};

use crate::block::{self, Kind, PAYLOAD_BYTES_MAX, block_bytes};
use crate::error::LogError;
use crate::log::{Block, Log, Slot};
use crate::logs::Logs;
use crate::options::{Planted, TABLESPACES_MAX};

/// The recorder of one transaction at a time.
struct LogRecorder {
    logs: Arc<Logs>,
    /// The recorder's slot in each log.
    slots: Vec<Arc<Slot>>,
    /// The logs that have promised room for the commit, ascending, and the bytes of its blocks.
    admitted: Vec<(usize, u64)>,
    /// Number of the open transaction once it has spilled, else 0.
    transaction: u64,
    /// The logs to which it has spilled, a bit for each.
    spilled: u64,
    /// Some of that are definitions.
    defines: bool,
}

impl LogRecorder {
    fn new(logs: Arc<Logs>) -> Self {
        let slots = logs.logs().iter().map(Log::slot).collect();
        Self { logs, slots, admitted: Vec::new(), transaction: 0, spilled: 0, defines: false }
    }
}

fn payload(redo: &Redo, log: usize) -> &[u8] {
    let part = redo.parts().iter().find(|part| part.tablespace as usize == log);
    part.map_or(&[], |part| &part.bytes)
}

/// The block of a definition.
fn encode(definition: Definition<'_>) -> (Kind, Cow<'_, [u8]>) {
    match definition {
        Definition::Create(description) => (Kind::Table, Cow::Borrowed(description)),
        Definition::Alter(description) => (Kind::Alter, Cow::Borrowed(description)),
        Definition::Drop(serial) => (Kind::Drop, Cow::Owned(block::encode_drop(serial))),
    }
}

impl Journal for Logs {
    fn recorder(self: Arc<Self>) -> Box<dyn Recorder> {
        Box::new(LogRecorder::new(self))
    }
}

impl Recorder for LogRecorder {
    fn admit(&mut self, redo: &Redo) -> Result<(), JournalError> {
        debug_assert!(self.admitted.is_empty(), "a commit is admitted once");
        self.logs.check()?;
        for (number, log) in self.logs.logs().iter().enumerate() {
            let payload = payload(redo, number);
            if payload.is_empty() && self.spilled >> number & 1 == 0 {
                continue;
            }
            assert!(payload.len() <= PAYLOAD_BYTES_MAX, "too large a commit must be spilled");
            let bytes = block_bytes(payload.len());
            if let Err(error) = log.admit(bytes) {
                self.withdraw_admitted();
                return Err(error.into());
            }
            self.admitted.push((number, bytes));
        }
        self.check_admitted()
    }

    fn spill(&mut self, redo: &Redo) -> Result<(), JournalError> {
        for part in redo.parts() {
            for payload in part.bytes.chunks(PAYLOAD_BYTES_MAX) {
                self.write_piece(part.tablespace as usize, Kind::Piece, payload)?;
            }
        }
        Ok(())
    }

    fn spill_definition(&mut self, definition: Definition<'_>) -> Result<(), JournalError> {
        let (kind, payload) = encode(definition);
        self.write_piece(0, kind, &payload)?;
        self.defines = true;
        Ok(())
    }

    fn record(&mut self, redo: &Redo, mut commit: Commit) -> u64 {
        if self.logs.options().planted == Planted::NothingSeen {
            commit.seen = 0;
        }
        let logs = self.logs.logs();
        // All latches are held together, so the GSN is above all these clocks at one moment.
        let mut places = [0; TABLESPACES_MAX];
        let horizon = self.logs.horizon();
        let gsn = if self.defines {
            let mut tails: Vec<_> = logs.iter().map(Log::latch).collect();
            let clock = tails.iter().map(|tail| tail.clock()).max().unwrap_or(0);
            let gsn = clock.max(commit.seen) + 1;
            for ((log, bytes), place) in self.admitted.iter().zip(&mut places) {
                *place = logs[*log].reserve(&mut tails[*log], &self.slots[*log], *bytes, gsn);
            }
            tails.iter_mut().for_each(|tail| tail.raise(gsn));
            gsn
        } else if let [(log, bytes)] = self.admitted[..] {
            let mut tail = logs[log].latch();
            let gsn = tail.clock().max(commit.seen) + 1;
            places[0] = logs[log].reserve(&mut tail, &self.slots[log], bytes, gsn);
            gsn
        } else {
            let mut tails: Vec<_> =
                self.admitted.iter().map(|(log, _)| logs[*log].latch()).collect();
            let clock = tails.iter().map(|tail| tail.clock()).max().unwrap_or(0);
            let gsn = clock.max(commit.seen) + 1;
            let admitted = self.admitted.iter();
            for ((tail, place), (log, bytes)) in tails.iter_mut().zip(&mut places).zip(admitted) {
                *place = logs[*log].reserve(tail, &self.slots[*log], *bytes, gsn);
            }
            gsn
        };
        for ((log, _), lsn) in self.admitted.iter().zip(places) {
            let (transaction, epoch) = (self.transaction, commit.epoch);
            let payload = payload(redo, *log);
            let block = Block { kind: Kind::Commit, epoch, transaction, horizon, payload };
            logs[*log].fill(&self.slots[*log], lsn, gsn, &block);
        }
        self.admitted.clear();
        self.end_pieces();
        gsn
    }

    fn withdraw(&mut self) {
        self.withdraw_admitted();
        self.end_pieces();
    }

    fn tablespaces(&self) -> u32 {
        self.logs.logs().len() as u32
    }

    fn check_tablespace(&self, tablespace: u32) -> Result<(), JournalError> {
        let count = self.logs.logs().len();
        if (tablespace as usize) < count {
            return Ok(());
        }
        Err(LogError::NoTablespace(tablespace, count).into())
    }

    fn admit_definition(&mut self, definition: Definition<'_>) -> Result<(), JournalError> {
        let (_, payload) = encode(definition);
        let bytes = block_bytes(payload.len());
        self.logs.check()?;
        self.logs.logs()[0].admit(bytes)?;
        self.admitted.push((0, bytes));
        self.check_admitted()
    }

    fn record_definition(&mut self, definition: Definition<'_>, epoch: u64) -> u64 {
        let (number, bytes) = self.admitted.pop().expect("a definition is admitted first");
        let (log, slot) = (&self.logs.logs()[number], &self.slots[number]);
        // As for a commit in all logs.
        let mut tails: Vec<_> = self.logs.logs().iter().map(Log::latch).collect();
        let gsn = tails.iter().map(|tail| tail.clock()).max().unwrap_or(0) + 1;
        let lsn = log.reserve(&mut tails[number], slot, bytes, gsn);
        tails.iter_mut().for_each(|tail| tail.raise(gsn));
        drop(tails);
        let ((kind, payload), horizon) = (encode(definition), self.logs.horizon());
        let payload = &payload;
        log.fill(slot, lsn, gsn, &Block { kind, epoch, transaction: 0, horizon, payload });
        gsn
    }
}

impl LogRecorder {
    /// Checks the logs again after promises were given: either a thread that closes the logs sees
    /// these promises and waits for them, or this check sees that the logs are closed.
    fn check_admitted(&mut self) -> Result<(), JournalError> {
        let checked = self.logs.check();
        if checked.is_err() {
            self.withdraw_admitted();
        }
        Ok(checked?)
    }

    fn end_pieces(&mut self) {
        if self.transaction != 0 {
            self.logs.pieces().remove(&self.transaction);
        }
        (self.transaction, self.spilled, self.defines) = (0, 0, false);
    }

    /// Writes a block of a transaction that has not committed.
    fn write_piece(
        &mut self,
        number: usize,
        kind: Kind,
        payload: &[u8],
    ) -> Result<(), JournalError> {
        self.logs.check()?;
        if self.transaction == 0 {
            self.transaction = self.logs.next_transaction();
            // Registered before the first piece is reserved, so a checkpoint keeps all pieces.
            let mut pieces = self.logs.pieces();
            let starts = self.logs.logs().iter().map(Log::tail_lsn).collect();
            pieces.insert(self.transaction, starts);
        }
        let (log, slot) = (&self.logs.logs()[number], &self.slots[number]);
        self.spilled |= 1 << number;
        let bytes = block_bytes(payload.len());
        log.admit(bytes)?;
        if let Err(error) = self.logs.check() {
            log.withdraw(bytes);
            return Err(error.into());
        }
        let mut tail = log.latch();
        let gsn = tail.clock() + 1;
        let lsn = log.reserve(&mut tail, slot, bytes, gsn);
        drop(tail);
        let (transaction, horizon) = (self.transaction, self.logs.horizon());
        log.fill(slot, lsn, gsn, &Block { kind, epoch: 0, transaction, horizon, payload });
        Ok(())
    }

    fn withdraw_admitted(&mut self) {
        for (log, bytes) in self.admitted.drain(..) {
            self.logs.logs()[log].withdraw(bytes);
        }
    }
}
