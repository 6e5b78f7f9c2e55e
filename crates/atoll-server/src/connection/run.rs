//! How statements run that are not for the protocol itself.

use std::sync::Arc;

use atoll_sql::{
    AsStatement, CopyEnd, Literal, Outcome, Roles, SqlSession, Surroundings, TransactionStatus,
};

use super::Connection;
use super::kept::Way;
use super::kind::{Kind, Words};
use super::report::{of_error, report};
use super::rows::Rows;
use crate::link::Fault;
use crate::values::Column;
use crate::wire::out::Report;

/// What came of a statement.
pub(super) enum Ran {
    Rows(Box<Rows>),
    /// It returns no rows; the command tag.
    Done(String),
    /// Rows of a cursor are to be sent.
    Fetch {
        name: String,
        way: Way,
        columns: Arc<[Column]>,
    },
    Empty,
}

/// Settings of which a client is told when they change, as in PostgreSQL.
const TOLD: [&str; 13] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
];

impl Connection {
    /// Runs a statement that is not for the protocol; `text` is what it was written as.
    pub(super) fn run(
        &mut self,
        kind: Kind,
        (text, before): (&str, usize),
        statement: impl AsStatement,
        values: &[Literal],
    ) -> Result<Ran, Fault> {
        self.check_failed(kind)?;
        match kind {
            Kind::Empty => return Ok(Ran::Empty),
            Kind::Begin | Kind::Commit | Kind::Rollback => {
                return self.transact(kind, text).map(Ran::Done);
            }
            Kind::Deallocate => return self.deallocate(text).map(Ran::Done),
            Kind::Discard => return self.discard(text).map(Ran::Done),
            Kind::Copy => {
                let end = SqlSession::copy_end(text);
                match end.map_err(|error| of_error(&error, text, before))? {
                    CopyEnd::FromClient => return self.copy_in(text, before).map(Ran::Done),
                    CopyEnd::ToClient => return self.copy_out(text, before).map(Ran::Done),
                    CopyEnd::Server => self.check_superuser("COPY with a file of the server")?,
                }
            }
            Kind::Declare => return self.declare(text, values).map(Ran::Done),
            Kind::Fetch => return self.fetch(text),
            Kind::Move => return self.move_cursor(text).map(Ran::Done),
            Kind::Close => return self.close_cursor(text).map(Ran::Done),
            Kind::TwoPhase => {
                let hint = Some("transactions end by COMMIT or ROLLBACK".to_owned());
                let report = report("55000", "prepared transactions are not supported");
                return Err(Fault::Error(Report { hint, ..report }));
            }
            Kind::Role => return self.change_role(text).map(Ran::Done),
            Kind::Grant => {
                if let Some(tag) = self.change_members(text)? {
                    return Ok(Ran::Done(tag));
                }
            }
            _ => {}
        }
        self.client.begin();
        let ran = self.session.execute_streaming(statement, values);
        let verb = if kind == Kind::Rows { verb_of(text) } else { "SELECT" };
        match ran.map_err(|error| of_error(&error, text, before))? {
            Outcome::Rows(rows) => Ok(Ran::Rows(Box::new(Rows::of_result(rows, verb)))),
            Outcome::Stream(rows) => Ok(Ran::Rows(Box::new(Rows::of_stream(rows, verb)))),
            other => Ok(Ran::Done(other.tag().unwrap_or_default().to_owned())),
        }
    }

    /// `DEALLOCATE`: statements of the protocol and those of `PREPARE` have one space of names.
    fn deallocate(&mut self, text: &str) -> Result<String, Fault> {
        let mut words = Words(text);
        words.next();
        let rest = words.0.trim_end_matches([';', ' ', '\n', '\t', '\r']).trim_start();
        let rest = match rest.get(..8) {
            Some(word) if word.eq_ignore_ascii_case("prepare ") => rest[8..].trim_start(),
            _ => rest,
        };
        let name = match rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(quoted) => quoted.replace("\"\"", "\""),
            None => rest.to_lowercase(),
        };
        if rest.eq_ignore_ascii_case("all") {
            self.statements.clear();
        } else if self.statements.remove(&name).is_some() {
            return Ok("DEALLOCATE".to_owned());
        }
        self.plain(text)
    }

    /// `DISCARD`: forgets what the session has, all of it or a part.
    fn discard(&mut self, text: &str) -> Result<String, Fault> {
        let what = Words(text).nth(1).unwrap_or_default().to_ascii_uppercase();
        match what.as_str() {
            "ALL" => {
                if self.session.transaction_status() != TransactionStatus::Idle {
                    let message = "DISCARD ALL cannot run inside a transaction block";
                    return Err(report("25001", message).into());
                }
                self.portals.clear();
                self.statements.clear();
                // A new session has nothing of the old one.
                self.session = SqlSession::on_database(self.shared.db.clone());
                self.begin_session()?;
                self.is_new_session = true;
                Ok("DISCARD ALL".to_owned())
            }
            // Plans are shared by all sessions, and follow the tables by themselves.
            "PLANS" => Ok("DISCARD PLANS".to_owned()),
            "SEQUENCES" | "TEMP" | "TEMPORARY" => {
                let message = format!("DISCARD {what} is not supported");
                let hint = Some("DISCARD ALL forgets all that the session has".to_owned());
                Err(Fault::Error(Report { hint, ..report("0A000", message) }))
            }
            _ => Err(report("42601", "DISCARD takes ALL, PLANS, SEQUENCES or TEMP").into()),
        }
    }

    /// Readies a new session, with the settings that the client has begun with.
    ///
    /// # Errors
    /// One of them is no setting, or cannot have the value.
    pub(crate) fn begin_session(&mut self) -> Result<(), Report> {
        self.session.set_interrupt(Some(self.client.question()));
        let (shared, names) = (Arc::clone(&self.shared), (&*self.shared.name, &*self.role));
        self.session.set_surroundings(Surroundings::new(names, self.client.number, shared));
        self.session.set_number(self.client.number);
        self.session.set_waker(self.waker.clone());
        let roles: Arc<dyn Roles> = self.shared.roles.clone();
        self.session.set_role(Some((roles, self.role.as_str())));
        for (name, value) in &self.settings {
            let quoted = |text: &str| text.replace('\'', "''");
            let name = name.to_lowercase();
            // Names of encodings are compared without signs, and some drivers quote them.
            let is_plain = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
            let plain = || value.chars().filter(is_plain).collect();
            let value = if name == "client_encoding" { plain() } else { value.clone() };
            let sql =
                format!("SELECT set_config('{}', '{}', false)", quoted(&name), quoted(&value));
            let failed = |error| Report { position: None, ..of_error(&error, &sql, 0) };
            self.session.execute(&sql).map_err(failed)?;
        }
        Ok(())
    }

    /// Checks that the client is a superuser.
    fn check_superuser(&self, what: &str) -> Result<(), Fault> {
        if self.shared.roles.get(&self.role).is_some_and(|role| role.is_superuser) {
            return Ok(());
        }
        let hint = Some("COPY … FROM STDIN and TO STDOUT are for every role".to_owned());
        let message = format!("permission denied: {what} is for superusers");
        Err(Fault::Error(Report { hint, ..report("42501", message) }))
    }

    /// Runs a statement that returns no rows, and returns its command tag.
    fn plain(&mut self, text: &str) -> Result<String, Fault> {
        self.client.begin();
        let done = self.session.execute(text).map_err(|error| of_error(&error, text, 0))?;
        Ok(done.tag().unwrap_or_default().to_owned())
    }

    /// Tells the client of settings that have changed.
    pub(crate) fn tell_settings(&mut self) {
        let is_new = std::mem::take(&mut self.is_new_session);
        if !self.session.settings_have_changed() && !is_new {
            return;
        }
        let application = self.session.setting("application_name").unwrap_or_default();
        self.client.activity.set_application(&application);
        for (at, name) in TOLD.into_iter().enumerate() {
            let value = match name {
                "is_superuser" => {
                    let role = self.shared.roles.get(&self.role);
                    if role.is_some_and(|role| role.is_superuser) { "on" } else { "off" }.to_owned()
                }
                "session_authorization" => self.role.clone(),
                name => match self.session.setting(name) {
                    Some(value) => value,
                    None => continue,
                },
            };
            match self.told.iter_mut().find(|(told, _)| *told == name) {
                Some((_, told)) if *told == value => {}
                Some((_, told)) => {
                    self.wire.out.parameter(name, &value);
                    *told = value;
                }
                None => {
                    self.wire.out.parameter(name, &value);
                    self.told.insert(at.min(self.told.len()), (name, value));
                }
            }
        }
    }
}

/// The verb in the command tag of a statement that returns rows and changes nothing.
fn verb_of(text: &str) -> &'static str {
    match Words(text).next() {
        Some(word) if word.eq_ignore_ascii_case("show") => "SHOW",
        Some(word) if word.eq_ignore_ascii_case("explain") => "EXPLAIN",
        _ => "SELECT",
    }
}
