//! Fills the nine tables in parallel.
//!
//! The work is divided into units, each for one warehouse and therefore for one partition (except
//! ITEM, which is replicated). A unit inserts its rows in transactions of some hundred rows.

use std::time::{SystemTime, UNIX_EPOCH};

use atoll::{Database, Session, Transaction, TransactionOptions, TxnResult};

use super::population::{self, DISTRICTS, Size};
use super::random::{Constants, TpccRandom};
use super::schema::Tables;
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

struct Filler<'a> {
    tables: &'a Tables,
    size: Size,
    seed: u64,
    constants: Constants,
    now: i64,
}

/// Fills the tables.
///
/// # Errors
/// [`BenchError::TooLarge`] before anything is done; [`BenchError::Database`].
pub fn fill(
    db: &Database,
    tables: &Tables,
    size: Size,
    seed: u64,
    progress: Progress<'_>,
) -> Result<LoadReport, BenchError> {
    let rows = u64::from(size.customers) * 10 + u64::from(size.items) / 10;
    load::check_room(u64::from(size.warehouses) * WAREHOUSE_BYTES * rows / 40_000)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let constants = Constants::of_load(seed);
    let filler = Filler { tables, size, seed, constants, now: now.as_micros() as i64 };
    let units = Units(size);
    let what = format!("{} warehouse(s)", size.warehouses);
    load::fill(db, units.count(), &what, progress, &|session, number| {
        filler.unit(session, units.unit(number), number)
    })
}

impl Filler<'_> {
    fn unit(&self, session: &mut Session, unit: Unit, number: u64) -> Result<u64, BenchError> {
        let (first, last, batch, warehouse) = match unit {
            Unit::Items { chunk } => (chunk * CHUNK + 1, self.size.items, CHUNK, None),
            Unit::Stock { chunk, warehouse } => {
                (chunk * CHUNK + 1, self.size.items, CHUNK, Some(warehouse))
            }
            Unit::Warehouse { warehouse } => (1, 1, 1, Some(warehouse)),
            Unit::Customers { warehouse, .. } | Unit::Orders { warehouse, .. } => {
                (1, self.size.customers, BATCH, Some(warehouse))
            }
        };
        let last = if batch == CHUNK { last.min(first + CHUNK - 1) } else { last };
        let mut options = TransactionOptions::default();
        options.partitions.extend(warehouse.map(|warehouse| self.tables.partition(warehouse)));
        let seed = Random::new(self.seed ^ number << 20).word();
        // One order for each customer, in random order.
        let customers = TpccRandom::new(seed, self.constants).permutation(self.size.customers);
        let mut rows = 0;
        for from in (first..=last).step_by(batch as usize) {
            let numbers = from..=last.min(from + batch - 1);
            rows += session.transaction_with(&options, |tx| {
                // A retry makes the same rows.
                let mut random = TpccRandom::new(seed ^ u64::from(from), self.constants);
                numbers.clone().try_fold(0, |rows, at| {
                    Ok(rows + self.insert(tx, unit, &mut random, at, &customers)?)
                })
            })?;
        }
        Ok(rows)
    }

    /// Inserts the row or rows of a number within a unit; returns how many.
    fn insert(
        &self,
        tx: &mut Transaction,
        unit: Unit,
        random: &mut TpccRandom,
        number: u32,
        customers: &[u32],
    ) -> TxnResult<u64> {
        let (tables, size, now) = (self.tables, self.size, self.now);
        match unit {
            Unit::Items { .. } => tx.insert(&tables.item, &population::item(random, number))?,
            Unit::Stock { warehouse, .. } => {
                tx.insert(&tables.stock, &population::stock(random, warehouse, number))?;
            }
            Unit::Warehouse { warehouse } => {
                tx.insert(&tables.warehouse, &population::warehouse(random, size, warehouse))?;
                for district in 1..=DISTRICTS as i16 {
                    let row = population::district(random, size, warehouse, district);
                    tx.insert(&tables.district, &row)?;
                }
                return Ok(1 + u64::from(DISTRICTS));
            }
            Unit::Customers { warehouse, district } => {
                let place = [warehouse, district];
                let row = population::customer(random, size, place, number, now);
                tx.insert(&tables.customer, &row)?;
                let row = population::history(random, size, place, number, now);
                tx.insert(&tables.history, &row)?;
                return Ok(2);
            }
            Unit::Orders { warehouse, district } => {
                let place = [warehouse, district];
                let order = [number, customers[number as usize - 1]];
                let (row, lines) = population::order(random, size, place, order, now);
                tx.insert(&tables.orders, &row)?;
                lines.iter().try_for_each(|line| tx.insert(&tables.order_line, line))?;
                let open = number > size.delivered();
                if open {
                    tx.insert(&tables.new_order, &row[..3])?;
                }
                return Ok(1 + lines.len() as u64 + u64::from(open));
            }
        }
        Ok(1)
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
