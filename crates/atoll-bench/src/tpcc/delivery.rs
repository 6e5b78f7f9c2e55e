//! Delivery (clause 2.7): the oldest open order of each district is delivered, all in one
//! transaction.

use std::ops::ControlFlow;

use atoll::{Range, Row, Transaction, Value};

use super::field::{Field, now};
use super::population::DISTRICTS;
use super::random::TpccRandom;
use super::schema::{Tables, customer, new_order, order_line, orders};
use super::stop::{Ran, found};

/// The next delivery.
#[derive(Debug, Clone, Default)]
pub struct Delivery {
    warehouse: i16,
    carrier: i16,
    now: i64,
}

impl Delivery {
    /// Draws the next delivery of a warehouse.
    pub fn draw(&mut self, random: &mut TpccRandom, home: i16) {
        self.warehouse = home;
        self.carrier = random.uniform(1, 10) as i16;
        self.now = now();
    }

    /// The partition that it touches.
    pub fn partitions(&self, field: &Field, partitions: &mut Vec<u32>) {
        field.add_partition(self.warehouse, partitions);
    }

    /// Runs it. A district without an open order is passed over.
    pub fn run(&self, tx: &mut Transaction, tables: &Tables) -> Ran<()> {
        for district in 1..=DISTRICTS as i16 {
            let place = [Value::Int16(self.warehouse), Value::Int16(district)];
            let mut oldest = None;
            let (index, range) = (&tables.new_order_by_district, Range::prefix(&place));
            let look = |row: &Row<'_>| row.i32(new_order::O);
            tx.scan(index, range, look, |number| {
                oldest = Some(number);
                ControlFlow::Break(())
            })?;
            if let Some(number) = oldest {
                self.deliver(tx, tables, district, number)?;
            }
        }
        Ok(())
    }

    fn deliver(
        &self,
        tx: &mut Transaction,
        tables: &Tables,
        district: i16,
        number: i32,
    ) -> Ran<()> {
        let (w, d) = (Value::Int16(self.warehouse), Value::Int16(district));
        let order = [w.clone(), d.clone(), Value::Int32(number)];
        let gone = tx.delete(&tables.new_order, &order)?;
        found(gone.then_some(()), "new_order", &order)?;
        let row = tx.update_with(&tables.orders, &order, |row| {
            row.set(orders::CARRIER, &Value::Int16(self.carrier));
            (row.i32(orders::CUSTOMER), row.i16(orders::LINES))
        })?;
        let (customer_number, lines) = found(row, "orders", &order)?;
        let [_, _, o] = order;
        let mut line_key = [w.clone(), d.clone(), o, Value::Int16(0)];
        let mut sum = 0;
        for line in 1..=lines {
            line_key[3] = Value::Int16(line);
            let row = tx.update_with(&tables.order_line, &line_key, |row| {
                row.set(order_line::DELIVERY, &Value::Timestamp(self.now));
                row.i64(order_line::AMOUNT)
            })?;
            sum += found(row, "order_line", &line_key)?;
        }
        let key = [w, d, Value::Int32(customer_number)];
        let row = tx.update_with(&tables.customer, &key, |row| {
            let balance = row.i64(customer::BALANCE) + sum;
            let deliveries = row.i32(customer::DELIVERIES) + 1;
            row.set_i64(customer::BALANCE, balance);
            row.set(customer::DELIVERIES, &Value::Int32(deliveries));
        })?;
        found(row, "customer", &key)
    }
}
