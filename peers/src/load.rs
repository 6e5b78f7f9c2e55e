//! Loading pairs of numbers in random key order, as `atoll bench load` does, and what a pair takes
//! in memory: the growth of the process, in which each peer has its whole table.
//!
//! Each peer gets the rows in the order in which they come, in transactions of [`TOGETHER`] rows
//! that need not survive the process. None of them has a bulk load for rows in this order.

use std::path::{Path, PathBuf};
use std::time::Instant;

use atoll_bench::keys::Random;
use atoll_bench::machine_facts::resident_bytes;
use heed::byteorder::NativeEndian;
use heed::types::U64;
use heed::{CommitOrAbort, Database, EnvFlags, EnvOpenOptions, IntegerComparator};
use redb::backends::InMemoryBackend;
use redb::{ReadableDatabase, ReadableTableMetadata, TableDefinition};
use rusqlite::Connection;
use serde::Serialize;

use crate::engine::PeerError;
use crate::folder::Folder;

/// Rows of a transaction.
const TOGETHER: usize = 100_000;
const TABLE: TableDefinition<'_, u64, u64> = TableDefinition::new("pairs");

/// A database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// SQLite, `:memory:`, the key is the rowid
    Sqlite,
    /// LMDB, a map of a file in memory
    Lmdb,
    /// redb in memory
    Redb,
}

/// Loads pairs of numbers.
#[derive(Debug, clap::Args, Serialize)]
pub struct LoadArgs {
    /// The database
    #[arg(long)]
    peer: Peer,
    /// Rows, with keys in random order
    #[arg(long, default_value_t = 10_000_000)]
    rows: usize,
    /// Folder for files, if the database needs some: a file system in memory
    #[arg(long, default_value = "/dev/shm")]
    dir: PathBuf,
}

/// The result.
#[derive(Debug, Serialize)]
pub struct Report {
    config: LoadArgs,
    seconds: f64,
    rows_s: f64,
    row_bytes: f64,
}

fn keys(rows: usize) -> Vec<u64> {
    let mut keys: Vec<u64> = (0..rows as u64).collect();
    let mut random = Random::new(1);
    for at in (1..keys.len()).rev() {
        keys.swap(at, random.below(at as u64 + 1) as usize);
    }
    keys
}

/// Runs the load.
///
/// # Errors
/// [`PeerError`].
pub fn run(args: LoadArgs) -> Result<Report, PeerError> {
    let keys = keys(args.rows);
    let (before, began) = (resident_bytes(), Instant::now());
    let [seconds, grown] = match args.peer {
        Peer::Sqlite => sqlite(&keys, before, began)?,
        Peer::Lmdb => lmdb(&keys, &args.dir, before, began)?,
        Peer::Redb => {
            let (count, result) = redb(&keys, before, began)?;
            check(count, &keys)?;
            result
        }
    };
    let rows = args.rows.max(1) as f64;
    Ok(Report { config: args, seconds, rows_s: rows / seconds, row_bytes: grown / rows })
}

/// Seconds and bytes since the load began; the peer still has its table.
fn measured(before: u64, began: Instant) -> [f64; 2] {
    let seconds = began.elapsed().as_secs_f64();
    [seconds, resident_bytes().saturating_sub(before) as f64]
}

/// An error if rows are missing.
fn check(found: u64, keys: &[u64]) -> Result<(), PeerError> {
    let told = || format!("{found} rows of {} are there", keys.len());
    (found == keys.len() as u64).then_some(()).ok_or_else(|| PeerError::Inconsistent(told()))
}

fn sqlite(keys: &[u64], before: u64, began: Instant) -> Result<[f64; 2], PeerError> {
    let mut connection = Connection::open_in_memory()?;
    connection.execute_batch("CREATE TABLE pairs (key INTEGER PRIMARY KEY, value INTEGER)")?;
    for keys in keys.chunks(TOGETHER) {
        let txn = connection.transaction()?;
        {
            let mut insert = txn.prepare_cached("INSERT INTO pairs VALUES (?, ?)")?;
            for key in keys {
                insert.execute([key.cast_signed(), key.cast_signed() * 2])?;
            }
        }
        txn.commit()?;
    }
    let result = measured(before, began);
    let count =
        connection.query_row("SELECT count(*) FROM pairs", [], |row| row.get::<_, i64>(0))?;
    check(count.cast_unsigned(), keys)?;
    Ok(result)
}

fn lmdb(keys: &[u64], dir: &Path, before: u64, began: Instant) -> Result<[f64; 2], PeerError> {
    type Number = U64<NativeEndian>;
    type Pairs = Database<'static, Number, Number, IntegerComparator>;
    let folder = Folder::new(dir)?;
    let mut options = EnvOpenOptions::new();
    options.map_size((1 << 30) + keys.len() / 4096 * 4096 * 128);
    let fast = EnvFlags::WRITE_MAP | EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC;
    // SAFETY: the folder is new and private to this function, so no other process changes or maps
    // the file, and the data need not survive a crash.
    let env = unsafe {
        options.flags(fast);
        options.open(folder.path())?
    };
    let table: Pairs = env
        .create_databases_and_commit(env.write_txn()?, |opener, txn| {
            let options = opener.database_options().types::<Number, Number>();
            let table = options.key_comparator::<IntegerComparator>().create(txn);
            table.map(CommitOrAbort::<_, std::convert::Infallible>::Commit)
        })?
        .unwrap_commit();
    for keys in keys.chunks(TOGETHER) {
        let mut txn = env.write_txn()?;
        for key in keys {
            table.put(&mut txn, key, &(key * 2))?;
        }
        txn.commit()?;
    }
    let result = measured(before, began);
    let txn = env.read_txn()?;
    check(table.len(&txn)?, keys)?;
    drop(txn);
    Ok(result)
}

fn redb(keys: &[u64], before: u64, began: Instant) -> Result<(u64, [f64; 2]), redb::Error> {
    // The cache holds what the backend holds, so a large one would count rows twice.
    let database = redb::Database::builder()
        .set_cache_size(1 << 20)
        .create_with_backend(InMemoryBackend::new())?;
    for keys in keys.chunks(TOGETHER) {
        let txn = database.begin_write()?;
        {
            let mut table = txn.open_table(TABLE)?;
            for key in keys {
                table.insert(key, key * 2)?;
            }
        }
        txn.commit()?;
    }
    let result = measured(before, began);
    Ok((database.begin_read()?.open_table(TABLE)?.len()?, result))
}
