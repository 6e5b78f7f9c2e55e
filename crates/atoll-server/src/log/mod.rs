//! What the server logs, as events of the crate `tracing`, which the program that runs it collects.
//!
//! - error: statements that fail because of the server: no memory, a full disk, a bug
//! - warn: other statements that fail, clients that are refused, slow statements with their plans
//! - info: clients that come and go
//! - debug: each statement
//!
//! `LOG-1`: no event has a password, or a verifier of one. `LOG-2`: literals and comments of
//! statements, values of parameters and data in messages appear only if
//! [`LogOptions::values`] says so.

pub(crate) mod redact;

use std::net::SocketAddr;
use std::time::Duration;

use atoll_sql::Literal;
use tracing::{Level, enabled, error, info, warn};

use crate::link::Gone;
use crate::wire::out::Report;
use redact::{Redacted, data_hidden, plan_hidden};

/// Bytes of a statement, and of a plan, that are logged.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// What is logged of statements.
#[derive(Debug, Clone, Default)]
pub struct LogOptions {
    /// Statements that take as long or longer are logged with their plans.
    pub min_duration: Option<Duration>,
    /// Literals and comments of statements, values of parameters and data in messages are logged
    /// too.
    pub values: bool,
}

/// The client that an event is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Who<'w> {
    /// The number of the connection.
    pub(crate) client: i32,
    pub(crate) role: &'w str,
}

/// A statement, for an event about it.
#[derive(Clone, Copy)]
pub(crate) struct Said<'s> {
    pub(crate) text: &'s str,
    pub(crate) values: &'s [Literal],
}

/// The first bytes of a text.
fn shortened(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        let end = (0..=TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The values of parameters, if they are logged.
fn parameters(options: &LogOptions, values: &[Literal]) -> String {
    if !options.values || values.is_empty() {
        return String::new();
    }
    let shown = |value: &Literal| match value {
        Literal::Text(text) | Literal::Json(text) => format!("'{text}'"),
        other => plain(other),
    };
    let each = values.iter().enumerate();
    let each = each.map(|(at, value)| format!("${} = {}", at + 1, shown(value)));
    shortened(each.collect::<Vec<_>>().join(", "))
}

/// A value of a parameter, a text without quotes.
fn plain(value: &Literal) -> String {
    match value {
        Literal::Null => "NULL".to_owned(),
        Literal::Text(text) | Literal::Json(text) => text.clone(),
        Literal::Integer(number) => number.to_string(),
        Literal::Bool(value) => value.to_string(),
        other => format!("{other:?}"),
    }
}

/// Whether an error is the server's, and not the statement's or the client's.
fn is_of_server(state: &str) -> bool {
    matches!(state.get(..2), Some("53" | "58" | "XX"))
}

/// A statement, or a message of the protocol, has failed.
pub(crate) fn failed(options: &LogOptions, who: Who<'_>, said: Option<Said<'_>>, report: &Report) {
    let is_told = enabled!(Level::WARN) || is_of_server(report.state) && enabled!(Level::ERROR);
    if !is_told {
        return;
    }
    let redacted = said.map(|said| {
        let mut redacted = Redacted::of(said.text, options.values);
        if !options.values {
            let values = said.values.iter();
            let values = values.filter(|value| !matches!(value, Literal::Null | Literal::Bool(_)));
            redacted.hide(values.map(plain));
        }
        redacted
    });
    let mut error = match &redacted {
        Some(redacted) => redacted.hidden_in(&report.message),
        None => report.message.clone(),
    };
    if !options.values && matches!(report.state.get(..2), Some("22" | "23")) {
        error = data_hidden(&error);
    }
    let detail = report.detail.as_deref().filter(|_| options.values);
    let detail = match (detail, &redacted) {
        (Some(detail), Some(redacted)) => redacted.hidden_in(detail),
        _ => String::new(),
    };
    let statement = redacted.map_or(String::new(), |redacted| shortened(redacted.text));
    let parameters = said.map_or(String::new(), |said| parameters(options, said.values));
    let Who { client, role } = who;
    let sqlstate = report.state;
    if is_of_server(sqlstate) {
        error!(client, role, sqlstate, error, detail, statement, parameters, "statement failed");
    } else {
        warn!(client, role, sqlstate, error, detail, statement, parameters, "statement failed");
    }
}

/// A statement has taken so long; `plan` is its plan, if it has one.
pub(crate) fn slow(
    options: &LogOptions,
    who: Who<'_>,
    said: Said<'_>,
    took: Duration,
    plan: Option<&str>,
) {
    let Who { client, role } = who;
    let duration_ms = millis(took);
    let statement = shortened(Redacted::of(said.text, options.values).text);
    let parameters = parameters(options, said.values);
    let plan = plan.map(|plan| match options.values {
        true => plan.to_owned(),
        false => plan_hidden(plan),
    });
    let plan = shortened(plan.unwrap_or_default());
    warn!(client, role, duration_ms, statement, parameters, plan, "slow statement");
}

/// A statement has ended, after so long.
pub(crate) fn ran(options: &LogOptions, who: Who<'_>, said: Said<'_>, took: Duration) {
    let Who { client, role } = who;
    let duration_ms = millis(took);
    let statement = shortened(Redacted::of(said.text, options.values).text);
    let parameters = parameters(options, said.values);
    tracing::debug!(client, role, duration_ms, statement, parameters, "statement");
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// A client has come, from an address.
pub(crate) fn connected(who: Who<'_>, address: &str, encrypted: bool) {
    let Who { client, role } = who;
    info!(client, role, address, encrypted, "connected");
}

/// A client has gone, after so long.
pub(crate) fn disconnected(who: Who<'_>, after: Duration) {
    let Who { client, role } = who;
    let session_s = (after.as_secs_f64() * 1e3).round() / 1e3;
    info!(client, role, session_s, "disconnected");
}

/// A client from an address is not let in.
pub(crate) fn refused(role: &str, address: &str, gone: &Gone) {
    let Gone::Told(report) = gone else { return };
    let sqlstate = report.state;
    warn!(role, address, sqlstate, error = report.message, "client refused");
}

/// A role has logged in at the console.
pub(crate) fn console_entered(role: &str, address: &SocketAddr) {
    let address = address.to_string();
    info!(role, address, "logged in at the console");
}

/// A role was not let in at the console.
pub(crate) fn console_refused(role: &str, address: &SocketAddr, too_many: bool) {
    let address = address.to_string();
    let error = if too_many { "too many attempts" } else { "wrong role or password" };
    warn!(role, address, error, "login at the console refused");
}

/// A connection ends, and its client is told why.
pub(crate) fn ended(who: Who<'_>, gone: &Gone) {
    let Gone::Told(report) = gone else { return };
    let Who { client, role } = who;
    let sqlstate = report.state;
    info!(client, role, sqlstate, error = report.message, "connection ended");
}
