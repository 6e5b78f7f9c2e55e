//! Statements of the query box: each run has a client of its own, as if it had connected.
//!
//! - `QUERY-1`: a run is in a read-only transaction, unless the browser says that it may change
//!   something. Statements that would end that transaction are refused, and before each statement
//!   it is checked that the transaction is still open and read-only.
//! - `QUERY-2`: of a run that may change something each statement is a transaction by itself,
//!   unless the text begins one. What is open at the end is rolled back.
//! - `QUERY-3`: a run ends when it is cancelled, when its time is over, and when the browser goes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use atoll::DataType;
use atoll_sql::{Outcome, Question, SqlSession, Surroundings, TransactionStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::answer::Problem;
use super::logins::{Login, lock};
use super::{Peer, Place, Site};
use crate::activity::Identity;
use crate::clients::Client;
use crate::connection::kind::{Kind, statements};
use crate::connection::report::{of_error, report};
use crate::connection::rows::Rows;
use crate::link::Fault;
use crate::log::{self, Said, Who};
use crate::metrics::add;
use crate::shared::Shared;
use crate::startup::connections_for;
use crate::values::{Cell, Column, oids, put_text, put_vector};
use crate::wire::out::Report;

/// The name under which statements of the console are seen.
const APPLICATION: &str = "atoll console";
/// Most runs at a time, of all browsers.
const RUNS_MAX: usize = 8;
/// Most rows of a result, bytes of all results of a run, and of a value.
const ROWS_MAX: u64 = 1000;
const BYTES_MAX: usize = 4 << 20;
const VALUE_BYTES_MAX: usize = 16 << 10;
/// Most results of a run.
const RESULTS_MAX: usize = 20;
/// Most time of a statement, and the usual one, in seconds.
const SECONDS_MAX: u32 = 600;
const SECONDS: u32 = 30;

/// What a browser asks for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    /// The number by which it cancels the run.
    run: u64,
    sql: String,
    #[serde(default)]
    may_change: bool,
    #[serde(default)]
    seconds: Option<u32>,
}

/// What came of a run.
#[derive(Debug, Default, Serialize)]
pub(super) struct Answer {
    results: Vec<Shown>,
    notices: Vec<String>,
    error: Option<Problem>,
    took_ms: f64,
}

/// What came of a statement.
#[derive(Debug, Serialize)]
struct Shown {
    tag: String,
    columns: Vec<ShownColumn>,
    rows: Vec<Vec<Option<String>>>,
    /// Why not all of it is here.
    cut: Option<&'static str>,
    took_ms: f64,
}

#[derive(Debug, Serialize)]
struct ShownColumn {
    name: String,
    kind: String,
    is_number: bool,
    #[serde(skip)]
    is_bool: bool,
}

/// A session of a role.
///
/// # Errors
/// Its settings cannot be set.
pub(super) fn session(
    shared: &Arc<Shared>,
    role: &str,
    number: i32,
    interrupt: Arc<Question>,
    seconds: u32,
) -> Result<SqlSession, Report> {
    let mut session = SqlSession::on_database(shared.db.clone());
    session.set_interrupt(Some(interrupt));
    let server: Arc<Shared> = Arc::clone(shared);
    session.set_surroundings(Surroundings::new((&*shared.name, role), number, server));
    session.set_number(number);
    let roles: Arc<dyn atoll_sql::Roles> = shared.roles.clone();
    session.set_role(Some((roles, role)));
    for sql in [
        format!("SET statement_timeout = '{seconds}s'"),
        format!("SET application_name = '{APPLICATION}'"),
    ] {
        session.execute(&sql).map_err(|error| of_error(&error, &sql, 0))?;
    }
    Ok(session)
}

/// A client of the server for as long as a run takes.
struct Guest<'r> {
    site: &'r Site,
    login: &'r Login,
    client: Arc<Client>,
    run: u64,
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        lock(&self.login.runs).remove(&self.run);
        self.site.shared.clients.remove(self.client.number);
    }
}

/// Runs what a browser asks for.
pub(super) fn run(site: &Arc<Site>, login: &Login, peer: &Peer, asked: &Asked) -> Answer {
    let began = Instant::now();
    let mut answer = Answer::default();
    if let Err(report) = try_run(site, login, peer, asked, &mut answer) {
        answer.error = Some(report.into());
    }
    answer.took_ms = millis(began.elapsed());
    answer
}

fn try_run(
    site: &Arc<Site>,
    login: &Login,
    peer: &Peer,
    asked: &Asked,
    answer: &mut Answer,
) -> Result<(), Report> {
    let shared = &site.shared;
    let Some(_place) = Place::of(site, |site| &site.running, RUNS_MAX) else {
        let message = format!("the console runs {RUNS_MAX} texts already");
        return Err(hinted(report("53300", message), "wait for one to end, or cancel it"));
    };
    let texts = statements(&asked.sql);
    let before = |at: usize| asked.sql[..at].chars().count();
    if texts.len() > RESULTS_MAX {
        let message = format!("the text has {} statements, at most {RESULTS_MAX}", texts.len());
        return Err(hinted(report("54000", message), "psql takes longer scripts"));
    }
    for (at, text) in &texts {
        let kind = Kind::of(text);
        check_kind(kind, asked.may_change)?;
        // A text with a mistake in it does nothing.
        if kind.is_parsed() {
            SqlSession::check_syntax(text).map_err(|error| of_error(&error, text, before(*at)))?;
        }
    }
    let most = shared.roles.get(&login.role).map_or(0, |role| connections_for(shared, &role));
    let client = shared.clients.add(Arc::clone(&peer.socket), true, most);
    let client = client.ok_or_else(|| report("53300", "sorry, too many clients already"))?;
    let guest = Guest { site, login, client, run: asked.run };
    lock(&login.runs).insert(asked.run, guest.client.number);
    let identity = Identity { role: login.role.clone(), is_encrypted: site.tls.is_some() };
    guest.client.activity.identify(identity);
    guest.client.activity.set_application(APPLICATION);
    guest.client.begin();
    let seconds = asked.seconds.unwrap_or(SECONDS).clamp(1, SECONDS_MAX);
    let (number, question) = (guest.client.number, guest.client.question());
    let session = session(shared, &login.role, number, question, seconds)?;
    let mut runs = Runs { shared, role: &login.role, client: &guest.client, session, bytes: 0 };
    if !asked.may_change {
        let begun = runs.session.execute("BEGIN READ ONLY");
        begun.map_err(|error| of_error(&error, "", 0))?;
    }
    let mut result = Ok(());
    for (at, text) in texts {
        if !asked.may_change {
            runs.check_read_only()?;
        }
        result = runs.statement(text, before(at)).map(|shown| answer.results.push(shown));
        answer.notices.extend(runs.session.take_notices().iter().map(ToString::to_string));
        if result.is_err() {
            break;
        }
    }
    if asked.may_change && runs.session.transaction_status() != TransactionStatus::Idle {
        answer.notices.push("the transaction was left open, and is rolled back".to_owned());
    }
    result
}

/// Refuses statements that the console does not run.
fn check_kind(kind: Kind, may_change: bool) -> Result<(), Report> {
    let what = match kind {
        Kind::Copy => "COPY",
        Kind::Declare | Kind::Fetch | Kind::Move | Kind::Close => "a cursor",
        Kind::Deallocate | Kind::Discard => "DEALLOCATE and DISCARD",
        Kind::Role => "a change of roles",
        Kind::Begin | Kind::Commit | Kind::Rollback if !may_change => {
            let message = "the text runs in a read-only transaction, which it cannot end";
            return Err(hinted(report("25001", message), "tick \"Allow changes\" to run it"));
        }
        _ => return Ok(()),
    };
    Err(hinted(report("0A000", format!("{what} is not for the console")), "psql can do it"))
}

fn hinted(report: Report, hint: &str) -> Report {
    Report { hint: Some(hint.to_owned()), ..report }
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e5).round() / 1e2
}

/// The statements of a run.
struct Runs<'r> {
    shared: &'r Shared,
    role: &'r str,
    client: &'r Arc<Client>,
    session: SqlSession,
    /// Bytes of the results so far.
    bytes: usize,
}

impl Runs<'_> {
    fn check_read_only(&mut self) -> Result<(), Report> {
        if self.session.transaction_status() == TransactionStatus::Open {
            let rows = objects(&mut self.session, "SHOW transaction_read_only", 1)?;
            if rows.iter().flat_map(Map::values).any(|value| value == "on") {
                return Ok(());
            }
        }
        let message = "the read-only transaction of the text is over";
        Err(hinted(report("25006", message), "tick \"Allow changes\" to run it"))
    }

    /// Runs a statement, which is seen as that of any other client.
    fn statement(&mut self, sql: &str, before: usize) -> Result<Shown, Report> {
        let text: Arc<str> = sql.into();
        let totals = self.shared.statements.of(self.role, sql);
        self.client.activity.begin(&text);
        let began = Instant::now();
        let done = self.rows(sql, before);
        let took = began.elapsed();
        self.session.settle(done.is_ok());
        self.client.activity.end(self.session.transaction_status());
        let metrics = &self.shared.metrics;
        add(&metrics.statements);
        metrics.took(took);
        let rows = done.as_ref().ok().map(|shown| shown.rows.len() as u64);
        totals.add(self.client.number, took, rows);
        let options = &self.shared.options.log;
        let who = Who { client: self.client.number, role: self.role };
        let said = Said { text: &text, values: &[] };
        match &done {
            Err(report) => {
                metrics.failed(report.state);
                log::failed(options, who, Some(said), report);
            }
            Ok(_) if options.min_duration.is_some_and(|limit| took >= limit) => {
                metrics.slow.fetch_add(1, Ordering::Relaxed);
                log::slow(options, who, said, took, None);
            }
            Ok(_) => log::ran(options, who, said, took),
        }
        done.map(|shown| Shown { took_ms: millis(took), ..shown })
    }

    fn rows(&mut self, sql: &str, before: usize) -> Result<Shown, Report> {
        let outcome = self.session.execute_streaming(sql, &[][..]);
        let rows = match outcome.map_err(|error| of_error(&error, sql, before))? {
            Outcome::Rows(rows) => Rows::of_result(rows, "SELECT"),
            Outcome::Stream(rows) => Rows::of_stream(rows, "SELECT"),
            other => {
                let tag = other.tag().unwrap_or_default().to_owned();
                let (columns, rows) = (Vec::new(), Vec::new());
                return Ok(Shown { tag, columns, rows, cut: None, took_ms: 0.0 });
            }
        };
        self.session.enter_zone();
        let columns = rows.columns(&self.session);
        take(rows, &columns, ROWS_MAX, &mut self.bytes)
    }
}

/// Takes the rows of a result that the console shows.
fn take(mut rows: Rows, columns: &[Column], most: u64, bytes: &mut usize) -> Result<Shown, Report> {
    let mut shown = Shown {
        tag: String::new(),
        columns: columns
            .iter()
            .map(|column| ShownColumn {
                name: column.name.clone(),
                kind: column.data_type.map_or("text".to_owned(), |one| one.to_string()),
                is_number: column.data_type.is_some_and(is_number),
                is_bool: column.data_type == Some(DataType::Bool),
            })
            .collect(),
        rows: Vec::new(),
        cut: None,
        took_ms: 0.0,
    };
    let (mut is_full, mut has_more, mut is_shortened) = (false, false, false);
    let taken = rows.some(columns, most + 1, &mut |cells| {
        if shown.rows.len() as u64 >= most {
            has_more = true;
            return Ok(());
        }
        if is_full {
            return Ok(());
        }
        let mut row = Vec::with_capacity(columns.len());
        let mut size = 2;
        for (cell, column) in cells.zip(columns) {
            let cell = cell.map_err(|why| Fault::from(report("22000", why)))?;
            let text = (cell != Cell::Null).then(|| text_of(&cell, column.oid));
            let text = text.map(|(text, cut)| {
                is_shortened |= cut;
                text
            });
            size += text.as_deref().map_or(5, json_bytes);
            row.push(text);
        }
        if *bytes + size > BYTES_MAX {
            is_full = true;
            return Ok(());
        }
        *bytes += size;
        shown.rows.push(row);
        Ok(())
    });
    match taken {
        Ok(_) => {}
        Err(Fault::Error(report)) => return Err(report),
        Err(Fault::Gone(_)) => return Err(report("08006", "the connection is gone")),
    }
    shown.cut = match (is_full, has_more, is_shortened) {
        (true, ..) => Some("Cut at 4 MiB"),
        (_, true, _) => Some("Cut at 1,000 rows"),
        (.., true) => Some("Long values are cut at 16 KiB"),
        _ => None,
    };
    shown.tag = rows.tag(shown.rows.len() as u64);
    Ok(shown)
}

/// The text of a value, and whether it is longer.
fn text_of(cell: &Cell<'_>, oid: u32) -> (String, bool) {
    let mut bytes = Vec::new();
    match oids::element_of_vector(oid) {
        Some(_) => put_vector(cell, &mut bytes),
        None => put_text(cell, &mut bytes),
    }
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    let is_longer = text.len() > VALUE_BYTES_MAX;
    if is_longer {
        text.truncate(text.floor_char_boundary(VALUE_BYTES_MAX));
        text.push('…');
    }
    (text, is_longer)
}

/// The bytes of a text in JSON.
fn json_bytes(text: &str) -> usize {
    let more = |byte: u8| match byte {
        0..0x20 => 5,
        b'"' | b'\\' => 1,
        _ => 0,
    };
    3 + text.len() + text.bytes().map(more).sum::<usize>()
}

fn is_number(data_type: DataType) -> bool {
    use DataType::{Decimal, Float32, Float64, Int16, Int32, Int64};
    matches!(data_type, Int16 | Int32 | Int64 | Float32 | Float64 | Decimal { .. })
}

/// The rows of a query of the console itself, as objects.
///
/// # Errors
/// Those of the query.
pub(super) fn objects(
    session: &mut SqlSession,
    sql: &str,
    most: u64,
) -> Result<Vec<Map<String, Value>>, Report> {
    let rows = match session.execute(sql).map_err(|error| of_error(&error, sql, 0))? {
        Outcome::Rows(rows) => Rows::of_result(rows, "SELECT"),
        _ => return Ok(Vec::new()),
    };
    session.enter_zone();
    let columns = rows.columns(session);
    let shown = take(rows, &columns, most, &mut 0)?;
    let value = |column: &ShownColumn, text: Option<String>| match text {
        None => Value::Null,
        Some(text) if column.is_number => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(number), _) => number.into(),
            (_, Ok(number)) => number.into(),
            _ => text.into(),
        },
        Some(text) if column.is_bool => (text == "t").into(),
        Some(text) => text.into(),
    };
    let object = |row: Vec<Option<String>>| {
        let cells = shown.columns.iter().zip(row);
        cells.map(|(column, text)| (column.name.clone(), value(column, text))).collect()
    };
    Ok(shown.rows.into_iter().map(object).collect())
}

/// A browser's wish to end a run of its own.
pub(super) fn cancel(site: &Site, login: &Login, run: u64) -> bool {
    let number = lock(&login.runs).get(&run).copied();
    number.is_some_and(|number| site.shared.clients.end(number, false))
}
