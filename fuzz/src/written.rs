//! A log that the real writer has written, with commits that a fuzzer has chosen, over one or
//! several incarnations of the database; and what a reader must find in it.

use std::sync::Arc;

use atoll_log::block::{Header, Kind};
use atoll_log::files::Files as LogFiles;
use atoll_log::log::Start;
use atoll_log::scan::Scan;
use atoll_log::{Logs, LogsOptions};
use atoll_machine::{CrashMedium, Medium};
use atoll_storage::redo::Redo;
use atoll_txn::Journal;
use atoll_txn::journal::{Commit, Recorder};

use super::input::Input;

pub const OPTIONS: LogsOptions = LogsOptions {
    file_bytes: 64 << 10,
    ring_bytes: 2 << 20,
    in_turns: true,
    planted: atoll_log::Planted::Nothing,
};

/// A log, the control file for it, and its blocks from `start` on.
pub struct Written {
    pub medium: Arc<dyn Medium>,
    pub start: u64,
    pub incarnation: u32,
    pub cut: u64,
    pub blocks: Vec<(Header, Vec<u8>)>,
}

impl Written {
    /// Writes a log.
    pub fn new(input: &mut Input<'_>) -> Self {
        let medium: Arc<dyn Medium> = Arc::new(CrashMedium::default());
        // The first file is made before the control file exists.
        drop(LogFiles::open(Arc::clone(&medium), OPTIONS.file_bytes, 0).unwrap());
        let mut log = Self { medium, start: 0, incarnation: 0, cut: 0, blocks: Vec::new() };
        for _ in 0..1 + input.below(3) {
            log.live(input);
        }
        log
    }

    /// Reads these files like recovery.
    pub fn scan(&self, medium: Arc<dyn Medium>) -> Result<Scan, atoll_log::LogError> {
        let mut scan = Scan::open(medium, 0, OPTIONS.file_bytes, self.start)?;
        scan.cut(self.incarnation, self.cut);
        scan.reach(OPTIONS.ring_bytes);
        Ok(scan)
    }

    /// The position behind the last block.
    pub fn end(&self) -> u64 {
        self.blocks.last().map_or(self.start, |(header, _)| header.lsn + header.block_bytes())
    }

    /// One incarnation: commits, some of which are waited for, and log files that are recycled.
    fn live(&mut self, input: &mut Input<'_>) {
        let gsn = self.blocks.last().map_or(0, |(header, _)| header.gsn);
        let start = Start { lsn: self.end(), gsn };
        (self.incarnation, self.cut) = (self.incarnation + 1, start.lsn);
        let media = [Arc::clone(&self.medium)];
        let logs =
            Logs::open(&media, &[start], self.incarnation, OPTIONS, Box::new(|| Ok(()))).unwrap();
        logs.begin().unwrap();
        let mut recorder = Arc::clone(&logs).recorder();
        let mut recorded = Vec::new();
        let mut settled = 0;
        for _ in 0..input.below(12) {
            let bytes = match input.byte() % 8 {
                0 => 1 + input.below(60_000),
                1 => 1 + usize::from(input.byte()),
                _ => 8 + 8 * usize::from(input.byte() % 16),
            };
            let mut payload = input.take(8).to_vec();
            payload.resize(bytes, input.byte());
            let gsn = commit(&mut *recorder, &payload);
            recorded.push((gsn, payload));
            match input.byte() % 8 {
                0..3 => {
                    logs.settle(gsn).unwrap();
                    settled = recorded.len();
                }
                3 => {
                    let from = logs.starts()[0].min(logs.logs()[0].durable_lsn());
                    logs.release(&[from], u64::from(input.byte() % 4)).unwrap();
                    self.start = from;
                    self.blocks.clear();
                    recorded.drain(..settled);
                    settled = 0;
                }
                _ => {}
            }
        }
        if input.flag() {
            logs.close().unwrap();
            settled = recorded.len();
        }
        drop((recorder, logs));
        self.read();
        for (at, (gsn, payload)) in recorded.iter().enumerate() {
            let is_it = |(header, _): &&(Header, Vec<u8>)| {
                header.gsn == *gsn && header.kind == Kind::Commit
            };
            match self.blocks.iter().find(is_it) {
                Some((_, found)) => assert_eq!(found, payload, "commit {gsn} is another"),
                None => assert!(at >= settled, "commit {gsn} was acknowledged and is lost"),
            }
        }
    }

    fn read(&mut self) {
        let mut scan = self.scan(Arc::clone(&self.medium)).unwrap();
        self.blocks.clear();
        while let Some((header, payload)) = scan.read_next().unwrap() {
            self.blocks.push((header, payload.to_vec()));
        }
    }
}

fn commit(recorder: &mut dyn Recorder, payload: &[u8]) -> u64 {
    let mut redo = Redo::default();
    redo.part(0).extend_from_slice(payload);
    recorder.admit(&redo).unwrap();
    recorder.record(&redo, Commit { epoch: 1, seen: 0 })
}
