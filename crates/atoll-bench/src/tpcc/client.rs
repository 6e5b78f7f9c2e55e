//! The client of one thread: draws the next transaction and runs it.

use std::sync::Arc;

use atoll::{AbortReason, Session, TransactionOptions, TxnError};

use super::args::TpccArgs;
use super::delivery::Delivery;
use super::drawn::{Drawn, Input, Pool};
use super::field::{Calendar, Field};
use super::new_order::NewOrder;
use super::order_status::OrderStatus;
use super::payment::Payment;
use super::stock_level::StockLevel;
use super::stop::settle;
use crate::error::BenchError;
use crate::oltp::{Client, Outcome};

/// The part of one thread in the workload.
pub struct TpccClient {
    field: Arc<Field>,
    pool: Pool,
    current: Option<Drawn>,
    options: TransactionOptions,
    new_order: NewOrder,
    payment: Payment,
    order_status: OrderStatus,
    delivery: Delivery,
    stock_level: StockLevel,
    calendar: Calendar,
}

impl TpccClient {
    pub fn new(field: Arc<Field>, pool: Pool, args: &TpccArgs, writer: i16) -> Self {
        Self {
            field,
            pool,
            current: None,
            options: TransactionOptions::default(),
            new_order: NewOrder::new(args.reduced),
            payment: Payment::new(writer, args.reduced),
            order_status: OrderStatus::default(),
            delivery: Delivery::default(),
            stock_level: StockLevel::default(),
            calendar: Calendar::default(),
        }
    }
}

impl Client for TpccClient {
    fn prepare(&mut self, now_ns: u64) -> usize {
        let Self { field, options, .. } = self;
        let drawn = self.current.insert(self.pool.next());
        options.partitions.clear();
        drawn.input.partitions(field, &mut options.partitions);
        options.read_only = drawn.input.is_read_only();
        let now = self.calendar.at(now_ns);
        match &drawn.input {
            Input::NewOrder(input) => self.new_order.take(input, now),
            Input::Payment(input) => self.payment.take(input, now),
            Input::OrderStatus(input) => self.order_status.take(input),
            Input::Delivery(input) => self.delivery.take(input, now),
            Input::StockLevel(input) => self.stock_level.take(input),
        }
        drawn.input.kind()
    }

    fn execute(&mut self, session: &mut Session) -> Result<Outcome, BenchError> {
        let Self { field, options, current, .. } = self;
        let Some(Drawn { input, gives_up }) = current else { unreachable!("it was prepared") };
        let (new_order, payment) = (&mut self.new_order, &mut self.payment);
        let (order_status, stock_level) = (&mut self.order_status, &mut self.stock_level);
        let delivery = &mut self.delivery;
        let tables = &field.tables;
        let mut wrong = None;
        let outcome = Outcome::of(session.transaction_with(options, |tx| {
            wrong = settle(match input {
                Input::NewOrder(_) => new_order.run(tx, tables),
                Input::Payment(_) => payment.run(tx, tables),
                Input::OrderStatus(_) => order_status.run(tx, tables),
                Input::Delivery(_) => delivery.run(tx, tables),
                Input::StockLevel(_) => stock_level.run(tx, tables),
            })?;
            if *gives_up && wrong.is_none() {
                return Err(TxnError::Abort(AbortReason::Requested));
            }
            Ok(())
        }))?;
        match wrong {
            None => Ok(outcome),
            Some(wrong) => Err(BenchError::Inconsistent(wrong.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use atoll::Value;
    use atoll::machine::{Machine, Native};

    use super::super::drawn::Drawer;
    use super::super::random::{Constants, TpccRandom};
    use super::super::schema::{district, orders};
    use super::super::{small, small_args};
    use super::*;

    #[test]
    fn orders_are_of_the_time_that_the_driver_says() {
        let (loaded, args) = (small(1), small_args(1));
        let field = Arc::clone(&loaded.field);
        let random = TpccRandom::new(5, Constants::of_load(5));
        let pool = Pool::draw(&mut Drawer::new(random, &args, Some(1)), field.size, 100);
        let mut client = TpccClient::new(Arc::clone(&field), pool, &args, 1);
        let mut session = loaded.db.session().expect("a session");
        // Some days in the future, so that no row has this time by chance.
        let later = Native::now_ns() + 1_000_000_000_000_000;
        for _ in 0..100 {
            client.prepare(later);
            client.execute(&mut session).expect("no error");
        }
        let mut entered = 0;
        for number in 1..=10 {
            let place = [Value::Int16(1), Value::Int16(number)];
            let row = session.transaction(|tx| tx.read(&field.tables.district, &place));
            let row = row.expect("no error").expect("there are ten districts");
            let Value::Int32(next) = row[district::NEXT_ORDER] else { panic!("{row:?}") };
            for order in 11..next {
                let [w, d] = place.clone();
                let key = [w, d, Value::Int32(order)];
                let row = session.transaction(|tx| tx.read(&field.tables.orders, &key));
                let row = row.expect("no error").expect("it is below the next one");
                assert_eq!(row[orders::ENTRY], Value::Timestamp(client.calendar.at(later)));
                entered += 1;
            }
        }
        assert!(entered > 20, "{entered} orders");
    }
}
