//! Helpers of the tests of limits: a database of a given size, a wide table, waiting.

#![allow(dead_code, clippy::unwrap_used)]

#[path = "../../../atoll-machine/tests/skipped/mod.rs"]
pub mod skipped;

use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use atoll::{
    Column, DataType, Database, DatabaseOptions, Error, MemoryError, Result, Schema, Snapshot,
    Table, Value,
};

pub const PAYLOAD: u32 = 256;

pub fn database(options: DatabaseOptions) -> Database {
    Database::create(options).unwrap()
}

pub fn small(mib: u64) -> DatabaseOptions {
    DatabaseOptions { memory_limit_bytes: Some(mib << 20), ..Default::default() }
}

/// A table with segments of 2 MiB and more.
pub fn wide(db: &Database, rows: i64) -> Table {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("value", DataType::Int64),
        Column::new("payload", DataType::FixedBinary(PAYLOAD)),
    ];
    let table = db.create_table("t", Schema::new(columns, &["id"]).unwrap()).unwrap();
    insert(db, &table, 0..rows).unwrap();
    table
}

pub fn payload(value: i64) -> Value {
    Value::Binary(vec![value as u8; PAYLOAD as usize])
}

pub fn insert(db: &Database, table: &Table, ids: std::ops::Range<i64>) -> Result<()> {
    db.transaction(|tx| {
        ids.clone().try_for_each(|id| tx.insert(table, &[id.into(), 1i64.into(), payload(1)]))
    })
}

/// Sets another value in the rows with these ids, in one transaction.
pub fn update(
    db: &Database,
    table: &Table,
    ids: impl Iterator<Item = i64> + Clone,
    value: i64,
) -> Result<()> {
    db.transaction(|tx| {
        ids.clone().try_for_each(|id| {
            tx.update(table, &[id.into()], &[(1, value.into()), (2, payload(value))]).map(|_| ())
        })
    })
}

/// The number of rows and the sum of their values; checks the payload of each.
pub fn total(snapshot: &Snapshot) -> Result<(i64, i64)> {
    let table = snapshot.table("t")?;
    let (mut rows, mut sum) = (0, 0);
    for at in 0..table.segment_count() {
        let segment = table.segment(at)?;
        let batch = segment.batch(&[1, 2])?;
        for (start, len) in segment.runs() {
            let part = batch.slice(start, len);
            let values = part.column(0).as_primitive::<Int64Type>();
            let payloads = part.column(1).as_fixed_size_binary();
            for row in 0..len {
                let value = values.value(row);
                assert!(payloads.value(row).iter().all(|byte| *byte == value as u8), "torn");
                sum += value;
            }
            rows += len as i64;
        }
    }
    Ok((rows, sum))
}

pub fn is_out_of_memory(error: &Error) -> bool {
    matches!(error, Error::Memory(MemoryError::OutOfMemory { .. }))
}

/// Waits for a condition that must become true; the limit ends a broken test.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "never happened: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a test on a thread, so that a test that hangs fails.
pub fn in_time(body: impl FnOnce() + Send + 'static) {
    let (done, ended) = channel::<()>();
    let thread = std::thread::spawn(move || {
        let _done = done;
        body();
    });
    let hung = ended.recv_timeout(Duration::from_secs(40));
    assert_ne!(hung, Err(std::sync::mpsc::RecvTimeoutError::Timeout), "it hangs");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// A file system mounted on a folder; unmounted on drop.
pub struct Mounted<'f>(&'f Path);

impl<'f> Mounted<'f> {
    /// A small file system in memory.
    pub fn small_disk(at: &'f Path, mib: u64) -> Option<Self> {
        Self::new(at, &["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"])
    }

    /// A read-only view of another folder.
    pub fn read_only(at: &'f Path, of: &Path) -> Option<Self> {
        let mounted = Self::new(at, &["--bind", of.to_str().unwrap()])?;
        mounted.remount("bind,ro");
        Some(mounted)
    }

    /// Mounts a file system on a folder, which is created; `None` where that is not permitted.
    fn new(at: &'f Path, what: &[&str]) -> Option<Self> {
        std::fs::create_dir(at).unwrap();
        if !mount(what, at) {
            skipped::say("mounting is not permitted here");
            return None;
        }
        Some(Self(at))
    }

    /// Mounts it again with other options.
    pub fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        assert!(mount(&["-o", &options], self.0), "{options}");
    }
}

fn mount(arguments: &[&str], at: &Path) -> bool {
    let mounted = Command::new("mount").args(arguments).arg(at).output();
    mounted.is_ok_and(|output| output.status.success())
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}
