//! Order-Status (clause 2.6): a customer asks for the last order.

use std::ops::ControlFlow;

use atoll::{Range, Row, Transaction, Value, Visit, Want};

use super::field::{CustomerKey, CustomerSelector, Field, draw_district, show};
use super::population::Size;
use super::random::TpccRandom;
use super::schema::{Tables, customer, order_line, orders};
use super::stop::{Ran, found};

/// Columns of an order line that a terminal shows.
const SHOWN: [usize; 5] = [
    order_line::ITEM,
    order_line::SUPPLY,
    order_line::QUANTITY,
    order_line::AMOUNT,
    order_line::DELIVERY,
];

/// The random input of a query.
#[derive(Debug, Clone, Copy)]
pub struct Input {
    /// Warehouse and district of the customer.
    pub(super) place: [i16; 2],
    pub(super) selector: CustomerSelector,
}

impl Input {
    /// Draws a query at a warehouse.
    pub fn draw(size: Size, random: &mut TpccRandom, home: i16) -> Self {
        let place = [home, draw_district(random)];
        Self { place, selector: CustomerSelector::draw(random, size) }
    }

    /// The partition that it accesses.
    pub fn partitions(&self, field: &Field, partitions: &mut Vec<u32>) {
        field.add_partition(self.place[0], partitions);
    }
}

/// The next query, with its buffers.
#[derive(Debug, Clone, Default)]
pub struct OrderStatus {
    customer: CustomerKey,
    /// Keys of the lines of the order.
    keys: Vec<Value>,
    /// The lines that were found.
    seen: Vec<bool>,
}

impl OrderStatus {
    /// Sets the input of the next query.
    pub fn take(&mut self, input: &Input) {
        self.customer.take(input.place, input.selector);
    }

    /// Runs the query.
    pub fn run(&mut self, tx: &mut Transaction, tables: &Tables) -> Ran<()> {
        let (_, key) = self.customer.key(tx, tables)?;
        let row = tx.read_with(&tables.customer, key, |row| {
            show(row, &[customer::FIRST, customer::MIDDLE, customer::LAST]);
            row.i64(customer::BALANCE)
        })?;
        std::hint::black_box(found(row, "customer", key)?);
        let mut last = None;
        let newest_first = Range::prefix(key).descending();
        let look = |row: &Row<'_>| {
            show(row, &[orders::ENTRY, orders::CARRIER]);
            (row.i32(orders::O), row.i16(orders::LINES))
        };
        tx.scan(&tables.orders_by_customer, newest_first, look, |order| {
            last = Some(order);
            ControlFlow::Break(())
        })?;
        // Every customer has an initial order.
        let (number, lines) = found(last, "orders", key)?;
        let Self { keys, seen, .. } = self;
        keys.clear();
        for line in 1..=lines {
            keys.extend_from_slice(&key[..2]);
            keys.extend([Value::Int32(number), Value::Int16(line)]);
        }
        seen.clear();
        seen.resize(lines as usize, false);
        tx.visit(
            &tables.order_line,
            keys,
            |_| Want::read(&SHOWN),
            |at, row| {
                seen[at] = matches!(row, Visit::Read(_));
                if let Visit::Read(row) = row {
                    show(row, &SHOWN);
                }
            },
        )?;
        match seen.iter().position(|is_there| !is_there) {
            Some(missing) => found(None, "order_line", &keys[4 * missing..4 * missing + 4]),
            None => Ok(()),
        }
    }
}
