//! The nine tables.
//!
//! - Warehouses and districts are numbered by `smallint`, customers, orders and items by `integer`,
//!   so that every key of up to three parts fits into 8 bytes. All tables but ITEM have the
//!   warehouse as the first column of their key: it decides the partition. ITEM is replicated.
//! - Money is a `bigint` in hundredths, taxes and discounts an `integer` in ten-thousandths.
//! - Text of a fixed size is `binary(n)`, text of a varying size is `text`.
//! - An order contains the number of its lines, so their keys are known and they need no ordered
//!   index.
//! - The specification gives HISTORY no key; here the key is the warehouse, the thread that wrote
//!   the row (−1: the load), and a number.

use atoll::{Column, Database, Index, IndexSpec, Schema, Table, TableOptions};

use crate::error::BenchError;

/// Declares the columns of a table: a constant for the position of each, and their types.
macro_rules! columns {
    ($(#[$doc:meta])* $module:ident { $($name:ident: $text:literal $data_type:expr,)* }) => {
        $(#[$doc])*
        // Every column has a constant and every module imports all types, used or not.
        #[allow(dead_code, unused_imports)]
        pub mod $module {
            use atoll::DataType::{self, FixedBinary, Int16, Int32, Int64, Text, Timestamp};

            #[allow(clippy::upper_case_acronyms, non_camel_case_types)]
            enum Position { $($name,)* }

            $(#[doc = concat!("Position of `", $text, "`.")]
            pub const $name: usize = Position::$name as usize;)*

            /// Names and types.
            pub const COLUMNS: &[(&str, DataType)] = &[$(($text, $data_type),)*];
        }
    };
}

columns!(
    /// WAREHOUSE.
    warehouse {
        W: "w_id" Int16,
        NAME: "w_name" Text,
        STREET_1: "w_street_1" Text,
        STREET_2: "w_street_2" Text,
        CITY: "w_city" Text,
        STATE: "w_state" FixedBinary(2),
        ZIP: "w_zip" FixedBinary(9),
        TAX: "w_tax" Int32,
        YTD: "w_ytd" Int64,
    }
);
columns!(
    /// DISTRICT.
    district {
        W: "d_w_id" Int16,
        D: "d_id" Int16,
        NAME: "d_name" Text,
        STREET_1: "d_street_1" Text,
        STREET_2: "d_street_2" Text,
        CITY: "d_city" Text,
        STATE: "d_state" FixedBinary(2),
        ZIP: "d_zip" FixedBinary(9),
        TAX: "d_tax" Int32,
        YTD: "d_ytd" Int64,
        NEXT_ORDER: "d_next_o_id" Int32,
    }
);
columns!(
    /// CUSTOMER.
    customer {
        W: "c_w_id" Int16,
        D: "c_d_id" Int16,
        C: "c_id" Int32,
        FIRST: "c_first" Text,
        MIDDLE: "c_middle" FixedBinary(2),
        LAST: "c_last" Text,
        STREET_1: "c_street_1" Text,
        STREET_2: "c_street_2" Text,
        CITY: "c_city" Text,
        STATE: "c_state" FixedBinary(2),
        ZIP: "c_zip" FixedBinary(9),
        PHONE: "c_phone" FixedBinary(16),
        SINCE: "c_since" Timestamp,
        CREDIT: "c_credit" FixedBinary(2),
        CREDIT_LIMIT: "c_credit_lim" Int64,
        DISCOUNT: "c_discount" Int32,
        BALANCE: "c_balance" Int64,
        YTD_PAYMENT: "c_ytd_payment" Int64,
        PAYMENTS: "c_payment_cnt" Int32,
        DELIVERIES: "c_delivery_cnt" Int32,
        DATA: "c_data" Text,
    }
);
columns!(
    /// HISTORY.
    history {
        W: "h_w_id" Int16,
        WORKER: "h_worker" Int16,
        NUMBER: "h_number" Int32,
        D: "h_d_id" Int16,
        CUSTOMER_W: "h_c_w_id" Int16,
        CUSTOMER_D: "h_c_d_id" Int16,
        CUSTOMER: "h_c_id" Int32,
        DATE: "h_date" Timestamp,
        AMOUNT: "h_amount" Int64,
        DATA: "h_data" Text,
    }
);
columns!(
    /// NEW-ORDER.
    new_order {
        W: "no_w_id" Int16,
        D: "no_d_id" Int16,
        O: "no_o_id" Int32,
    }
);
columns!(
    /// ORDER.
    orders {
        W: "o_w_id" Int16,
        D: "o_d_id" Int16,
        O: "o_id" Int32,
        CUSTOMER: "o_c_id" Int32,
        ENTRY: "o_entry_d" Timestamp,
        CARRIER: "o_carrier_id" Int16,
        LINES: "o_ol_cnt" Int16,
        ALL_LOCAL: "o_all_local" Int16,
    }
);
columns!(
    /// ORDER-LINE.
    order_line {
        W: "ol_w_id" Int16,
        D: "ol_d_id" Int16,
        O: "ol_o_id" Int32,
        NUMBER: "ol_number" Int16,
        ITEM: "ol_i_id" Int32,
        SUPPLY: "ol_supply_w_id" Int16,
        DELIVERY: "ol_delivery_d" Timestamp,
        QUANTITY: "ol_quantity" Int16,
        AMOUNT: "ol_amount" Int64,
        DIST_INFO: "ol_dist_info" FixedBinary(24),
    }
);
columns!(
    /// ITEM.
    item {
        I: "i_id" Int32,
        IMAGE: "i_im_id" Int32,
        NAME: "i_name" Text,
        PRICE: "i_price" Int64,
        DATA: "i_data" Text,
    }
);
columns!(
    /// STOCK.
    stock {
        W: "s_w_id" Int16,
        I: "s_i_id" Int32,
        QUANTITY: "s_quantity" Int32,
        DIST_01: "s_dist_01" FixedBinary(24),
        DIST_02: "s_dist_02" FixedBinary(24),
        DIST_03: "s_dist_03" FixedBinary(24),
        DIST_04: "s_dist_04" FixedBinary(24),
        DIST_05: "s_dist_05" FixedBinary(24),
        DIST_06: "s_dist_06" FixedBinary(24),
        DIST_07: "s_dist_07" FixedBinary(24),
        DIST_08: "s_dist_08" FixedBinary(24),
        DIST_09: "s_dist_09" FixedBinary(24),
        DIST_10: "s_dist_10" FixedBinary(24),
        YTD: "s_ytd" Int64,
        ORDERS: "s_order_cnt" Int32,
        REMOTE: "s_remote_cnt" Int32,
        DATA: "s_data" Text,
    }
);

/// Columns that may be NULL: those that a delivery sets.
pub const NULLABLE: [&str; 2] = ["o_carrier_id", "ol_delivery_d"];

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// WAREHOUSE
    Warehouse,
    /// DISTRICT
    District,
    /// CUSTOMER
    Customer,
    /// HISTORY
    History,
    /// NEW-ORDER
    NewOrder,
    /// ORDER
    Orders,
    /// ORDER-LINE
    OrderLine,
    /// ITEM
    Item,
    /// STOCK
    Stock,
}

impl Kind {
    /// All nine.
    pub const ALL: [Self; 9] = [
        Self::Warehouse,
        Self::District,
        Self::Customer,
        Self::History,
        Self::NewOrder,
        Self::Orders,
        Self::OrderLine,
        Self::Item,
        Self::Stock,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        self.definition().0
    }

    /// Its name, its columns, and the columns of its primary key.
    pub fn definition(self) -> (&'static str, Columns, &'static [&'static str]) {
        match self {
            Self::Warehouse => ("warehouse", warehouse::COLUMNS, &["w_id"]),
            Self::District => ("district", district::COLUMNS, &["d_w_id", "d_id"]),
            Self::Customer => ("customer", customer::COLUMNS, &["c_w_id", "c_d_id", "c_id"]),
            Self::History => ("history", history::COLUMNS, &["h_w_id", "h_worker", "h_number"]),
            Self::NewOrder => ("new_order", new_order::COLUMNS, &["no_w_id", "no_d_id", "no_o_id"]),
            Self::Orders => ("orders", orders::COLUMNS, &["o_w_id", "o_d_id", "o_id"]),
            Self::OrderLine => {
                ("order_line", order_line::COLUMNS, &["ol_w_id", "ol_d_id", "ol_o_id", "ol_number"])
            }
            Self::Item => ("item", item::COLUMNS, &["i_id"]),
            Self::Stock => ("stock", stock::COLUMNS, &["s_w_id", "s_i_id"]),
        }
    }
}

/// Names and types of columns.
pub type Columns = &'static [(&'static str, atoll::DataType)];

/// The columns of the ordered index by which customers are found by name.
pub const CUSTOMER_BY_NAME: (&str, &[&str]) =
    ("customer_by_name", &["c_w_id", "c_d_id", "c_last", "c_first"]);
/// The columns of the ordered index by which the last order of a customer is found.
pub const ORDERS_BY_CUSTOMER: (&str, &[&str]) =
    ("orders_by_customer", &["o_w_id", "o_d_id", "o_c_id", "o_id"]);
/// The columns of the ordered index by which the oldest open order is found.
const NEW_ORDER_BY_DISTRICT: (&str, &[&str]) =
    ("new_order_by_district", &["no_w_id", "no_d_id", "no_o_id"]);

/// The nine tables and their ordered indexes.
#[derive(Clone)]
pub struct Tables {
    pub warehouse: Table,
    pub district: Table,
    pub customer: Table,
    pub history: Table,
    pub new_order: Table,
    pub orders: Table,
    pub order_line: Table,
    pub item: Table,
    pub stock: Table,
    /// (w, d, last, first).
    pub customer_by_name: Index,
    /// (w, d, c, o).
    pub orders_by_customer: Index,
    /// (w, d, o).
    pub new_order_by_district: Index,
}

struct Maker<'d>(&'d Database);

impl Maker<'_> {
    fn table(&self, kind: Kind, options: &TableOptions) -> Result<Table, BenchError> {
        let (name, columns, key) = kind.definition();
        let columns = columns.iter().map(|(name, data_type)| Column {
            name: (*name).to_owned(),
            data_type: *data_type,
            nullable: NULLABLE.contains(name),
        });
        let schema = Schema::new(columns.collect(), key).map_err(atoll::Error::from)?;
        Ok(self.0.create_table_with(name, schema, options)?)
    }

    fn plain(&self, kind: Kind) -> Result<Table, BenchError> {
        self.table(kind, &TableOptions::default())
    }

    /// Creates a table with an ordered index. The primary key is unique already, so the index need
    /// not be.
    fn indexed(
        &self,
        kind: Kind,
        (index, by): (&str, &[&str]),
    ) -> Result<(Table, Index), BenchError> {
        let by = by.iter().map(|name| (*name).to_owned()).collect();
        let spec = IndexSpec {
            name: index.to_owned(),
            columns: by,
            unique: false,
            nulls_not_distinct: false,
        };
        let options = TableOptions { indexes: vec![spec], ..TableOptions::default() };
        let table = self.table(kind, &options)?;
        let index = table.index(index)?;
        Ok((table, index))
    }
}

impl Tables {
    /// Creates the tables.
    ///
    /// # Errors
    /// [`BenchError::Database`].
    pub fn create(db: &Database) -> Result<Self, BenchError> {
        let make = Maker(db);
        let (customer, customer_by_name) = make.indexed(Kind::Customer, CUSTOMER_BY_NAME)?;
        let (orders, orders_by_customer) = make.indexed(Kind::Orders, ORDERS_BY_CUSTOMER)?;
        let (new_order, new_order_by_district) =
            make.indexed(Kind::NewOrder, NEW_ORDER_BY_DISTRICT)?;
        let replicated = TableOptions { replicated: true, ..TableOptions::default() };
        Ok(Self {
            warehouse: make.plain(Kind::Warehouse)?,
            district: make.plain(Kind::District)?,
            history: make.plain(Kind::History)?,
            item: make.table(Kind::Item, &replicated)?,
            order_line: make.plain(Kind::OrderLine)?,
            stock: make.plain(Kind::Stock)?,
            customer,
            new_order,
            orders,
            customer_by_name,
            orders_by_customer,
            new_order_by_district,
        })
    }

    /// A table.
    pub fn of(&self, kind: Kind) -> &Table {
        match kind {
            Kind::Warehouse => &self.warehouse,
            Kind::District => &self.district,
            Kind::Customer => &self.customer,
            Kind::History => &self.history,
            Kind::NewOrder => &self.new_order,
            Kind::Orders => &self.orders,
            Kind::OrderLine => &self.order_line,
            Kind::Item => &self.item,
            Kind::Stock => &self.stock,
        }
    }

    /// The partition of a warehouse.
    pub fn partition(&self, warehouse: i16) -> u32 {
        self.warehouse.partition(&[atoll::Value::Int16(warehouse)])
    }
}
