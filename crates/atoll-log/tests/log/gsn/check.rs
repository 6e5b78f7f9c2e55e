//! The properties of GSNs and of the horizon that must hold in any interleaving.

use std::collections::BTreeMap;

use atoll_log::block::{Header, IdleWatermark, Kind};

use super::bench::Done;

/// A block with its payload.
pub type Block = (Header, Vec<u8>);
/// The blocks of each log.
pub type Found = Vec<Vec<Block>>;

/// The commits of a log, with their indexes.
pub fn commits(blocks: &[Block]) -> impl Iterator<Item = (usize, &Block)> {
    blocks.iter().enumerate().filter(|(_, (header, _))| header.kind == Kind::Commit)
}

/// Assigns LSNs to blocks again after a test has moved them.
pub fn lay_out(blocks: &mut [Block]) {
    let mut lsn = 0;
    for (header, _) in blocks {
        header.lsn = lsn;
        lsn += header.block_bytes();
    }
}

/// Log and index of a commit to several logs, if the next GSN after it is unused in this log.
pub fn with_room_behind(found: &Found, done: &[Done]) -> Option<(usize, usize)> {
    let is_in_many = |gsn: u64, log: usize| {
        let mut own = done.iter().filter(|one| one.gsn == gsn);
        own.any(|one| one.payloads.len() > 1 && one.payloads.contains_key(&log))
    };
    found.iter().enumerate().find_map(|(log, blocks)| {
        let mut commits = commits(blocks);
        let place = commits.find_map(|(at, (header, _))| {
            let next = blocks.get(at + 1).map_or(u64::MAX, |(next, _)| next.gsn);
            (next > header.gsn + 1 && is_in_many(header.gsn, log)).then_some(at)
        });
        place.map(|at| (log, at))
    })
}

pub fn is_commit_of(header: &Header, transaction: (u32, u64)) -> bool {
    header.kind == Kind::Commit && (header.incarnation, header.transaction) == transaction
}

/// A piece of a transaction that has committed: log, index, transaction.
pub fn a_piece(found: &Found) -> Option<(usize, usize, (u32, u64))> {
    found.iter().enumerate().find_map(|(log, blocks)| {
        blocks.iter().enumerate().find_map(|(at, (header, _))| {
            let transaction = (header.incarnation, header.transaction);
            let has_commit = blocks.iter().any(|(one, _)| is_commit_of(one, transaction));
            (header.kind == Kind::Piece && has_commit).then_some((log, at, transaction))
        })
    })
}

/// Two transactions that have changed the same rows, the second one after the first.
pub fn two_of_a_row(done: &[Done]) -> Option<(usize, usize)> {
    (0..done.len()).find_map(|at| {
        let rows = |one: &Done| one.turns.keys().copied().collect::<Vec<_>>();
        let by = (0..done.len()).find(|by| {
            rows(&done[at]) == rows(&done[*by])
                && done[at].turns.iter().all(|(row, turn)| done[*by].turns[row] > *turn)
        });
        by.map(|by| (at, by))
    })
}

/// Checks the three strict partial orders, in logs that contain exactly the commits of `done`.
pub fn orders(found: &Found, done: &[Done]) -> Result<(), String> {
    for (log, blocks) in found.iter().enumerate() {
        order_of_log(log, blocks)?;
    }
    order_of_transactions(found, done)?;
    order_of_rows(done)
}

/// GSNs ascend along a log; only a block with watermarks may repeat a GSN.
fn order_of_log(log: usize, blocks: &[Block]) -> Result<(), String> {
    for pair in blocks.windows(2) {
        let (before, next) = (&pair[0].0, &pair[1].0);
        let is_watermark = next.kind == Kind::IdleWatermark;
        if next.gsn < before.gsn || (!is_watermark && next.gsn == before.gsn) {
            return Err(format!("the order of log {log}: {next:?} behind {before:?}"));
        }
        if next.lsn != before.lsn + before.block_bytes() {
            return Err(format!("a gap of log {log} between {before:?} and {next:?}"));
        }
    }
    for (header, payload) in blocks.iter().filter(|(header, _)| header.kind == Kind::IdleWatermark)
    {
        for watermark in IdleWatermark::decode_all(payload).ok_or("no watermarks")? {
            // BLOCK-6
            if watermark.gsn > header.gsn {
                return Err(format!("{watermark:?} is above its own block {header:?}"));
            }
        }
    }
    Ok(())
}

/// A transaction has one GSN, in exactly the logs in which it has changed anything; its pieces come
/// before its commit, and each log contains what it has recorded exactly once.
fn order_of_transactions(found: &Found, done: &[Done]) -> Result<(), String> {
    let mut by_gsn: BTreeMap<u64, &Done> = BTreeMap::new();
    for one in done {
        if by_gsn.insert(one.gsn, one).is_some() && shares_a_log(done, one.gsn) {
            return Err(format!("two transactions of a log have GSN {}", one.gsn));
        }
    }
    for one in done {
        for log in one.payloads.keys() {
            if whole(&found[*log], one.gsn).is_none() {
                return Err(format!(
                    "GSN {} of a transaction is in log {log} no commit's",
                    one.gsn
                ));
            }
        }
    }
    for (log, blocks) in found.iter().enumerate() {
        for (at, (header, _)) in commits(blocks) {
            let mut own = done.iter().filter(|one| one.gsn == header.gsn);
            let Some(one) = own.find(|one| one.payloads.contains_key(&log)) else {
                return Err(format!("a commit of no transaction is in log {log}: {header:?}"));
            };
            if whole(blocks, header.gsn).as_ref() != Some(&one.payloads[&log]) {
                return Err(format!(
                    "transaction {} has not what it recorded in log {log}, at block {at}",
                    one.gsn
                ));
            }
        }
    }
    Ok(())
}

fn shares_a_log(done: &[Done], gsn: u64) -> bool {
    let same: Vec<&Done> = done.iter().filter(|one| one.gsn == gsn).collect();
    let logs: Vec<&usize> = same.iter().flat_map(|one| one.payloads.keys()).collect();
    logs.iter().enumerate().any(|(at, log)| logs[..at].contains(log))
}

/// The payload of a transaction in a log: its pieces and its commit.
fn whole(blocks: &[Block], gsn: u64) -> Option<Vec<u8>> {
    let (place, (header, payload)) = commits(blocks).find(|(_, (header, _))| header.gsn == gsn)?;
    let of = (header.incarnation, header.transaction);
    let is_piece =
        |one: &Header| one.kind == Kind::Piece && (one.incarnation, one.transaction) == of;
    let pieces = blocks[..place].iter();
    let pieces = pieces.filter(|(one, _)| header.transaction != 0 && is_piece(one));
    let mut all: Vec<u8> = pieces.flat_map(|(_, payload)| payload.clone()).collect();
    all.extend_from_slice(payload);
    Some(all)
}

/// A transaction has a greater GSN than each earlier one that changed a row which it has changed or
/// read.
fn order_of_rows(done: &[Done]) -> Result<(), String> {
    let mut rows: BTreeMap<usize, Vec<(u64, u64)>> = BTreeMap::new();
    for one in done {
        if one.gsn <= one.seen {
            return Err(format!("the order of a row: {} has seen {}", one.gsn, one.seen));
        }
        for (row, turn) in &one.turns {
            rows.entry(*row).or_default().push((*turn, one.gsn));
        }
    }
    for (row, changes) in &mut rows {
        changes.sort_unstable();
        if let Some(pair) = changes.windows(2).find(|pair| pair[0].1 >= pair[1].1) {
            return Err(format!("the order of a row: {row} was changed by {pair:?}"));
        }
    }
    Ok(())
}

/// Computes the horizon as a recovery does, from logs that were cut when the incarnation began.
pub fn horizon(
    found: &Found,
    ends: &[u64],
    (incarnation, cuts): (u32, &[u64]),
) -> Result<u64, String> {
    let last = |blocks: &Vec<Block>| blocks.last().map_or(0, |(header, _)| header.gsn);
    let mut gsns: Vec<u64> = found.iter().map(last).collect();
    let mut told = 0;
    for (header, payload) in found.iter().flatten() {
        told = told.max(header.horizon);
        if header.kind != Kind::IdleWatermark {
            continue;
        }
        for watermark in IdleWatermark::decode_all(payload).ok_or("no watermarks")? {
            let log = usize::from(watermark.tablespace);
            let cut = if header.incarnation < incarnation { cuts[log] } else { u64::MAX };
            if ends[log] < watermark.lsn.min(cut) {
                return Err(format!(
                    "log {log} ends at {}, and {watermark:?} was durable",
                    ends[log]
                ));
            }
            gsns[log] = gsns[log].max(watermark.gsn);
        }
    }
    Ok(gsns.into_iter().min().unwrap_or(0).max(told))
}

/// After a crash, no acknowledged GSN is above the horizon, and every commit at or below the
/// horizon is complete in all its logs.
pub fn after_crash(found: &Found, horizon: u64, told: u64, done: &[Done]) -> Result<(), String> {
    if horizon < told {
        return Err(format!("{told} was told of, and the horizon is {horizon}"));
    }
    for one in done.iter().filter(|one| one.gsn <= horizon) {
        for (log, payload) in &one.payloads {
            if whole(&found[*log], one.gsn).as_ref() != Some(payload) {
                let gsn = one.gsn;
                return Err(format!("{gsn} is there in part: not in log {log}, of {horizon}"));
            }
        }
    }
    Ok(())
}
