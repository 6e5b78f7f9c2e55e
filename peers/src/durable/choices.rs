//! The choices of a client, from its seed: those of `atoll bench tpcb`.

use std::time::{SystemTime, UNIX_EPOCH};

use atoll_bench::keys::Random;

use super::bank::{Add, Entry, Key, Shape, Table, Transaction};

/// Share of the accounts that belong to the teller's own branch, in percent.
const LOCAL_PERCENT: u64 = 85;
/// Greatest change of a balance.
const DELTA_MAX: u64 = 999_999;

/// The choices of one client.
pub struct Choices {
    shape: Shape,
    random: Random,
    client: u16,
    /// Number of transactions drawn so far.
    count: u32,
}

impl Choices {
    /// The choices of client number `client`, counted from 0.
    pub fn new(shape: Shape, seed: u64, client: u16) -> Self {
        let random = Random::new(seed.wrapping_add((u64::from(client) + 1) << 32));
        Self { shape, random, client, count: 0 }
    }

    /// A number from 1 to `end`.
    fn draw(&mut self, end: u32) -> u32 {
        1 + self.random.below(end.into()) as u32
    }

    /// The branch of the account: the teller's own, or, for 15 of 100, another.
    fn account_branch(&mut self, branch: u16, branches: u16) -> u16 {
        if branches == 1 || self.random.below(100) < LOCAL_PERCENT {
            return branch;
        }
        let other = self.draw(u32::from(branches) - 1) as u16;
        if other >= branch { other + 1 } else { other }
    }

    /// The next transaction.
    pub fn next(&mut self) -> Transaction {
        self.count += 1;
        let (branches, accounts) = match self.shape {
            Shape::Commit { rows } => {
                let key = Key::new(0, 0, self.draw(rows) - 1);
                let adds = vec![Add { table: Table::Accounts, key }];
                return Transaction { delta: 1, adds, entry: None };
            }
            Shape::Tpcb { branches, accounts } => (branches, accounts),
        };
        let branch = self.draw(branches.into()) as u16;
        let account_branch = self.account_branch(branch, branches);
        let delta = self.random.below(2 * DELTA_MAX + 1) as i64 - DELTA_MAX as i64;
        let teller = self.draw(self.shape.tellers());
        let account = self.draw(accounts);
        let adds = vec![
            Add { table: Table::Accounts, key: Key::new(account_branch, 0, account) },
            Add { table: Table::Tellers, key: Key::new(branch, 0, teller) },
            Add { table: Table::Branches, key: Key::new(branch, 0, branch.into()) },
        ];
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let key = Key::new(branch, self.client, self.count);
        let time_us = now.as_micros() as i64;
        let entry = Some(Entry { key, teller, account_branch, account, time_us });
        Transaction { delta, adds, entry }
    }
}
