//! New-Order (clause 2.4): an order of 5 to 15 items is entered.

use std::sync::LazyLock;

use atoll::{AbortReason, RowEdit, Transaction, TxnError, Value, Visit, Want};
use memchr::memmem::Finder;

use super::field::{Field, draw_district, show};
use super::population::Size;
use super::random::TpccRandom;
use super::schema::{Tables, customer, district, item, order_line, stock, warehouse};
use super::stop::{Ran, found};

/// Most lines of an order.
const LINES_MAX: usize = 15;
/// Percentage of orders that ask for an unknown item and are rolled back.
const ROLLBACK_PERCENT: u64 = 1;
/// Percentage of lines that another warehouse supplies.
const REMOTE_PERCENT: u64 = 1;

const LINE_COLUMNS: usize = order_line::COLUMNS.len();

/// Columns of an item that are read: the first is needed, the others are for the terminal.
const ITEM_SEEN: [usize; 3] = [item::PRICE, item::NAME, item::DATA];

/// The random input of an order.
#[derive(Debug, Clone, Copy)]
pub struct Input {
    pub(super) warehouse: i16,
    pub(super) district: i16,
    pub(super) customer: i32,
    count: usize,
    lines: [Asked; LINES_MAX],
}

/// The input of a line.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked {
    pub(super) item: i32,
    pub(super) supply: i16,
    pub(super) quantity: i16,
}

impl Input {
    /// Draws an order for a warehouse; a `reduced` one has no unknown item.
    pub fn draw(size: Size, random: &mut TpccRandom, home: i16, reduced: bool) -> Self {
        let district = draw_district(random);
        let customer = random.customer(size.customers) as i32;
        let count = random.uniform(5, LINES_MAX as u32) as usize;
        let rollback = random.percent(ROLLBACK_PERCENT) && !reduced;
        let mut lines = [Asked::default(); LINES_MAX];
        for (at, line) in lines[..count].iter_mut().enumerate() {
            let unknown = rollback && at + 1 == count;
            let item = if unknown { size.items + 1 } else { random.item(size.items) } as i32;
            let is_remote = random.percent(REMOTE_PERCENT);
            let supply = if is_remote { size.other_warehouse(random, home) } else { home };
            *line = Asked { item, supply, quantity: random.uniform(1, 10) as i16 };
        }
        Self { warehouse: home, district, customer, count, lines }
    }

    /// Its lines.
    pub(super) fn lines(&self) -> &[Asked] {
        &self.lines[..self.count]
    }

    /// The partitions that it accesses.
    pub fn partitions(&self, field: &Field, partitions: &mut Vec<u32>) {
        field.add_partition(self.warehouse, partitions);
        let remote = self.lines().iter().filter(|line| line.supply != self.warehouse);
        remote.for_each(|line| field.add_partition(line.supply, partitions));
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Line {
    asked: Asked,
    /// Price of the item, when it has been found.
    price: Option<i64>,
    /// Whether the data of the item, and those of its stock, contain the brand ORIGINAL.
    is_original: bool,
    /// The stock's data for the district, when the stock has been found.
    in_stock: bool,
    dist_info: [u8; 24],
}

/// The next order, with buffers for its rows.
#[derive(Debug, Clone)]
pub struct NewOrder {
    /// Warehouse, district and customer.
    customer: [Value; 3],
    warehouse: i16,
    district: i16,
    lines: Vec<Line>,
    /// Keys of the items, with space for the most lines.
    items: Vec<Value>,
    /// Keys of the stocks, two values each, with space for the most lines.
    stocks: Vec<Value>,
    /// The row of the order.
    order: Vec<Value>,
    /// The rows of its lines.
    order_lines: Vec<Value>,
    /// As in the engine of "Staring into the Abyss": without inserts and rollbacks.
    reduced: bool,
}

impl NewOrder {
    /// Buffers for orders.
    pub fn new(reduced: bool) -> Self {
        let (small, number) = (|| Value::Int16(0), || Value::Int32(0));
        let order = vec![
            small(),
            small(),
            number(),
            number(),
            Value::Timestamp(0),
            Value::Null,
            small(),
            small(),
        ];
        let order_line = vec![
            small(),
            small(),
            number(),
            small(),
            number(),
            small(),
            Value::Null,
            small(),
            Value::Int64(0),
            Value::Binary(vec![0; 24]),
        ];
        Self {
            customer: [small(), small(), number()],
            warehouse: 0,
            district: 0,
            lines: Vec::with_capacity(LINES_MAX),
            items: vec![number(); LINES_MAX],
            stocks: vec![[small(), number()]; LINES_MAX].concat(),
            order,
            order_lines: vec![order_line; LINES_MAX].concat(),
            reduced,
        }
    }

    /// Sets the input of the next order.
    pub fn take(&mut self, input: &Input, now: i64) {
        let Input { warehouse: home, district, customer, count, .. } = *input;
        (self.warehouse, self.district) = (home, district);
        self.customer = [Value::Int16(home), Value::Int16(district), Value::Int32(customer)];
        self.lines.clear();
        self.lines
            .extend(input.lines().iter().map(|asked| Line { asked: *asked, ..Line::default() }));
        let rows = self.order_lines.chunks_exact_mut(LINE_COLUMNS);
        let keys = self.items.iter_mut().zip(self.stocks.chunks_exact_mut(2));
        let mut all_local = true;
        for (((line, (item, stock)), row), number) in
            input.lines().iter().zip(keys).zip(rows).zip(1..)
        {
            all_local &= line.supply == home;
            set_i32(item, line.item);
            set_i16(&mut stock[0], line.supply);
            set_i32(&mut stock[1], line.item);
            set_i16(&mut row[order_line::W], home);
            set_i16(&mut row[order_line::D], district);
            set_i16(&mut row[order_line::NUMBER], number);
            set_i32(&mut row[order_line::ITEM], line.item);
            set_i16(&mut row[order_line::SUPPLY], line.supply);
            set_i16(&mut row[order_line::QUANTITY], line.quantity);
        }
        self.order[..2].clone_from_slice(&self.customer[..2]);
        self.order[3] = Value::Int32(customer);
        self.order[4] = Value::Timestamp(now);
        self.order[6] = Value::Int16(count as i16);
        self.order[7] = Value::Int16(all_local.into());
    }

    /// Runs the order.
    pub fn run(&mut self, tx: &mut Transaction, tables: &Tables) -> Ran<()> {
        let home = &self.customer[..1];
        let row = tx.read_with(&tables.warehouse, home, |row| row.i32(warehouse::TAX))?;
        let warehouse_tax = found(row, "warehouse", home)?;
        let row = tx.update_with(&tables.district, &self.customer[..2], |row| {
            let number = row.add_i32(district::NEXT_ORDER, 1) - 1;
            (number, row.i32(district::TAX))
        })?;
        let (number, district_tax) = found(row, "district", &self.customer[..2])?;
        let reduced = self.reduced;
        if !reduced {
            self.order[2] = Value::Int32(number);
            tx.prefetch_new(&tables.orders, &self.order[..3]);
            tx.prefetch_new(&tables.new_order, &self.order[..3]);
        }
        let row = tx.read_with(&tables.customer, &self.customer, |row| {
            if !reduced {
                show(row, &[customer::LAST, customer::CREDIT]);
            }
            row.i32(customer::DISCOUNT)
        })?;
        let discount = found(row, "customer", &self.customer)?;
        self.find_items(tx, tables)?;
        // Only the last item can be unknown; the stock of the items before it is taken all the
        // same.
        let known = self.lines.iter().take_while(|line| line.price.is_some()).count();
        self.take_from_stock(tx, tables, known)?;
        if !reduced {
            // One insert after the other, while its instructions are in the cache.
            tx.insert(&tables.orders, &self.order)?;
            tx.insert(&tables.new_order, &self.order[..3])?;
        }
        let sum = self.add_lines(tx, tables, number, known)?;
        if known < self.lines.len() {
            // The item is unknown: the order is rolled back.
            return Err(TxnError::Abort(AbortReason::Requested).into());
        }
        // In ten-thousandths of a hundredth; the terminal displays it.
        let factor =
            i64::from(10_000 + warehouse_tax + district_tax) * i64::from(10_000 - discount);
        std::hint::black_box(sum * factor / 10_000);
        Ok(())
    }

    /// Columns of a stock that are read or changed; the last two are copied to the lines.
    fn stock_seen(&self) -> [usize; 5] {
        let district = stock::DIST_01 + self.district as usize - 1;
        [stock::QUANTITY, stock::YTD, stock::ORDERS, district, stock::DATA]
    }

    /// Reads the items of all lines.
    fn find_items(&mut self, tx: &mut Transaction, tables: &Tables) -> Ran<()> {
        let Self { lines, items, reduced, .. } = self;
        let wanted = &ITEM_SEEN[..if *reduced { 1 } else { 3 }];
        tx.visit(
            &tables.item,
            &items[..lines.len()],
            |_| Want::read(wanted),
            |at, row| {
                let Visit::Read(row) = row else {
                    lines[at].price = None;
                    return;
                };
                if !*reduced {
                    show(row, &[item::NAME]);
                    lines[at].is_original = row.show(item::DATA, is_original);
                }
                lines[at].price = Some(row.i64(item::PRICE));
            },
        )?;
        Ok(())
    }

    /// Takes the items of the first `known` lines from the stock.
    fn take_from_stock(&mut self, tx: &mut Transaction, tables: &Tables, known: usize) -> Ran<()> {
        let wanted = self.stock_seen();
        let column = wanted[3];
        let wanted = &wanted[..if self.reduced { 3 } else { 5 }];
        let Self { lines, stocks, reduced, warehouse, .. } = self;
        tx.visit(
            &tables.stock,
            &stocks[..2 * known],
            |_| Want::update(wanted),
            |at, row| {
                let line = &mut lines[at];
                line.in_stock = false;
                let Visit::Update(row) = row else { return };
                line.in_stock = true;
                take_stock(row, line.asked.quantity, line.asked.supply != *warehouse);
                if !*reduced {
                    row.bytes(column, &mut line.dist_info);
                    // The stock's data are searched only if the item's contain the brand.
                    let of_item = line.is_original;
                    line.is_original = row.show(stock::DATA, |data| of_item && is_original(data));
                }
            },
        )?;
        match lines[..known].iter().position(|line| !line.in_stock) {
            Some(at) => found(None, "stock", &stocks[2 * at..2 * at + 2]),
            None => Ok(()),
        }
    }

    /// Adds the first lines of the order with this number; returns the sum of their amounts.
    fn add_lines(
        &mut self,
        tx: &mut Transaction,
        tables: &Tables,
        number: i32,
        known: usize,
    ) -> Ran<i64> {
        let Self { lines, order_lines, .. } = self;
        let mut sum = 0;
        for (line, row) in lines[..known].iter().zip(order_lines.chunks_mut(LINE_COLUMNS)) {
            let amount = line.price.unwrap_or_default() * i64::from(line.asked.quantity);
            sum += amount;
            set_i32(&mut row[order_line::O], number);
            row[order_line::AMOUNT] = Value::Int64(amount);
            if let Value::Binary(info) = &mut row[order_line::DIST_INFO] {
                info.copy_from_slice(&line.dist_info);
            }
            std::hint::black_box(line.brand_generic());
        }
        if !self.reduced {
            tx.insert(&tables.order_line, &self.order_lines[..known * LINE_COLUMNS])?;
        }
        Ok(sum)
    }
}

/// Sets a value of the same variant, so that no old value is dropped.
fn set_i16(value: &mut Value, to: i16) {
    match value {
        Value::Int16(number) => *number = to,
        other => *other = Value::Int16(to),
    }
}

/// As [`set_i16`].
fn set_i32(value: &mut Value, to: i32) {
    match value {
        Value::Int32(number) => *number = to,
        other => *other = Value::Int32(to),
    }
}

/// Whether the data of an item or a stock contain the brand.
fn is_original(data: Option<&[u8]>) -> bool {
    static WORD: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"ORIGINAL"));
    data.is_some_and(|data| WORD.find(data).is_some())
}

impl Line {
    /// The terminal's display of the item: brand or generic.
    fn brand_generic(&self) -> char {
        if self.is_original { 'B' } else { 'G' }
    }
}

fn take_stock(row: &mut RowEdit<'_>, quantity: i16, is_remote: bool) {
    let quantity = i32::from(quantity);
    let left = row.i32(stock::QUANTITY) - quantity;
    row.set_i32(stock::QUANTITY, if left >= 10 { left } else { left + 91 });
    row.add_i64(stock::YTD, quantity.into());
    row.add_i32(stock::ORDERS, 1);
    if is_remote {
        row.add_i32(stock::REMOTE, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Constants;
    use super::super::small;
    use super::super::stop::Stop;
    use super::*;

    fn random() -> TpccRandom {
        TpccRandom::new(11, Constants::of_load(11))
    }

    #[test]
    fn one_line_of_a_hundred_is_supplied_by_another_warehouse() {
        const ORDERS: usize = 20_000;
        let (loaded, mut random) = (small(7), random());
        let mut order = NewOrder::new(false);
        let (mut lines, mut remote, mut all_local) = (0, 0, 0);
        for _ in 0..ORDERS {
            order.take(&Input::draw(loaded.size(), &mut random, 3, false), 0);
            assert!(order.lines.iter().all(|line| (1..=7).contains(&line.asked.supply)));
            let away = order.lines.iter().filter(|line| line.asked.supply != 3).count();
            assert_eq!(order.order[7], Value::Int16((away == 0).into()));
            lines += order.lines.len();
            remote += away;
            all_local += usize::from(away == 0);
        }
        // 2,000 of 200,000; one standard deviation is 45.
        assert!((198_000..202_000).contains(&lines) && (1800..2200).contains(&remote), "{remote}");
        // With ten lines on average, 0.99 to the tenth of the orders or a few more.
        assert!((17_900..18_300).contains(&all_local), "{all_local} of {ORDERS}");
    }

    #[test]
    fn an_item_is_of_the_brand_when_its_data_and_those_of_its_stock_say_so() {
        let (loaded, mut random) = (small(1), random());
        let (field, mut order) = (&loaded.field, NewOrder::new(false));
        let mut session = loaded.db.session().expect("a session");
        let mut shown = [0; 2];
        for _ in 0..400 {
            order.take(&Input::draw(loaded.size(), &mut random, 1, false), 0);
            let entered = session.transaction(|tx| {
                order.run(tx, &field.tables).map_err(|stop| match stop {
                    Stop::Txn(error) => error,
                    Stop::Wrong(wrong) => panic!("{wrong}"),
                })
            });
            if entered.is_err() {
                continue; // rolled back
            }
            for (at, line) in order.lines.iter().enumerate() {
                let mut says_so = |table, key, column| {
                    let row = session.transaction(|tx| tx.read(table, key)).expect("no error");
                    let row: Vec<Value> = row.expect("it was found before");
                    matches!(&row[column], Value::Text(data) if data.contains("ORIGINAL"))
                };
                let item = says_so(&field.tables.item, &order.items[at..=at], item::DATA);
                let key = &order.stocks[2 * at..2 * at + 2];
                let stock = says_so(&field.tables.stock, key, stock::DATA);
                let expected = if item && stock { 'B' } else { 'G' };
                assert_eq!(line.brand_generic(), expected, "item {item}, stock {stock}");
                shown[usize::from(item && stock)] += 1;
            }
        }
        assert!(shown[0] > 1000 && shown[1] > 0, "{shown:?}");
    }
}
