//! Cursors: `DECLARE`, `FETCH`, `MOVE` and `CLOSE`. A cursor is a portal with a name of SQL
//! (`CURSOR-1`), so a client may describe and close it as one.

use std::sync::{Arc, OnceLock};

use atoll_sql::{Literal, TransactionStatus};

use super::Connection;
use super::kept::{KEPT_BYTES_MAX, Way};
use super::kind::{Kind, Scan};
use super::report::report;
use super::rows::to_wire;
use super::run::Ran;
use super::statement::{Life, Portal, Progress, Statement};
use crate::link::Fault;
use crate::values::Column;

/// What a `DECLARE` says.
pub(super) struct Declaration {
    pub(super) name: String,
    is_binary: bool,
    scrolls: bool,
    holds: bool,
    /// Where the query begins.
    pub(super) query: usize,
}

/// What a `FETCH` or a `MOVE` says.
#[derive(Debug, PartialEq, Eq)]
struct Movement {
    name: String,
    way: Way,
}

fn syntax(what: &str) -> Fault {
    report("42601", format!("syntax error in {what}")).into()
}

/// Reads a `DECLARE`.
pub(super) fn declaration(sql: &str) -> Result<Declaration, Fault> {
    let mut scan = Scan::new(sql);
    scan.word();
    let name = scan.name().ok_or_else(|| syntax("DECLARE"))?;
    let (mut is_binary, mut scrolls) = (false, false);
    loop {
        let Some(word) = scan.word() else { return Err(syntax("DECLARE")) };
        match word.to_ascii_uppercase().as_str() {
            "BINARY" => is_binary = true,
            // It always shows what there was when it was declared.
            "INSENSITIVE" | "ASENSITIVE" => {}
            "NO" if scan.takes("SCROLL") => {}
            "SCROLL" => scrolls = true,
            "CURSOR" => break,
            _ => return Err(syntax("DECLARE")),
        }
    }
    let holds = scan.takes("WITH");
    let says_hold = holds || scan.takes("WITHOUT");
    if says_hold && !scan.takes("HOLD") || !scan.takes("FOR") {
        return Err(syntax("DECLARE"));
    }
    Ok(Declaration { name, is_binary, scrolls, holds, query: scan.at() })
}

/// So many rows, to the rows before if they are less than none; those of 0 are the one here.
fn over(rows: i64) -> Way {
    match rows {
        0 => Way::Relative(0),
        1.. => Way::Forward(rows.unsigned_abs()),
        _ => Way::Backward(rows.unsigned_abs()),
    }
}

/// Reads a `FETCH` or a `MOVE`.
fn movement(sql: &str) -> Result<Movement, Fault> {
    let mut scan = Scan::new(sql);
    scan.word();
    let way = if scan.takes("ALL") {
        Way::Forward(u64::MAX)
    } else if let Some(rows) = scan.number() {
        over(rows)
    } else if scan.takes("FORWARD") {
        match scan.takes("ALL") {
            true => Way::Forward(u64::MAX),
            false => over(scan.number().unwrap_or(1)),
        }
    } else if scan.takes("BACKWARD") {
        match scan.takes("ALL") {
            true => Way::Backward(u64::MAX),
            false => over(scan.number().unwrap_or(1).saturating_neg()),
        }
    } else if scan.takes("PRIOR") {
        Way::Backward(1)
    } else if scan.takes("FIRST") {
        Way::Absolute(1)
    } else if scan.takes("LAST") {
        Way::Absolute(-1)
    } else if scan.takes("ABSOLUTE") {
        Way::Absolute(scan.number().ok_or_else(|| syntax("FETCH"))?)
    } else if scan.takes("RELATIVE") {
        Way::Relative(scan.number().ok_or_else(|| syntax("FETCH"))?)
    } else {
        scan.takes("NEXT");
        Way::Forward(1)
    };
    if !scan.takes("FROM") {
        scan.takes("IN");
    }
    let name = scan.name().ok_or_else(|| syntax("FETCH"))?;
    if scan.ends() { Ok(Movement { name, way }) } else { Err(syntax("FETCH")) }
}

fn unknown(name: &str) -> Fault {
    report("34000", format!("cursor \"{name}\" does not exist")).into()
}

impl Connection {
    /// Carries out a `DECLARE`, of which the query has these values.
    pub(super) fn declare(&mut self, sql: &str, values: &[Literal]) -> Result<String, Fault> {
        let declaration = declaration(sql)?;
        let is_open = self.session.transaction_status() != TransactionStatus::Idle;
        if (!is_open || self.is_implicit) && !declaration.holds {
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
        let Ran::Rows(mut rows) = self.run(Kind::Rows, (query, before), query, values)? else {
            return Err(syntax("DECLARE: a cursor has a query"));
        };
        if declaration.scrolls || declaration.holds {
            let kept = self.portals.values().map(|portal| match &portal.progress {
                Progress::Open { rows, .. } => rows.kept_bytes(),
                _ => 0,
            });
            let kept: usize = kept.sum();
            *rows = rows.keep(KEPT_BYTES_MAX.saturating_sub(kept))?;
        }
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
        portal.life = match (declaration.holds, is_open) {
            (false, _) => Life::Transaction,
            (true, true) => Life::Hold,
            (true, false) => Life::Held,
        };
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
        let Movement { name, way } = movement(sql)?;
        match self.portals.get(&name).map(|portal| &portal.progress) {
            Some(Progress::Open { columns, .. }) => {
                Ok(Ran::Fetch { name, way, columns: Arc::clone(columns) })
            }
            _ => Err(unknown(&name)),
        }
    }

    /// Sends rows of a cursor, and returns the command tag.
    pub(super) fn send_fetched(
        &mut self,
        name: &str,
        way: Way,
        formats: Option<&[i16]>,
    ) -> Result<String, Fault> {
        let Some(mut portal) = self.portals.remove(name) else { return Err(unknown(name)) };
        let Progress::Open { rows, columns } = &mut portal.progress else {
            return Err(unknown(name));
        };
        let client = Arc::clone(&self.client);
        self.session.enter_zone();
        let formats = formats.unwrap_or(&portal.formats);
        let goes_on = || !client.is_terminated();
        let shown = rows.go(way, columns, &mut to_wire(&mut self.wire, columns, formats, &goes_on));
        let shown = shown?;
        self.portals.insert(name.to_owned(), portal);
        Ok(format!("FETCH {shown}"))
    }

    /// The formats in which the simple protocol sends rows of a cursor.
    pub(super) fn formats_of(&self, name: &str) -> Vec<i16> {
        self.portals.get(name).map(|portal| portal.formats.clone()).unwrap_or_default()
    }

    /// Carries out a `MOVE`.
    pub(super) fn move_cursor(&mut self, sql: &str) -> Result<String, Fault> {
        let Movement { name, way } = movement(sql)?;
        let Some(Portal { progress: Progress::Open { rows, columns }, .. }) =
            self.portals.get_mut(&name)
        else {
            return Err(unknown(&name));
        };
        Ok(format!("MOVE {}", rows.go(way, columns, &mut |_| Ok(()))?))
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
        let read = declaration("DECLARE c SCROLL CURSOR WITH HOLD FOR x").map_err(|_| ()).unwrap();
        assert!(read.scrolls && read.holds);
        for wrong in ["DECLARE", "DECLARE c", "DECLARE c CURSOR WITH FOR x", "DECLARE c FOR x"] {
            assert!(declaration(wrong).is_err(), "{wrong}");
        }
        use Way::{Absolute, Backward, Forward, Relative};
        for (sql, way) in [
            ("FETCH c", Forward(1)),
            ("fetch next from c;", Forward(1)),
            ("FETCH 5 IN c", Forward(5)),
            ("FETCH FORWARD 10 FROM \"c\"", Forward(10)),
            ("FETCH ALL c", Forward(u64::MAX)),
            ("FETCH FORWARD ALL FROM c", Forward(u64::MAX)),
            ("MOVE FORWARD c", Forward(1)),
            ("FETCH -2 FROM c", Backward(2)),
            ("FETCH FORWARD -2 FROM c", Backward(2)),
            ("FETCH BACKWARD -2 FROM c", Forward(2)),
            ("FETCH BACKWARD ALL FROM c", Backward(u64::MAX)),
            ("FETCH PRIOR FROM c", Backward(1)),
            ("FETCH 0 c", Relative(0)),
            ("FETCH FIRST FROM c", Absolute(1)),
            ("FETCH LAST c", Absolute(-1)),
            ("MOVE ABSOLUTE 7 IN c", Absolute(7)),
            ("MOVE RELATIVE -7 IN c", Relative(-7)),
        ] {
            let wanted = Movement { name: "c".to_owned(), way };
            assert_eq!(movement(sql).map_err(|_| ()), Ok(wanted), "{sql}");
        }
        for wrong in ["FETCH", "FETCH c d", "FETCH ABSOLUTE c", "FETCH RELATIVE ALL FROM c"] {
            assert!(movement(wrong).is_err(), "{wrong}");
        }
    }
}
