//! Reads logs (`atoll_log::scan`).
//!
//! `bytes`: arbitrary bytes as the files of a log. Every block that is read is there, behind the
//! block before, with a correct checksum, and neither incarnations nor GSNs decrease.
//!
//! `damage`: a log that was written, with damage. The blocks that are read are the first ones that
//! were written. If the log ends early there is an error, except in one case that a log cannot
//! reveal: the bytes of the block at the end are damaged, and so is, or was never written, every
//! block that records that it was durable (`BLOCK-4`). So damage can lose the last flush without an
//! error, and a missing or truncated file looks like the end only behind a header that is damaged
//! too. (The control file records the end of what an earlier incarnation wrote, and of a log that
//! was closed.)

use std::sync::Arc;

use atoll_log::block::{HEADER_BYTES, Header, Kind};
use atoll_log::files::file_name;
use atoll_log::scan::Scan;

use super::input::{Files, Input, files_of, harm, medium_of};
use super::written::{OPTIONS, Written};

const KINDS: [Kind; 7] = [
    Kind::Commit,
    Kind::Piece,
    Kind::IdleWatermark,
    Kind::Table,
    Kind::Open,
    Kind::Time,
    Kind::Drop,
];

/// See the module.
pub fn bytes(bytes: &[u8]) {
    const FILE_BYTES: usize = 1024;
    let mut input = Input(bytes);
    let first = input.number() % (1 << 40);
    let base = first * FILE_BYTES as u64;
    let start = base + input.below(FILE_BYTES / 8) as u64 * 8;
    let cut = (input.byte().into(), base + input.below(4 * FILE_BYTES) as u64);
    let ring = [0, 64, 1 << 21, u64::MAX >> 1][input.below(4)];
    let mut image = Vec::new();
    let mut last = None;
    while !input.is_empty() && image.len() < 4 * FILE_BYTES {
        let lsn = base + image.len() as u64;
        match input.byte() % 8 {
            0 => image.extend_from_slice(input.bytes(200)),
            1 => image.resize(image.len() + input.below(FILE_BYTES), 0),
            2 if lsn < start => image.resize((start - base) as usize, 0),
            _ => {
                let payload = input.bytes(100);
                let header = block(&mut input, lsn, last, payload);
                last = Some(header);
                image.extend(header.encode(payload));
                image.extend_from_slice(payload);
                image.resize(image.len().next_multiple_of(8), 0);
            }
        }
    }
    image.resize(image.len().next_multiple_of(FILE_BYTES).max(FILE_BYTES), 0);
    let mut files = Files::new();
    for (at, bytes) in image.chunks(FILE_BYTES).enumerate() {
        files.insert(file_name(first + at as u64), bytes.to_vec());
    }
    if input.flag() {
        harm(&mut files, &mut input, 2);
        image.clear();
    }
    let Ok(mut scan) = Scan::open(Arc::new(medium_of(&files)), 0, FILE_BYTES as u64, start) else {
        return;
    };
    scan.cut(cut.0, cut.1);
    scan.reach(ring);
    let (mut at, mut incarnation, mut gsn) = (start, 0, 0);
    while let Ok(Some((header, payload))) = scan.read_next() {
        assert_eq!((header.lsn, header.payload_bytes as usize), (at, payload.len()));
        assert!(
            header.incarnation >= incarnation && header.gsn >= gsn,
            "lives and GSNs never go down"
        );
        assert!(header.incarnation >= cut.0 || at < cut.1, "what was cut off is not read");
        if !image.is_empty() {
            let from = (at - base) as usize;
            assert_eq!(image[from..from + HEADER_BYTES], header.encode(payload));
            assert_eq!(image[from + HEADER_BYTES..][..payload.len()], *payload);
        }
        (incarnation, gsn) = (header.incarnation, header.gsn);
        at += header.block_bytes();
        assert_eq!((scan.at(), scan.incarnation(), scan.gsn()), (at, incarnation, gsn));
    }
    assert_eq!(scan.at(), at);
}

/// A header, usually one that may come next.
fn block(input: &mut Input<'_>, lsn: u64, last: Option<Header>, payload: &[u8]) -> Header {
    let odd = input.byte();
    let mut field = |bit: u8, usual: u64| if odd >> bit & 1 == 1 { input.number() } else { usual };
    let (incarnation, gsn) = last.map_or((1, 1), |last| (last.incarnation, last.gsn));
    let lsn = field(0, lsn);
    let incarnation = field(1, incarnation.into()) as u32;
    let gsn = field(2, gsn.saturating_add(1));
    let durable = field(3, lsn);
    let (epoch, horizon, transaction) = (field(4, 1), field(5, gsn), field(6, 0));
    let tablespace = field(7, 0) as u8;
    let kind = KINDS[input.below(KINDS.len())];
    let payload_bytes = payload.len() as u32;
    Header {
        kind,
        tablespace,
        incarnation,
        lsn,
        gsn,
        epoch,
        durable,
        horizon,
        transaction,
        payload_bytes,
    }
}

/// See the module.
pub fn damage(bytes: &[u8]) {
    let mut input = Input(bytes);
    let log = Written::new(&mut input);
    let sound = files_of(&*log.medium);
    let mut damaged = sound.clone();
    harm(&mut damaged, &mut input, 4);
    let state = State { log: &log, sound: &sound, damaged: &damaged };
    let read = read(&log, &damaged);
    let Ok(count) = read else {
        // There was an error. It is wrong if the block is complete, with space behind it, and no
        // file is missing.
        let is_there = state.is_there(log.start, log.end() + HEADER_BYTES as u64)
            && sound.keys().eq(damaged.keys());
        let is_whole = log.blocks.iter().all(|(header, _)| state.is_sound(header));
        assert!(!is_there || !is_whole, "a sound log is refused: {:?}", read.err());
        return;
    };
    let Some((next, _)) = log.blocks.get(count) else { return };
    assert!(!state.is_sound(next), "the log ends in front of a sound block, {next:?}");
    // A sound header contains the length of its block.
    let header = next.lsn + HEADER_BYTES as u64;
    let is_header = state.is_sound_at(next.lsn, header);
    let end = if is_header { next.lsn + next.block_bytes() } else { header };
    assert!(state.is_there(next.lsn, end), "a file is missing at {next:?}, and nobody says so");
    for (later, _) in log.blocks.iter().filter(|(header, _)| state.is_sound(header)) {
        assert!(later.durable <= next.lsn, "{later:?} knows better than that {next:?} is the end");
    }
}

/// The number of blocks read; checks that they are those that were written.
fn read(log: &Written, files: &Files) -> Result<usize, String> {
    let told = |error: atoll_log::LogError| error.to_string();
    let mut scan = log.scan(Arc::new(medium_of(files))).map_err(told)?;
    let mut count = 0;
    while let Some((header, payload)) = scan.read_next().map_err(told)? {
        let written = log.blocks.get(count).map(|(header, payload)| (*header, &payload[..]));
        assert_eq!(written, Some((header, payload)), "block {count} was not written");
        count += 1;
    }
    Ok(count)
}

struct State<'s> {
    log: &'s Written,
    sound: &'s Files,
    damaged: &'s Files,
}

impl State<'_> {
    /// Whether the files exist, complete, from the start of the log to a position.
    fn is_there(&self, from: u64, to: u64) -> bool {
        let size = OPTIONS.file_bytes;
        let first = self.log.start.min(from) / size;
        let whole = |file: &Vec<u8>| file.len() as u64 >= size;
        (first..=(to - 1) / size)
            .all(|number| self.damaged.get(&file_name(number)).is_some_and(whole))
    }

    /// Whether a block is there as it was written.
    fn is_sound(&self, header: &Header) -> bool {
        self.is_sound_at(header.lsn, header.lsn + header.block_bytes())
    }

    fn is_sound_at(&self, from: u64, to: u64) -> bool {
        self.is_there(from, to) && {
            let size = OPTIONS.file_bytes;
            (from / size..=(to - 1) / size).all(|number| {
                let (begin, end) = (from.max(number * size), to.min((number + 1) * size));
                let range = (begin - number * size) as usize..(end - number * size) as usize;
                let name = file_name(number);
                self.sound[&name][range.clone()] == self.damaged[&name][range]
            })
        }
    }
}
