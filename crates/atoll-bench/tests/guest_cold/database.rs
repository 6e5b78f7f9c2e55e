//! A database of several times its budget.

use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use atoll::machine::page_bytes;
use atoll::{Column, DataType, Database, DatabaseOptions, Schema, Snapshot, Table, Value};
use atoll_bench::keys::Random;

use crate::{COLD, DRAM, Outcome, ensure, eventually, mapped_on, pages_on, pass, shared_bytes};

const BUDGET_BYTES: u64 = 32 << 20;
const PAYLOAD: usize = 2048;
/// Four times the budget.
const ROWS: usize = 64 << 10;
const THREADS: usize = 2;
const TRANSACTIONS: usize = 1500;
/// Rows of a segment, and the rows that are used over and over: few enough that each is used
/// several times a second under the emulator.
const SEGMENT: usize = 8192;
const HOT: usize = SEGMENT / 16;
/// Tolerance for shared memory of other users, and for pages that move during the measurement.
const OTHER_BYTES: u64 = 2 << 20;

/// A database, and the expected contents of its rows.
struct Scene {
    db: Database,
    table: Table,
    model: Vec<i64>,
    /// Shared memory of other users on the DRAM nodes.
    before_bytes: u64,
}

pub(crate) fn check() -> Outcome {
    let mut scene = Scene::fill()?;
    scene.keeps_to_its_budget()?;
    pass("a database four times its budget keeps to it, the rest is on the cold node");
    scene.works_beside_snapshots()?;
    pass("rows and snapshots are right under concurrent transactions");
    let snapshot = scene.db.snapshot()?;
    let hot = Hot::choose(&snapshot)?;
    scene.hot_comes_back(&hot)?;
    pass("rows used over and over come back to DRAM");
    scene.hot_stays(&hot)?;
    pass("they stay there while others leave");
    scene.shows(&snapshot, &scene.model)
}

fn in_dram() -> Result<u64, Box<dyn std::error::Error>> {
    DRAM.into_iter().map(shared_bytes).sum()
}

fn payload(id: usize, value: i64) -> Value {
    Value::Binary(vec![(id as i64 * 31 + value) as u8; PAYLOAD])
}

impl Scene {
    fn fill() -> Result<Self, Box<dyn std::error::Error>> {
        let before_bytes = in_dram()?;
        let options = DatabaseOptions {
            memory_budget_bytes: Some(BUDGET_BYTES),
            cold_node: Some(COLD),
            ..DatabaseOptions::default()
        };
        let db = Database::create(options)?;
        let tablespaces = db.tablespaces();
        ensure(tablespaces == DRAM.len(), || format!("{tablespaces} tablespaces"))?;
        let columns = vec![
            Column::new("id", DataType::Int64),
            Column::new("value", DataType::Int64),
            Column::new("payload", DataType::FixedBinary(PAYLOAD as u32)),
        ];
        let table = db.create_table("t", Schema::new(columns, &["id"])?)?;
        for start in (0..ROWS).step_by(512) {
            db.transaction(|tx| {
                (start..start + 512).try_for_each(|id| {
                    tx.insert(&table, &[(id as i64).into(), 0i64.into(), payload(id, 0)])
                })
            })?;
        }
        Ok(Self { db, table, model: vec![0; ROWS], before_bytes })
    }

    /// Checks the budget by the database's account and by the kernel's.
    fn keeps_to_its_budget(&self) -> Outcome {
        let told = || Ok::<_, Box<dyn std::error::Error>>(self.db.budget()?.ok_or("none")?);
        let says = || format!("{:?}, DRAM has {:?}", told(), in_dram());
        let most = self.before_bytes + BUDGET_BYTES + OTHER_BYTES;
        let fits = || Ok(told()?.resident_bytes <= BUDGET_BYTES && in_dram()? <= most);
        eventually(fits, says)?;
        let rest = self.db.counters().memory_committed_bytes - BUDGET_BYTES - OTHER_BYTES;
        ensure(rest > 3 * BUDGET_BYTES && shared_bytes(COLD)? >= rest, || {
            format!("{rest} bytes should be on the cold node, it has {:?}", shared_bytes(COLD))
        })
    }

    /// Threads change rows, each its own, and read them back; older snapshots are read completely
    /// meanwhile.
    fn works_beside_snapshots(&mut self) -> Outcome {
        let (old, shown) = (self.db.snapshot()?, self.model.clone());
        let (db, table) = (&self.db, &self.table);
        let changed: Vec<Vec<(usize, i64)>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let mut mine: std::collections::BTreeMap<usize, i64> = Default::default();
                    scope.spawn(move || -> atoll::Result<_> {
                        let mut random = Random::new(thread as u64 + 1);
                        let mut session = db.session()?;
                        let pick = |random: &mut Random| {
                            random.below((ROWS / THREADS) as u64) as usize * THREADS + thread
                        };
                        for _ in 0..TRANSACTIONS {
                            let (read, written) = (pick(&mut random), pick(&mut random));
                            let value = mine.get(&written).map_or(1, |value| value + 1);
                            let row = session.transaction(|tx| {
                                let changes = [(1, value.into()), (2, payload(written, value))];
                                assert!(tx.update(table, &[(written as i64).into()], &changes)?);
                                tx.read(table, &[(read as i64).into()])
                            })?;
                            mine.insert(written, value);
                            let value = mine.get(&read).copied().unwrap_or(0);
                            let expected =
                                [(read as i64).into(), value.into(), payload(read, value)];
                            assert_eq!(row.as_deref(), Some(&expected[..]), "row {read}");
                        }
                        Ok(mine.into_iter().collect())
                    })
                })
                .collect();
            self.shows(&old, &shown).map_err(|error| error.to_string())?;
            let done = threads.into_iter().map(|thread| thread.join().expect("no panic"));
            done.collect::<atoll::Result<_>>().map_err(|error| error.to_string())
        })?;
        changed.into_iter().flatten().for_each(|(id, value)| self.model[id] = value);
        self.shows(&self.db.snapshot()?, &self.model)?;
        self.shows(&old, &shown)?;
        self.keeps_to_its_budget()
    }

    fn shows(&self, snapshot: &Snapshot, model: &[i64]) -> Outcome {
        let table = snapshot.table("t")?;
        let mut rows = 0;
        for at in 0..table.segment_count() {
            let segment = table.segment(at)?;
            let batch = segment.batch(&[0, 1, 2])?;
            for (start, len) in segment.runs() {
                let part = batch.slice(start, len);
                let ids = part.column(0).as_primitive::<Int64Type>();
                let values = part.column(1).as_primitive::<Int64Type>();
                let payloads = part.column(2).as_fixed_size_binary();
                for row in 0..len {
                    let (id, value) = (ids.value(row), values.value(row));
                    let byte = (id * 31 + value) as u8;
                    let is_right = value == model[id as usize]
                        && payloads.value(row).iter().all(|b| *b == byte);
                    ensure(is_right, || format!("row {id} has value {value}"))?;
                }
                rows += len;
            }
        }
        ensure(rows == model.len(), || format!("{rows} rows"))
    }

    fn read(&self, ids: std::ops::Range<usize>) -> Outcome {
        let mut session = self.db.session()?;
        for id in ids {
            let row = session.transaction(|tx| tx.read(&self.table, &[(id as i64).into()]))?;
            let row = row.ok_or("a row is gone")?;
            ensure(row[1] == self.model[id].into(), || format!("row {id} is {:?}", row[1]))?;
        }
        Ok(())
    }

    fn hot_comes_back(&self, hot: &Hot) -> Outcome {
        eventually(
            || {
                self.read(hot.rows.clone())?;
                Ok(hot.in_dram()? >= hot.pages.len() * 19 / 20)
            },
            || format!("{:?} of {} pages; {:?}", hot.in_dram(), hot.pages.len(), self.db.budget()),
        )?;
        self.keeps_to_its_budget()
    }

    /// Used rows stay in DRAM while others change, and copies for the snapshot are evicted again.
    fn hot_stays(&mut self, hot: &Hot) -> Outcome {
        let evicted = |db: &Database| Ok::<_, atoll::Error>(db.budget()?.map(|b| b.evicted_bytes));
        let rows = &hot.rows;
        let (before, stop) = (evicted(&self.db)?, AtomicBool::new(false));
        let others = (0..ROWS).step_by(16).filter(|id| id / SEGMENT != rows.start / SEGMENT);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    self.read(rows.clone()).map_err(|error| error.to_string())?;
                }
                Ok::<_, String>(())
            });
            let changed = { others }.try_for_each(|id| {
                let key = [(id as i64).into()];
                let changes = [(2, payload(id, self.model[id]))];
                self.db.transaction(|tx| tx.update(&self.table, &key, &changes)).map(drop)
            });
            stop.store(true, Ordering::Relaxed);
            reader.join().expect("no panic")?;
            changed.map_err(|error| error.to_string())
        })?;
        let left = evicted(&self.db)?.zip(before).map(|(now, before)| now - before);
        ensure(left > Some(BUDGET_BYTES / 2), || format!("only {left:?} bytes have left"))?;
        let (stayed, all) = (hot.in_dram()?, hot.pages.len());
        ensure(stayed >= all * 3 / 4, || format!("{stayed} of {all} pages stayed"))?;
        self.keeps_to_its_budget()
    }
}

/// Rows that were cold, and the pages of their payloads.
struct Hot {
    rows: std::ops::Range<usize>,
    pages: Vec<*const u8>,
}

impl Hot {
    fn choose(snapshot: &Snapshot) -> Result<Self, Box<dyn std::error::Error>> {
        for start in (0..ROWS).step_by(SEGMENT) {
            let rows = start..start + HOT;
            let pages = pages_of(snapshot, rows.clone())?;
            if pages_on(COLD, &pages) > pages.len() / 2 {
                return Ok(Self { rows, pages });
            }
        }
        Err("no rows are cold".into())
    }

    fn in_dram(&self) -> Result<usize, Box<dyn std::error::Error>> {
        Ok(mapped_on(DRAM[0], &self.pages)? + mapped_on(DRAM[1], &self.pages)?)
    }
}

/// The pages of the payloads of rows.
fn pages_of(
    snapshot: &Snapshot,
    ids: std::ops::Range<usize>,
) -> Result<Vec<*const u8>, Box<dyn std::error::Error>> {
    let table = snapshot.table("t")?;
    let mut pages = std::collections::BTreeSet::new();
    for at in 0..table.segment_count() {
        let segment = table.segment(at)?;
        let batch = segment.batch(&[0, 2])?;
        for (start, len) in segment.runs() {
            let part = batch.slice(start, len);
            let keys = part.column(0).as_primitive::<Int64Type>();
            let payloads = part.column(1).as_fixed_size_binary();
            let rows = (0..len).filter(|row| ids.contains(&(keys.value(*row) as usize)));
            pages.extend(rows.map(|row| {
                let payload = payloads.value(row).as_ptr();
                payload.wrapping_sub(payload.addr() % page_bytes())
            }));
        }
    }
    Ok(pages.into_iter().collect())
}
