//! The initial rows of the tables, by clause 4.3.3.1 of the specification.
//!
//! A district has C customers (3,000; fewer in tests) and as many orders, one for each customer in
//! random order. The last 3 of 10 orders are not delivered yet.

use atoll::Value;

use super::random::{TpccRandom, write_last_name};

/// Districts of a warehouse.
pub const DISTRICTS: u16 = 10;
/// The initial payment of a customer, which is also in the history: 10.00.
pub const FIRST_PAYMENT: i64 = 1000;
/// The writer number of the initial rows of the history.
const LOADER: i16 = -1;

/// The sizes of the tables.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Warehouses.
    pub warehouses: u16,
    /// Customers of a district, and its initial orders.
    pub customers: u32,
    /// Items.
    pub items: u32,
}

impl Size {
    /// A warehouse other than `home`, or `home` if there is no other.
    pub fn other_warehouse(self, random: &mut TpccRandom, home: i16) -> i16 {
        if self.warehouses == 1 {
            return home;
        }
        let other = random.uniform(1, u32::from(self.warehouses) - 1) as i16;
        if other >= home { other + 1 } else { other }
    }

    /// Initially delivered orders of a district: 7 of 10.
    pub fn delivered(self) -> u32 {
        self.customers - self.customers * 3 / 10
    }
}

fn binary(text: String) -> Value {
    Value::Binary(text.into_bytes())
}

/// Two streets, a city, a state and a postal code.
fn address(random: &mut TpccRandom) -> [Value; 5] {
    let state = random.letters(2, 2).to_ascii_uppercase();
    [
        random.letters(10, 20).into(),
        random.letters(10, 20).into(),
        random.letters(10, 20).into(),
        binary(state),
        binary(random.zip()),
    ]
}

/// An item.
pub fn item(random: &mut TpccRandom, number: u32) -> Vec<Value> {
    vec![
        Value::Int32(number as i32),
        Value::Int32(random.uniform(1, 10_000) as i32),
        random.letters(14, 24).into(),
        Value::Int64(random.uniform(100, 10_000).into()),
        random.data().into(),
    ]
}

/// A warehouse.
pub fn warehouse(random: &mut TpccRandom, size: Size, number: i16) -> Vec<Value> {
    let mut row = vec![Value::Int16(number), random.letters(6, 10).into()];
    row.extend(address(random));
    row.push(Value::Int32(random.uniform(0, 2000) as i32));
    let customers = i64::from(size.customers) * i64::from(DISTRICTS);
    row.push(Value::Int64(customers * FIRST_PAYMENT));
    row
}

/// A district.
pub fn district(random: &mut TpccRandom, size: Size, warehouse: i16, number: i16) -> Vec<Value> {
    let mut row = vec![Value::Int16(warehouse), Value::Int16(number), random.letters(6, 10).into()];
    row.extend(address(random));
    row.push(Value::Int32(random.uniform(0, 2000) as i32));
    row.push(Value::Int64(i64::from(size.customers) * FIRST_PAYMENT));
    row.push(Value::Int32(size.customers as i32 + 1));
    row
}

/// The stock of an item.
pub fn stock(random: &mut TpccRandom, warehouse: i16, item: u32) -> Vec<Value> {
    let mut row = vec![
        Value::Int16(warehouse),
        Value::Int32(item as i32),
        Value::Int32(random.uniform(10, 100) as i32),
    ];
    row.extend((0..DISTRICTS).map(|_| binary(random.letters(24, 24))));
    row.extend([Value::Int64(0), Value::Int32(0), Value::Int32(0), random.data().into()]);
    row
}

/// A customer.
pub fn customer(
    random: &mut TpccRandom,
    size: Size,
    [warehouse, district]: [i16; 2],
    number: u32,
    now: i64,
) -> Vec<Value> {
    let mut last = String::new();
    // The first thousand have each name once.
    let name = if number <= 1000 { number - 1 } else { random.last_name(size.customers) };
    write_last_name(name, &mut last);
    let mut row = vec![
        Value::Int16(warehouse),
        Value::Int16(district),
        Value::Int32(number as i32),
        random.letters(8, 16).into(),
        binary("OE".to_owned()),
        last.into(),
    ];
    row.extend(address(random));
    let credit = if random.percent(10) { "BC" } else { "GC" };
    row.extend([
        binary(random.digits(16)),
        Value::Timestamp(now),
        binary(credit.to_owned()),
        Value::Int64(5_000_000),
        Value::Int32(random.uniform(0, 5000) as i32),
        Value::Int64(-FIRST_PAYMENT),
        Value::Int64(FIRST_PAYMENT),
        Value::Int32(1),
        Value::Int32(0),
        random.letters(300, 500).into(),
    ]);
    row
}

/// The row of the history for a customer's initial payment.
pub fn history(
    random: &mut TpccRandom,
    size: Size,
    [warehouse, district]: [i16; 2],
    customer: u32,
    now: i64,
) -> Vec<Value> {
    let number = (district as u32 - 1) * size.customers + customer;
    vec![
        Value::Int16(warehouse),
        Value::Int16(LOADER),
        Value::Int32(number as i32),
        Value::Int16(district),
        Value::Int16(warehouse),
        Value::Int16(district),
        Value::Int32(customer as i32),
        Value::Timestamp(now),
        Value::Int64(FIRST_PAYMENT),
        random.letters(12, 24).into(),
    ]
}

/// The rows of an order and its lines.
pub fn order(
    random: &mut TpccRandom,
    size: Size,
    [warehouse, district]: [i16; 2],
    [number, customer]: [u32; 2],
    now: i64,
) -> (Vec<Value>, Vec<Vec<Value>>) {
    let delivered = number <= size.delivered();
    let carrier = delivered.then(|| random.uniform(1, 10) as i16);
    let lines = random.uniform(5, 15) as i16;
    let key = [Value::Int16(warehouse), Value::Int16(district), Value::Int32(number as i32)];
    let mut row = key.to_vec();
    row.extend([
        Value::Int32(customer as i32),
        Value::Timestamp(now),
        carrier.into(),
        Value::Int16(lines),
        Value::Int16(1),
    ]);
    let line = |line| {
        let amount = if delivered { 0 } else { random.uniform(1, 999_999) };
        let mut row = key.to_vec();
        row.extend([
            Value::Int16(line),
            Value::Int32(random.uniform(1, size.items) as i32),
            Value::Int16(warehouse),
            if delivered { Value::Timestamp(now) } else { Value::Null },
            Value::Int16(5),
            Value::Int64(amount.into()),
            binary(random.letters(24, 24)),
        ]);
        row
    };
    (row, (1..=lines).map(line).collect())
}
