//! What the pages show of the server: rows of the views that every client may read, and the counts
//! of statements by their durations.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use atoll_sql::SqlSession;
use serde_json::{Map, Value, json};

use super::answer::Refusal;
use super::logins::Login;
use super::query::{objects, session};
use super::{Peer, Site};
use crate::activity;
use crate::metrics::DURATIONS_S;
use crate::wire::out::Report;
use axum::http::StatusCode;

/// Most rows of a part, and time of a query in seconds.
const ROWS_MAX: u64 = 500;
const SECONDS: u32 = 5;

/// What changes all the time and costs little to ask for.
const OFTEN: [(&str, &str); 7] = [
    ("database", "SELECT numbackends, xact_commit, xact_rollback FROM pg_stat_database"),
    ("time", "SELECT component, seconds FROM atoll_stat_time"),
    ("aborts", "SELECT reason, aborts FROM atoll_stat_aborts"),
    (
        "activity",
        "SELECT pid, usename, application_name, client_addr, state, wait_event_type, wait_event, \
         EXTRACT(EPOCH FROM now() - query_start)::float8 AS query_s, \
         EXTRACT(EPOCH FROM now() - xact_start)::float8 AS xact_s, \
         EXTRACT(EPOCH FROM now() - backend_start)::float8 AS session_s, query \
         FROM pg_stat_activity",
    ),
    (
        "snapshots",
        "SELECT id, pid, command, epoch, age_seconds, bytes_shared, bytes_copied, bytes_kept, \
         state FROM atoll_stat_snapshots ORDER BY age_seconds DESC",
    ),
    ("health", "SELECT part, failing, message FROM atoll_stat_health"),
    ("log", "SELECT log_bytes, flushes, checkpoints FROM atoll_stat_log"),
];

/// What changes slowly, or costs more.
const SELDOM: [(&str, &str); 5] = [
    ("memory", "SELECT part, bytes FROM atoll_stat_memory"),
    ("nodes", "SELECT node, cpus, memory_bytes FROM atoll_stat_nodes ORDER BY node"),
    (
        "statements",
        "SELECT query, calls, total_exec_time, mean_exec_time, min_exec_time, max_exec_time, \
         rows, errors FROM pg_stat_statements ORDER BY total_exec_time DESC LIMIT 50",
    ),
    (
        "locks",
        "SELECT pid, locktype, mode, granted, classid, objid FROM pg_locks ORDER BY granted, pid",
    ),
    (
        "tables",
        "SELECT c.oid::bigint AS oid, n.nspname, c.relname, c.relkind, \
         c.reltuples::float8 AS rows, pg_total_relation_size(c.oid) AS bytes \
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind IN ('r', 'v', 'm') \
         AND n.nspname NOT IN ('pg_catalog', 'information_schema') \
         ORDER BY 6 DESC, 2, 3 LIMIT 500",
    ),
];

fn failed(report: Report) -> Refusal {
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, report.message)
}

/// A session for the queries of this module.
pub(super) fn looking(site: &Site, login: &Login, peer: &Peer) -> Result<SqlSession, Refusal> {
    let (shared, socket) = (Arc::clone(&site.shared), Arc::clone(&peer.socket));
    let question = Arc::new(move || shared.is_ending() || socket.is_closed());
    session(&site.shared, &login.role, 0, question, SECONDS).map_err(failed)
}

/// The rows of each part; a part that fails says why.
fn parts(session: &mut SqlSession, parts: &[(&str, &str)]) -> Map<String, Value> {
    let part = |(name, sql): &(&str, &str)| {
        let rows = match objects(session, sql, ROWS_MAX) {
            Ok(rows) => rows.into(),
            Err(report) => json!({ "error": report.message }),
        };
        ((*name).to_owned(), rows)
    };
    parts.iter().map(part).collect()
}

/// What changes all the time. Counts are those since the server began.
pub(super) fn often(site: &Site, session: &mut SqlSession) -> Map<String, Value> {
    let mut all = parts(session, &OFTEN);
    let metrics = &site.shared.metrics;
    let classes = metrics.durations.iter().map(|class| class.load(Ordering::Relaxed));
    all.insert("now".into(), (activity::now() as f64 / 1e6).into());
    all.insert(
        "durations".into(),
        json!({
            "ends_s": DURATIONS_S,
            "counts": classes.collect::<Vec<_>>(),
            "total_s": metrics.nanos.load(Ordering::Relaxed) as f64 / 1e9,
        }),
    );
    all.insert("errors".into(), json!(metrics.errors()));
    all
}

/// What changes slowly.
pub(super) fn seldom(session: &mut SqlSession) -> Map<String, Value> {
    parts(session, &SELDOM)
}

/// The columns and indexes of a table.
pub(super) fn table(session: &mut SqlSession, oid: u32) -> Map<String, Value> {
    let columns = format!(
        "SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, \
         a.attnotnull AS not_null, pg_get_expr(d.adbin, d.adrelid) AS default_value \
         FROM pg_attribute a \
         LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
         WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    );
    let indexes = format!(
        "SELECT c.relname AS name, i.indisprimary AS is_primary, i.indisunique AS is_unique, \
         pg_get_indexdef(i.indexrelid) AS definition \
         FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
         WHERE i.indrelid = {oid} ORDER BY i.indisprimary DESC, c.relname"
    );
    parts(session, &[("columns", &columns), ("indexes", &indexes)])
}

/// Cancels the statement of a client, or ends its connection, if the role may.
///
/// # Errors
/// It may not.
pub(super) fn end(session: &mut SqlSession, pid: i32, connection: bool) -> Result<bool, Refusal> {
    let function = if connection { "pg_terminate_backend" } else { "pg_cancel_backend" };
    let sql = format!("SELECT {function}({pid}) AS ended");
    let refused = |report: Report| Refusal::new(StatusCode::FORBIDDEN, report.message);
    let rows = objects(session, &sql, 1).map_err(refused)?;
    Ok(rows.first().and_then(|row| row.get("ended")).and_then(Value::as_bool) == Some(true))
}
