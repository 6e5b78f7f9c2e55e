//! The five transactions as SQL statements.
//!
//! They do what those of the parent module do, row by row, as an application would: no statement
//! visits rows that the specification does not name, and what a terminal shows is read.

use std::fmt::Write;

use super::statements::Statements;
use crate::oltp::Outcome;
use crate::sql::{Connection, Failure, Fields, Param};
use crate::tpcc::drawn::Input;
use crate::tpcc::field::CustomerSelector;
use crate::tpcc::population::DISTRICTS;
use crate::tpcc::random::write_last_name;
use crate::tpcc::{delivery, new_order, order_status, payment, stock_level};

/// What a body returns.
type Ran<R> = Result<R, Failure>;

/// Runs transactions on a connection.
pub struct SqlTransactions<C: Connection> {
    connection: C,
    statements: Statements<C::Statement>,
    /// Writer and number of the last row of the history.
    history: [i64; 2],
    text: String,
}

fn int(value: impl Into<i64>) -> Param<'static> {
    Param::Int(value.into())
}

fn missing(what: &str) -> Failure {
    Failure::Other(format!("a transaction found no row of {what}"))
}

/// Reads columns that a terminal shows.
fn show(row: &dyn Fields, columns: std::ops::Range<usize>) -> Ran<()> {
    for column in columns {
        row.text(column, &mut |text| {
            std::hint::black_box(text.len());
        })?;
    }
    Ok(())
}

fn is_original(row: &dyn Fields, column: usize) -> Ran<bool> {
    let mut found = false;
    row.text(column, &mut |text| found = text.contains("ORIGINAL"))?;
    Ok(found)
}

impl<C: Connection> SqlTransactions<C> {
    /// Prepares the statements; `writer` numbers the connections.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn new(mut connection: C, writer: i16) -> Ran<Self> {
        let statements = Statements::prepare(&mut connection)?;
        let text = String::with_capacity(64);
        Ok(Self { connection, statements, history: [writer.into(), 0], text })
    }

    /// Attempts a transaction once, at a time in microseconds since 1970.
    ///
    /// # Errors
    /// [`Failure`]; the transaction has been rolled back.
    pub fn run(&mut self, input: &Input, now: i64) -> Ran<Outcome> {
        self.connection.run("BEGIN")?;
        let ran = match input {
            Input::NewOrder(input) => self.new_order(input, now),
            Input::Payment(input) => self.payment(input, now),
            Input::OrderStatus(input) => self.order_status(input),
            Input::Delivery(input) => self.delivery(input, now),
            Input::StockLevel(input) => self.stock_level(input),
        };
        match ran {
            Ok(Outcome::Committed) => {
                self.connection.run("COMMIT")?;
                Ok(Outcome::Committed)
            }
            Ok(Outcome::RolledBack) => {
                self.connection.run("ROLLBACK")?;
                Ok(Outcome::RolledBack)
            }
            Err(failure) => {
                self.connection.run("ROLLBACK")?;
                Err(failure)
            }
        }
    }

    fn new_order(&mut self, input: &new_order::Input, now: i64) -> Ran<Outcome> {
        let Self { connection, statements, .. } = self;
        let (w, d, c) = (int(input.warehouse), int(input.district), int(input.customer));
        let mut warehouse_tax = None;
        connection.query(&statements.warehouse_tax, &[w], &mut |row| {
            warehouse_tax = Some(row.int(0)?);
            Ok(())
        })?;
        let mut district = None;
        connection.query(&statements.next_order, &[w, d], &mut |row| {
            district = Some((row.int(0)? - 1, row.int(1)?));
            Ok(())
        })?;
        let mut discount = None;
        connection.query(&statements.terms, &[w, d, c], &mut |row| {
            discount = Some(row.int(0)?);
            show(row, 1..3)
        })?;
        let warehouse_tax = warehouse_tax.ok_or_else(|| missing("warehouse"))?;
        let (number, district_tax) = district.ok_or_else(|| missing("district"))?;
        let discount = discount.ok_or_else(|| missing("customer"))?;
        let (o, lines) = (Param::Int(number), input.lines());
        let all_local = lines.iter().all(|line| line.supply == input.warehouse);
        let order = [
            w,
            d,
            o,
            c,
            Param::Time(now),
            Param::Null,
            int(lines.len() as i32),
            int(i16::from(all_local)),
        ];
        connection.execute(&statements.add_order, &order)?;
        connection.execute(&statements.add_new_order, &[w, d, o])?;
        let take_stock = &statements.take_stock[input.district as usize - 1];
        let mut sum = 0;
        for (line, at) in lines.iter().zip(1..) {
            let (item, supply, quantity) = (int(line.item), int(line.supply), int(line.quantity));
            let mut found = None;
            connection.query(&statements.item, &[item], &mut |row| {
                show(row, 1..2)?;
                found = Some((row.int(0)?, is_original(row, 2)?));
                Ok(())
            })?;
            let Some((price, of_brand)) = found else { return Ok(Outcome::RolledBack) };
            let remote = int(i16::from(line.supply != input.warehouse));
            let (info, mut is_there) = (&mut self.text, false);
            connection.query(take_stock, &[quantity, remote, supply, item], &mut |row| {
                is_there = true;
                info.clear();
                row.text(1, &mut |text| info.push_str(text))?;
                std::hint::black_box(of_brand && is_original(row, 2)?);
                Ok(())
            })?;
            if !is_there {
                return Err(missing("stock"));
            }
            let amount = price * i64::from(line.quantity);
            sum += amount;
            let row = [
                w,
                d,
                o,
                int(at),
                item,
                supply,
                Param::Null,
                quantity,
                Param::Int(amount),
                Param::Text(info),
            ];
            connection.execute(&statements.add_line, &row)?;
        }
        let factor = (10_000 + warehouse_tax + district_tax) * (10_000 - discount);
        std::hint::black_box(sum * factor / 10_000);
        Ok(Outcome::Committed)
    }

    /// The number of a customer. Of several with the name it is the one in the middle by first
    /// name, rounded up.
    fn customer(&mut self, place: [i16; 2], selector: CustomerSelector) -> Ran<Param<'static>> {
        let Self { connection, statements, text, .. } = self;
        let name = match selector {
            CustomerSelector::ByNumber(number) => return Ok(int(number)),
            CustomerSelector::ByName(name) => name,
        };
        write_last_name(name, text);
        let mut namesakes: Vec<i64> = Vec::new();
        let key = [int(place[0]), int(place[1]), Param::Text(text)];
        connection.query(&statements.namesakes, &key, &mut |row| {
            namesakes.push(row.int(0)?);
            Ok(())
        })?;
        let middle = namesakes.len().div_ceil(2).max(1) - 1;
        namesakes.get(middle).copied().map(Param::Int).ok_or_else(|| missing("customer"))
    }

    fn payment(&mut self, input: &payment::Input, now: i64) -> Ran<Outcome> {
        let (w, d, amount) = (int(input.warehouse), int(input.district), int(input.amount));
        let [customer_w, customer_d] = input.customer_at;
        let mut names = String::with_capacity(24);
        let Self { connection, statements, .. } = self;
        connection.query(&statements.pay_warehouse, &[amount, w], &mut |row| {
            row.text(0, &mut |name| names.push_str(name))?;
            show(row, 1..6)
        })?;
        names.push_str("    ");
        connection.query(&statements.pay_district, &[amount, w, d], &mut |row| {
            row.text(0, &mut |name| names.push_str(name))?;
            show(row, 1..6)
        })?;
        let c = self.customer(input.customer_at, input.selector)?;
        let (c_w, c_d) = (int(customer_w), int(customer_d));
        let Self { connection, statements, history, text, .. } = self;
        let (mut is_there, mut is_bad) = (false, false);
        connection.query(&statements.pay_customer, &[amount, c_w, c_d, c], &mut |row| {
            is_there = true;
            row.text(0, &mut |credit| is_bad = credit == "BC")?;
            show(row, 1..10)?;
            std::hint::black_box(row.int(12)?);
            Ok(())
        })?;
        if !is_there {
            return Err(missing("customer"));
        }
        if is_bad {
            let Param::Int(number) = c else { unreachable!("a customer is a number") };
            let (whole, hundredths) = (input.amount / 100, input.amount % 100);
            let (w, d) = (input.warehouse, input.district);
            text.clear();
            // Writing to a string cannot fail.
            let _ =
                write!(text, "{number} {customer_d} {customer_w} {d} {w} {whole}.{hundredths:02} ");
            let key = [Param::Text(text), c_w, c_d, c];
            connection.execute(&statements.note_bad_credit, &key)?;
        }
        history[1] += 1;
        let row = [
            w,
            Param::Int(history[0]),
            Param::Int(history[1]),
            d,
            c_w,
            c_d,
            c,
            Param::Time(now),
            amount,
            Param::Text(&names),
        ];
        connection.execute(&statements.add_history, &row)?;
        Ok(Outcome::Committed)
    }

    fn order_status(&mut self, input: &order_status::Input) -> Ran<Outcome> {
        let c = self.customer(input.place, input.selector)?;
        let [w, d] = input.place.map(int);
        let Self { connection, statements, .. } = self;
        connection.query(&statements.customer, &[w, d, c], &mut |row| {
            std::hint::black_box(row.int(0)?);
            show(row, 1..4)
        })?;
        let mut last = None;
        connection.query(&statements.last_order, &[w, d, c], &mut |row| {
            last = Some(row.int(0)?);
            Ok(())
        })?;
        let o = Param::Int(last.ok_or_else(|| missing("orders"))?);
        let mut sum = 0;
        connection.query(&statements.lines, &[w, d, o], &mut |row| {
            sum += row.int(3)?;
            Ok(())
        })?;
        std::hint::black_box(sum);
        Ok(Outcome::Committed)
    }

    fn delivery(&mut self, input: &delivery::Input, now: i64) -> Ran<Outcome> {
        let Self { connection, statements, .. } = self;
        let (w, carrier) = (int(input.warehouse), int(input.carrier));
        for district in 1..=DISTRICTS {
            let d = int(district);
            // Another delivery may take the order that was found.
            let o = loop {
                let mut oldest = None;
                connection.query(&statements.oldest_order, &[w, d], &mut |row| {
                    oldest = Some(Param::Int(row.int(0)?));
                    Ok(())
                })?;
                match oldest {
                    None => break None,
                    Some(o) if connection.execute(&statements.take_new_order, &[w, d, o])? > 0 => {
                        break Some(o);
                    }
                    Some(_) => {}
                }
            };
            let Some(o) = o else { continue };
            let mut customer = None;
            connection.query(&statements.deliver_order, &[carrier, w, d, o], &mut |row| {
                customer = Some(Param::Int(row.int(0)?));
                Ok(())
            })?;
            let c = customer.ok_or_else(|| missing("orders"))?;
            let mut sum = 0;
            let lines = [Param::Time(now), w, d, o];
            connection.query(&statements.deliver_lines, &lines, &mut |row| {
                sum += row.int(0)?;
                Ok(())
            })?;
            let key = [Param::Int(sum), w, d, c];
            if connection.execute(&statements.credit_customer, &key)? == 0 {
                return Err(missing("customer"));
            }
        }
        Ok(Outcome::Committed)
    }

    fn stock_level(&mut self, input: &stock_level::Input) -> Ran<Outcome> {
        let Self { connection, statements, .. } = self;
        let (w, d) = (int(input.warehouse), int(input.district));
        let mut next = None;
        connection.query(&statements.next_order_number, &[w, d], &mut |row| {
            next = Some(row.int(0)?);
            Ok(())
        })?;
        let next = next.ok_or_else(|| missing("district"))?;
        let first = next - i64::from(stock_level::ORDERS);
        let key = [w, d, Param::Int(first), Param::Int(next), int(input.threshold)];
        connection.query(&statements.low_stock, &key, &mut |row| {
            std::hint::black_box(row.int(0)?);
            Ok(())
        })?;
        Ok(Outcome::Committed)
    }
}
