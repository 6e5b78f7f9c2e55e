//! PostgreSQL's advanced regular expressions, in the syntax of the crate that matches them.
//!
//! The two differ in escapes, in brackets and in what a dot matches. Look-around and references
//! back to a group are refused: matching takes linear time.

use std::cell::RefCell;
use std::rc::Rc;

use regex::{Regex, RegexBuilder};

use super::refused;
use crate::error::SqlError;

/// Expressions that a thread keeps compiled.
const KEPT_MAX: usize = 16;

/// Letters that say how to match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Flags {
    pub(super) is_global: bool,
    pub(super) ignores_case: bool,
    is_literal: bool,
    is_spaced: bool,
    /// Whether a dot and a bracket match no line break,
    stops_at_lines: bool,
    /// and whether `^` and `$` match at each.
    is_by_line: bool,
}

impl Flags {
    /// # Errors
    /// A letter that has no meaning.
    pub(super) fn read(letters: &str) -> Result<Self, SqlError> {
        let mut flags = Self::default();
        for letter in letters.chars() {
            match letter {
                'g' => flags.is_global = true,
                'i' => flags.ignores_case = true,
                'c' => flags.ignores_case = false,
                'q' => flags.is_literal = true,
                'x' => flags.is_spaced = true,
                't' => flags.is_spaced = false,
                'm' | 'n' => (flags.stops_at_lines, flags.is_by_line) = (true, true),
                'p' => (flags.stops_at_lines, flags.is_by_line) = (true, false),
                's' => (flags.stops_at_lines, flags.is_by_line) = (false, false),
                'w' => (flags.stops_at_lines, flags.is_by_line) = (false, true),
                'e' => {}
                other => {
                    let message = format!("invalid regular expression option: \"{other}\"");
                    return Err(refused("22023", message));
                }
            }
        }
        Ok(flags)
    }
}

thread_local! {
    /// Those that were compiled last, by their text and flags. A clone of one would have buffers of
    /// its own, which cost more than a match.
    static KEPT: RefCell<Vec<(String, Flags, Rc<Regex>)>> = const { RefCell::new(Vec::new()) };
}

/// The expression, compiled.
///
/// # Errors
/// It is none, or has a part that is not supported.
pub(super) fn compile(pattern: &str, flags: Flags) -> Result<Rc<Regex>, SqlError> {
    KEPT.with_borrow_mut(|kept| {
        let is_same =
            |(text, own, _): &(String, Flags, Rc<Regex>)| text == pattern && *own == flags;
        if let Some((.., known)) = kept.iter().rev().find(|one| is_same(one)) {
            return Ok(Rc::clone(known));
        }
        let translated = match flags.is_literal {
            true => regex::escape(pattern),
            false => Translation::of(pattern)?,
        };
        let compiled = RegexBuilder::new(&translated)
            .case_insensitive(flags.ignores_case)
            .ignore_whitespace(flags.is_spaced)
            .dot_matches_new_line(!flags.stops_at_lines)
            .multi_line(flags.is_by_line)
            .build()
            .map_err(|error| {
                let shown = error.to_string();
                let reason = shown.rsplit("error: ").next().unwrap_or(&shown);
                invalid(reason.lines().next().unwrap_or_default())
            })?;
        if kept.len() >= KEPT_MAX {
            kept.remove(0);
        }
        let compiled = Rc::new(compiled);
        kept.push((pattern.to_owned(), flags, Rc::clone(&compiled)));
        Ok(compiled)
    })
}

fn invalid(reason: &str) -> SqlError {
    refused("2201B", format!("invalid regular expression: {reason}"))
}

fn unsupported(what: &str) -> SqlError {
    SqlError::unsupported(format!("{what} in a regular expression is not supported"))
}

struct Translation<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    made: String,
    /// What stands behind something that may be repeated, behind a number of times, or behind that
    /// and a mark.
    repeated: u8,
}

impl<'a> Translation<'a> {
    fn of(pattern: &'a str) -> Result<String, SqlError> {
        let mut translation =
            Self { rest: pattern.chars().peekable(), made: String::new(), repeated: 0 };
        while let Some(next) = translation.rest.next() {
            translation.step(next)?;
        }
        Ok(translation.made)
    }

    fn step(&mut self, next: char) -> Result<(), SqlError> {
        let is_bound = next == '{' && self.rest.peek().is_some_and(char::is_ascii_digit);
        self.repeated = match next {
            '?' if self.repeated == 1 => 2,
            '*' | '+' | '?' if self.repeated > 0 => {
                return Err(invalid("quantifier operand invalid"));
            }
            '{' if is_bound && self.repeated > 0 => {
                return Err(invalid("quantifier operand invalid"));
            }
            '*' | '+' | '?' => 1,
            '{' if is_bound => {
                self.made.push('{');
                for inner in self.rest.by_ref() {
                    self.made.push(inner);
                    if inner == '}' {
                        break;
                    }
                }
                self.repeated = 1;
                return Ok(());
            }
            _ => 0,
        };
        match next {
            '\\' => self.escape(false),
            '[' => self.bracket(),
            '{' => {
                self.made.push_str("\\{");
                Ok(())
            }
            '(' if self.rest.peek() == Some(&'?') => self.group(),
            other => {
                self.made.push(other);
                Ok(())
            }
        }
    }

    /// `(?`: a group that is not counted, letters, or what looks around.
    fn group(&mut self) -> Result<(), SqlError> {
        self.rest.next();
        match self.rest.peek() {
            Some('=' | '!' | '<') => Err(unsupported("looking around, as in (?= ),")),
            _ => {
                self.made.push_str("(?");
                Ok(())
            }
        }
    }

    /// What stands behind a backslash.
    fn escape(&mut self, in_bracket: bool) -> Result<(), SqlError> {
        let Some(next) = self.rest.next() else {
            return Err(invalid("invalid escape \\ sequence"));
        };
        let made = match next {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'n' | 't' | 'r' | 'f' | 'v' | 'a' | 'x' => {
                format!("\\{next}")
            }
            'm' if !in_bracket => "\\b{start}".to_owned(),
            'M' if !in_bracket => "\\b{end}".to_owned(),
            'y' if !in_bracket => "\\b".to_owned(),
            'Y' if !in_bracket => "\\B".to_owned(),
            'A' if !in_bracket => "\\A".to_owned(),
            'Z' if !in_bracket => "\\z".to_owned(),
            'b' => "\\x08".to_owned(),
            'B' => "\\\\".to_owned(),
            'e' => "\\x1B".to_owned(),
            '0' => "\\x00".to_owned(),
            'u' | 'U' => format!("\\{next}"),
            '1'..='9' => return Err(unsupported("a reference to a group")),
            letter if letter.is_ascii_alphabetic() => {
                return Err(invalid("invalid escape \\ sequence"));
            }
            other => regex::escape(&other.to_string()),
        };
        self.made.push_str(&made);
        Ok(())
    }

    /// `[…]`, in which the crate knows more operators.
    fn bracket(&mut self) -> Result<(), SqlError> {
        self.made.push('[');
        if self.rest.peek() == Some(&'^') {
            self.rest.next();
            self.made.push('^');
        }
        let mut is_first = true;
        while let Some(next) = self.rest.next() {
            match next {
                ']' if !is_first => {
                    self.made.push(']');
                    return Ok(());
                }
                '[' if self.rest.peek() == Some(&':') => {
                    self.made.push('[');
                    for inner in self.rest.by_ref() {
                        self.made.push(inner);
                        if inner == ']' {
                            break;
                        }
                    }
                }
                '[' if matches!(self.rest.peek(), Some('.' | '=')) => {
                    return Err(unsupported("a collating element"));
                }
                '\\' => self.escape(true)?,
                '[' | ']' | '&' | '~' | '#' | ' ' => {
                    self.made.push('\\');
                    self.made.push(next);
                }
                other => self.made.push(other),
            }
            is_first = false;
        }
        Err(invalid("brackets [] not balanced"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn expressions_of_postgresql_are_translated() {
        let matches =
            |pattern: &str, text: &str| compile(pattern, Flags::default()).unwrap().is_match(text);
        assert!(matches(r"\mfoo\M", "a foo b"));
        assert!(!matches(r"\mfoo\M", "afoo b"));
        assert!(matches("a{b", "a{b"));
        assert!(matches("a.b", "a\nb"));
        assert!(matches("^[a&&b]$", "&"));
        assert!(matches("^[]a]$", "]"));
        assert!(matches(r"^[\]]$", "]"));
        assert!(matches("^[[:digit:]x]+$", "1x2"));
        assert_eq!(compile("(", Flags::default()).unwrap_err().sqlstate(), "2201B");
        assert_eq!(compile("[a", Flags::default()).unwrap_err().sqlstate(), "2201B");
        assert_eq!(compile("a**", Flags::default()).unwrap_err().sqlstate(), "2201B");
        assert!(matches("^a{2}?a*?$", "aaa"));
        assert_eq!(compile("(?=a)", Flags::default()).unwrap_err().sqlstate(), "0A000");
        assert_eq!(Flags::read("z").unwrap_err().sqlstate(), "22023");
        let by_line = Flags::read("n").unwrap();
        assert!(compile("^b$", by_line).unwrap().is_match("a\nb"));
        assert!(!compile("a.b", by_line).unwrap().is_match("a\nb"));
    }
}
