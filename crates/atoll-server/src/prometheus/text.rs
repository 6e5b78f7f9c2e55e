//! The metrics in the text format of Prometheus, version 0.0.4.
//!
//! `METRICS-1`: names and labels that have been published keep their meaning. Those that count have
//! `_total` at their end; units are seconds and bytes.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use atoll::Database;

use crate::metrics::{DURATIONS_S, Metrics};
use crate::shared::Shared;

/// All metrics of a server and its database.
pub(super) fn all(shared: &Shared) -> String {
    let mut page = Page::default();
    server(&mut page, shared);
    transactions(&mut page, &shared.db);
    memory(&mut page, shared);
    durability(&mut page, &shared.db);
    page.0
}

/// The text so far.
#[derive(Default)]
struct Page(String);

impl Page {
    /// What a metric is; its values follow.
    fn describe(&mut self, kind: &str, name: &str, help: &str) {
        // A write to a text does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.describe("gauge", name, help);
        self.value(name, "", value);
    }

    fn counter(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.describe("counter", name, help);
        self.value(name, "", value);
    }

    /// A metric with a value for each label.
    fn labelled<'l>(
        &mut self,
        kind: &str,
        (name, label): (&str, &str),
        help: &str,
        values: impl IntoIterator<Item = (&'l str, f64)>,
    ) {
        self.describe(kind, name, help);
        for (which, value) in values {
            self.value(name, &format!("{{{label}=\"{which}\"}}"), value);
        }
    }
}

fn seen(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn server(page: &mut Page, shared: &Shared) {
    let Metrics { connections, refused, statements, slow, .. } = &shared.metrics;
    let version = env!("CARGO_PKG_VERSION");
    page.labelled("gauge", ("atoll_info", "version"), "The version.", [(version, 1.0)]);
    page.gauge("atoll_connections", "Clients that are connected.", shared.clients.count());
    let most = shared.options.connections_max;
    page.gauge("atoll_connections_max", "Most clients at a time.", most);
    let help = "Clients that were let in.";
    page.counter("atoll_connections_total", help, seen(connections));
    let help = "Clients that were not let in.";
    page.counter("atoll_connections_refused_total", help, seen(refused));
    let help = "Statements that have ended, with or without an error.";
    page.counter("atoll_statements_total", help, seen(statements));
    let help = "Statements over the limit of slow ones.";
    page.counter("atoll_statements_slow_total", help, seen(slow));
    let errors = shared.metrics.errors();
    page.labelled(
        "counter",
        ("atoll_statement_errors_total", "class"),
        "Errors by the first two characters of their SQLSTATE.",
        errors.iter().map(|(class, count)| (class.as_str(), *count as f64)),
    );
    durations(page, &shared.metrics);
}

fn durations(page: &mut Page, metrics: &Metrics) {
    let name = "atoll_statement_duration_seconds";
    page.describe("histogram", name, "Durations of statements, with their rows.");
    let mut sum = 0;
    for (end, count) in DURATIONS_S.iter().zip(&metrics.durations) {
        sum += seen(count);
        page.value(&format!("{name}_bucket"), &format!("{{le=\"{end}\"}}"), sum);
    }
    sum += metrics.durations.last().map_or(0, seen);
    page.value(&format!("{name}_bucket"), "{le=\"+Inf\"}", sum);
    page.value(&format!("{name}_sum"), "", seen(&metrics.nanos) as f64 / 1e9);
    page.value(&format!("{name}_count"), "", sum);
}

fn transactions(page: &mut Page, db: &Database) {
    let accounting = db.accounting();
    let help = "Transactions that have committed.";
    page.counter("atoll_commits_total", help, accounting.commits);
    page.labelled(
        "counter",
        ("atoll_aborts_total", "reason"),
        "Transactions that were rolled back, those that were tried again included.",
        accounting.aborts.iter().map(|(reason, count)| (*reason, *count as f64)),
    );
    page.labelled(
        "counter",
        ("atoll_transaction_seconds_total", "component"),
        "Time of transactions by what they spent it on: of a sample of them.",
        accounting.components_ns.iter().map(|(component, ns)| (*component, *ns as f64 / 1e9)),
    );
}

fn memory(page: &mut Page, shared: &Shared) {
    let db = &shared.db;
    let counters = db.counters();
    let account = shared.metrics.memory(|| db.memory());
    let parts = [
        ("tables", account.tables_bytes),
        ("kept", account.kept_bytes),
        ("free", account.free_bytes),
        ("headers", account.headers_bytes),
        ("indexes", account.indexes_bytes),
        ("heap", account.heap_bytes),
        ("heap_free", account.heap_free_bytes),
    ];
    page.labelled(
        "gauge",
        ("atoll_memory_bytes", "part"),
        "Where the memory of the database is.",
        parts.map(|(part, bytes)| (part, bytes as f64)),
    );
    let help = "Memory of the process.";
    page.gauge("atoll_process_memory_bytes", help, account.process_bytes);
    let help = "Most memory that the store may take.";
    page.gauge("atoll_store_limit_bytes", help, counters.memory_limit_bytes);
    let help = "Memory that the store takes from the machine.";
    page.gauge("atoll_store_committed_bytes", help, counters.memory_committed_bytes);
    let help = "Bytes that were copied because a snapshot shows them.";
    page.counter("atoll_copied_on_write_bytes_total", help, counters.bytes_copied_on_write);
    page.gauge("atoll_epoch", "The current epoch.", counters.epoch);
    let snapshots = db.snapshots();
    page.gauge("atoll_snapshots", "Snapshots that are held.", snapshots.len());
    let oldest = snapshots.iter().map(|one| one.age_s).fold(0.0, f64::max);
    page.gauge("atoll_snapshot_age_seconds_max", "Age of the oldest snapshot.", oldest);
    let help = "Replaced data that snapshots keep.";
    page.gauge("atoll_snapshot_kept_bytes", help, counters.memory_kept_bytes);
    if let Ok(Some(budget)) = db.budget() {
        page.gauge("atoll_budget_bytes", "The budget of DRAM.", budget.budget_bytes);
        let help = "Bytes of the store in DRAM.";
        page.gauge("atoll_budget_resident_bytes", help, budget.resident_bytes);
        let help = "Bytes that were moved out of DRAM.";
        page.counter("atoll_budget_evicted_bytes_total", help, budget.evicted_bytes);
    }
}

fn durability(page: &mut Page, db: &Database) {
    let Ok(bytes) = db.log_bytes() else { return };
    page.counter("atoll_log_bytes_total", "Bytes written into the logs.", bytes);
    page.counter("atoll_log_flushes_total", "Flushes of the logs.", db.flushes());
    page.counter("atoll_checkpoints_total", "Checkpoints.", db.checkpoints());
    let health = db.health();
    let failing = [
        ("log", !health.logs.is_empty()),
        ("space", health.space.is_some()),
        ("files", health.files.is_some()),
        ("checkpoint", health.checkpoint.is_some()),
        ("archive", health.archive.is_some()),
        ("spill", health.spill.is_some()),
    ];
    page.labelled(
        "gauge",
        ("atoll_failing", "what"),
        "1 for what fails now, see docs/durability.md.",
        failing.map(|(what, fails)| (what, f64::from(u8::from(fails)))),
    );
}
