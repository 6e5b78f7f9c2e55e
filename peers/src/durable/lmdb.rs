//! LMDB with its default settings: durable.
//!
//! <http://www.lmdb.tech/doc/group__mdb.html#ga32a193c6bf4d7d5c5d579e71f22e9340> (`mdb_env_open`):
//! without `MDB_NOSYNC` and `MDB_NOMETASYNC`, a commit writes the pages that it has copied, flushes
//! them, and writes its root with a flush of its own. There is one writer at a time, and no commit
//! shares its flushes with another. A table is a database of the environment, its keys native
//! integers (`MDB_INTEGERKEY`), loaded in their order by `APPEND`.

use std::convert::Infallible;
use std::path::Path;

use heed::byteorder::NativeEndian;
use heed::types::{Bytes, U64};
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions, IntegerComparator, PutFlags};

use super::bank::{Key, Shape, Table, Transaction, added, balance};
use super::{Body, Client, Engine, Scan};
use crate::engine::PeerError;

type Tree = Database<'static, U64<NativeEndian>, Bytes, IntegerComparator>;

/// Address space, not memory, in whole pages: for rows of at most 108 bytes, copies of their pages,
/// and a history that grows.
const MAP_BYTES_PER_ROW: u64 = 4096;
const MAP_BYTES_LEAST: u64 = 8 << 30;

/// The environment and its tables, in the order of [`Table::ALL`].
pub struct Lmdb {
    env: Env,
    trees: Vec<Tree>,
}

impl Lmdb {
    /// Opens the database in `folder`, or creates empty tables there.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn open(folder: &Path, shape: Shape) -> Result<Self, PeerError> {
        let mut options = EnvOpenOptions::new();
        options.map_size((MAP_BYTES_LEAST + shape.rows() * MAP_BYTES_PER_ROW) as usize);
        options.max_dbs(Table::ALL.len() as u32);
        // SAFETY: only this process uses the folder, so no other process changes the file.
        let env = unsafe { options.open(folder)? };
        let tree = |table: &Table| -> Result<Tree, PeerError> {
            let made = env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
                let options = opener.database_options().types::<U64<NativeEndian>, Bytes>();
                let mut options = options.key_comparator::<IntegerComparator>();
                let tree = options.name(table.name()).create(txn);
                tree.map(CommitOrAbort::<_, Infallible>::Commit)
            })?;
            Ok(made.unwrap_commit())
        };
        let trees = shape.tables().iter().map(tree).collect::<Result<_, _>>()?;
        Ok(Self { env, trees })
    }

    /// Fills the tables.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn load(&self, shape: Shape) -> Result<(), PeerError> {
        let mut txn = self.env.write_txn()?;
        for (tree, table) in self.trees.iter().zip(shape.tables()) {
            let row = shape.loaded_row(*table);
            for key in shape.keys(*table) {
                tree.put_with_flags(&mut txn, PutFlags::APPEND, &key.0, &row)?;
            }
        }
        Ok(txn.commit()?)
    }
}

impl Engine for Lmdb {
    fn version(&self) -> String {
        let version = heed::lmdb_version();
        format!("LMDB {}.{}.{}", version.major, version.minor, version.patch)
    }

    fn isolation(&self) -> &'static str {
        "serializable: one writer at a time"
    }

    fn with_client(&self, body: Body<'_>) -> Result<(), PeerError> {
        body(&mut LmdbClient { lmdb: self })
    }

    fn scan(&self, table: Table, each: Scan<'_>) -> Result<(), PeerError> {
        let txn = self.env.read_txn()?;
        for row in self.trees[table as usize].iter(&txn)? {
            let (key, row) = row?;
            each(Key(key), balance(row)?);
        }
        Ok(())
    }
}

struct LmdbClient<'e> {
    lmdb: &'e Lmdb,
}

impl Client for LmdbClient<'_> {
    fn commit(&mut self, transaction: &Transaction) -> Result<u64, PeerError> {
        let Lmdb { env, trees } = self.lmdb;
        let Transaction { delta, adds, entry } = transaction;
        let mut txn = env.write_txn()?;
        for add in adds {
            let (tree, key) = (&trees[add.table as usize], add.key.0);
            let row = tree.get(&txn, &key)?.ok_or(PeerError::RowMissing { key })?;
            let row = added(row, *delta)?;
            tree.put(&mut txn, &key, &row)?;
        }
        if let Some(entry) = entry {
            trees[Table::History as usize].put(&mut txn, &entry.key.0, &entry.row(*delta))?;
        }
        txn.commit()?;
        Ok(0)
    }
}
