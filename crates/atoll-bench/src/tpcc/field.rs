//! State that the threads of a run share, and parts that several transactions have in common.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicU16;
use std::time::{SystemTime, UNIX_EPOCH};

use atoll::machine::{Machine, Native};
use atoll::{Range, Row, Transaction, Value};

use super::population::{DISTRICTS, Size};
use super::random::{TpccRandom, write_last_name};
use super::schema::{Tables, customer};
use super::stop::{Ran, found};

/// Percentage of the customers that are selected by last name.
const BY_NAME_PERCENT: u64 = 60;

/// The tables and their sizes.
pub struct Field {
    /// The tables.
    pub tables: Tables,
    /// The sizes of the tables.
    pub size: Size,
    /// Number of threads that write to the history: each has rows of its own there.
    pub writers: AtomicU16,
}

impl Field {
    /// Adds the partition of a warehouse to the sorted partitions of a transaction.
    pub fn add_partition(&self, warehouse: i16, partitions: &mut Vec<u32>) {
        let partition = self.tables.partition(warehouse);
        if let Err(at) = partitions.binary_search(&partition) {
            partitions.insert(at, partition);
        }
    }
}

/// A district, drawn uniformly.
pub fn draw_district(random: &mut TpccRandom) -> i16 {
    random.uniform(1, DISTRICTS.into()) as i16
}

/// Converts times of [`Machine::now_ns`], which the driver reads for every transaction, to the time
/// in the tables.
pub struct Calendar {
    /// The difference between the two clocks.
    begin_us: i64,
}

impl Default for Calendar {
    fn default() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { begin_us: now.as_micros() as i64 - (Native::now_ns() / 1000) as i64 }
    }
}

impl Calendar {
    /// Microseconds since 1970.
    pub fn at(&self, now_ns: u64) -> i64 {
        self.begin_us + (now_ns / 1000) as i64
    }
}

/// Selects a customer of a district.
#[derive(Debug, Clone, Copy)]
pub enum CustomerSelector {
    /// By the number of a last name.
    ByName(u32),
    /// By the customer's number.
    ByNumber(i32),
}

impl CustomerSelector {
    /// Draws a customer.
    pub fn draw(random: &mut TpccRandom, size: Size) -> Self {
        if random.percent(BY_NAME_PERCENT) {
            Self::ByName(random.last_name(size.customers))
        } else {
            Self::ByNumber(random.customer(size.customers) as i32)
        }
    }
}

/// The key of a customer that is selected by number or by last name.
#[derive(Debug, Clone)]
pub struct CustomerKey {
    /// Warehouse, district and last name.
    by_name: [Value; 3],
    /// Warehouse, district and number; the number is 0 when the customer is selected by name.
    by_number: [Value; 3],
    number: i32,
    /// Customers of that name, ordered by first name.
    namesakes: Vec<i32>,
}

impl Default for CustomerKey {
    fn default() -> Self {
        let zero = || Value::Int16(0);
        Self {
            by_name: [zero(), zero(), Value::Text(String::with_capacity(16))],
            by_number: [zero(), zero(), Value::Int32(0)],
            number: 0,
            namesakes: Vec::with_capacity(16),
        }
    }
}

impl CustomerKey {
    /// Sets the selected customer of a district.
    pub fn take(&mut self, [warehouse, district]: [i16; 2], selector: CustomerSelector) {
        self.by_name[0] = Value::Int16(warehouse);
        self.by_name[1] = Value::Int16(district);
        self.by_number[..2].clone_from_slice(&self.by_name[..2]);
        self.number = 0;
        match selector {
            CustomerSelector::ByName(name) => {
                if let Value::Text(text) = &mut self.by_name[2] {
                    write_last_name(name, text);
                }
            }
            CustomerSelector::ByNumber(number) => {
                self.number = number;
                self.by_number[2] = Value::Int32(number);
            }
        }
    }

    /// The key of the customer, if selected by number.
    pub fn known(&self) -> Option<&[Value]> {
        (self.number != 0).then_some(&self.by_number[..])
    }

    /// The key of the customer. Of several customers with the name it is the one in the middle by
    /// first name, rounded up.
    pub fn key(&mut self, tx: &mut Transaction, tables: &Tables) -> Ran<(i32, &[Value])> {
        let mut number = self.number;
        if self.known().is_none() {
            let namesakes = &mut self.namesakes;
            namesakes.clear();
            let range = Range::prefix(&self.by_name);
            let look = |row: &Row<'_>| row.i32(customer::C);
            tx.scan(&tables.customer_by_name, range, look, |number| {
                namesakes.push(number);
                ControlFlow::Continue(())
            })?;
            let middle = namesakes.len().div_ceil(2).max(1) - 1;
            let at = namesakes.get(middle).copied();
            number = found(at, "customer", &self.by_name)?;
        }
        self.by_number[2] = Value::Int32(number);
        Ok((number, &self.by_number))
    }
}

/// Reads the columns that a terminal shows.
pub fn show(row: &Row<'_>, columns: &[usize]) {
    for column in columns {
        row.show(*column, |bytes| std::hint::black_box(bytes.map(<[u8]>::len)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar_says_what_the_system_says() {
        let calendar = Calendar::default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let said = calendar.at(Native::now_ns());
        assert!((now.as_micros() as i64).abs_diff(said) < 60_000_000, "{now:?} is not {said} µs");
        assert_eq!(calendar.at(7_000_000) - calendar.at(2_000_000), 5_000);
    }
}
