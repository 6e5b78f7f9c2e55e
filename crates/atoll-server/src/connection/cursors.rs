//! Cursors: `DECLARE`, `FETCH`, `MOVE` and `CLOSE`. A cursor is a portal with a name of SQL
//! (`CURSOR-1`), so a client may describe and close it as one.

use std::sync::{Arc, OnceLock};

use atoll_sql::{Literal, TransactionStatus};

use super::Connection;
use super::kind::{Kind, Scan};
use super::report::report;
use super::run::Ran;
use super::statement::{Portal, Progress, Statement};
use crate::link::Fault;
use crate::values::Column;

/// What a `DECLARE` says.
pub(super) struct Declaration {
    pub(super) name: String,
    is_binary: bool,
    /// Where the query begins.
    pub(super) query: usize,
}

/// What a `FETCH` or a `MOVE` says.
struct Movement {
    name: String,
    /// So many rows; 0 for all.
    rows: u64,
}

fn syntax(what: &str) -> Fault {
    report("42601", format!("syntax error in {what}")).into()
}

/// Reads a `DECLARE`.
pub(super) fn declaration(sql: &str) -> Result<Declaration, Fault> {
    let mut scan = Scan::new(sql);
    scan.word();
    let name = scan.name().ok_or_else(|| syntax("DECLARE"))?;
    let mut is_binary = false;
    loop {
        let Some(word) = scan.word() else { return Err(syntax("DECLARE")) };
        match word.to_ascii_uppercase().as_str() {
            "BINARY" => is_binary = true,
            "INSENSITIVE" | "ASENSITIVE" => {}
            "NO" if scan.takes("SCROLL") => {}
            "SCROLL" => return Err(report("0A000", "cursors only scan forward").into()),
            "CURSOR" => break,
            _ => return Err(syntax("DECLARE")),
        }
    }
    if scan.takes("WITH") {
        let message = "a cursor cannot outlive its transaction: WITH HOLD is not supported";
        return Err(report("0A000", message).into());
    }
    if scan.takes("WITHOUT") && !scan.takes("HOLD") || !scan.takes("FOR") {
        return Err(syntax("DECLARE"));
    }
    Ok(Declaration { name, is_binary, query: scan.at() })
}

/// Reads a `FETCH` or a `MOVE`.
fn movement(sql: &str) -> Result<Movement, Fault> {
    let backward = || {
        let message = "cursor can only scan forward";
        Fault::from(report("55000", message))
    };
    let mut scan = Scan::new(sql);
    scan.word();
    let mut rows = 1;
    let number = |scan: &mut Scan<'_>| -> Result<Option<u64>, Fault> {
        if scan.takes("ALL") {
            return Ok(Some(0));
        }
        match scan.number() {
            Some(number) if number > 0 => Ok(u64::try_from(number).ok()),
            Some(_) => Err(backward()),
            None => Ok(None),
        }
    };
    if let Some(said) = number(&mut scan)? {
        rows = said;
    } else if scan.takes("FORWARD") {
        rows = number(&mut scan)?.unwrap_or(1);
    } else if ["PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE", "BACKWARD"]
        .iter()
        .any(|word| scan.takes(word))
    {
        return Err(backward());
    } else {
        scan.takes("NEXT");
    }
    if !scan.takes("FROM") {
        scan.takes("IN");
    }
    let name = scan.name().ok_or_else(|| syntax("FETCH"))?;
    if scan.ends() { Ok(Movement { name, rows }) } else { Err(syntax("FETCH")) }
}

fn unknown(name: &str) -> Fault {
    report("34000", format!("cursor \"{name}\" does not exist")).into()
}

impl Connection {
    /// Carries out a `DECLARE`, of which the query has these values.
    pub(super) fn declare(&mut self, sql: &str, values: &[Literal]) -> Result<String, Fault> {
        let declaration = declaration(sql)?;
        let is_open = self.session.transaction_status() != TransactionStatus::Idle;
        if !is_open || self.is_implicit {
            let message = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(report("25P01", message).into());
        }
        if self.portals.contains_key(&declaration.name) {
            let message = format!("cursor \"{}\" already exists", declaration.name);
            return Err(report("42P03", message).into());
        }
        let query = &sql[declaration.query..];
        let before = sql[..declaration.query].chars().count();
        // It shows what there is now, whenever it is read.
        let Ran::Rows(rows) = self.run(Kind::Rows, (query, before), query, values)? else {
            return Err(syntax("DECLARE: a cursor has a query"));
        };
        let statement = Arc::new(Statement {
            text: query.into(),
            kind: Kind::Rows,
            prepared: None,
            parameters: Vec::new(),
            columns: OnceLock::new(),
            totals: OnceLock::new(),
        });
        let formats = if declaration.is_binary { vec![1] } else { Vec::new() };
        let mut portal = Portal::new(statement, Vec::new(), formats);
        let columns = rows.columns(&self.session).into();
        portal.progress = Progress::Open { rows, columns };
        self.portals.insert(declaration.name, portal);
        Ok("DECLARE CURSOR".to_owned())
    }

    /// The columns of what a `FETCH` returns.
    pub(super) fn columns_of_fetch(&self, sql: &str) -> Result<Arc<[Column]>, Fault> {
        let name = movement(sql)?.name;
        match self.portals.get(&name).map(|portal| &portal.progress) {
            Some(Progress::Open { columns, .. }) => Ok(Arc::clone(columns)),
            _ => Err(unknown(&name)),
        }
    }

    /// Begins a `FETCH`.
    pub(super) fn fetch(&self, sql: &str) -> Result<Ran, Fault> {
        let Movement { name, rows } = movement(sql)?;
        match self.portals.get(&name).map(|portal| &portal.progress) {
            Some(Progress::Open { columns, .. }) => {
                Ok(Ran::Fetch { name, rows, columns: Arc::clone(columns) })
            }
            _ => Err(unknown(&name)),
        }
    }

    /// Sends rows of a cursor, and returns the command tag.
    pub(super) fn send_fetched(
        &mut self,
        name: &str,
        most: u64,
        formats: Option<&[i16]>,
    ) -> Result<String, Fault> {
        let Some(mut portal) = self.portals.remove(name) else { return Err(unknown(name)) };
        let Progress::Open { rows, columns } = &mut portal.progress else {
            return Err(unknown(name));
        };
        let client = Arc::clone(&self.client);
        self.session.enter_zone();
        let before = rows.sent();
        let formats = formats.unwrap_or(&portal.formats);
        rows.send(&mut self.wire, (columns, formats), most, &|| !client.is_terminated())?;
        let tag = format!("FETCH {}", rows.sent() - before);
        self.portals.insert(name.to_owned(), portal);
        Ok(tag)
    }

    /// The formats in which the simple protocol sends rows of a cursor.
    pub(super) fn formats_of(&self, name: &str) -> Vec<i16> {
        self.portals.get(name).map(|portal| portal.formats.clone()).unwrap_or_default()
    }

    /// Carries out a `MOVE`.
    pub(super) fn move_cursor(&mut self, sql: &str) -> Result<String, Fault> {
        let Movement { name, rows: most } = movement(sql)?;
        let Some(Portal { progress: Progress::Open { rows, columns }, .. }) =
            self.portals.get_mut(&name)
        else {
            return Err(unknown(&name));
        };
        let before = rows.sent();
        rows.skip(columns, most)?;
        Ok(format!("MOVE {}", rows.sent() - before))
    }

    /// Carries out a `CLOSE`.
    pub(super) fn close_cursor(&mut self, sql: &str) -> Result<String, Fault> {
        let mut scan = Scan::new(sql);
        scan.word();
        if scan.takes("ALL") && scan.ends() {
            self.portals.clear();
            return Ok("CLOSE CURSOR ALL".to_owned());
        }
        let name = scan.name().filter(|_| scan.ends()).ok_or_else(|| syntax("CLOSE"))?;
        match self.portals.remove(&name) {
            Some(_) => Ok("CLOSE CURSOR".to_owned()),
            None => Err(unknown(&name)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn cursors_are_declared_and_moved_as_in_postgresql() {
        let sql = "DECLARE \"My c\" NO SCROLL CURSOR WITHOUT HOLD FOR select 1";
        let read = declaration(sql).map_err(|_| ()).unwrap();
        assert_eq!((read.name.as_str(), &sql[read.query..]), ("My c", " select 1"));
        assert!(declaration("DECLARE c BINARY CURSOR FOR x").map_err(|_| ()).unwrap().is_binary);
        for wrong in ["DECLARE", "DECLARE c", "DECLARE c CURSOR WITH HOLD FOR x", "DECLARE c FOR x"]
        {
            assert!(declaration(wrong).is_err(), "{wrong}");
        }
        for (sql, wanted) in [
            ("FETCH c", 1),
            ("fetch next from c;", 1),
            ("FETCH 5 IN c", 5),
            ("FETCH FORWARD 10 FROM \"c\"", 10),
            ("FETCH ALL c", 0),
            ("FETCH FORWARD ALL FROM c", 0),
            ("MOVE FORWARD c", 1),
        ] {
            let read = movement(sql).map_err(|_| ()).unwrap();
            assert_eq!((read.name.as_str(), read.rows), ("c", wanted), "{sql}");
        }
        for wrong in ["FETCH", "FETCH -1 FROM c", "FETCH PRIOR FROM c", "FETCH c d", "FETCH 0 c"] {
            assert!(movement(wrong).is_err(), "{wrong}");
        }
    }
}
