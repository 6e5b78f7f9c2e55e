//! Texts of statements without what must not be read in a log.
//!
//! A statement is cut into words, literals, comments and the rest, as PostgreSQL's lexer does. A
//! text with a mistake is cut too: a literal without an end goes to the end of the text.

use std::hash::{Hash, Hasher};

/// What a part of a statement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Word,
    /// A quoted text, with the letters before its quote, or a number.
    Literal,
    Comment,
    Other,
}

/// A statement as it is logged.
pub(crate) struct Redacted {
    pub(crate) text: String,
    /// What was taken out, the longest first.
    hidden: Vec<String>,
}

impl Redacted {
    /// A statement without its passwords, and unless `values` without its literals and comments.
    pub(crate) fn of(sql: &str, values: bool) -> Self {
        let mut text = String::new();
        let mut hidden = Vec::new();
        let mut is_password = false;
        // No literal has come since the word.
        let mut is_bare = false;
        // There a word behind it is a mistake, and a password all the same.
        let is_of_role = ["create", "alter"].iter().any(|verb| {
            let mut words = Parts(sql).filter(|(part, _)| *part == Part::Word);
            words.next().is_some_and(|(_, word)| word.eq_ignore_ascii_case(verb))
                && words.next().is_some_and(|(_, word)| {
                    ["role", "user", "group"].iter().any(|kind| word.eq_ignore_ascii_case(kind))
                })
        });
        for (part, piece) in Parts(sql) {
            match part {
                Part::Literal if is_password => {
                    text.push_str("'***'");
                    hidden.push(content(piece).to_owned());
                }
                Part::Word if is_bare && is_of_role && !piece.eq_ignore_ascii_case("null") => {
                    text.push_str("'***'");
                    hidden.push(piece.trim_matches('"').to_owned());
                }
                Part::Literal if !values => {
                    text.push('?');
                    hidden.push(content(piece).to_owned());
                }
                Part::Comment if !values => text.push(' '),
                _ => text.push_str(piece),
            }
            match part {
                Part::Word => {
                    is_password = piece.eq_ignore_ascii_case("password");
                    is_bare = is_password;
                }
                Part::Other if piece.trim().is_empty() => {}
                Part::Comment => {}
                // Several texts, one behind the other, are one.
                Part::Literal if is_password => is_bare = false,
                // Also in `password = 'x'` and `password := 'x'`.
                Part::Other if matches!(piece, "=" | ":" | "(") => {}
                _ => (is_password, is_bare) = (false, false),
            }
        }
        let mut redacted = Self { text, hidden: Vec::new() };
        redacted.hide(hidden);
        redacted
    }

    /// Takes more out of messages: values that the statement got.
    pub(crate) fn hide(&mut self, values: impl IntoIterator<Item = String>) {
        self.hidden.extend(values);
        self.hidden.sort_by_key(|one| std::cmp::Reverse(one.len()));
        self.hidden.dedup();
    }

    /// A message about the statement, without what was taken out of that.
    pub(crate) fn hidden_in(&self, message: &str) -> String {
        let mut message = message.to_owned();
        for hidden in &self.hidden {
            match hidden.len() {
                0 => {}
                // Short ones stand in other words, too.
                1..=2 => {
                    for quote in ['"', '\''] {
                        let quoted = format!("{quote}{hidden}{quote}");
                        message = message.replace(&quoted, &format!("{quote}***{quote}"));
                    }
                }
                _ => message = message.replace(hidden.as_str(), "***"),
            }
        }
        message
    }
}

/// Hashes a statement without its literals, its comments and the blanks between its words.
pub(crate) fn hash_without_values(sql: &str, hasher: &mut impl Hasher) {
    for (part, piece) in Parts(sql) {
        match part {
            Part::Literal => hasher.write_u8(b'?'),
            Part::Comment => {}
            Part::Other if piece.trim_ascii().is_empty() => {}
            Part::Word | Part::Other => piece.hash(hasher),
        }
    }
}

/// A literal without its quotes.
fn content(literal: &str) -> &str {
    if let Some(at) = literal.find('\'') {
        let inside = &literal[at + 1..];
        return inside.strip_suffix('\'').unwrap_or(inside);
    }
    let Some(rest) = literal.strip_prefix('$') else { return literal };
    let Some(tag) = rest.find('$') else { return literal };
    let inside = &rest[tag + 1..];
    inside.strip_suffix(&literal[..tag + 2]).unwrap_or(inside)
}

/// A text without what may be data: numbers, and what is in quotes or parentheses.
pub(crate) fn data_hidden(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let close = match first {
            '"' | '\'' => Some(first),
            '(' => Some(')'),
            _ => None,
        };
        let behind = &rest[first.len_utf8()..];
        let ends_word = shown.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if let Some(close) = close {
            let end = behind.find(close).map_or(behind.len(), |at| at + close.len_utf8());
            shown.extend([first, '…', close]);
            rest = &behind[end..];
        } else if first.is_ascii_digit() && !ends_word {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.'));
            shown.push('…');
            rest = &rest[end.unwrap_or(rest.len())..];
        } else {
            shown.push(first);
            rest = behind;
        }
    }
    shown
}

/// The operators of a query engine's plan, beside those that end with `Exec`.
const OPERATORS: [&str; 16] = [
    "Aggregate",
    "CrossJoin",
    "Distinct",
    "EmptyRelation",
    "Filter",
    "Limit",
    "Projection",
    "RecursiveQuery",
    "Repartition",
    "Sort",
    "Subquery",
    "SubqueryAlias",
    "TableScan",
    "Union",
    "Unnest",
    "WindowAggr",
];

/// The operator in a line of such a plan, with its indentation, and what is said of it.
fn operator(line: &str) -> Option<(&str, &str)> {
    let (head, rest) = line.split_once(':').unwrap_or((line, ""));
    let name = head.trim_start();
    let is_plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic() || c == ' ');
    let is_known = OPERATORS.contains(&name) || name.ends_with("Exec") || name.ends_with(" Join");
    (is_plain && is_known).then_some((head, rest))
}

/// A plan without what may be data. Those of short statements have none; of others the operators
/// are left, and the tables that they scan.
pub(crate) fn plan_hidden(plan: &str) -> String {
    if !plan.lines().any(|line| operator(line).is_some_and(|(_, rest)| !rest.is_empty())) {
        return plan.to_owned();
    }
    let shown = plan.lines().filter_map(|line| {
        let (head, rest) = operator(line)?;
        match head.trim_start() {
            "TableScan" | "SubqueryAlias" => {
                Some(format!("{head}: {}", rest.split_whitespace().next().unwrap_or_default()))
            }
            _ => Some(head.to_owned()),
        }
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// The parts of a statement.
struct Parts<'s>(&'s str);

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

/// The length of a text in quotes, from its first quote to behind its last.
fn quoted(text: &str, quote: char, escapes: bool) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' if escapes => drop(chars.next()),
            c if c == quote => match chars.peek() {
                Some((_, next)) if *next == quote => drop(chars.next()),
                _ => return at + quote.len_utf8(),
            },
            _ => {}
        }
    }
    text.len()
}

/// The length of a comment in the form `/* … */`, with those in it.
fn comment(text: &str) -> usize {
    let (bytes, mut depth, mut at) = (text.as_bytes(), 0usize, 0);
    loop {
        match (bytes.get(at), bytes.get(at + 1)) {
            (Some(b'/'), Some(b'*')) => (depth, at) = (depth + 1, at + 2),
            (Some(b'*'), Some(b'/')) if depth <= 1 => return at + 2,
            (Some(b'*'), Some(b'/')) => (depth, at) = (depth - 1, at + 2),
            (Some(_), _) => at += 1,
            (None, _) => return text.len(),
        }
    }
}

/// The length of `$tag$ … $tag$`, if the text begins with one.
fn dollars(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('$')?;
    let end = rest.find('$')?;
    let is_tag = rest[..end].chars().all(|c| c.is_alphanumeric() || c == '_')
        && !rest.starts_with(|c: char| c.is_ascii_digit());
    let tag = &text[..end + 2];
    is_tag.then(|| {
        let inside = &text[tag.len()..];
        inside.find(tag).map_or(text.len(), |at| 2 * tag.len() + at)
    })
}

impl<'s> Iterator for Parts<'s> {
    type Item = (Part, &'s str);

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.0;
        let first = text.chars().next()?;
        let (part, length) = match first {
            '\'' => (Part::Literal, quoted(text, '\'', false)),
            '"' => (Part::Word, quoted(text, '"', false)),
            '$' if let Some(length) = dollars(text) => (Part::Literal, length),
            // A parameter.
            '$' => {
                let end = text[1..].find(|c: char| !c.is_ascii_digit());
                (Part::Other, end.map_or(text.len(), |at| at + 1))
            }
            '-' if text.starts_with("--") => (Part::Comment, text.find('\n').unwrap_or(text.len())),
            '/' if text.starts_with("/*") => (Part::Comment, comment(text)),
            c if c.is_ascii_digit() => {
                let end =
                    text.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_')));
                (Part::Literal, end.unwrap_or(text.len()))
            }
            c if is_word(c) => {
                let end = text.find(|c: char| !is_word(c)).unwrap_or(text.len());
                let (word, behind) = text.split_at(end);
                let prefix = word.to_ascii_lowercase();
                match behind.strip_prefix('&').filter(|_| prefix == "u") {
                    Some(rest) if rest.starts_with('\'') => {
                        (Part::Literal, end + 1 + quoted(rest, '\'', false))
                    }
                    _ if behind.starts_with('\'')
                        && matches!(prefix.as_str(), "e" | "b" | "x" | "n") =>
                    {
                        (Part::Literal, end + quoted(behind, '\'', prefix == "e"))
                    }
                    _ => (Part::Word, end),
                }
            }
            c => (Part::Other, c.len_utf8()),
        };
        let (piece, rest) = text.split_at(length);
        self.0 = rest;
        Some((part, piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(sql: &str, values: bool) -> String {
        Redacted::of(sql, values).text
    }

    #[test]
    fn passwords_are_never_in_a_statement() {
        for (sql, wanted) in [
            ("CREATE ROLE a PASSWORD 'geheim' LOGIN", "CREATE ROLE a PASSWORD '***' LOGIN"),
            ("alter user a password  E'geh\\'eim'", "alter user a password  '***'"),
            ("ALTER ROLE a PASSWORD $x$geheim$x$;", "ALTER ROLE a PASSWORD '***';"),
            ("ALTER ROLE a PASSWORD /* now */ 'geheim", "ALTER ROLE a PASSWORD /* now */ '***'"),
            ("ALTER ROLE a PASSWORD 'ge'\n'heim'", "ALTER ROLE a PASSWORD '***'\n'***'"),
            ("SET password = 'geheim'", "SET password = '***'"),
            ("ALTER ROLE a PASSWORD \"geheim\"", "ALTER ROLE a PASSWORD '***'"),
            ("create user a password geheim", "create user a password '***'"),
            ("ALTER ROLE a PASSWORD NULL", "ALTER ROLE a PASSWORD NULL"),
            ("SELECT 'x' AS password, 'y'", "SELECT 'x' AS password, 'y'"),
        ] {
            assert_eq!(redacted(sql, true), wanted);
            assert!(!redacted(sql, false).contains("heim"), "{sql}");
        }
        let secret = Redacted::of("CREATE ROLE a PASSWORD 'geheim' x", true);
        assert_eq!(secret.hidden_in("near \"geheim\" 'x'"), "near \"***\" 'x'");
    }

    #[test]
    fn literals_and_comments_are_taken_out() {
        for (sql, wanted) in [
            ("SELECT a1, 'x''y', 1.5e3, $2 FROM t_1", "SELECT a1, ?, ?, $2 FROM t_1"),
            ("SELECT \"col'umn\", X'ff', U&'\\0041'", "SELECT \"col'umn\", ?, ?"),
            ("SELECT $$a 'b'$$, $t$ $$ $t$ -- ann\n, 1", "SELECT ?, ?  \n, ?"),
            ("SELECT /* a /* b */ 'c' */ 1", "SELECT   ?"),
            ("SELECT 'no end, 1", "SELECT ?"),
            ("SELECT E'\\\\', 'é'", "SELECT ?, ?"),
            ("INSERT INTO t VALUES (-5,'ä')", "INSERT INTO t VALUES (-?,?)"),
        ] {
            assert_eq!(redacted(sql, false), wanted);
            assert_eq!(redacted(sql, true), sql);
        }
        let statement = Redacted::of("SELECT 'a', 'secret', 12345", false);
        let message = statement.hidden_in("\"secret\" is no 'a' and 12345 a number");
        assert_eq!(message, "\"***\" is no '***' and *** a number");
    }

    #[test]
    fn a_plan_shows_its_operators_and_tables() {
        let short = "Filter\n-> Index scan of t\n";
        assert_eq!(plan_hidden(short), short);
        let long = "Filter: t.a != Utf8View(\"x\ngeheim: y\") AND t.b > Int64(5)\n  \
                    TableScan: t projection=[a, b], partial_filters=[t.a != x]\n  \
                    Inner Join: t.a = u.a\nFilterExec: a@0 != x\ngeheim";
        assert_eq!(plan_hidden(long), "Filter\n  TableScan: t\n  Inner Join\nFilterExec");
    }

    #[test]
    fn what_may_be_data_is_hidden_in_a_message() {
        let hidden = data_hidden("Key (id, \"a\")=(5) of t_5 is 17.5, not 'x' or \"y");
        assert_eq!(hidden, "Key (…)=(…) of t_5 is …, not '…' or \"…\"");
    }
}
