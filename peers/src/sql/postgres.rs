//! PostgreSQL, with the settings of its server.

use std::error::Error;

use atoll::Value;
use atoll_bench::sql::{Connection, Failure, Fields, Param};
use atoll_bench::tpcc::Size;
use atoll_bench::tpcc::sql::{Kind, definitions, each_row};
use postgres::types::private::BytesMut;
use postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, NoTls, Row, Statement};

use super::Server;
use crate::engine::PeerError;

/// Bytes that are sent at once when tables are filled.
const COPY_BYTES: usize = 1 << 20;

/// A server.
pub struct Postgres {
    url: String,
}

/// A connection.
pub struct PostgresConnection(Client);

impl Postgres {
    /// The server that connections reach by `url`.
    pub fn at(url: &str) -> Self {
        Self { url: url.to_owned() }
    }

    fn client(&self) -> Result<Client, PeerError> {
        Ok(Client::connect(&self.url, NoTls)?)
    }
}

impl Server for Postgres {
    type Connection = PostgresConnection;

    fn version(&self) -> String {
        let shown = self.client().and_then(|mut client| {
            Ok(client.query_one("SHOW server_version", &[])?.get::<_, String>(0))
        });
        format!("PostgreSQL {}", shown.unwrap_or_default())
    }

    fn fill(&self, size: Size, seed: u64) -> Result<(), PeerError> {
        let mut client = self.client()?;
        let mut texts: Vec<String> = vec![String::new(); Kind::ALL.len()];
        for kind in Kind::ALL {
            client.batch_execute(&format!("DROP TABLE IF EXISTS {}", kind.name()))?;
        }
        let definitions = definitions();
        let (tables, indexes) = definitions.split_at(Kind::ALL.len());
        tables.iter().try_for_each(|sql| client.batch_execute(sql))?;
        each_row(size, seed, |kind, row| {
            let text = &mut texts[kind as usize];
            write_row(text, row);
            if text.len() < COPY_BYTES {
                return Ok(());
            }
            copy(&mut client, kind, &std::mem::take(text))
        })?;
        for (kind, text) in Kind::ALL.iter().zip(&texts) {
            copy(&mut client, *kind, text)?;
        }
        indexes.iter().try_for_each(|sql| client.batch_execute(sql))?;
        client.batch_execute("VACUUM ANALYZE")?;
        Ok(client.batch_execute("CHECKPOINT")?)
    }

    fn connect(&self) -> Result<PostgresConnection, PeerError> {
        Ok(PostgresConnection(self.client()?))
    }
}

/// Adds a row in the text format of COPY. No text of TPC-C has a character to be escaped.
fn write_row(text: &mut String, row: &[Value]) {
    for (at, value) in row.iter().enumerate() {
        if at > 0 {
            text.push('\t');
        }
        match value {
            Value::Int16(number) => text.push_str(&number.to_string()),
            Value::Int32(number) => text.push_str(&number.to_string()),
            Value::Int64(number) => text.push_str(&number.to_string()),
            Value::Timestamp(micros) => text.push_str(&timestamp(*micros)),
            Value::Text(value) => text.push_str(value),
            _ => text.push_str("\\N"),
        }
    }
    text.push('\n');
}

/// A time in the words of PostgreSQL.
fn timestamp(micros: i64) -> String {
    let (seconds, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Julian days count from one that PostgreSQL reads as "J".
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("J{} {hour:02}:{minute:02}:{second:02}.{micros:06}", 2_440_588 + days)
}

fn copy(client: &mut Client, kind: Kind, text: &str) -> Result<(), PeerError> {
    let mut writer = client.copy_in(&format!("COPY {} FROM STDIN", kind.name()))?;
    let sent = std::io::Write::write_all(&mut writer, text.as_bytes());
    sent.map_err(|error| Failure::Other(error.to_string()))?;
    writer.finish()?;
    Ok(())
}

fn failure(error: postgres::Error) -> Failure {
    let code = error.code().map(|code| code.code().to_owned()).unwrap_or_default();
    let message = error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string);
    match code.starts_with("40") {
        true => Failure::Conflict(message),
        false => Failure::Other(message),
    }
}

/// A value in the type that its place has.
#[derive(Debug)]
struct Sent<'p>(Param<'p>);

impl ToSql for Sent<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self.0 {
            Param::Null => Ok(IsNull::Yes),
            Param::Text(text) => text.to_sql(ty, out),
            Param::Time(micros) => {
                let since = std::time::Duration::from_micros(micros.unsigned_abs());
                (std::time::UNIX_EPOCH + since).to_sql(ty, out)
            }
            Param::Int(number) if *ty == Type::INT2 => i16::try_from(number)?.to_sql(ty, out),
            Param::Int(number) if *ty == Type::INT4 => i32::try_from(number)?.to_sql(ty, out),
            Param::Int(number) => number.to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Runs `work` with the values as the client takes them.
fn with_values<R>(params: &[Param<'_>], work: impl FnOnce(&[&(dyn ToSql + Sync)]) -> R) -> R {
    let values: Vec<Sent<'_>> = params.iter().map(|param| Sent(*param)).collect();
    let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
    work(&values)
}

struct Shown<'r>(&'r Row);

impl Fields for Shown<'_> {
    fn int(&self, at: usize) -> Result<i64, Failure> {
        let got = match self.0.columns()[at].type_() {
            &Type::INT2 => self.0.try_get::<_, i16>(at).map(i64::from),
            &Type::INT4 => self.0.try_get::<_, i32>(at).map(i64::from),
            _ => self.0.try_get::<_, i64>(at),
        };
        got.map_err(failure)
    }

    fn text(&self, at: usize, read: &mut dyn FnMut(&str)) -> Result<(), Failure> {
        self.0.try_get::<_, &str>(at).map(read).map_err(failure)
    }
}

impl Connection for PostgresConnection {
    type Statement = Statement;

    fn run(&mut self, sql: &str) -> Result<(), Failure> {
        self.0.batch_execute(sql).map_err(failure)
    }

    fn prepare(&mut self, sql: &str) -> Result<Statement, Failure> {
        self.0.prepare(sql).map_err(failure)
    }

    fn execute(&mut self, statement: &Statement, params: &[Param<'_>]) -> Result<u64, Failure> {
        with_values(params, |values| self.0.execute(statement, values)).map_err(failure)
    }

    fn query(
        &mut self,
        statement: &Statement,
        params: &[Param<'_>],
        each: &mut dyn FnMut(&dyn Fields) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let rows = with_values(params, |values| self.0.query(statement, values));
        rows.map_err(failure)?.iter().try_for_each(|row| each(&Shown(row)))
    }
}
