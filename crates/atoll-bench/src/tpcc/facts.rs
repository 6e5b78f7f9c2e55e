//! The contents of the nine tables in a snapshot, gathered in one pass over each: the sums and
//! counts that the consistency conditions compare.

use std::collections::BTreeMap;

use atoll::Snapshot;

use super::population::Size;
use crate::error::BenchError;
use crate::oltp::rows::{for_each, for_each_present};

/// Items numbered from 1 without gaps in a vector, and those with other numbers in a map.
#[derive(Debug, Clone)]
pub struct Numbered<T> {
    dense: Vec<T>,
    stray: BTreeMap<i64, T>,
}

impl<T: Default + Clone> Numbered<T> {
    fn new(count: i64) -> Self {
        Self { dense: vec![T::default(); count.max(0) as usize], stray: BTreeMap::new() }
    }

    fn at(&mut self, number: i64) -> &mut T {
        match usize::try_from(number - 1) {
            Ok(at) if at < self.dense.len() => &mut self.dense[at],
            _ => self.stray.entry(number).or_default(),
        }
    }

    /// All items with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (i64, &T)> {
        let stray = self.stray.iter().map(|(number, thing)| (*number, thing));
        (1..).zip(&self.dense).chain(stray)
    }
}

/// A warehouse.
#[derive(Debug, Clone, Default)]
pub struct Warehouse {
    /// `w_ytd`.
    pub ytd: i64,
    /// Sum of the `d_ytd` of its districts.
    pub districts_ytd: i64,
    /// Sum of the `h_amount` of its rows of the history.
    pub history: i64,
}

/// A customer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Customer {
    /// `c_balance`.
    pub balance: i64,
    /// `c_ytd_payment`.
    pub paid: i64,
    /// Sum of the `h_amount` of the customer's rows of the history.
    pub history: i64,
    /// Sum of the `ol_amount` of the customer's delivered order lines.
    pub delivered: i64,
}

/// An order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Order {
    /// Number of rows of `orders`.
    pub rows: u32,
    /// `o_ol_cnt`.
    pub expected_lines: i64,
    /// Whether `o_carrier_id` is not NULL.
    pub has_carrier: bool,
    /// Number of rows of `new_order`.
    pub new_orders: u32,
    /// Number of rows of `order_line`.
    pub lines: u32,
    /// Number of those with an `ol_delivery_d` that is not NULL.
    pub delivered_lines: u32,
    /// `o_c_id`.
    customer: i64,
}

/// A district.
#[derive(Debug, Clone)]
pub struct District {
    /// `d_ytd`.
    pub ytd: i64,
    /// `d_next_o_id`.
    pub next_order: i64,
    /// Sum of the `h_amount` of its rows of the history.
    pub history: i64,
    /// Sum of the `c_delivery_cnt` of its customers.
    pub deliveries: i64,
    /// Its customers.
    pub customers: Numbered<Customer>,
    /// Its orders.
    pub orders: Numbered<Order>,
}

impl District {
    fn new(next_order: i64, customers: i64) -> Self {
        // Bounded, so that a wrong number does not exhaust memory.
        let orders = (next_order - 1).clamp(0, 1 << 28);
        Self {
            ytd: 0,
            next_order,
            history: 0,
            deliveries: 0,
            customers: Numbered::new(customers),
            orders: Numbered::new(orders),
        }
    }
}

/// The sums and counts of all tables.
pub struct Facts {
    /// Warehouses by number.
    pub warehouses: BTreeMap<i64, Warehouse>,
    /// Districts by warehouse and number.
    pub districts: BTreeMap<(i64, i64), District>,
    /// Initially delivered orders of a district.
    pub delivered_at_first: i64,
}

impl Facts {
    /// Reads the tables.
    ///
    /// # Errors
    /// [`BenchError::Database`].
    pub fn gather(snapshot: &Snapshot, size: Size) -> Result<Self, BenchError> {
        let mut facts = Self {
            warehouses: BTreeMap::new(),
            districts: BTreeMap::new(),
            delivered_at_first: size.delivered().into(),
        };
        let customers = i64::from(size.customers);
        facts.gather_places(snapshot, customers)?;
        facts.gather_customers(snapshot)?;
        facts.gather_orders(snapshot)?;
        facts.gather_lines(snapshot)?;
        Ok(facts)
    }

    fn district(&mut self, w: i64, d: i64) -> &mut District {
        self.districts.entry((w, d)).or_insert_with(|| District::new(0, 0))
    }

    fn gather_places(&mut self, snapshot: &Snapshot, customers: i64) -> Result<(), BenchError> {
        for_each_present(snapshot, "warehouse", ["w_id", "w_ytd"], |[w, ytd]| {
            self.warehouses.entry(w).or_default().ytd = ytd;
        })?;
        let columns = ["d_w_id", "d_id", "d_ytd", "d_next_o_id"];
        for_each_present(snapshot, "district", columns, |[w, d, ytd, next_order]| {
            self.warehouses.entry(w).or_default().districts_ytd += ytd;
            let district = District { ytd, ..District::new(next_order, customers) };
            self.districts.insert((w, d), district);
        })
    }

    fn gather_customers(&mut self, snapshot: &Snapshot) -> Result<(), BenchError> {
        let columns = ["c_w_id", "c_d_id", "c_id", "c_balance", "c_ytd_payment", "c_delivery_cnt"];
        for_each_present(snapshot, "customer", columns, |[w, d, c, balance, paid, deliveries]| {
            let district = self.district(w, d);
            district.deliveries += deliveries;
            let customer = district.customers.at(c);
            (customer.balance, customer.paid) = (balance, paid);
        })?;
        let columns = ["h_w_id", "h_d_id", "h_c_w_id", "h_c_d_id", "h_c_id", "h_amount"];
        for_each_present(snapshot, "history", columns, |[w, d, c_w, c_d, c, amount]| {
            self.warehouses.entry(w).or_default().history += amount;
            self.district(w, d).history += amount;
            self.district(c_w, c_d).customers.at(c).history += amount;
        })
    }

    fn gather_orders(&mut self, snapshot: &Snapshot) -> Result<(), BenchError> {
        let columns = ["o_w_id", "o_d_id", "o_id", "o_c_id", "o_ol_cnt", "o_carrier_id"];
        for_each(snapshot, "orders", columns, |[w, d, o, customer, lines, carrier]| {
            let [w, d, o] = [w, d, o].map(Option::unwrap_or_default);
            let order = self.district(w, d).orders.at(o);
            order.rows += 1;
            order.customer = customer.unwrap_or_default();
            order.expected_lines = lines.unwrap_or_default();
            order.has_carrier = carrier.is_some();
        })?;
        let columns = ["no_w_id", "no_d_id", "no_o_id"];
        for_each_present(snapshot, "new_order", columns, |[w, d, o]| {
            self.district(w, d).orders.at(o).new_orders += 1;
        })
    }

    fn gather_lines(&mut self, snapshot: &Snapshot) -> Result<(), BenchError> {
        let columns = ["ol_w_id", "ol_d_id", "ol_o_id", "ol_amount", "ol_delivery_d"];
        for_each(snapshot, "order_line", columns, |[w, d, o, amount, delivery]| {
            let [w, d, o] = [w, d, o].map(Option::unwrap_or_default);
            let district = self.district(w, d);
            let order = district.orders.at(o);
            order.lines += 1;
            if delivery.is_some() {
                order.delivered_lines += 1;
                let customer = order.customer;
                district.customers.at(customer).delivered += amount.unwrap_or_default();
            }
        })
    }
}
