//! A process for tests of several processes: it executes commands from its input, line by line, and
//! answers each with one line. The commands determine its role in a chain.
//!
//! `atoll-test-peer RUNTIME_DIR`; the commands are the arms of [`Peer::obey`]. It ends with its
//! input.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use atoll::{
    Attachment, Column, DataType, Database, DatabaseOptions, Schema, Snapshot, SnapshotTable,
    Table, TxnResult, Value,
};

type Answer = Result<String, Box<dyn std::error::Error>>;

struct Peer {
    dir: PathBuf,
    databases: BTreeMap<String, Database>,
    attachments: BTreeMap<String, Attachment>,
    snapshots: BTreeMap<String, Snapshot>,
}

fn main() {
    let dir = PathBuf::from(std::env::args().nth(1).expect("the runtime directory"));
    let mut peer = Peer {
        dir,
        databases: BTreeMap::new(),
        attachments: BTreeMap::new(),
        snapshots: BTreeMap::new(),
    };
    for line in std::io::stdin().lines() {
        let Ok(line) = line else { return };
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = peer.obey(&words).unwrap_or_else(|error| format!("error: {error}"));
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{answer}").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

fn known<'m, T>(map: &'m BTreeMap<String, T>, name: &str) -> Result<&'m T, String> {
    map.get(name).ok_or_else(|| format!("the peer knows no {name}"))
}

impl Peer {
    fn obey(&mut self, words: &[&str]) -> Answer {
        match *words {
            ["create", db] => self.create(db, Vec::new()),
            ["open", db, folder, budget_mib] => {
                let memory_budget_bytes = Some(budget_mib.parse::<u64>()? << 20);
                let options = DatabaseOptions { memory_budget_bytes, ..Default::default() };
                self.databases.insert(db.into(), Database::open(folder.as_ref(), options)?);
                Ok("ok".into())
            }
            ["budget", db] => {
                let budget = known(&self.databases, db)?.budget()?.ok_or("it has none")?;
                Ok(format!("{} {}", budget.resident_bytes, budget.evicted_bytes))
            }
            ["derive", db, ref from @ ..] => {
                let bases = from.iter().map(|name| known(&self.snapshots, name).cloned());
                let bases = bases.collect::<Result<_, _>>()?;
                self.create(db, bases)
            }
            ["fill", db, table, rows, value] => {
                fill(known(&self.databases, db)?, table, rows.parse()?, value.parse()?)
            }
            ["overwrite", db, table, value] => {
                let db = known(&self.databases, db)?;
                overwrite(db, &db.table(table)?, value.parse()?)
            }
            ["churn", db, table] => self.churn(db, table),
            ["publish", db, name] => {
                known(&self.databases, db)?.publish(name, Some(&self.dir))?;
                Ok("ok".into())
            }
            ["attach", name] => {
                let attachment = atoll::attach(name, Some(&self.dir))?;
                self.attachments.insert(name.into(), attachment);
                Ok("ok".into())
            }
            ["take", name, snapshot] => {
                let taken = known(&self.attachments, name)?.snapshot()?;
                self.snapshots.insert(snapshot.into(), taken);
                Ok("ok".into())
            }
            ["sum", snapshot] => checksum(known(&self.snapshots, snapshot)?),
            ["tables", snapshot] => Ok(known(&self.snapshots, snapshot)?.tables().join(" ")),
            ["drop", snapshot] => {
                self.snapshots.remove(snapshot).ok_or("nothing to drop")?;
                Ok("ok".into())
            }
            ["leases", name] => self.leases(name),
            ["own", db] => {
                let counters = known(&self.databases, db)?.counters();
                Ok(format!("{} {}", counters.snapshots, counters.memory_kept_bytes))
            }
            ["allocated", db] => {
                Ok(known(&self.databases, db)?.counters().memory_allocated_bytes.to_string())
            }
            ref other => Err(format!("no command {other:?}").into()),
        }
    }

    fn create(&mut self, db: &str, bases: Vec<Snapshot>) -> Answer {
        let options = DatabaseOptions { memory_limit_bytes: Some(256 << 20), ..Default::default() };
        self.databases.insert(db.into(), Database::derive(bases, options)?);
        Ok("ok".into())
    }

    /// Overwrites a table again and again from now on.
    fn churn(&self, db: &str, table: &str) -> Answer {
        let db = known(&self.databases, db)?.clone();
        let table = db.table(table)?;
        std::thread::spawn(move || {
            for value in 1_000.. {
                if let Err(error) = overwrite(&db, &table, value) {
                    eprintln!("churn: {error}");
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        Ok("ok".into())
    }

    /// The leases and the bytes that they keep, as the owner reports them.
    fn leases(&self, name: &str) -> Answer {
        let held = known(&self.attachments, name)?.snapshots()?;
        let kept: u64 = held.iter().map(|info| info.bytes_kept).sum();
        Ok(format!("{} {kept}", held.len()))
    }
}

/// Some notes are NULL, some inline, some in the heap.
fn note(id: i64, value: i64) -> Value {
    match id % 3 {
        0 => Value::Null,
        1 => format!("{value}").into(),
        _ => format!("note {value} of the row with number {id}").into(),
    }
}

fn fill(db: &Database, name: &str, rows: i64, value: i64) -> Answer {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("value", DataType::Int64),
        Column::nullable("note", DataType::Text),
    ];
    let table = db.create_table(name, Schema::new(columns, &["id"])?)?;
    db.transaction(|tx| {
        (0..rows).try_for_each(|id| tx.insert(&table, &[id.into(), value.into(), note(id, value)]))
    })?;
    Ok("ok".into())
}

/// Sets another value in every row, in one transaction.
fn overwrite(db: &Database, table: &Table, value: i64) -> Answer {
    let rows = table.row_count() as i64;
    db.transaction(|tx| -> TxnResult<()> {
        for id in 0..rows {
            tx.update(table, &[id.into()], &[(1, value.into()), (2, note(id, value))])?;
        }
        Ok(())
    })?;
    Ok("ok".into())
}

/// A checksum over all that a snapshot shows. It is an error if values and notes within a table do
/// not belong together.
fn checksum(snapshot: &Snapshot) -> Answer {
    let mut sum = 0u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    let mut names = snapshot.tables();
    names.sort();
    for name in names {
        add(name.as_bytes());
        rows(&snapshot.table(&name)?, &mut add)?;
    }
    Ok(format!("{sum:016x}"))
}

fn rows(
    table: &SnapshotTable,
    add: &mut impl FnMut(&[u8]),
) -> Result<(), Box<dyn std::error::Error>> {
    let mut all_have = None;
    for at in 0..table.segment_count() {
        let segment = table.segment(at)?;
        let batch = segment.batch(&[0, 1, 2])?;
        for (start, len) in segment.runs() {
            let part = batch.slice(start, len);
            let ids = part.column(0).as_primitive::<Int64Type>();
            let values = part.column(1).as_primitive::<Int64Type>();
            let notes = part.column(2).as_string_view();
            for row in 0..len {
                let (id, value) = (ids.value(row), values.value(row));
                let shown = notes.is_valid(row).then(|| notes.value(row).to_owned());
                if note(id, value) != Value::from(shown) || *all_have.get_or_insert(value) != value
                {
                    return Err(format!("row {id} of {} is torn", table.name()).into());
                }
                add(&id.to_le_bytes());
                add(&value.to_le_bytes());
            }
        }
    }
    Ok(())
}
