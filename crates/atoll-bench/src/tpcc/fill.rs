//! The initial rows of the nine tables, and how they are inserted in parallel.
//!
//! The work is divided into units, each for one warehouse and therefore for one partition (except
//! ITEM, which is replicated). A unit inserts its rows in transactions of some hundred rows.

use std::ops::RangeInclusive;
use std::time::{SystemTime, UNIX_EPOCH};

use atoll::{Database, Session, Transaction, TransactionOptions, TxnResult, Value};

use super::population::{self, DISTRICTS, Size};
use super::random::{Constants, TpccRandom};
use super::schema::{Kind, Tables};
use crate::error::BenchError;
use crate::keys::Random;
use crate::oltp::{LoadReport, load};
use crate::progress::Progress;

/// Rows of ITEM or STOCK that a unit inserts: one block of the table's key predictor.
const CHUNK: u32 = 1024;
/// Customers or orders inserted by one transaction.
const BATCH: u32 = 100;
/// Bytes of a warehouse with 3,000 customers for each district and 100,000 items, including row
/// states and indexes.
const WAREHOUSE_BYTES: u64 = 160 << 20;

/// A unit of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Items { chunk: u32 },
    Warehouse { warehouse: i16 },
    Stock { warehouse: i16, chunk: u32 },
    Customers { warehouse: i16, district: i16 },
    Orders { warehouse: i16, district: i16 },
}

impl Unit {
    fn warehouse(self) -> Option<i16> {
        match self {
            Self::Items { .. } => None,
            Self::Warehouse { warehouse }
            | Self::Stock { warehouse, .. }
            | Self::Customers { warehouse, .. }
            | Self::Orders { warehouse, .. } => Some(warehouse),
        }
    }
}

/// Maps numbers to units.
#[derive(Debug, Clone, Copy)]
struct Units(Size);

impl Units {
    fn chunks(self) -> u64 {
        u64::from(self.0.items.div_ceil(CHUNK))
    }

    fn per_warehouse(self) -> u64 {
        1 + self.chunks() + 2 * u64::from(DISTRICTS)
    }

    fn count(self) -> u64 {
        self.chunks() + u64::from(self.0.warehouses) * self.per_warehouse()
    }

    fn unit(self, number: u64) -> Unit {
        let Some(number) = number.checked_sub(self.chunks()) else {
            return Unit::Items { chunk: number as u32 };
        };
        // Consecutive units are for different warehouses, so that threads seldom share a partition.
        let warehouses = u64::from(self.0.warehouses);
        let (warehouse, part) = ((number % warehouses) as i16 + 1, number / warehouses);
        let districts = u64::from(DISTRICTS);
        if part == 0 {
            return Unit::Warehouse { warehouse };
        }
        let part = part - 1;
        if part < districts {
            return Unit::Orders { warehouse, district: part as i16 + 1 };
        }
        let part = part - districts;
        if part < districts {
            return Unit::Customers { warehouse, district: part as i16 + 1 };
        }
        Unit::Stock { warehouse, chunk: (part - districts) as u32 }
    }
}

/// Makes the rows.
struct Rows {
    size: Size,
    seed: u64,
    constants: Constants,
    now: i64,
}

/// Where rows go.
pub trait Filled: Sync {
    /// The partition of a warehouse.
    fn partition(&self, warehouse: i16) -> u32;

    /// Inserts a row.
    ///
    /// # Errors
    /// Those of the insert.
    fn put(&self, tx: &mut Transaction, kind: Kind, row: &[Value]) -> TxnResult<()>;
}

impl Filled for Tables {
    fn partition(&self, warehouse: i16) -> u32 {
        self.partition(warehouse)
    }

    fn put(&self, tx: &mut Transaction, kind: Kind, row: &[Value]) -> TxnResult<()> {
        tx.insert(self.of(kind), row)
    }
}

/// Fills the tables.
///
/// # Errors
/// [`BenchError::TooLarge`] before anything is done; [`BenchError::Database`].
pub fn fill(
    db: &Database,
    filled: &dyn Filled,
    size: Size,
    seed: u64,
    progress: Progress<'_>,
) -> Result<LoadReport, BenchError> {
    let rows = u64::from(size.customers) * 10 + u64::from(size.items) / 10;
    load::check_room(u64::from(size.warehouses) * WAREHOUSE_BYTES * rows / 40_000)?;
    let (rows, units) = (Rows::new(size, seed), Units(size));
    let what = format!("{} warehouse(s)", size.warehouses);
    load::fill(db, units.count(), &what, progress, &|session, number| {
        rows.fill_unit(session, filled, units.unit(number), number)
    })
}

/// Hands all rows to `put`.
///
/// # Errors
/// The first one of `put`.
pub fn each_row<E>(
    size: Size,
    seed: u64,
    mut put: impl FnMut(Kind, &[Value]) -> Result<(), E>,
) -> Result<(), E> {
    let (rows, units) = (Rows::new(size, seed), Units(size));
    for number in 0..units.count() {
        let unit = units.unit(number);
        let (seed, customers) = rows.of_unit(number);
        for numbers in rows.batches(unit) {
            let mut random = TpccRandom::new(seed ^ u64::from(*numbers.start()), rows.constants);
            for at in numbers {
                rows.each(unit, &mut random, at, &customers, &mut put)?;
            }
        }
    }
    Ok(())
}

impl Rows {
    fn new(size: Size, seed: u64) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { size, seed, constants: Constants::of_load(seed), now: now.as_micros() as i64 }
    }

    /// The seed of a unit, and the customers of its orders: one order for each, in random order.
    fn of_unit(&self, number: u64) -> (u64, Vec<u32>) {
        let seed = Random::new(self.seed ^ number << 20).word();
        (seed, TpccRandom::new(seed, self.constants).permutation(self.size.customers))
    }

    /// The numbers of the rows of a unit, those of a transaction together.
    fn batches(&self, unit: Unit) -> impl Iterator<Item = RangeInclusive<u32>> {
        let (first, last, batch) = match unit {
            Unit::Items { chunk } | Unit::Stock { chunk, .. } => {
                let first = chunk * CHUNK + 1;
                (first, self.size.items.min(first + CHUNK - 1), CHUNK)
            }
            Unit::Warehouse { .. } => (1, 1, 1),
            Unit::Customers { .. } | Unit::Orders { .. } => (1, self.size.customers, BATCH),
        };
        let starts = (first..=last).step_by(batch as usize);
        starts.map(move |from| from..=last.min(from + batch - 1))
    }

    fn fill_unit(
        &self,
        session: &mut Session,
        filled: &dyn Filled,
        unit: Unit,
        number: u64,
    ) -> Result<u64, BenchError> {
        let mut options = TransactionOptions::default();
        options.partitions.extend(unit.warehouse().map(|warehouse| filled.partition(warehouse)));
        let (seed, customers) = self.of_unit(number);
        let mut rows = 0;
        for numbers in self.batches(unit) {
            rows += session.transaction_with(&options, |tx| {
                // A retry makes the same rows.
                let from = u64::from(*numbers.start());
                let mut random = TpccRandom::new(seed ^ from, self.constants);
                let mut count = 0;
                for at in numbers.clone() {
                    self.each(unit, &mut random, at, &customers, &mut |kind, row| {
                        count += 1;
                        filled.put(tx, kind, row)
                    })?;
                }
                Ok(count)
            })?;
        }
        Ok(rows)
    }

    /// Hands the row or rows of a number within a unit to `put`.
    fn each<E>(
        &self,
        unit: Unit,
        random: &mut TpccRandom,
        number: u32,
        customers: &[u32],
        put: &mut impl FnMut(Kind, &[Value]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (size, now) = (self.size, self.now);
        match unit {
            Unit::Items { .. } => put(Kind::Item, &population::item(random, number)),
            Unit::Stock { warehouse, .. } => {
                put(Kind::Stock, &population::stock(random, warehouse, number))
            }
            Unit::Warehouse { warehouse } => {
                put(Kind::Warehouse, &population::warehouse(random, size, warehouse))?;
                (1..=DISTRICTS as i16).try_for_each(|district| {
                    put(Kind::District, &population::district(random, size, warehouse, district))
                })
            }
            Unit::Customers { warehouse, district } => {
                let place = [warehouse, district];
                let row = population::customer(random, size, place, number, now);
                put(Kind::Customer, &row)?;
                let row = population::history(random, size, place, number, now);
                put(Kind::History, &row)
            }
            Unit::Orders { warehouse, district } => {
                let place = [warehouse, district];
                let order = [number, customers[number as usize - 1]];
                let (row, lines) = population::order(random, size, place, order, now);
                put(Kind::Orders, &row)?;
                lines.iter().try_for_each(|line| put(Kind::OrderLine, line))?;
                let open = number > size.delivered();
                if open { put(Kind::NewOrder, &row[..3]) } else { Ok(()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Size, Unit, Units};

    #[test]
    fn the_units_are_every_part_of_the_work_once() {
        let units = Units(Size { warehouses: 3, customers: 3000, items: 2500 });
        let all: Vec<Unit> = (0..units.count()).map(|number| units.unit(number)).collect();
        let distinct = |at: usize| !all[..at].contains(&all[at]);
        assert!((0..all.len()).all(distinct));
        let count = |wanted: fn(&Unit) -> bool| all.iter().filter(|unit| wanted(unit)).count();
        assert_eq!(count(|unit| matches!(unit, Unit::Items { chunk: 0..3 })), 3);
        assert_eq!(count(|unit| matches!(unit, Unit::Warehouse { warehouse: 1..=3 })), 3);
        assert_eq!(count(|unit| matches!(unit, Unit::Stock { chunk: 0..3, .. })), 9);
        assert_eq!(count(|unit| matches!(unit, Unit::Customers { district: 1..=10, .. })), 30);
        assert_eq!(count(|unit| matches!(unit, Unit::Orders { district: 1..=10, .. })), 30);
        assert_eq!(all.len(), 75);
    }
}
