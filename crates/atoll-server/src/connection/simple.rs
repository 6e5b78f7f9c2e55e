//! The simple protocol: a text of statements, and the results of all of them.

use std::sync::Arc;

use atoll_sql::SqlSession;

use super::Connection;
use super::kind::{Kind, statements};
use super::observed::Running;
use super::report::of_error;
use super::run::Ran;
use crate::link::Fault;
use crate::values::{Column, oids, put_description, tell};
use crate::wire::fields::Fields;
use crate::wire::frames::Frame;

impl Connection {
    /// A Query message.
    pub(super) fn query(&mut self, frame: &Frame) -> Result<(), Fault> {
        let mut fields = Fields::new(self.wire.frames.body(frame));
        let sql = fields.text()?.to_owned();
        fields.end()?;
        self.statements.remove("");
        self.portals.remove("");
        let statements = statements(&sql);
        if statements.is_empty() {
            self.wire.out.bare(b'I');
        }
        let before = |at: usize| sql[..at].chars().count();
        if statements.len() > 1 {
            // A text with a mistake in it does nothing.
            for (at, statement) in &statements {
                if Kind::of(statement).is_parsed()
                    && let Err(error) = SqlSession::check_syntax(statement)
                {
                    self.failing = Some(((*statement).into(), Vec::new()));
                    return Err(of_error(&error, statement, before(*at)).into());
                }
            }
        }
        for (at, statement) in &statements {
            let kind = Kind::of(statement);
            if statements.len() > 1 && !kind.is_control() {
                self.check_failed(kind)?;
                self.begin_implicit()?;
            }
            let at = before(*at);
            let is_counted = kind != Kind::Empty;
            let totals = is_counted.then(|| self.shared.statements.of(&self.role, statement));
            let text = Arc::from(*statement);
            let said = Running { kind, text: &text, totals };
            self.observed(said, &[], |one| one.simple(kind, statement, at))?;
        }
        self.finish()
    }

    /// A statement of the simple protocol.
    fn simple(&mut self, kind: Kind, sql: &str, before: usize) -> Result<(), Fault> {
        let ran = self.run(kind, (sql, before), sql, &[]);
        self.notices();
        let tag = match ran? {
            Ran::Empty => return Ok(()),
            Ran::Done(tag) => tag,
            Ran::Fetch { name, way, columns } => {
                let formats = self.formats_of(&name);
                put_description(&columns, &formats, &mut self.wire.out);
                self.send_fetched(&name, way, None)?
            }
            Ran::Rows(mut rows) => {
                let mut columns = rows.columns(&self.session);
                if may_be_told(sql, &columns) {
                    let told = SqlSession::told_columns(sql, columns.len());
                    tell(&mut columns, &told);
                }
                put_description(&columns, &[], &mut self.wire.out);
                let client = Arc::clone(&self.client);
                let goes_on = || !client.is_terminated();
                rows.send(&mut self.wire, (&columns, &[]), 0, &goes_on)?;
                rows.tag(rows.sent())
            }
        };
        self.complete(&tag);
        Ok(())
    }
}

/// Whether the text of a query may give its columns other types than its plan does. That of one
/// with plain columns is not read again.
fn may_be_told(sql: &str, columns: &[Column]) -> bool {
    let find = |text: &str, word: &str| {
        text.as_bytes()
            .windows(word.len())
            .position(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    };
    let list = find(sql, "from").and_then(|end| sql.get(..end)).unwrap_or(sql);
    columns.iter().any(|column| matches!(column.oid, oids::INT8 | oids::TEXT | oids::VARCHAR))
        && (list.bytes().any(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'('))
            || ["user", "current_"].iter().any(|word| find(list, word).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_plain_columns_is_not_read_again() {
        let column = |oid| vec![Column::plain("a", oid)];
        for (sql, oid, wanted) in [
            ("SELECT a FROM t WHERE b = 5", oids::INT8, false),
            ("select a from t1 where b = '::'", oids::TEXT, false),
            ("SELECT 1", oids::INT8, true),
            ("SELECT 1", oids::INT4, false),
            ("SELECT a::text FROM t", oids::VARCHAR, true),
            ("SELECT CURRENT_USER", oids::TEXT, true),
        ] {
            assert_eq!(may_be_told(sql, &column(oid)), wanted, "{sql}");
        }
    }
}
