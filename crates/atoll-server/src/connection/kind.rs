//! What a statement is, as far as the protocol has to know before it runs: told by its first words.

use atoll_sql::StatementScanner;

/// The kind of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing but blanks and comments.
    Empty,
    /// One that may return rows, and have parameters.
    Rows,
    Begin,
    Commit,
    /// The whole transaction, not to a savepoint.
    Rollback,
    /// `ROLLBACK TO`, which a failed transaction takes.
    RollbackTo,
    Copy,
    Deallocate,
    Discard,
    Declare,
    Fetch,
    Move,
    Close,
    /// `CREATE`, `ALTER` or `DROP` of a role.
    Role,
    /// `GRANT` or `REVOKE`, of privileges or of a role.
    Grant,
    /// One of a prepared transaction, of which there are none.
    TwoPhase,
    /// One that sets something.
    Set,
    Other,
}

impl Kind {
    /// The kind of a statement.
    pub(crate) fn of(sql: &str) -> Self {
        let mut words = Words(sql);
        let Some(first) = words.next() else {
            let begins = !skip(sql).trim_end_matches([';', ' ', '\n', '\t', '\r']).is_empty();
            // A parenthesis begins a query; anything else is told by the parser.
            return if begins { Self::Rows } else { Self::Empty };
        };
        let is = |word: &str, wanted: &str| word.eq_ignore_ascii_case(wanted);
        let mut second = || words.next().unwrap_or_default();
        match first.to_ascii_uppercase().as_str() {
            "SELECT" | "INSERT" | "UPDATE" | "DELETE" | "WITH" | "VALUES" | "TABLE" | "SHOW"
            | "EXPLAIN" | "EXECUTE" => Self::Rows,
            "BEGIN" => Self::Begin,
            "START" if is(second(), "TRANSACTION") => Self::Begin,
            "COMMIT" | "END" => match second() {
                word if is(word, "PREPARED") => Self::TwoPhase,
                _ => Self::Commit,
            },
            "ROLLBACK" | "ABORT" => {
                let mut word = second();
                if is(word, "WORK") || is(word, "TRANSACTION") {
                    word = words.next().unwrap_or_default();
                }
                match word {
                    word if is(word, "TO") => Self::RollbackTo,
                    word if is(word, "PREPARED") => Self::TwoPhase,
                    _ => Self::Rollback,
                }
            }
            "PREPARE" if is(second(), "TRANSACTION") => Self::TwoPhase,
            "COPY" => Self::Copy,
            "DEALLOCATE" => Self::Deallocate,
            "DISCARD" => Self::Discard,
            "DECLARE" => Self::Declare,
            "FETCH" => Self::Fetch,
            "MOVE" => Self::Move,
            "CLOSE" => Self::Close,
            "CREATE" | "ALTER" | "DROP" => match second() {
                word if ["ROLE", "USER"].iter().any(|role| is(word, role)) => Self::Role,
                _ => Self::Other,
            },
            "GRANT" | "REVOKE" => Self::Grant,
            "SET" | "RESET" => Self::Set,
            _ => Self::Other,
        }
    }

    /// Whether it begins or ends a transaction.
    pub(crate) fn is_control(self) -> bool {
        matches!(self, Self::Begin | Self::Commit | Self::Rollback)
    }

    /// Whether it is one for the parser of SQL, and not for the protocol.
    pub(crate) fn is_parsed(self) -> bool {
        use Kind::{Close, Declare, Discard, Empty, Fetch, Grant, Move, Role, TwoPhase};
        !matches!(self, Discard | Declare | Fetch | Move | Close | Role | Grant | TwoPhase | Empty)
    }

    /// Whether a failed transaction takes it.
    pub(crate) fn ends_failed(self) -> bool {
        matches!(self, Self::Commit | Self::Rollback | Self::RollbackTo)
    }
}

/// A text behind the blanks and comments at its beginning.
pub(crate) fn skip(mut sql: &str) -> &str {
    loop {
        sql = sql.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\u{feff}');
        if let Some(comment) = sql.strip_prefix("--") {
            sql = comment.find('\n').map_or("", |end| &comment[end..]);
        } else if let Some(comment) = sql.strip_prefix("/*") {
            sql = behind_comment(comment);
        } else {
            return sql;
        }
    }
}

/// What is behind a comment that has begun; others may be inside it.
fn behind_comment(text: &str) -> &str {
    let (bytes, mut depth, mut at) = (text.as_bytes(), 1, 0);
    while depth > 0 {
        match (bytes.get(at), bytes.get(at + 1)) {
            (Some(b'*'), Some(b'/')) => (depth, at) = (depth - 1, at + 2),
            (Some(b'/'), Some(b'*')) => (depth, at) = (depth + 1, at + 2),
            (Some(_), _) => at += 1,
            (None, _) => return "",
        }
    }
    &text[at..]
}

/// The words of a statement, up to the first thing that is none.
pub(crate) struct Words<'s>(pub(crate) &'s str);

impl<'s> Iterator for Words<'s> {
    type Item = &'s str;

    fn next(&mut self) -> Option<&'s str> {
        let text = skip(self.0);
        let end =
            text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }
}

/// Reads the parts of a statement one after the other.
pub(crate) struct Scan<'s> {
    sql: &'s str,
    words: Words<'s>,
}

impl<'s> Scan<'s> {
    pub(crate) fn new(sql: &'s str) -> Self {
        Self { sql, words: Words(sql) }
    }

    /// A word, if one is next.
    pub(crate) fn word(&mut self) -> Option<&'s str> {
        self.words.next()
    }

    /// Takes this word, if it is next.
    pub(crate) fn takes(&mut self, word: &str) -> bool {
        let before = self.words.0;
        let is_it = self.words.next().is_some_and(|next| next.eq_ignore_ascii_case(word));
        if !is_it {
            self.words.0 = before;
        }
        is_it
    }

    /// A whole number, if one is next.
    pub(crate) fn number(&mut self) -> Option<i64> {
        let text = skip(self.words.0);
        let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '-' | '+')));
        let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
        let number = digits.parse().ok()?;
        self.words.0 = rest;
        Some(number)
    }

    /// A name, if one is next: in lower case unless it is quoted.
    pub(crate) fn name(&mut self) -> Option<String> {
        let text = skip(self.words.0);
        let Some(mut rest) = text.strip_prefix('"') else {
            let end = text.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$')));
            let (name, rest) = text.split_at(end.unwrap_or(text.len()));
            self.words.0 = rest;
            return (!name.is_empty()).then(|| name.to_lowercase());
        };
        let mut name = String::new();
        loop {
            let end = rest.find('"')?;
            name.push_str(&rest[..end]);
            rest = &rest[end + 1..];
            match rest.strip_prefix('"') {
                Some(behind) => {
                    name.push('"');
                    rest = behind;
                }
                None => break,
            }
        }
        self.words.0 = rest;
        Some(name)
    }

    /// Whether nothing but a semicolon follows.
    pub(crate) fn ends(&self) -> bool {
        let rest = skip(self.words.0);
        skip(rest.strip_prefix(';').unwrap_or(rest)).is_empty()
    }

    /// How many bytes have been read.
    pub(crate) fn at(&self) -> usize {
        self.sql.len() - self.words.0.len()
    }
}

/// The statements of a text, each with its place in it; those with nothing in them are left out.
pub(crate) fn statements(sql: &str) -> Vec<(usize, &str)> {
    // As a rule there is one.
    if !sql.trim_end_matches([';', ' ', '\n', '\t', '\r']).contains(';') {
        return if Kind::of(sql) == Kind::Empty { Vec::new() } else { vec![(0, sql)] };
    }
    let (mut found, mut at) = (Vec::new(), 0);
    let mut scanner = StatementScanner::new();
    while at < sql.len() {
        let length = scanner.advance(&sql[at..]).unwrap_or(sql.len() - at);
        let statement = &sql[at..at + length];
        if Kind::of(statement) != Kind::Empty {
            found.push((at, statement));
        }
        at += length;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_told_by_their_first_words() {
        for (sql, wanted) in [
            ("", Kind::Empty),
            (" ;\n;", Kind::Empty),
            ("-- nothing", Kind::Empty),
            ("/* a /* b */ c */ ;", Kind::Empty),
            ("select 1", Kind::Rows),
            ("(select 1)", Kind::Rows),
            ("-- x\n/* y */ WITH a AS (SELECT 1) SELECT 1", Kind::Rows),
            ("begin;", Kind::Begin),
            ("START TRANSACTION READ ONLY", Kind::Begin),
            ("END", Kind::Commit),
            ("rollback", Kind::Rollback),
            ("ROLLBACK WORK TO SAVEPOINT a", Kind::RollbackTo),
            ("ABORT", Kind::Rollback),
            ("create user a", Kind::Role),
            ("create table user_x ()", Kind::Other),
            ("DISCARD ALL", Kind::Discard),
            ("'", Kind::Rows),
        ] {
            assert_eq!(Kind::of(sql), wanted, "{sql}");
        }
    }

    #[test]
    fn a_text_is_cut_at_its_semicolons() {
        let texts = |sql| statements(sql).into_iter().map(|(_, one)| one).collect::<Vec<_>>();
        assert_eq!(texts("select ';'; ;select 2"), ["select ';';", "select 2"]);
        assert_eq!(texts("select 1;"), ["select 1;"]);
        assert_eq!(statements("a;b"), [(0, "a;"), (2, "b")]);
        assert!(texts(" ; -- x").is_empty());
    }
}
