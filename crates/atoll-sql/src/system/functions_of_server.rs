//! The functions that ask a server, or ask it to do something, and those that tell sizes.

use std::time::Duration;

use super::definitions::What;
use super::function::{Definition, Gives, oid, whole};
use super::serving::Serving;
use super::{System, oids};
use crate::error::{SqlError, SqlErrorKind};
use crate::literal::Literal;
use crate::{interval, schemas};

const HOUR: Duration = Duration::from_secs(3600);

type Answer = Result<Literal, SqlError>;

const fn number(name: &'static str, run: fn(&System, &[Literal]) -> Answer) -> Definition {
    Definition::new(name, Gives::Number, run)
}

pub(super) const ALL: &[Definition] = &[
    number("pg_relation_size", |system, values| system.size_of(values, |all| all.0)),
    number("pg_table_size", |system, values| system.size_of(values, |all| all.0 + all.1)),
    number("pg_indexes_size", |system, values| system.size_of(values, |all| all.2)),
    number("pg_total_relation_size", |system, values| {
        system.size_of(values, |all| all.0 + all.1 + all.2)
    }),
    number("pg_database_size", |system, values| {
        let is_it = match values.first() {
            Some(Literal::Text(name)) => *name == system.around.database,
            _ => oid(values, 0) == Some(oids::DATABASE),
        };
        let Some(db) = system.around.db.as_ref().filter(|_| is_it) else {
            return Ok(Literal::Null);
        };
        let account = db.memory();
        Ok(Literal::from(account.tables_bytes + account.headers_bytes + account.indexes_bytes))
    }),
    Definition::new("pg_size_pretty", Gives::Text, |_, values| {
        Ok(whole(values, 0).map_or(Literal::Null, |bytes| Literal::Text(pretty(bytes))))
    }),
    Definition::new("pg_postmaster_start_time", Gives::Instant, |system, _| {
        let began = system.around.serving.as_ref().map(|server| server.began());
        Ok(began.map_or(Literal::Null, Literal::Instant))
    }),
    Definition::new("pg_blocking_pids", Gives::Numbers, |system, values| {
        let number = whole(values, 0).and_then(|number| i32::try_from(number).ok());
        let all = number.and_then(|number| Some(system.around.together.as_ref()?.blocking(number)));
        Ok(Literal::List(all.unwrap_or_default().into_iter().map(Literal::from).collect()))
    }),
    Definition::new("pg_cancel_backend", Gives::Flag, |system, values| system.end(values, false))
        .that_acts(),
    Definition::new("pg_terminate_backend", Gives::Flag, |system, values| system.end(values, true))
        .that_acts(),
    Definition::new("atoll_snapshot", Gives::Text, |system, values| {
        let name = match values.first() {
            None | Some(Literal::Null) => None,
            Some(Literal::Text(name)) => Some(name.as_str()),
            Some(_) => return Err(wrong("the name of a snapshot is a text")),
        };
        let max_age = max_age(values.get(1))?;
        let name = system.server()?.take_snapshot(&system.around.user, name, max_age)?;
        Ok(Literal::Text(name))
    })
    .that_acts()
    .that_sees_null(),
    Definition::new("atoll_release_snapshot", Gives::Flag, |system, values| {
        let server = system.server()?;
        let Some(Literal::Text(name)) = values.first() else {
            return Err(wrong("the name of a snapshot is a text"));
        };
        let found = server.snapshots().into_iter().find(|one| one.name == *name);
        match found {
            Some(one) if !system.around.is_also(&one.owner) => {
                Err(denied("permission denied to release the snapshot of another role"))
            }
            _ => Ok(Literal::Bool(server.release_snapshot(name))),
        }
    })
    .that_acts(),
    Definition::new("pg_stat_statements_reset", Gives::Text, |system, _| {
        let server = system.server()?;
        if !system.around.is_superuser() {
            return Err(denied("pg_stat_statements_reset is for superusers"));
        }
        server.forget_statements();
        Ok(Literal::Text(String::new()))
    })
    .that_acts(),
];

impl System {
    fn server(&self) -> Result<&dyn Serving, SqlError> {
        self.around.serving.as_deref().ok_or_else(|| {
            let message = "the session is none of a server";
            SqlError::new(SqlErrorKind::Unsupported, message)
                .with_hint(Some("connect to atoll serve".to_owned()))
        })
    }

    /// Cancels the statement of a client, or ends its connection.
    fn end(&self, values: &[Literal], connection: bool) -> Answer {
        let server = self.server()?;
        let number = whole(values, 0).and_then(|number| i32::try_from(number).ok());
        let clients = server.clients();
        let found = clients.iter().find(|client| Some(client.number) == number);
        let Some(found) = found else { return Ok(Literal::Bool(false)) };
        let is_of_superuser =
            self.around.roles.iter().any(|role| role.name == found.role && role.is_superuser);
        if !self.around.is_superuser() && (is_of_superuser || !self.around.is_also(&found.role)) {
            return Err(denied("permission denied to end what another role does")
                .with_hint(Some("a member of the role may, and a superuser".to_owned())));
        }
        Ok(Literal::Bool(server.end(found.number, connection)))
    }

    /// Bytes of a table: of its values, its row headers and its indexes, of which a function makes
    /// one number. An index has no number of its own, and a view has none.
    fn size_of(&self, values: &[Literal], sum: fn((u64, u64, u64)) -> u64) -> Answer {
        let relation = match values.first() {
            Some(Literal::Text(name)) => self.relation_in(name)?,
            _ => oid(values, 0).and_then(|oid| self.definitions.relation(oid)),
        };
        let Some(relation) = relation else { return Ok(Literal::Null) };
        if !matches!(relation.what, What::Table(_)) {
            return Ok(Literal::Integer(0));
        }
        let name = schemas::flat(&relation.schema, &relation.name);
        // One that the transaction has made is not in the database yet.
        let table = self.around.db.as_ref().and_then(|db| db.table(&name).ok());
        let bytes = table.map(|table| table.bytes());
        let all = bytes.map(|bytes| sum((bytes.rows, bytes.headers, bytes.indexes)));
        Ok(all.map_or(Literal::Null, Literal::from))
    }
}

/// How long a snapshot is kept: an hour if it is not said.
fn max_age(value: Option<&Literal>) -> Result<Duration, SqlError> {
    let interval = match value {
        None | Some(Literal::Null) => return Ok(HOUR),
        Some(Literal::Interval(interval)) => Some(*interval),
        Some(Literal::Text(text)) => Some(interval::parse(text).map_err(|why| wrong(&why))?),
        Some(_) => None,
    };
    let nanos = interval.and_then(|interval| u64::try_from(interval.span()).ok());
    match nanos {
        Some(nanos @ 1..) => Ok(Duration::from_nanos(nanos)),
        _ => Err(wrong("the maximal age of a snapshot is an interval of more than nothing")
            .with_hint(Some("atoll_snapshot('name', interval '10 minutes')".to_owned()))),
    }
}

fn wrong(message: &str) -> SqlError {
    SqlError::new(SqlErrorKind::Type, message).with_state("22023")
}

fn denied(message: &str) -> SqlError {
    SqlError::new(SqlErrorKind::Schema, message).with_state("42501")
}

/// A number of bytes for people, rounded as PostgreSQL rounds it: a unit is left when ten
/// thousand of it are reached.
fn pretty(bytes: i64) -> String {
    if bytes.unsigned_abs() < 10 * 1024 {
        return format!("{bytes} bytes");
    }
    // Halves of the unit, for the last digit to be rounded.
    let mut halves = bytes / 512;
    for unit in ["kB", "MB", "GB", "TB", "PB"] {
        if halves.unsigned_abs() < 20 * 1024 - 1 || unit == "PB" {
            return format!("{} {unit}", (halves + halves.signum()) / 2);
        }
        halves /= 1024;
    }
    format!("{bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers of PostgreSQL 15.
    #[test]
    fn bytes_are_rounded_as_in_postgresql() {
        for (bytes, wanted) in [
            (0, "0 bytes"),
            (-10_239, "-10239 bytes"),
            (10_240, "10 kB"),
            (1_000_000, "977 kB"),
            (10_484_735, "10239 kB"),
            (10_485_247, "10239 kB"),
            (10_485_248, "10 MB"),
            (-1_000_000, "-977 kB"),
            (-12_345_678_901, "-11 GB"),
            (i64::MAX, "8192 PB"),
        ] {
            assert_eq!(pretty(bytes), wanted);
        }
    }
}
