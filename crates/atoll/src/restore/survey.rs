//! A survey of the logs: what they contain, and how far they reach together.
//!
//! A log is known up to a GSN when every block of it up to there has been read. That is the GSN of
//! its last block, because GSNs never decrease in a log, or a greater one if an idle watermark in
//! another log says that this log had nothing more up to there. Everything up to the GSN to which
//! all logs are known can be restored; a commit above it may be incomplete.

use atoll_log::LogError;
use atoll_log::archived::Archived;
use atoll_log::block::{IdleWatermark, Kind};
use atoll_log::control::Control;
use atoll_log::origin::Origin;
use atoll_log::scan::Scan;
use atoll_log::time_mark;

use crate::restore_point::RestorePoint;

/// See the module.
#[derive(Debug)]
pub(super) struct Survey {
    /// The GSN up to which all logs are known; `None` if they do not reach the backup's GSN.
    pub(super) known: Option<u64>,
    /// The restore points from the backup's up to `known`.
    pub(super) restore_points: Vec<RestorePoint>,
    /// Greatest incarnation of a block.
    pub(super) incarnation: u32,
}

/// An idle watermark: at position `lsn`, the log `about` had nothing more up to `gsn`.
#[derive(Debug, PartialEq, Eq)]
struct Claim {
    about: usize,
    lsn: u64,
    gsn: u64,
}

#[derive(Debug, Default)]
struct Read {
    /// The end of each log, and the GSN of its last block.
    ends: Vec<(u64, u64)>,
    claims: Vec<Claim>,
    restore_points: Vec<RestorePoint>,
    incarnation: u32,
}

impl Survey {
    /// Reads the logs; `own` is the control file of the folder in which they end.
    pub(super) fn of(
        logs: &[Archived],
        origin: &Origin,
        own: Option<&Control>,
    ) -> Result<Self, LogError> {
        let mut read = Read { incarnation: origin.incarnation, ..Read::default() };
        for (number, log) in logs.iter().enumerate() {
            read.add(&mut scan(log, number, own))?;
        }
        for (about, (_, end)) in origin.logs.iter().enumerate() {
            read.claims.push(Claim { about, lsn: *end, gsn: origin.gsn });
        }
        let mut known = (0..logs.len()).map(|number| read.known(number)).min().unwrap_or(0);
        if let Some(own) = own
            && logs.iter().all(|log| log.gap.is_none())
        {
            known = known.max(own.horizon); // Everything was read.
        }
        let Origin { gsn, time_us, .. } = *origin;
        let mut restore_points = vec![RestorePoint { gsn, time_us }];
        let later = read.restore_points.iter().filter(|one| one.gsn > gsn && one.gsn <= known);
        restore_points.extend(later);
        let known = Some(known).filter(|known| *known >= origin.gsn);
        Ok(Self { known, restore_points, incarnation: read.incarnation })
    }
}

/// Reads a log, at most up to the end that the control file `own` records.
fn scan(log: &Archived, number: usize, own: Option<&Control>) -> Scan {
    let mut scan = log.scan();
    if let Some(own) = own {
        scan.cut(own.incarnation, own.cuts[number]);
        scan.reach(own.ring_bytes);
    }
    scan
}

/// The position of the first block of a log with a GSN above `bound`; the end of the log, if there
/// is none.
pub(super) fn end(
    log: &Archived,
    number: usize,
    own: Option<&Control>,
    bound: u64,
) -> Result<u64, LogError> {
    let mut scan = scan(log, number, own);
    let mut end = scan.at();
    while let Some((header, _)) = scan.read_next()? {
        if header.gsn > bound {
            break;
        }
        end = header.lsn + header.block_bytes();
    }
    Ok(end)
}

impl Read {
    fn add(&mut self, scan: &mut Scan) -> Result<(), LogError> {
        let mut last = 0;
        // The last claim about each other log.
        let mut claims: Vec<Claim> = Vec::new();
        while let Some((header, payload)) = scan.read_next()? {
            (last, self.incarnation) = (header.gsn, self.incarnation.max(header.incarnation));
            match header.kind {
                Kind::IdleWatermark => {
                    for watermark in IdleWatermark::decode_all(payload).unwrap_or_default() {
                        let (lsn, gsn) = (watermark.lsn, watermark.gsn);
                        let new = Claim { about: watermark.tablespace.into(), lsn, gsn };
                        match claims.iter_mut().find(|claim| claim.about == new.about) {
                            // While a log is idle at one position, the greatest GSN counts.
                            Some(claim) if claim.lsn == lsn => claim.gsn = gsn.max(claim.gsn),
                            Some(claim) => self.claims.push(std::mem::replace(claim, new)),
                            None => claims.push(new),
                        }
                    }
                }
                Kind::Time => {
                    let time = time_mark::time_us(payload);
                    self.restore_points
                        .extend(time.map(|time_us| RestorePoint { gsn: header.gsn, time_us }));
                }
                Kind::Commit
                | Kind::Piece
                | Kind::Table
                | Kind::Alter
                | Kind::Drop
                | Kind::Open => {}
            }
        }
        self.claims.append(&mut claims);
        self.ends.push((scan.at(), last));
        Ok(())
    }

    fn known(&self, number: usize) -> u64 {
        let (end, last) = self.ends[number];
        let claims = self.claims.iter().filter(|one| one.about == number && one.lsn <= end);
        claims.map(|claim| claim.gsn).max().unwrap_or(0).max(last)
    }
}
