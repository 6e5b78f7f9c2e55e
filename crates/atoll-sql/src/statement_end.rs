//! Detection of the end of a statement in a text that arrives in pieces.
//!
//! A semicolon ends a statement unless it is in a string, a quoted name or a comment. The scanner
//! reads each byte once and keeps its state between pieces, so a statement that arrives line by
//! line costs time in proportion to its length. It agrees with the tokenizer that later splits the
//! statement (`parse`).

/// The state of the scanner.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Between words.
    Between,
    /// A word: a name, a keyword. A `$` inside belongs to it.
    Word,
    /// The first letter of a word, if it is `e` or `E`: a quote behind it opens a string with
    /// backslashes.
    Prefix,
    /// A `-`, which another makes a comment.
    Dash,
    /// A `/`, which a `*` makes a comment.
    Slash,
    /// A comment to the end of the line.
    LineComment,
    /// A comment with so many others around it; `last` may begin `/*` or `*/`.
    Comment { around: u64, last: u8 },
    /// A string or a quoted name up to this quote. A doubled quote closes it and opens the next.
    Quoted(u8),
    /// A string with backslashes.
    Escaped,
    /// The byte behind a backslash in such a string.
    Backslash,
    /// A quote in such a string: its end, or the first of two.
    EscapedQuote,
    /// The tag of a dollar-quoted string, without its first `$`.
    Tag(Vec<u8>),
    /// A dollar-quoted string up to its tag, of which so many bytes have come.
    Dollar { tag: Vec<u8>, matched: usize },
}

/// Finds the ends of statements in a text.
#[derive(Debug, Clone)]
pub struct StatementScanner {
    state: State,
    /// Whether anything but space and comments has come since the last end.
    has_content: bool,
}

impl Default for StatementScanner {
    fn default() -> Self {
        Self { state: State::Between, has_content: false }
    }
}

impl StatementScanner {
    /// A scanner at the beginning of a text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads on up to the next end of a statement, and returns how many bytes of `piece` belong to
    /// that statement, with its semicolon. `None` when the whole piece belongs to a statement that
    /// goes on.
    pub fn advance(&mut self, piece: &str) -> Option<usize> {
        for (at, byte) in piece.bytes().enumerate() {
            if self.step(byte) {
                *self = Self::default();
                return Some(at + 1);
            }
        }
        None
    }

    /// Whether nothing but space and comments has come since the last end. A comment that is still
    /// open is not blank.
    pub fn is_blank(&self) -> bool {
        !self.has_content && matches!(self.state, State::Between | State::LineComment)
    }

    /// Takes one byte, and says whether it ends a statement.
    fn step(&mut self, byte: u8) -> bool {
        let state = std::mem::replace(&mut self.state, State::Between);
        let next = match (state, byte) {
            (State::Dash, b'-') => State::LineComment,
            (State::Slash, b'*') => State::Comment { around: 0, last: 0 },
            (State::Prefix, b'\'') => State::Escaped,
            (State::Word | State::Prefix, byte) if is_word(byte) => State::Word,
            (State::Between | State::Word | State::Prefix, byte) => return self.plain(byte),
            (State::Dash | State::Slash, byte) => {
                self.has_content = true;
                return self.plain(byte);
            }
            (State::LineComment, b'\n') => State::Between,
            (State::LineComment, _) => State::LineComment,
            (State::Comment { around, last: b'/' }, b'*') => {
                State::Comment { around: around + 1, last: 0 }
            }
            (State::Comment { around: 0, last: b'*' }, b'/') => State::Between,
            (State::Comment { around, last: b'*' }, b'/') => {
                State::Comment { around: around - 1, last: 0 }
            }
            (State::Comment { around, .. }, last) => State::Comment { around, last },
            (State::Quoted(quote), byte) if byte == quote => State::Between,
            (State::Quoted(quote), _) => State::Quoted(quote),
            (State::Escaped, b'\\') => State::Backslash,
            (State::Escaped, b'\'') => State::EscapedQuote,
            (State::Escaped | State::Backslash, _) => State::Escaped,
            (State::EscapedQuote, b'\'') => State::Escaped,
            (State::EscapedQuote, byte) => return self.plain(byte),
            (State::Tag(mut tag), b'$') => {
                tag.push(b'$');
                State::Dollar { tag, matched: 0 }
            }
            (State::Tag(mut tag), byte)
                if is_word(byte) && !(tag.is_empty() && byte.is_ascii_digit()) =>
            {
                tag.push(byte);
                State::Tag(tag)
            }
            // A parameter ($1), or a dollar sign by itself.
            (State::Tag(_), byte) => return self.plain(byte),
            (State::Dollar { tag, matched }, byte) => dollar(tag, matched, byte),
        };
        self.state = next;
        false
    }

    /// Takes a byte outside of strings, names and comments.
    fn plain(&mut self, byte: u8) -> bool {
        self.state = match byte {
            b';' => return true,
            b'-' => State::Dash,
            b'/' => State::Slash,
            b'\'' | b'"' => State::Quoted(byte),
            b'$' => State::Tag(Vec::new()),
            b'e' | b'E' => State::Prefix,
            // A word does not begin with a digit.
            byte if is_word(byte) && !byte.is_ascii_digit() => State::Word,
            _ => State::Between,
        };
        // A dash or a slash may open a comment.
        self.has_content |=
            !matches!(self.state, State::Dash | State::Slash) && !byte.is_ascii_whitespace();
        false
    }
}

/// Whether a byte may stand in a word that has begun: letters, digits, `_` and `$`, and all
/// characters beyond ASCII.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii()
}

/// A byte in a string up to `$tag`. Of the tag, only its last byte is a `$`, and one stands before
/// it, so a byte that breaks a match can only begin the next if it is a `$` itself.
fn dollar(tag: Vec<u8>, matched: usize, byte: u8) -> State {
    // The first `$` counts as matched byte 1; the tag is matched from there.
    let matched = match (matched, byte) {
        (0, b'$') => 1,
        (0, _) => 0,
        (so_far, byte) if tag[so_far - 1] == byte => so_far + 1,
        (_, b'$') => 1,
        _ => 0,
    };
    if matched == tag.len() + 1 { State::Between } else { State::Dollar { tag, matched } }
}

/// Whether a shell should send what was typed so far: it ends with a semicolon that is not inside
/// a string, a quoted name or a comment.
pub fn statement_is_complete(text: &str) -> bool {
    let mut scanner = StatementScanner::new();
    let mut rest = text;
    let mut has_ended = false;
    while let Some(end) = scanner.advance(rest) {
        has_ended = true;
        rest = &rest[end..];
    }
    has_ended && scanner.is_blank()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_complete_at_its_semicolon_only() {
        for text in [
            "SELECT 1;",
            "SELECT 1; ",
            "SELECT ';';",
            "SELECT 1; -- done",
            "SELECT 1; /* done */",
            "SELECT $$;$$;",
            "SELECT $a$ $b$ ; $a$;",
            "SELECT $a$ $$a$;",
            "SELECT $a$ $a $a$;",
            "SELECT E'\\';';",
            "SELECT E'a''\\';';",
            "SELECT te'\\';",
            "SELECT 7e'\\';';",
            "SELECT \"a;\" FROM t;",
            "SELECT '''';",
            "SELECT $1;",
            "SELECT $1, '$1;$1';",
            "SELECT 1 - 2 / 3;",
            "SELECT 1 -/* ; */ 2;",
            "SELECT '-'-- ;\n;",
            "SELECT a$b$c;",
            "SELECT a$b$c FROM a$$b;",
            "SELECT é$b$c;",
        ] {
            assert!(statement_is_complete(text), "{text}");
        }
        for text in [
            "",
            "SELECT 1",
            "SELECT ';",
            "SELECT 'it''s;",
            "SELECT 1 -- ;",
            "SELECT 1 /* ; /* */ ;",
            "SELECT 1 /*/ ;",
            "SELECT $$;",
            "SELECT 1$a$;",
            "SELECT E'\\';",
            "SELECT E'a''\\';",
            "SELECT \"a;",
            "SELECT 1; SELECT 2",
            "SELECT 1; -",
            "SELECT 1; /* open",
        ] {
            assert!(!statement_is_complete(text), "{text}");
        }
    }

    /// The pieces may be cut anywhere, and every end is found.
    #[test]
    fn the_ends_do_not_depend_on_the_pieces() {
        let text = "SELECT ';''', \"a;\"\"\", E'\\';''' ; -- x;\n /* ; /* ; */ */ SELECT \
                    a$b$c, $b$ ; $$ $b$, $1; SELECT é; ;";
        let ends = |cut: usize| {
            let mut scanner = StatementScanner::new();
            let mut found = Vec::new();
            for (first, piece) in [(0, &text[..cut]), (cut, &text[cut..])] {
                let mut begin = 0;
                while let Some(end) = scanner.advance(&piece[begin..]) {
                    begin += end;
                    found.push(first + begin);
                }
            }
            found
        };
        let whole = ends(0);
        assert_eq!(whole.len(), 4);
        for cut in (0..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            assert_eq!(ends(cut), whole, "cut at {cut}");
        }
    }

    /// The tokenizer cuts the same text at the same semicolons.
    #[test]
    fn the_ends_are_those_of_the_tokenizer() {
        let pieces = [
            "a", "e", "E", "1", "$", "$1", "$a$", "$$", "'", "''", "\"", "\\", ";", "-", "--", "/",
            "*", "/*", "*/", "\n", " ", "é",
        ];
        let mut seed = 1u64;
        let mut compared = 0;
        for _ in 0..100_000 {
            let mut text = String::new();
            for _ in 0..12 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push_str(pieces[(seed >> 33) as usize % pieces.len()]);
            }
            // A tag that begins with a digit, and a comment that is part of an operator, which
            // the tokenizer takes and PostgreSQL does not.
            let odd = text.contains("$1") && text.matches('$').count() > 1
                || ["---", "*--", "/--", "-/*", "*/*", "//*"].iter().any(|odd| text.contains(odd));
            let Ok(parts) = crate::parse::split(&text) else { continue };
            if odd {
                continue;
            }
            compared += 1;
            let mut scanner = StatementScanner::new();
            let (mut begin, mut found) = (0, 0);
            while let Some(end) = scanner.advance(&text[begin..]) {
                let part = text[begin..begin + end - 1].trim();
                found += usize::from(!crate::parse::split(part).unwrap_or_default().is_empty());
                begin += end;
            }
            let rest = crate::parse::split(&text[begin..]).unwrap_or_default();
            assert_eq!(found + rest.len(), parts.len(), "{text:?}");
        }
        assert!(compared > 1000, "{compared}");
    }

    #[test]
    fn comments_alone_are_blank() {
        let blank = |text: &str| {
            let mut scanner = StatementScanner::new();
            assert_eq!(scanner.advance(text), None, "{text:?}");
            scanner.is_blank()
        };
        for text in ["", " \n", "-- x", "/* a /* b */ c */ -- d\n "] {
            assert!(blank(text), "{text:?}");
        }
        for text in ["x", "-- x\ny", "/* open", "/* a */ b", "-", "/ ", "- -", "$"] {
            assert!(!blank(text), "{text:?}");
        }
    }
}
