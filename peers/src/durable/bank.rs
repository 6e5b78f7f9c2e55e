//! Rows, keys and transactions of the durable workloads, the same for every peer.
//!
//! The shapes are those of `atoll bench commit` and `atoll bench tpcb`. For a peer without columns,
//! a row is its balance (8 bytes, little endian; in the history its change), followed by bytes that
//! are never read. Every key fits into a word; rows are loaded in the order of these words.

use atoll_bench::durable::accounts::FILLER_BYTES;

use crate::engine::PeerError;

/// Tellers of a branch.
const TELLERS: u32 = 10;
/// The filler byte of a row.
pub const FILLER: u8 = b' ';
/// Filler bytes of a row of the history.
pub const HISTORY_FILLER_BYTES: usize = 16;
/// Bytes of a balance.
const BALANCE_BYTES: usize = 8;

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// The only table of the commits, and the largest of TPC-B.
    Accounts,
    /// Ten tellers for each branch.
    Tellers,
    /// The table on which transactions conflict.
    Branches,
    /// A row for each transaction.
    History,
}

impl Table {
    /// All tables, each at the position of its number.
    pub const ALL: [Self; 4] = [Self::Accounts, Self::Tellers, Self::Branches, Self::History];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accounts => "accounts",
            Self::Tellers => "tellers",
            Self::Branches => "branches",
            Self::History => "history",
        }
    }
}

/// A key: branch, worker (in the history; otherwise 0), number. The number of a branch's row is the
/// branch itself, and rows of the commits are of branch 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub u64);

impl Key {
    /// The key of these parts.
    pub fn new(branch: u16, worker: u16, number: u32) -> Self {
        Self(u64::from(branch) << 48 | u64::from(worker) << 32 | u64::from(number))
    }

    /// The branch that the row belongs to.
    pub fn branch(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// The client that added the row.
    pub fn worker(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// The number within these.
    pub fn number(self) -> u32 {
        self.0 as u32
    }
}

/// A balance that a transaction changes.
#[derive(Debug, Clone, Copy)]
pub struct Add {
    /// The table.
    pub table: Table,
    /// The row.
    pub key: Key,
}

/// A row that a transaction adds to the history.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Branch, client, and the client's count.
    pub key: Key,
    /// The teller, of the branch of the key.
    pub teller: u32,
    /// The account's branch.
    pub account_branch: u16,
    /// The account.
    pub account: u32,
    /// Microseconds since 1970.
    pub time_us: i64,
}

/// A transaction: the same change of one or three balances, and a row for the history.
#[derive(Debug, Clone)]
pub struct Transaction {
    /// The change of each balance.
    pub delta: i64,
    /// The balances; those with more contention come later.
    pub adds: Vec<Add>,
    /// The row of the history, in TPC-B.
    pub entry: Option<Entry>,
}

/// The tables, and the number of their rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One table.
    Commit {
        /// Its rows.
        rows: u32,
    },
    /// The bank of TPC-B.
    Tpcb {
        /// Branches.
        branches: u16,
        /// Accounts of each.
        accounts: u32,
    },
}

impl Shape {
    /// The tables, in the order of [`Table::ALL`].
    pub fn tables(self) -> &'static [Table] {
        match self {
            Self::Commit { .. } => &Table::ALL[..1],
            Self::Tpcb { .. } => &Table::ALL,
        }
    }

    /// Rows after loading.
    pub fn rows(self) -> u64 {
        match self {
            Self::Commit { rows } => rows.into(),
            Self::Tpcb { branches, accounts } => {
                u64::from(branches) * (1 + u64::from(TELLERS) + u64::from(accounts))
            }
        }
    }

    /// Number of tellers of a branch.
    pub fn tellers(self) -> u32 {
        TELLERS
    }

    /// The keys of a table after loading, in their order.
    pub fn keys(self, table: Table) -> Box<dyn Iterator<Item = Key>> {
        let (branches, accounts) = match self {
            Self::Commit { rows } => return Box::new((0..rows).map(|row| Key::new(0, 0, row))),
            Self::Tpcb { branches, accounts } => (branches, accounts),
        };
        let each = move |count| {
            let of_branch = move |branch| (1..=count).map(move |n| Key::new(branch, 0, n));
            (1..=branches).flat_map(of_branch)
        };
        match table {
            Table::Accounts => Box::new(each(accounts)),
            Table::Tellers => Box::new(each(TELLERS)),
            Table::Branches => Box::new((1..=branches).map(|b| Key::new(b, 0, b.into()))),
            Table::History => Box::new(std::iter::empty()),
        }
    }

    /// Filler bytes of a loaded row.
    pub fn filler_bytes(self, table: Table) -> usize {
        match (self, table) {
            (Self::Commit { .. }, _) => FILLER_BYTES as usize,
            (_, Table::Branches) => 90,
            (_, Table::Accounts | Table::Tellers) => 86,
            (_, Table::History) => HISTORY_FILLER_BYTES,
        }
    }

    /// A loaded row as bytes; its balance is 0.
    pub fn loaded_row(self, table: Table) -> Vec<u8> {
        let mut row = vec![0; BALANCE_BYTES];
        row.resize(BALANCE_BYTES + self.filler_bytes(table), FILLER);
        row
    }
}

impl Entry {
    /// The row as bytes, for a change of `delta`.
    pub fn row(&self, delta: i64) -> Vec<u8> {
        let mut row = delta.to_le_bytes().to_vec();
        row.extend(self.teller.to_le_bytes());
        row.extend(self.account_branch.to_le_bytes());
        row.extend(self.account.to_le_bytes());
        row.extend(self.time_us.to_le_bytes());
        row.resize(row.len() + HISTORY_FILLER_BYTES, FILLER);
        row
    }
}

/// The balance of a row in bytes.
///
/// # Errors
/// [`PeerError::NoBalance`].
pub fn balance(row: &[u8]) -> Result<i64, PeerError> {
    let bytes = row.first_chunk().ok_or(PeerError::NoBalance { found: row.len() })?;
    Ok(i64::from_le_bytes(*bytes))
}

/// The row with `delta` added to its balance.
///
/// # Errors
/// [`PeerError::NoBalance`].
pub fn added(row: &[u8], delta: i64) -> Result<Vec<u8>, PeerError> {
    let sum = balance(row)? + delta;
    let mut row = row.to_vec();
    row[..BALANCE_BYTES].copy_from_slice(&sum.to_le_bytes());
    Ok(row)
}
