//! Order-Status (clause 2.6): a customer asks for his last order.

use std::ops::ControlFlow;

use atoll::{Range, Row, Transaction, Value};

use super::field::{Field, Who, draw_district, show};
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

/// The next question.
#[derive(Debug, Clone, Default)]
pub struct OrderStatus {
    warehouse: i16,
    who: Who,
}

impl OrderStatus {
    /// Draws the next question at a warehouse.
    pub fn draw(&mut self, field: &Field, random: &mut TpccRandom, home: i16) {
        self.warehouse = home;
        let place = [home, draw_district(random)];
        self.who.draw(random, field.size, place);
    }

    /// The partition that it touches.
    pub fn partitions(&self, field: &Field, partitions: &mut Vec<u32>) {
        field.add_partition(self.warehouse, partitions);
    }

    /// Runs it.
    pub fn run(&mut self, tx: &mut Transaction, tables: &Tables) -> Ran<()> {
        let (_, key) = self.who.key(tx, tables)?;
        let row = tx.read_with(&tables.customer, key, |row| {
            show(row, &[customer::FIRST, customer::MIDDLE, customer::LAST]);
            row.i64(customer::BALANCE)
        })?;
        std::hint::black_box(found(row, "customer", key)?);
        let mut last = None;
        let newest_first = Range::prefix(key).descending();
        let look = |row: &Row<'_>| {
            show(row, &[orders::ENTRY, orders::CARRIER]);
            row.i32(orders::O)
        };
        tx.scan(&tables.orders_by_customer, newest_first, look, |number| {
            last = Some(number);
            ControlFlow::Break(())
        })?;
        // Every customer has had an order from the beginning.
        let number = found(last, "orders", key)?;
        let order = [key[0].clone(), key[1].clone(), Value::Int32(number)];
        let lines = Range::prefix(&order);
        let all = |()| ControlFlow::Continue(());
        Ok(tx.scan(&tables.order_line_by_order, lines, |row| show(row, &SHOWN), all)?)
    }
}
