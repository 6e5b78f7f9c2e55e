//! What is seen of a connection and its statements: in the log, the metrics and the statistics.

use std::sync::Arc;
use std::time::Instant;

use atoll_sql::Literal;
use tracing::{Level, enabled};

use super::Connection;
use super::kind::Kind;
use crate::link::Fault;
use crate::log::{self, Said, Who};
use crate::metrics::add;
use crate::statements::Totals;
use crate::wire::out::Report;

/// A statement that is about to run.
pub(super) struct Running<'s> {
    pub(super) kind: Kind,
    pub(super) text: &'s Arc<str>,
    /// Where it is counted.
    pub(super) totals: Option<Arc<Totals>>,
}

impl Connection {
    pub(super) fn who(&self) -> Who<'_> {
        Who { client: self.client.number, role: &self.role }
    }

    /// Carries out a statement, with its rows: counts it, shows that it runs, and logs it if it is
    /// slow.
    pub(super) fn observed<R>(
        &mut self,
        Running { kind, text, totals }: Running<'_>,
        values: &[Literal],
        run: impl FnOnce(&mut Self) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let shared = Arc::clone(&self.shared);
        self.client.activity.begin(text);
        self.counted = 0;
        let began = Instant::now();
        let done = run(self);
        let took = began.elapsed();
        add(&shared.metrics.statements);
        shared.metrics.took(took);
        if let Some(totals) = totals {
            totals.add(self.client.number, took, done.is_ok().then_some(self.counted));
        }
        if let Err(Fault::Error(_)) = &done {
            self.failing = Some((Arc::clone(text), values.to_vec()));
        }
        let said = Said { text, values };
        let options = &shared.options.log;
        if options.min_duration.is_some_and(|limit| took >= limit) {
            add(&shared.metrics.slow);
            // It is asked for behind an error only where no transaction can suffer.
            let plan = match kind {
                Kind::Rows if done.is_ok() => self.session.plan(text, values),
                _ => None,
            };
            log::slow(options, self.who(), said, took, plan.as_deref());
        } else if enabled!(Level::DEBUG) {
            log::ran(options, self.who(), said, took);
        }
        done
    }

    /// Tells the client that a statement has ended.
    pub(super) fn complete(&mut self, tag: &str) {
        let rows = tag.rsplit(' ').next().and_then(|last| last.parse().ok());
        self.counted = rows.unwrap_or(0);
        self.wire.out.complete(tag);
    }

    /// Logs an error of the statement that has failed, or of a message.
    pub(super) fn log_failed(&mut self, report: &Report) {
        self.shared.metrics.failed(report.state);
        let failing = self.failing.take();
        let said = failing.as_ref().map(|(text, values)| Said { text, values });
        log::failed(&self.shared.options.log, self.who(), said, report);
    }
}
