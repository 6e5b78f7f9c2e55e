//! Stock-Level (clause 2.8): how many items of a district's last 20 orders are low in stock.

use std::ops::{Bound, ControlFlow};

use atoll::{Range, Row, Transaction, Value, Visit, Want};

use super::field::{Field, draw_district};
use super::random::TpccRandom;
use super::schema::{Tables, district, order_line, stock};
use super::stop::{Ran, found};

/// Orders that are looked at.
const ORDERS: i32 = 20;

/// The next question.
#[derive(Debug, Clone, Default)]
pub struct StockLevel {
    warehouse: i16,
    district: i16,
    threshold: i32,
    items: Vec<i32>,
    keys: Vec<Value>,
    quantities: Vec<Option<i32>>,
}

impl StockLevel {
    /// Draws the next question at a warehouse.
    pub fn draw(&mut self, random: &mut TpccRandom, home: i16) {
        (self.warehouse, self.district) = (home, draw_district(random));
        self.threshold = random.uniform(10, 20) as i32;
    }

    /// The partition that it touches.
    pub fn partitions(&self, field: &Field, partitions: &mut Vec<u32>) {
        field.add_partition(self.warehouse, partitions);
    }

    /// Runs it.
    pub fn run(&mut self, tx: &mut Transaction, tables: &Tables) -> Ran<()> {
        let place = [Value::Int16(self.warehouse), Value::Int16(self.district)];
        let row = tx.read_with(&tables.district, &place, |row| row.i32(district::NEXT_ORDER))?;
        let next = found(row, "district", &place)?;
        let bound = |number| [place[0].clone(), place[1].clone(), Value::Int32(number)];
        let (from, to) = (bound(next - ORDERS), bound(next));
        let range =
            Range { from: Bound::Included(&from), to: Bound::Excluded(&to), descending: false };
        let items = &mut self.items;
        items.clear();
        let item = |row: &Row<'_>| row.i32(order_line::ITEM);
        tx.scan(&tables.order_line_by_order, range, item, |item| {
            items.push(item);
            ControlFlow::Continue(())
        })?;
        items.sort_unstable();
        items.dedup();
        let Self { items, keys, quantities, .. } = self;
        keys.clear();
        items.iter().for_each(|item| keys.extend([place[0].clone(), Value::Int32(*item)]));
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
            low += u32::from(found(*quantity, "stock", key)? < self.threshold);
        }
        std::hint::black_box(low);
        Ok(())
    }
}
