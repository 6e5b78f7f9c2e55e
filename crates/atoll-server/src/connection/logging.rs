//! What is logged of a connection and its statements.

use std::sync::Arc;
use std::time::Instant;

use atoll_sql::Literal;
use tracing::{Level, enabled};

use super::Connection;
use super::kind::Kind;
use crate::link::Fault;
use crate::log::{self, Said, Who};
use crate::metrics::add;
use crate::wire::out::Report;

impl Connection {
    pub(super) fn who(&self) -> Who<'_> {
        Who { client: self.client.number, role: &self.role }
    }

    /// Carries out a statement, with its rows, and logs it if it is slow.
    pub(super) fn logged<R>(
        &mut self,
        kind: Kind,
        text: &str,
        values: &[Literal],
        run: impl FnOnce(&mut Self) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let shared = Arc::clone(&self.shared);
        let limit = shared.options.log.min_duration;
        let logs_all = enabled!(Level::DEBUG);
        let is_timed = limit.is_some() || logs_all || shared.options.metrics.is_some();
        let began = is_timed.then(Instant::now);
        let done = run(self);
        add(&shared.metrics.statements);
        if let Err(Fault::Error(_)) = &done {
            self.failing = Some((text.to_owned(), values.to_vec()));
        }
        let Some(began) = began else { return done };
        let took = began.elapsed();
        shared.metrics.took(took);
        let said = Said { text, values };
        let options = &shared.options.log;
        if limit.is_some_and(|limit| took >= limit) {
            add(&shared.metrics.slow);
            // It is asked for behind an error only where no transaction can suffer.
            let plan = match kind {
                Kind::Rows if done.is_ok() => self.session.plan(text, values),
                _ => None,
            };
            log::slow(options, self.who(), said, took, plan.as_deref());
        } else if logs_all {
            log::ran(options, self.who(), said, took);
        }
        done
    }

    /// Logs an error of the statement that has failed, or of a message.
    pub(super) fn log_failed(&mut self, report: &Report) {
        self.shared.metrics.failed(report.state);
        let failing = self.failing.take();
        let said = failing.as_ref().map(|(text, values)| Said { text, values });
        log::failed(&self.shared.options.log, self.who(), said, report);
    }
}
