//! TICTOC, one transaction at a time: a transaction commits at the smallest timestamp at which
//! everything that it read was valid, so it may be ordered before one that has overwritten that and
//! committed already; but not if its other operations must be ordered later.
#![allow(clippy::unwrap_used)]

use atoll::{
    Column, DataType, Database, DatabaseOptions, Schema, Session, Table, Transaction, TxnResult,
};

const ONE: i64 = 1;
const TWO: i64 = 2;
const OTHER: i64 = 3;

fn read(tx: &mut Transaction, table: &Table, id: i64) -> TxnResult<i64> {
    Ok(tx.read_with(table, &[id.into()], |row| row.i64(1))?.unwrap())
}

fn write(tx: &mut Transaction, table: &Table, id: i64, value: i64) -> TxnResult<()> {
    assert!(tx.update(table, &[id.into()], &[(1, value.into())])?);
    Ok(())
}

struct Scene {
    db: Database,
    table: Table,
    early: Session,
    writer: Session,
    reader: Session,
}

impl Scene {
    /// Rows of zeroes. All sessions have read the first row, because the first commit of a session
    /// is ordered after everything that was there (`TICTOC-1`).
    fn new(scheme: &str) -> Self {
        let options = DatabaseOptions { scheme: scheme.parse().unwrap(), ..Default::default() };
        let db = Database::create(options).unwrap();
        let columns = ["id", "value"].map(|name| Column::new(name, DataType::Int64));
        let schema = Schema::new(columns.into(), &["id"]).unwrap();
        let table = db.create_table("t", schema).unwrap();
        let fill = |tx: &mut Transaction| {
            (ONE..=OTHER).try_for_each(|id| tx.insert(&table, &[id.into(), 0i64.into()]))
        };
        db.transaction(fill).unwrap();
        let [early, writer, reader] = std::array::from_fn(|_| {
            let mut session = db.session().unwrap();
            assert_eq!(session.transaction(|tx| read(tx, &table, ONE)).unwrap(), 0);
            session
        });
        Self { db, table, early, writer, reader }
    }

    /// Runs a transaction that reads the first row, then another one that overwrites the first and
    /// the second row and commits, and then the rest of the first transaction. Returns what the
    /// rest read in the end, and how often it was rolled back.
    fn overtaken<R>(
        &mut self,
        mut meanwhile: impl FnMut(&Database, &mut Session, &Table),
        mut rest: impl FnMut(&mut Transaction, &Table, i64) -> TxnResult<R>,
    ) -> (R, u64) {
        let Self { db, table, early, writer, reader } = self;
        let before = early.aborts();
        let mut is_first = true;
        let seen = early.transaction(|tx| {
            let one = read(tx, table, ONE)?;
            if std::mem::take(&mut is_first) {
                let both = |tx: &mut Transaction| {
                    write(tx, table, ONE, 1)?;
                    write(tx, table, TWO, 1)
                };
                writer.transaction(both).unwrap();
                meanwhile(db, reader, table);
            }
            rest(tx, table, one)
        });
        (seen.unwrap(), early.aborts() - before)
    }
}

fn nothing(_: &Database, _: &mut Session, _: &Table) {}

#[test]
fn a_reader_commits_before_one_that_has_overwritten_what_it_read() {
    let aborts = ["TICTOC", "SILO", "OCC"].map(|scheme| {
        let mut scene = Scene::new(scheme);
        let rest = |tx: &mut Transaction, table: &Table, one| Ok((one, read(tx, table, OTHER)?));
        let (seen, aborts) = scene.overtaken(nothing, rest);
        assert_eq!(seen, (i64::from(aborts > 0), 0), "{scheme}");
        aborts
    });
    assert_eq!(aborts, [0, 1, 1]);
}

#[test]
fn a_writer_commits_before_one_that_has_overwritten_what_it_read() {
    let aborts = ["TICTOC", "SILO", "OCC"].map(|scheme| {
        let mut scene = Scene::new(scheme);
        let rest = |tx: &mut Transaction, table: &Table, one| write(tx, table, OTHER, 10 + one);
        let ((), aborts) = scene.overtaken(nothing, rest);
        let table = scene.table.clone();
        let both = |tx: &mut Transaction| Ok((read(tx, &table, ONE)?, read(tx, &table, OTHER)?));
        let left = scene.reader.transaction(both).unwrap();
        assert_eq!(left, (1, 10 + i64::from(aborts > 0)), "{scheme}");
        aborts
    });
    assert_eq!(aborts, [0, 1, 1]);
}

#[test]
fn who_reads_what_the_other_wrote_does_not_commit_before_it() {
    let mut scene = Scene::new("TICTOC");
    let rest = |tx: &mut Transaction, table: &Table, one| Ok((one, read(tx, table, TWO)?));
    assert_eq!(scene.overtaken(nothing, rest), ((1, 1), 1));
}

#[test]
fn who_writes_what_was_read_after_the_other_does_not_commit_before_it() {
    let mut scene = Scene::new("TICTOC");
    let read_both = |_: &Database, reader: &mut Session, table: &Table| {
        let both = |tx: &mut Transaction| Ok((read(tx, table, ONE)?, read(tx, table, OTHER)?));
        assert_eq!(reader.transaction(both).unwrap(), (1, 0));
    };
    let rest = |tx: &mut Transaction, table: &Table, one| write(tx, table, OTHER, 10 + one);
    assert_eq!(scene.overtaken(read_both, rest), ((), 1));
    let table = scene.table.clone();
    assert_eq!(scene.reader.transaction(|tx| read(tx, &table, OTHER)).unwrap(), 11);
}

#[test]
fn nobody_commits_before_a_snapshot_that_shows_the_other() {
    let mut scene = Scene::new("TICTOC");
    let cut = |db: &Database, _: &mut Session, _: &Table| drop(db.snapshot().unwrap());
    let rest = |tx: &mut Transaction, table: &Table, one| write(tx, table, OTHER, 10 + one);
    assert_eq!(scene.overtaken(cut, rest), ((), 1));
}
