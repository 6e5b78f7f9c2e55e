//! Payment (clause 2.5): a customer pays, in the home district or in another.

use std::fmt::Write;

use atoll::{RowEdit, Transaction, Value};

use super::field::{CustomerKey, CustomerSelector, Field, draw_district, show};
use super::population::Size;
use super::random::TpccRandom;
use super::schema::{Tables, customer, district, history, warehouse};
use super::stop::{Ran, found};

/// Percentage of payments at the customer's own warehouse.
const LOCAL_PERCENT: u64 = 85;
/// Longest data of a customer.
const DATA_MAX: usize = 500;

/// Columns of a customer that are needed: those that change, those about credit, and those for the
/// terminal.
const NEEDED: [usize; 15] = [
    customer::BALANCE,
    customer::YTD_PAYMENT,
    customer::PAYMENTS,
    customer::CREDIT,
    customer::FIRST,
    customer::MIDDLE,
    customer::LAST,
    customer::STREET_1,
    customer::STREET_2,
    customer::CITY,
    customer::STATE,
    customer::ZIP,
    customer::PHONE,
    customer::SINCE,
    customer::CREDIT_LIMIT,
];
/// The first of them change.
const CHANGED: usize = 3;

/// The random input of a payment.
#[derive(Debug, Clone, Copy)]
pub struct Input {
    /// The warehouse that receives the payment.
    pub(super) warehouse: i16,
    pub(super) district: i16,
    /// Warehouse and district of the customer.
    pub(super) customer_at: [i16; 2],
    pub(super) selector: CustomerSelector,
    pub(super) amount: i32,
}

impl Input {
    /// Draws a payment at a warehouse.
    pub fn draw(size: Size, random: &mut TpccRandom, home: i16) -> Self {
        let district = draw_district(random);
        let customer_at = match random.percent(LOCAL_PERCENT) {
            true => [home, district],
            false => [size.other_warehouse(random, home), draw_district(random)],
        };
        let selector = CustomerSelector::draw(random, size);
        let amount = random.uniform(100, 500_000) as i32;
        Self { warehouse: home, district, customer_at, selector, amount }
    }

    /// The partitions that it accesses.
    pub fn partitions(&self, field: &Field, partitions: &mut Vec<u32>) {
        field.add_partition(self.warehouse, partitions);
        field.add_partition(self.customer_at[0], partitions);
    }
}

/// The next payment, with a buffer for its row of the history.
#[derive(Debug, Clone)]
pub struct Payment {
    /// Warehouse and district that receive the payment.
    place: [Value; 2],
    warehouse: i16,
    district: i16,
    /// Warehouse and district of the customer.
    customer_at: [i16; 2],
    customer: CustomerKey,
    amount: i64,
    history: Vec<Value>,
    /// Names of the warehouse and the district.
    names: [String; 2],
    /// As in the engine of "Staring into the Abyss": without the history and the terminal's
    /// display.
    reduced: bool,
}

impl Payment {
    /// Buffers for the payments of a thread.
    pub fn new(writer: i16, reduced: bool) -> Self {
        let small = || Value::Int16(0);
        let history = vec![
            small(),
            Value::Int16(writer),
            Value::Int32(0),
            small(),
            small(),
            small(),
            Value::Int32(0),
            Value::Timestamp(0),
            Value::Int64(0),
            Value::Text(String::with_capacity(24)),
        ];
        Self {
            place: [small(), small()],
            warehouse: 0,
            district: 0,
            customer_at: [0; 2],
            customer: CustomerKey::default(),
            amount: 0,
            history,
            names: [const { String::new() }; 2],
            reduced,
        }
    }

    /// Sets the input of the next payment.
    pub fn take(&mut self, input: &Input, now: i64) {
        let Input { warehouse, district, customer_at, selector, amount } = *input;
        (self.warehouse, self.district) = (warehouse, district);
        self.place = [Value::Int16(warehouse), Value::Int16(district)];
        self.customer_at = customer_at;
        self.customer.take(customer_at, selector);
        self.amount = amount.into();
        self.history[history::W] = Value::Int16(warehouse);
        self.history[history::D] = Value::Int16(district);
        if let Value::Int32(number) = &mut self.history[history::NUMBER] {
            *number += 1;
        }
        self.history[history::CUSTOMER_W] = Value::Int16(customer_at[0]);
        self.history[history::CUSTOMER_D] = Value::Int16(customer_at[1]);
        self.history[history::DATE] = Value::Timestamp(now);
        self.history[history::AMOUNT] = Value::Int64(self.amount);
    }

    /// Runs the payment.
    pub fn run(&mut self, tx: &mut Transaction, tables: &Tables) -> Ran<()> {
        let (amount, reduced) = (self.amount, self.reduced);
        let needed = if reduced { &NEEDED[..CHANGED] } else { &NEEDED };
        if let Some(key) = self.customer.known() {
            tx.prefetch(&tables.customer, key, |_| needed);
        }
        if !reduced {
            tx.prefetch_new(&tables.history, &self.history[..3]);
        }
        let (home, names) = (&self.place[..1], &mut self.names);
        let row = tx.update_with(&tables.warehouse, home, |row| {
            row.add_i64(warehouse::YTD, amount);
            show_place(row, warehouse::STREET_1..=warehouse::ZIP, reduced);
            copy_text(row, warehouse::NAME, &mut names[0]);
        })?;
        found(row, "warehouse", home)?;
        let row = tx.update_with(&tables.district, &self.place, |row| {
            row.add_i64(district::YTD, amount);
            show_place(row, district::STREET_1..=district::ZIP, reduced);
            copy_text(row, district::NAME, &mut names[1]);
        })?;
        found(row, "district", &self.place)?;
        let is_known = self.customer.known().is_some();
        let (number, key) = self.customer.key(tx, tables)?;
        if !is_known {
            tx.prefetch(&tables.customer, key, |_| needed);
        }
        let place = [self.customer_at[0], self.customer_at[1], self.warehouse, self.district];
        let row = tx.update_with(&tables.customer, key, |row| {
            row.add_i64(customer::BALANCE, -amount);
            row.add_i64(customer::YTD_PAYMENT, amount);
            row.add_i32(customer::PAYMENTS, 1);
            if !reduced {
                show(row, &NEEDED[CHANGED + 1..]);
                note_bad_credit(row, number, place, amount);
            }
        })?;
        found(row, "customer", key)?;
        if reduced {
            return Ok(());
        }
        self.history[history::CUSTOMER] = Value::Int32(number);
        if let Value::Text(data) = &mut self.history[history::DATA] {
            data.clear();
            data.push_str(&names[0]);
            data.push_str("    ");
            data.push_str(&names[1]);
        }
        Ok(tx.insert(&tables.history, &self.history)?)
    }
}

fn show_place(row: &RowEdit<'_>, columns: std::ops::RangeInclusive<usize>, reduced: bool) {
    if !reduced {
        columns.for_each(|column| show(row, &[column]));
    }
}

/// Reads a text into a string, without allocating once it is long enough.
fn copy_text(row: &RowEdit<'_>, column: usize, into: &mut String) {
    into.clear();
    row.show(column, |bytes| {
        into.push_str(bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default());
    });
}

/// Prepends the payment to the data of a customer with bad credit, and truncates the data.
fn note_bad_credit(row: &mut RowEdit<'_>, number: i32, place: [i16; 4], amount: i64) {
    let mut credit = [0; 2];
    row.bytes(customer::CREDIT, &mut credit);
    if credit != *b"BC" {
        return;
    }
    let [customer_w, customer_d, w, d] = place;
    let mut data = String::with_capacity(DATA_MAX + 64);
    let (whole, hundredths) = (amount / 100, amount % 100);
    // Writing to a string cannot fail.
    let _ = write!(data, "{number} {customer_d} {customer_w} {d} {w} {whole}.{hundredths:02} ");
    data.push_str(&row.text(customer::DATA));
    // The data are ASCII, so they can be truncated at any byte.
    data.truncate(DATA_MAX);
    row.set(customer::DATA, &Value::Text(data));
}

#[cfg(test)]
mod tests {
    use super::super::random::Constants;
    use super::super::small;
    use super::*;

    #[test]
    fn fifteen_payments_of_a_hundred_are_by_a_customer_of_another_warehouse() {
        const PAYMENTS: usize = 20_000;
        let mut random = TpccRandom::new(5, Constants::of_load(5));
        let (loaded, mut payment) = (small(4), Payment::new(1, false));
        let mut remote = 0;
        for _ in 0..PAYMENTS {
            payment.take(&Input::draw(loaded.size(), &mut random, 2), 0);
            let [warehouse, district] = payment.customer_at;
            assert!((1..=4).contains(&warehouse) && (1..=10).contains(&district));
            assert!(warehouse != 2 || district == payment.district);
            assert_eq!(payment.history[history::CUSTOMER_W], Value::Int16(warehouse));
            remote += usize::from(warehouse != 2);
        }
        // 3,000; one standard deviation is 50.
        assert!((2800..3200).contains(&remote), "{remote} of {PAYMENTS}");
    }
}
