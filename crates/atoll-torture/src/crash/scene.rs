//! The tables, and the transactions on them.
//!
//! Each tablespace has a table of accounts. Every change of an account increments its version, and
//! the transaction records the change and the version in a journal in a tablespace of its choice.
//! So the judge can tell which changes are there, and whether one is missing before another. Other
//! transactions only record what they have read.

use atoll::{
    Column, DataType, Database, DatabaseOptions, Durability, LogsOptions, Result, Schema,
    SchemeKind, Session, Table, TableOptions, TxnResult, Value,
};

use super::plan::How;
use atoll_bench::keys::Random;

/// Number of tablespaces.
pub const TABLESPACES: usize = 3;
/// Accounts in each table.
pub const ACCOUNTS: i64 = 4;
/// The initial balance of an account.
pub const BALANCE: i64 = 1000;

/// The tables of a scene, by tablespace.
pub struct Tables {
    /// id, balance, version.
    pub accounts: Vec<Table>,
    /// id, (table, account, version, amount) × 2: the changes of a transfer; a negative table means
    /// none.
    pub journals: Vec<Table>,
    /// id, text: present or absent, alternating.
    pub marks: Vec<Table>,
}

/// The options of the database of a run.
pub fn options(scheme: SchemeKind, how: &How) -> DatabaseOptions {
    DatabaseOptions {
        scheme,
        partitions: Some(1),
        tablespaces: Some(TABLESPACES),
        memory_limit_bytes: Some(64 << 20),
        accounting: false,
        checkpoint_steps_max: 3,
        logs: LogsOptions {
            file_bytes: 64 << 10,
            ring_bytes: 2 << 20,
            planted: how.planted,
            ..LogsOptions::default()
        },
        durability: if how.lazy { Durability::None } else { Durability::Strict },
        ..DatabaseOptions::default()
    }
}

fn table(db: &Database, name: &str, number: usize, columns: Vec<Column>) -> Result<Table> {
    let options = TableOptions { tablespace: Some(number as u32), ..TableOptions::default() };
    db.create_table_with(&format!("{name}_{number}"), Schema::new(columns, &["id"])?, &options)
}

impl Tables {
    /// Creates the tables and the accounts.
    ///
    /// # Errors
    /// Those of the database.
    pub fn create(db: &Database) -> Result<Self> {
        let int = |name: &str| Column::new(name, DataType::Int64);
        let each = |make: &dyn Fn(usize) -> Result<Table>| {
            (0..TABLESPACES).map(make).collect::<Result<Vec<_>>>()
        };
        let journal = ["id", "table_a", "a", "version_a", "amount_a", "table_b", "b", "version_b"];
        let tables = Self {
            accounts: each(&|number| {
                let columns = ["id", "balance", "version"].map(int).to_vec();
                table(db, "accounts", number, columns)
            })?,
            journals: each(&|number| table(db, "journal", number, journal.map(int).to_vec()))?,
            marks: each(&|number| {
                let columns = vec![int("id"), Column::new("text", DataType::Text)];
                table(db, "marks", number, columns)
            })?,
        };
        db.transaction(|tx| {
            for accounts in &tables.accounts {
                for id in 0..ACCOUNTS {
                    tx.insert(accounts, &[id, BALANCE, 0].map(Value::Int64))?;
                }
            }
            Ok(())
        })?;
        Ok(tables)
    }

    /// Finds the tables of a database that was opened again.
    ///
    /// # Errors
    /// [`atoll::Error::Storage`] when one is missing.
    pub fn find(db: &Database) -> Result<Self> {
        let each = |name: &str| {
            let table = |number| db.table(&format!("{name}_{number}"));
            (0..TABLESPACES).map(table).collect::<Result<Vec<_>>>()
        };
        Ok(Self { accounts: each("accounts")?, journals: each("journal")?, marks: each("marks")? })
    }
}

/// Runs one transaction, with the unique number `id`. With `apart` most changes are in one
/// tablespace and reads are recorded in the others, so that the logs drift apart: a transaction
/// that only reads is recorded in a log with small GSNs and depends on a great one.
///
/// # Errors
/// Those of the database; it is unknown then whether the transaction committed.
pub fn act(
    session: &mut Session,
    tables: &Tables,
    id: i64,
    apart: bool,
    random: &mut Random,
) -> Result<()> {
    let kind = random.below(100);
    let mut tablespace = || match apart && random.below(10) > 0 {
        true => 0,
        false => random.below(TABLESPACES as u64) as usize,
    };
    let tablespaces = [tablespace(), tablespace(), tablespace()];
    let journal = match kind {
        55..80 if apart => 1 + random.below(TABLESPACES as u64 - 1) as usize,
        _ => tablespaces[2],
    };
    let mut account = || random.below(ACCOUNTS as u64) as i64;
    let (a, b) = ((tablespaces[0], account()), (tablespaces[1], account()));
    let amount = random.below(50) as i64 + 1;
    let long = random.below(200) as usize;
    session.transaction(|tx| {
        let mut entry = [id, -1, 0, 0, 0, -1, 0, 0];
        match kind {
            // A transfer.
            0..55 => {
                let version = change(tx, tables, a, -amount)?;
                entry[1..5].copy_from_slice(&[a.0 as i64, a.1, version, -amount]);
                let version = change(tx, tables, b, amount)?;
                entry[5..8].copy_from_slice(&[b.0 as i64, b.1, version]);
            }
            // Only a read, recorded with the amount 0.
            55..80 => {
                let key = [Value::Int64(a.1)];
                let row = tx.read(&tables.accounts[a.0], &key)?;
                let version = row.map_or(-1, |row| number(&row[2]));
                entry[1..5].copy_from_slice(&[a.0 as i64, a.1, version, 0]);
            }
            // Inserts or deletes a mark.
            80..95 => {
                let (marks, key) = (&tables.marks[b.0], [Value::Int64(b.1)]);
                let is_there = tx.delete(marks, &key)?;
                if !is_there {
                    let text = format!("mark {id} {}", "x".repeat(long));
                    tx.insert(marks, &[Value::Int64(b.1), Value::Text(text)])?;
                }
                entry[5..8].copy_from_slice(&[b.0 as i64 + 100, b.1, i64::from(!is_there)]);
            }
            // A transaction too large for one block.
            _ => {
                for part in 0..5 {
                    let text = Value::Text("y".repeat(70_000));
                    let key = Value::Int64(1000 + id * 10 + part);
                    tx.insert(&tables.marks[(part % 2) as usize], &[key, text])?;
                }
                entry[1] = -2;
            }
        }
        tx.insert(&tables.journals[journal], &entry.map(Value::Int64))
    })
}

fn change(
    tx: &mut atoll::Transaction,
    tables: &Tables,
    (table, account): (usize, i64),
    amount: i64,
) -> TxnResult<i64> {
    let mut version = 0;
    tx.update_with(&tables.accounts[table], &[Value::Int64(account)], |row| {
        version = row.i64(2) + 1;
        row.set_i64(1, row.i64(1) + amount);
        row.set_i64(2, version);
    })?;
    Ok(version)
}

/// The integer of a value.
///
/// # Panics
/// When the value is not an integer.
pub fn number(value: &Value) -> i64 {
    match value {
        Value::Int64(number) => *number,
        other => panic!("{other:?} is no integer"),
    }
}
