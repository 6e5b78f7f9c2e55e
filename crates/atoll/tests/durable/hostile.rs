//! Blocks of logs with correct checksums that no database has written: there is an error, and
//! nothing else happens.

use atoll::machine::medium::Open;
use atoll::machine::{CrashMedium, Medium};
use atoll::{Database, DatabaseOptions, Error, LogError, LogsOptions, SchemeKind, TableOptions};
use atoll_log::block::{HEADER_BYTES, Header, Kind};
use atoll_storage::redo;
use atoll_storage::{RowId, TableSerial};
use atoll_txn::describe;

use super::scene::{self, LOGS, create, schema};

const FILE: &str = "node-0/log-000000000000";

fn options() -> DatabaseOptions {
    let logs = LogsOptions { file_bytes: 16 << 20, ..LOGS };
    DatabaseOptions { logs, ..scene::options(SchemeKind::default()) }
}

/// A database with a table in each tablespace, after a power failure.
fn database() -> CrashMedium {
    let medium = CrashMedium::default();
    let db = Database::open_on(&medium, options()).unwrap();
    create(&db, "table_0");
    create(&db, "table_1");
    let crashed = medium.crash(medium.events(), || false);
    drop(db);
    crashed
}

/// Appends blocks to the first log.
fn append(medium: &CrashMedium, blocks: impl IntoIterator<Item = (Kind, Vec<u8>)>) {
    let file = medium.open(FILE, Open::Write).unwrap();
    let mut bytes = vec![0; file.size().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    let (mut at, mut last) = (0, None);
    while let Some(header) = bytes[at..].first_chunk().and_then(Header::decode) {
        at += header.block_bytes() as usize;
        last = Some(header);
    }
    let mut last: Header = last.unwrap();
    for (kind, payload) in blocks {
        let (lsn, gsn, payload_bytes) = (at as u64, last.gsn + 1, payload.len() as u32);
        last = Header { kind, lsn, gsn, horizon: gsn, payload_bytes, transaction: 0, ..last };
        file.write_at(lsn, &last.encode(&payload)).unwrap();
        file.write_at(lsn + HEADER_BYTES as u64, &payload).unwrap();
        at += last.block_bytes() as usize;
    }
}

fn delete(table: u64) -> Vec<u8> {
    let mut out = Vec::new();
    redo::delete(&mut out, TableSerial(table), RowId(0));
    out
}

fn is_told(medium: &CrashMedium, expected: &str) {
    match Database::open_on(medium, options()) {
        Err(Error::Log(LogError::Damaged { expected: told, .. })) => assert_eq!(told, expected),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was opened"),
    }
}

#[test]
fn changes_of_a_table_that_there_cannot_be_take_no_memory() {
    let medium = database();
    append(&medium, [(Kind::Commit, delete(u64::MAX))]);
    is_told(&medium, "changes of known tables");
}

#[test]
fn changes_of_an_unknown_table_hold_nobody_up() {
    let medium = database();
    // More than the channels to the appliers hold.
    let many = (0..60).map(|_| (Kind::Commit, delete(9).repeat(30_000)));
    append(&medium, many);
    is_told(&medium, "changes of known tables");
}

#[test]
fn a_log_has_changes_of_its_own_tables_only() {
    let medium = database();
    append(&medium, [(Kind::Commit, delete(1))]);
    is_told(&medium, "changes of its own tables");
}

#[test]
fn a_table_belongs_to_a_tablespace_that_there_is() {
    let medium = database();
    let table = TableOptions { tablespace: Some(2), ..TableOptions::default() };
    append(
        &medium,
        [(Kind::Table, describe::encode(TableSerial(2), "table_2", &schema(), &table))],
    );
    is_told(&medium, "a table of a tablespace that there is");
}
