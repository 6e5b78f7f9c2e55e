//! The client of one thread, for the driver.

use atoll::Session;

use super::transactions::SqlTransactions;
use crate::error::BenchError;
use crate::oltp::{Client, Outcome};
use crate::sql::{Connection, Failure};
use crate::tpcc::drawn::{Drawn, Pool};
use crate::tpcc::field::Calendar;

/// Runs the transactions of a pool on a connection.
pub struct SqlClient<C: Connection> {
    transactions: SqlTransactions<C>,
    pool: Pool,
    current: Option<Drawn>,
    calendar: Calendar,
    now: i64,
    /// Attempts that others rolled back.
    aborts: u64,
}

impl<C: Connection> SqlClient<C> {
    /// A client that draws from `pool`.
    pub fn new(transactions: SqlTransactions<C>, pool: Pool) -> Self {
        let (current, calendar) = (None, Calendar::default());
        Self { transactions, pool, current, calendar, now: 0, aborts: 0 }
    }

    /// Draws the next transaction, at a time of `Machine::now_ns`; returns its type.
    pub fn draw(&mut self, now_ns: u64) -> usize {
        self.now = self.calendar.at(now_ns);
        self.current.insert(self.pool.next()).input.kind()
    }

    /// Runs it until it ends.
    ///
    /// # Errors
    /// A failure that is no conflict.
    pub fn run(&mut self) -> Result<Outcome, Failure> {
        let Some(drawn) = &self.current else { unreachable!("it was drawn") };
        loop {
            match self.transactions.run(&drawn.input, self.now) {
                Err(Failure::Conflict(_)) => self.aborts += 1,
                ended => return ended,
            }
        }
    }

    /// Attempts that others rolled back.
    pub fn aborted(&self) -> u64 {
        self.aborts
    }
}

impl<C: Connection> Client for SqlClient<C> {
    fn prepare(&mut self, now_ns: u64) -> usize {
        self.draw(now_ns)
    }

    fn execute(&mut self, _session: &mut Session) -> Result<Outcome, BenchError> {
        Ok(self.run()?)
    }

    fn aborts(&self, _session: &Session) -> u64 {
        self.aborts
    }
}
