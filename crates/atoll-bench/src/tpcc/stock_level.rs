//! Stock-Level (clause 2.8): how many items of a district's last 20 orders are low in stock.

use atoll::{Transaction, Value, Visit, Want};

use super::field::{Field, draw_district};
use super::random::TpccRandom;
use super::schema::{Tables, district, order_line, orders, stock};
use super::stop::{Ran, found};

/// Number of orders that are examined.
pub(super) const ORDERS: i32 = 20;

/// The random input of a query.
#[derive(Debug, Clone, Copy, Default)]
pub struct Input {
    pub(super) warehouse: i16,
    pub(super) district: i16,
    pub(super) threshold: i32,
}

impl Input {
    /// Draws a query at a warehouse.
    pub fn draw(random: &mut TpccRandom, home: i16) -> Self {
        let district = draw_district(random);
        Self { warehouse: home, district, threshold: random.uniform(10, 20) as i32 }
    }

    /// The partition that it accesses.
    pub fn partitions(&self, field: &Field, partitions: &mut Vec<u32>) {
        field.add_partition(self.warehouse, partitions);
    }
}

/// The next query, with its buffers.
#[derive(Debug, Clone, Default)]
pub struct StockLevel {
    input: Input,
    /// Number of lines of each order; 0 for an order that was not found.
    orders: Vec<i16>,
    items: Vec<Option<i32>>,
    keys: Vec<Value>,
    quantities: Vec<Option<i32>>,
}

impl StockLevel {
    /// Sets the input of the next query.
    pub fn take(&mut self, input: &Input) {
        self.input = *input;
    }

    /// Runs the query.
    pub fn run(&mut self, tx: &mut Transaction, tables: &Tables) -> Ran<()> {
        let place = [Value::Int16(self.input.warehouse), Value::Int16(self.input.district)];
        let row = tx.read_with(&tables.district, &place, |row| row.i32(district::NEXT_ORDER))?;
        let next = found(row, "district", &place)?;
        self.find_items(tx, tables, next)?;
        let Self { items, keys, quantities, .. } = self;
        keys.clear();
        for item in items.iter().flatten() {
            keys.extend([place[0].clone(), Value::Int32(*item)]);
        }
        quantities.clear();
        quantities.resize(items.len(), None);
        tx.visit(
            &tables.stock,
            keys,
            |_| Want::read(&[stock::QUANTITY]),
            |at, row| {
                quantities[at] = match row {
                    Visit::Read(row) => Some(row.i32(stock::QUANTITY)),
                    _ => None,
                }
            },
        )?;
        let mut low = 0;
        for (quantity, key) in quantities.iter().zip(keys.chunks(2)) {
            low += u32::from(found(*quantity, "stock", key)? < self.input.threshold);
        }
        std::hint::black_box(low);
        Ok(())
    }

    /// The distinct items of the orders before `next`.
    fn find_items(&mut self, tx: &mut Transaction, tables: &Tables, next: i32) -> Ran<()> {
        let Self { input: Input { warehouse, district, .. }, orders, items, keys, .. } = self;
        let order =
            |number| [Value::Int16(*warehouse), Value::Int16(*district), Value::Int32(number)];
        let first = next - ORDERS;
        keys.clear();
        (first..next).for_each(|number| keys.extend(order(number)));
        orders.clear();
        orders.resize(ORDERS as usize, 0);
        let wanted = [orders::LINES];
        tx.visit(
            &tables.orders,
            keys,
            |_| Want::read(&wanted),
            |at, row| {
                orders[at] = match row {
                    Visit::Read(row) => row.i16(orders::LINES),
                    _ => 0,
                }
            },
        )?;
        keys.clear();
        for (number, lines) in (first..next).zip(orders.iter()) {
            for line in 1..=*lines {
                keys.extend(order(number));
                keys.push(Value::Int16(line));
            }
        }
        items.clear();
        items.resize(keys.len() / 4, None);
        tx.visit(
            &tables.order_line,
            keys,
            |_| Want::read(&[order_line::ITEM]),
            |at, row| {
                items[at] = match row {
                    Visit::Read(row) => Some(row.i32(order_line::ITEM)),
                    _ => None,
                }
            },
        )?;
        if let Some(missing) = items.iter().position(Option::is_none) {
            return found(None, "order_line", &keys[4 * missing..4 * missing + 4]);
        }
        items.sort_unstable();
        items.dedup();
        Ok(())
    }
}
