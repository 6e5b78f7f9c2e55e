//! Loads the tables of a checkpoint, and builds the indexes after redo.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use atoll_log::LogError;
use atoll_log::checkpoint_store::{
    BLOCK_BYTES, CheckpointStore, Holding, Part, PartName, SegmentMap,
};
use atoll_memory::Member;
use atoll_storage::segment::{ColumnImage, SegmentImage};
use atoll_storage::{Change, TableSerial};
use atoll_txn::describe;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::progress::OpenPart;

pub(super) fn member(engine: &Engine) -> Result<Member> {
    let most = atoll_memory::gate::MEMBERS_MAX;
    engine.memory().join().ok_or(Error::TooManyTransactions(most))
}

/// Creates the tables of a checkpoint and loads their rows, with `threads` threads. The table that
/// was created after them had at least the serial number `next_serial`.
pub(super) fn load(
    engine: &Engine,
    stores: &[CheckpointStore],
    (holdings, next_serial): (&[Holding], u64),
    threads: usize,
    progress: &OpenPart,
) -> Result<()> {
    let mut tables: Vec<_> = holdings
        .iter()
        .enumerate()
        .flat_map(|(tablespace, holding)| {
            holding.map.tables.iter().map(move |table| (tablespace, table))
        })
        .collect();
    tables.sort_by_key(|(_, table)| table.serial);
    let mut adding = member(engine)?;
    let mut segments = Vec::new();
    for (tablespace, map) in tables {
        let damaged = || {
            let expected = "a table that no other tablespace has".to_owned();
            let found = format!("table {}", map.serial);
            let file = format!("map of tablespace {tablespace}");
            LogError::Damaged { file, offset: 0, expected, found }
        };
        let described = describe::decode(&map.description).ok_or_else(damaged)?;
        let is_own = described.options.tablespace == Some(tablespace as u32);
        let is_new = described.serial >= engine.next_serial();
        if described.serial.0 != map.serial || !is_new || !is_own {
            return Err(damaged().into());
        }
        let table = engine.restore_table(described).map_err(Error::of_op)?;
        let section = adding.enter();
        table.add_segments(Change::forward(section.inside()), map.segments.len() as u64)?;
        drop(section);
        let from = (&stores[tablespace], &holdings[tablespace]);
        let numbered = map.segments.iter().enumerate();
        segments.extend(numbered.map(|(at, map)| (from, Arc::clone(&table), at as u64, map)));
    }
    engine.raise_serial(TableSerial(next_serial))?; // SERIAL-1
    let bytes = |map: &SegmentMap| {
        map.parts().map(|part| (part.blocks.len() * BLOCK_BYTES) as u64).sum::<u64>()
    };
    progress.begin(segments.iter().map(|(.., map)| bytes(map)).sum());
    let next = AtomicU64::new(0);
    each(threads, || {
        let mut member = member(engine)?;
        // Buffers are reused: for a new one of this size, the system would map memory page by page.
        let rooms = RefCell::new(Vec::new());
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed) as usize;
            let Some(((store, holding), table, number, map)) = segments.get(at) else {
                return Ok(());
            };
            let lines = holding.lines.get(&(table.serial().0, *number as u32));
            let read = |name: PartName, part: &Part| -> Result<Vec<u8>> {
                let mut bytes: Vec<u8> = rooms.borrow_mut().pop().unwrap_or_default();
                store.read(part, lines.and_then(|lines| lines.get(&name)), &mut bytes)?;
                Ok(bytes)
            };
            let presence = read(PartName::Presence, &map.presence)?;
            let mut columns = Vec::with_capacity(map.columns.len());
            for (at, column) in map.columns.iter().enumerate() {
                let at = at as u32;
                let heap = column.heap.iter().enumerate();
                let heap = heap.map(|(block, part)| read(PartName::Heap(at, block as u32), part));
                let heap = heap.collect::<Result<Vec<_>>>()?;
                let validity = column.validity.as_ref();
                let validity =
                    validity.map(|part| read(PartName::Validity(at), part)).transpose()?;
                let values = read(PartName::Values(at), &column.values)?;
                columns.push((values, validity, heap, column.zone));
            }
            let image = SegmentImage {
                filled: map.filled as usize,
                presence: &presence,
                columns: columns
                    .iter()
                    .map(|(values, validity, heap, zone)| ColumnImage {
                        values,
                        validity: validity.as_deref(),
                        heap: heap.iter().map(Vec::as_slice).collect(),
                        zone: *zone,
                    })
                    .collect(),
            };
            let section = member.enter();
            table.restore_segment(Change::forward(section.inside()), *number, &image)?;
            drop(section);
            progress.add(bytes(map));
            let mut rooms = rooms.borrow_mut();
            rooms.push(presence);
            for (values, validity, heap, _) in columns {
                rooms.push(values);
                rooms.extend(validity.into_iter().chain(heap));
            }
        }
    })
}

/// Runs `body` on `threads` threads; returns the first error.
fn each(threads: usize, body: impl Fn() -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.max(1)).map(|_| scope.spawn(&body)).collect();
        let own = body();
        let others = others.into_iter().map(|thread| thread.join().expect("no panic in a thread"));
        others.fold(own, |first, next| first.and(next))
    })
}

/// Builds the indexes of all tables; returns the number of rows.
pub(super) fn index(engine: &Engine, threads: usize, progress: &OpenPart) -> Result<u64> {
    let tables = engine.all_tables();
    for table in &tables {
        let mut member = member(engine)?;
        let mut from = Some(0);
        while let Some(segment) = from {
            let section = member.enter();
            from = table.widen(Change::forward(section.inside()), segment)?;
        }
        let schema = table.schema();
        if !table.fits(schema) || schema.columns().len() > table.stored_columns() {
            let found = "the log lacks a column of it".to_owned();
            let expected = "rows of its schema".to_owned();
            let file = format!("table {} in the log", table.serial().0);
            return Err(LogError::Damaged { file, offset: 0, expected, found }.into());
        }
        let section = member.enter();
        table.end_restore();
        drop(section);
    }
    progress.begin(tables.iter().map(|table| table.segment_count()).sum());
    for table in &tables {
        let done = |segments| progress.add(segments);
        engine.index_restored(table.id(), threads, &done).map_err(|key| {
            let found = format!("a second row with the key ({key})");
            let expected = "one row for each key".to_owned();
            let file = format!("table {} in the log or the checkpoint store", table.serial().0);
            LogError::Damaged { file, offset: 0, expected, found }
        })?;
    }
    Ok(tables.iter().map(|table| table.row_count()).sum())
}
