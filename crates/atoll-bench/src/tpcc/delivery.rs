//! Delivery (clause 2.7): the oldest open order of each district is delivered, all in one
//! transaction.

use std::ops::ControlFlow;

use atoll::{Range, Row, Transaction, Value, Visit, Want};

use super::field::Field;
use super::population::DISTRICTS;
use super::random::TpccRandom;
use super::schema::{Tables, customer, new_order, order_line, orders};
use super::stop::{Ran, found};

/// The random input of a delivery.
#[derive(Debug, Clone, Copy)]
pub struct Input {
    pub(super) warehouse: i16,
    pub(super) carrier: i16,
}

impl Input {
    /// Draws a delivery for a warehouse.
    pub fn draw(random: &mut TpccRandom, home: i16) -> Self {
        Self { warehouse: home, carrier: random.uniform(1, 10) as i16 }
    }

    /// The partition that it accesses.
    pub fn partitions(&self, field: &Field, partitions: &mut Vec<u32>) {
        field.add_partition(self.warehouse, partitions);
    }
}

/// The next delivery, with its buffers.
#[derive(Debug, Clone, Default)]
pub struct Delivery {
    warehouse: i16,
    carrier: i16,
    now: i64,
    orders: Vec<Delivered>,
    lines: Vec<Line>,
    /// Keys of rows that are accessed together.
    keys: Vec<Value>,
}

/// An order that is being delivered.
#[derive(Debug, Clone, Copy, Default)]
struct Delivered {
    district: i16,
    number: i32,
    customer: i32,
    lines: i16,
    amount: i64,
    /// Whether the last access found a row.
    is_there: bool,
}

/// An order line, by the position of its order.
#[derive(Debug, Clone, Copy)]
struct Line {
    order: usize,
    amount: Option<i64>,
}

impl Delivery {
    /// Sets the input of the next delivery.
    pub fn take(&mut self, input: &Input, now: i64) {
        (self.warehouse, self.carrier, self.now) = (input.warehouse, input.carrier, now);
    }

    /// Runs the delivery. A district without an open order is skipped.
    pub fn run(&mut self, tx: &mut Transaction, tables: &Tables) -> Ran<()> {
        self.orders.clear();
        for district in 1..=DISTRICTS as i16 {
            let place = [Value::Int16(self.warehouse), Value::Int16(district)];
            let orders = &mut self.orders;
            let (index, range) = (&tables.new_order_by_district, Range::prefix(&place));
            let look = |row: &Row<'_>| row.i32(new_order::O);
            tx.scan(index, range, look, |number| {
                orders.push(Delivered { district, number, ..Delivered::default() });
                ControlFlow::Break(())
            })?;
        }
        self.take_orders(tx, tables)?;
        self.deliver_lines(tx, tables)?;
        self.credit_customers(tx, tables)
    }

    fn key_of(&self, order: &Delivered) -> [Value; 3] {
        let district = Value::Int16(order.district);
        [Value::Int16(self.warehouse), district, Value::Int32(order.number)]
    }

    /// Checks that the last access found a row for each order.
    fn check(&self, table: &'static str) -> Ran<()> {
        let missing = self.orders.iter().find(|order| !order.is_there);
        missing.map_or(Ok(()), |order| found(None, table, &self.key_of(order)))
    }

    fn take_orders(&mut self, tx: &mut Transaction, tables: &Tables) -> Ran<()> {
        self.keys.clear();
        for order in &self.orders {
            let key = self.key_of(order);
            let gone = tx.delete(&tables.new_order, &key)?;
            found(gone.then_some(()), "new_order", &key)?;
            self.keys.extend(key);
        }
        let Self { orders, keys, carrier, .. } = self;
        let wanted = [orders::CUSTOMER, orders::CARRIER, orders::LINES];
        tx.visit(
            &tables.orders,
            keys,
            |_| Want::update(&wanted),
            |at, row| {
                let order = &mut orders[at];
                order.is_there = false;
                let Visit::Update(row) = row else { return };
                row.set(orders::CARRIER, &Value::Int16(*carrier));
                order.customer = row.i32(orders::CUSTOMER);
                order.lines = row.i16(orders::LINES);
                order.is_there = true;
            },
        )?;
        self.check("orders")
    }

    fn deliver_lines(&mut self, tx: &mut Transaction, tables: &Tables) -> Ran<()> {
        self.keys.clear();
        self.lines.clear();
        for (at, order) in self.orders.iter().enumerate() {
            for line in 1..=order.lines {
                self.keys.extend(self.key_of(order));
                self.keys.push(Value::Int16(line));
                self.lines.push(Line { order: at, amount: None });
            }
        }
        let Self { orders, lines, keys, now, .. } = self;
        let wanted = [order_line::DELIVERY, order_line::AMOUNT];
        tx.visit(
            &tables.order_line,
            keys,
            |_| Want::update(&wanted),
            |at, row| {
                lines[at].amount = None;
                let Visit::Update(row) = row else { return };
                row.set(order_line::DELIVERY, &Value::Timestamp(*now));
                lines[at].amount = Some(row.i64(order_line::AMOUNT));
            },
        )?;
        for (line, key) in lines.iter().zip(keys.chunks(4)) {
            orders[line.order].amount += found(line.amount, "order_line", key)?;
        }
        Ok(())
    }

    fn credit_customers(&mut self, tx: &mut Transaction, tables: &Tables) -> Ran<()> {
        let Self { orders, keys, warehouse, .. } = self;
        keys.clear();
        for order in orders.iter() {
            let district = Value::Int16(order.district);
            keys.extend([Value::Int16(*warehouse), district, Value::Int32(order.customer)]);
        }
        let wanted = [customer::BALANCE, customer::DELIVERIES];
        tx.visit(
            &tables.customer,
            keys,
            |_| Want::update(&wanted),
            |at, row| {
                let order = &mut orders[at];
                order.is_there = false;
                let Visit::Update(row) = row else { return };
                row.add_i64(customer::BALANCE, order.amount);
                row.add_i32(customer::DELIVERIES, 1);
                order.is_there = true;
            },
        )?;
        self.check("customer")
    }
}
