//! The numbers of what a database has.
//!
//! PostgreSQL numbers everything (`oid`). Here a number is made of the serial number of a table or
//! of an object, which no other one ever gets (`SERIAL-1`), so a relation has the same one in
//! every session and after a restart. Each has a block of numbers: the first is its own, the others
//! are for its parts. Catalogs of different kinds may have the same number, as in PostgreSQL.

use std::collections::HashSet;

/// The first number that is not PostgreSQL's own.
const FIRST: u64 = 16_384;
/// Numbers of one relation.
pub(super) const BLOCK: u32 = 256;
/// Beyond these are the numbers of relations of snapshots that a database is built on.
const END: u64 = 1 << 31;

pub(super) const PG_CATALOG: u32 = 11;
pub(super) const PUBLIC: u32 = 2200;
/// That of `information_schema`, which has none of its own.
pub(super) const INFORMATION_SCHEMA: u32 = 13_000;
pub(super) const OWNER: u32 = 10;
pub(super) const DATABASE: u32 = 5;
pub(super) const TABLESPACE: u32 = 1663;
pub(super) const BTREE: u32 = 403;
pub(super) const HEAP: u32 = 2;
pub(super) const DEFAULT_COLLATION: u32 = 100;
pub(super) const C_COLLATION: u32 = 950;

/// The catalogs that a comment or a dependency may be of.
pub(super) const PG_TYPE: u32 = 1247;
pub(super) const PG_CLASS: u32 = 1259;
pub(super) const PG_CONSTRAINT: u32 = 2606;
pub(super) const PG_NAMESPACE: u32 = 2615;

/// The number of what has a serial number.
pub(crate) fn number_of(serial: u64) -> u32 {
    let blocks = (END - FIRST) / u64::from(BLOCK);
    let number = FIRST + serial % blocks * u64::from(BLOCK);
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Gives numbers to relations.
#[derive(Default)]
pub(super) struct Numbers {
    given: HashSet<u32>,
    others: u32,
}

impl Numbers {
    /// The number of what has a serial number. Two get the same one only after eight million
    /// relations were made between them; then the other one gets another.
    pub(super) fn of(&mut self, serial: u64) -> u32 {
        let number = number_of(serial);
        match self.given.insert(number) {
            true => number,
            false => self.other(),
        }
    }

    /// The number of one of a snapshot that the database is built on.
    pub(super) fn other(&mut self) -> u32 {
        self.others += 1;
        let end = u32::try_from(END).unwrap_or(u32::MAX);
        end.wrapping_add(self.others.wrapping_mul(BLOCK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_have_one_number() {
        let mut numbers = Numbers::default();
        let serials = [0, 1, 2, 8_388_544, 16_777_088, u64::MAX];
        let given: HashSet<u32> = serials.into_iter().map(|serial| numbers.of(serial)).collect();
        assert_eq!(given.len(), serials.len());
        assert!(given.iter().all(|number| number % BLOCK == 0 && u64::from(*number) >= FIRST));
    }
}
