//! One thread's terminal: which transaction comes next, and running it.

use std::sync::Arc;

use atoll::{AbortReason, Session, TransactionOptions, TxnError};

use super::args::{Mix, TpccArgs};
use super::delivery::Delivery;
use super::field::Field;
use super::new_order::NewOrder;
use super::order_status::OrderStatus;
use super::payment::Payment;
use super::random::TpccRandom;
use super::stock_level::StockLevel;
use super::stop::settle;
use crate::error::BenchError;
use crate::oltp::{Client, Outcome};

/// The types of transactions, in the order of their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

const KINDS: [Kind; 5] =
    [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

/// One thread's side.
pub struct TpccClient {
    field: Arc<Field>,
    random: TpccRandom,
    mix: Mix,
    /// Where its transactions begin; anywhere when `None`.
    home: Option<i16>,
    abort_percent: u64,
    kind: Kind,
    /// The next one is rolled back at its end.
    gives_up: bool,
    options: TransactionOptions,
    new_order: NewOrder,
    payment: Payment,
    order_status: OrderStatus,
    delivery: Delivery,
    stock_level: StockLevel,
}

impl TpccClient {
    pub fn new(
        field: Arc<Field>,
        random: TpccRandom,
        args: &TpccArgs,
        writer: i16,
        home: Option<i16>,
    ) -> Self {
        Self {
            field,
            random,
            mix: args.mix.unwrap_or(Mix::STANDARD),
            home,
            abort_percent: args.abort_percent.into(),
            kind: Kind::NewOrder,
            gives_up: false,
            options: TransactionOptions::default(),
            new_order: NewOrder::new(args.reduced),
            payment: Payment::new(writer, args.reduced),
            order_status: OrderStatus::default(),
            delivery: Delivery::default(),
            stock_level: StockLevel::default(),
        }
    }
}

impl Client for TpccClient {
    fn prepare(&mut self) -> usize {
        let Self { field, random, options, .. } = self;
        let at = self.mix.kind(random.uniform(0, self.mix.total() - 1));
        self.kind = KINDS[at];
        let anywhere = || random.uniform(1, field.size.warehouses.into()) as i16;
        let home = self.home.unwrap_or_else(anywhere);
        let partitions = &mut options.partitions;
        partitions.clear();
        match self.kind {
            Kind::NewOrder => {
                self.new_order.draw(field, random, home);
                self.new_order.partitions(field, partitions);
            }
            Kind::Payment => {
                self.payment.draw(field, random, home);
                self.payment.partitions(field, partitions);
            }
            Kind::OrderStatus => {
                self.order_status.draw(field, random, home);
                self.order_status.partitions(field, partitions);
            }
            Kind::Delivery => {
                self.delivery.draw(random, home);
                self.delivery.partitions(field, partitions);
            }
            Kind::StockLevel => {
                self.stock_level.draw(random, home);
                self.stock_level.partitions(field, partitions);
            }
        }
        self.gives_up = self.abort_percent > 0 && random.percent(self.abort_percent);
        options.read_only = matches!(self.kind, Kind::OrderStatus | Kind::StockLevel);
        at
    }

    fn execute(&mut self, session: &mut Session) -> Result<Outcome, BenchError> {
        let Self { field, options, kind, gives_up, .. } = self;
        let (new_order, payment) = (&mut self.new_order, &mut self.payment);
        let (order_status, stock_level) = (&mut self.order_status, &mut self.stock_level);
        let delivery = &mut self.delivery;
        let tables = &field.tables;
        let mut wrong = None;
        let outcome = Outcome::of(session.transaction_with(options, |tx| {
            wrong = settle(match kind {
                Kind::NewOrder => new_order.run(tx, tables),
                Kind::Payment => payment.run(tx, tables),
                Kind::OrderStatus => order_status.run(tx, tables),
                Kind::Delivery => delivery.run(tx, tables),
                Kind::StockLevel => stock_level.run(tx, tables),
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
