//! `BACKUP` copies the database while others work on it, and `RESTORE` makes a database as one was
//! at a moment since its backup.
//!
//! ```text
//! BACKUP [DATABASE] TO 'folder'
//! RESTORE [DATABASE] FROM 'backup' ARCHIVE 'folder' [LOGS 'folder'] TO 'new folder'
//!     [UNTIL 'moment' | UNTIL GSN number]
//! ```
//!
//! Both work on files of the process that has the session: they are for superusers, and a session
//! of a server names folders by their absolute paths. Neither is a part of a transaction, and
//! neither ends before it is done.

use std::path::{Path, PathBuf};

use atoll::{DatabaseOptions, Until, restore};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{Outcome, SqlSession};
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::isolation::database_options;
use crate::zone;

/// Such a statement.
#[derive(Debug, PartialEq, Eq)]
enum Copying {
    Backup {
        to: PathBuf,
    },
    Restore {
        backup: PathBuf,
        archive: PathBuf,
        /// The folder of the database that was archived, for its last logs.
        logs: Option<PathBuf>,
        new: PathBuf,
        until: Point,
    },
}

/// Up to where logs are replayed.
#[derive(Debug, PartialEq, Eq)]
enum Point {
    End,
    /// A text, which the zone of the session reads.
    Moment(String),
    Gsn(u64),
}

/// Whether the tokens are those of such a statement, as far as it is correct.
pub(super) fn is_correct(tokens: &[TokenWithSpan]) -> Option<Result<(), SqlError>> {
    Copying::of(tokens).map(|read| read.map(drop))
}

fn is_verb(token: &TokenWithSpan) -> bool {
    let verbs = ["BACKUP", "RESTORE"];
    match &token.token {
        Token::Word(word) => verbs.iter().any(|verb| word.value.eq_ignore_ascii_case(verb)),
        _ => false,
    }
}

/// What is left of a statement.
struct Words<'t>(Vec<&'t TokenWithSpan>);

impl Words<'_> {
    /// Takes a word, if it comes next.
    fn has(&mut self, word: &str) -> bool {
        let is_next = self.0.first().is_some_and(|token| match &token.token {
            Token::Word(found) => {
                found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word)
            }
            _ => false,
        });
        if is_next {
            self.0.remove(0);
        }
        is_next
    }

    fn wants(&mut self, word: &str) -> Result<(), SqlError> {
        if self.has(word) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn text(&mut self) -> Result<String, SqlError> {
        match self.0.first().map(|token| &token.token) {
            Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => {
                let text = text.clone();
                self.0.remove(0);
                Ok(text)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn folder(&mut self) -> Result<PathBuf, SqlError> {
        let text = self.text()?;
        if text.is_empty() || text.contains('\0') {
            let message = format!("a folder has a path: '{}'", text.escape_debug());
            return Err(SqlError::new(SqlErrorKind::Input, message).with_state("42602"));
        }
        Ok(PathBuf::from(text))
    }

    fn number(&mut self) -> Result<u64, SqlError> {
        let Some(Token::Number(digits, _)) = self.0.first().map(|token| &token.token) else {
            return Err(self.unexpected());
        };
        let number = digits.parse().map_err(|_| self.unexpected())?;
        self.0.remove(0);
        Ok(number)
    }

    fn end(&self) -> Result<(), SqlError> {
        if self.0.is_empty() { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> SqlError {
        let Some(token) = self.0.first() else {
            return SqlError::new(SqlErrorKind::Syntax, "syntax error at end of input");
        };
        let message = format!("syntax error at or near \"{}\"", token.token);
        SqlError::new(SqlErrorKind::Syntax, message).at(token.span)
    }
}

impl Copying {
    /// Reads a statement, if it begins as one of these.
    fn of(tokens: &[TokenWithSpan]) -> Option<Result<Self, SqlError>> {
        let mut told =
            tokens.iter().filter(|one| !matches!(one.token, Token::Whitespace(_) | Token::EOF));
        let mut words = Words(told.by_ref().take(1).collect());
        // Most statements are none of these, and are not read any further.
        if !words.0.first().is_some_and(|first| is_verb(first)) {
            return None;
        }
        words.0.extend(told);
        if words.has("BACKUP") {
            return Some(Self::backup(&mut words));
        }
        words.has("RESTORE").then(|| Self::restore(&mut words))
    }

    fn backup(words: &mut Words<'_>) -> Result<Self, SqlError> {
        words.has("DATABASE");
        words.wants("TO")?;
        let to = words.folder()?;
        words.end()?;
        Ok(Self::Backup { to })
    }

    fn restore(words: &mut Words<'_>) -> Result<Self, SqlError> {
        words.has("DATABASE");
        words.wants("FROM")?;
        let backup = words.folder()?;
        words.wants("ARCHIVE")?;
        let archive = words.folder()?;
        let logs = if words.has("LOGS") { Some(words.folder()?) } else { None };
        words.wants("TO")?;
        let new = words.folder()?;
        let until = match words.has("UNTIL") {
            false => Point::End,
            true if words.has("GSN") => Point::Gsn(words.number()?),
            true => Point::Moment(words.text()?),
        };
        words.end()?;
        Ok(Self::Restore { backup, archive, logs, new, until })
    }

    fn verb(&self) -> &'static str {
        match self {
            Self::Backup { .. } => "BACKUP",
            Self::Restore { .. } => "RESTORE",
        }
    }

    fn folders(&self) -> Vec<&Path> {
        match self {
            Self::Backup { to } => vec![to],
            Self::Restore { backup, archive, logs, new, .. } => {
                [backup, archive, new].into_iter().chain(logs).map(PathBuf::as_path).collect()
            }
        }
    }
}

impl SqlSession {
    /// Carries out a statement of these, if the tokens are those of one.
    ///
    /// # Errors
    /// 42501 for a role that is no superuser, 25001 in a transaction, 42602 for a path that is
    /// not absolute in a session of a server; those of [`atoll::Database::backup`] and of
    /// [`restore::restore`].
    pub(super) fn back_up_or_restore(
        &mut self,
        tokens: &[TokenWithSpan],
    ) -> Result<Option<Outcome>, SqlError> {
        let Some(read) = Copying::of(tokens) else { return Ok(None) };
        let copying = read?;
        let verb = copying.verb();
        let db = self.writable(verb)?.clone();
        if self.restricted().is_some() {
            let message = format!("permission denied: {verb} is for superusers");
            return Err(SqlError::new(SqlErrorKind::Schema, message).with_state("42501"));
        }
        if self.in_transaction() {
            let message = format!("{verb} cannot run inside a transaction block");
            return Err(SqlError::new(SqlErrorKind::Unsupported, message)
                .with_cause(Cause::OpenTransaction));
        }
        let folders = copying.folders();
        let relative = folders.into_iter().find(|path| path.is_relative());
        if let Some(path) = relative.filter(|_| self.surroundings.is_some()) {
            let message = format!("relative path not allowed for {verb}: \"{}\"", path.display());
            return Err(SqlError::new(SqlErrorKind::Input, message).with_state("42602"));
        }
        match copying {
            Copying::Backup { to } => {
                db.backup(&to)?;
                // Without its roles nothing could log in to it.
                if let Some(around) = &self.surroundings {
                    around.server().back_up_roles(&to)?;
                }
            }
            Copying::Restore { backup, archive, logs, new, until } => {
                let until = Self::until(&until)?;
                let options = DatabaseOptions { scheme: db.scheme(), ..database_options() };
                let from = (backup.as_path(), archive.as_path(), logs.as_deref());
                restore::restore(from, &new, until, options)?;
                if let Some(around) = &self.surroundings {
                    around.server().restore_roles(&backup, &new)?;
                }
            }
        }
        Ok(Some(Outcome::done(verb, 0)))
    }

    fn until(point: &Point) -> Result<Until, SqlError> {
        let text = match point {
            Point::End => return Ok(Until::Latest),
            Point::Gsn(number) => return Ok(Until::Gsn(*number)),
            Point::Moment(text) => text,
        };
        let wrong = |message| SqlError::new(SqlErrorKind::Type, message).with_state("22007");
        let micros = zone::parse(text).map_err(wrong)?;
        let before = || wrong(format!("no database was there at '{text}'"));
        u64::try_from(micros).map(Until::Time).map_err(|_| before())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::parse;

    fn read(sql: &str) -> Option<Result<Copying, SqlError>> {
        Copying::of(&parse::only_tokens(sql).unwrap())
    }

    #[test]
    fn statements_are_read() {
        let to = PathBuf::from("/b");
        for sql in ["BACKUP TO '/b'", "backup database to E'/b'"] {
            assert_eq!(read(sql), Some(Ok(Copying::Backup { to: to.clone() })), "{sql}");
        }
        for (end, logs, until) in [
            ("TO '/n'", None, Point::End),
            ("LOGS '/l' TO '/n' UNTIL GSN 7", Some("/l"), Point::Gsn(7)),
            ("TO '/n' UNTIL '2026-01-01'", None, Point::Moment("2026-01-01".to_owned())),
        ] {
            let sql = format!("RESTORE FROM '/b' ARCHIVE '/a' {end}");
            let wanted = Copying::Restore {
                backup: to.clone(),
                archive: "/a".into(),
                logs: logs.map(PathBuf::from),
                new: "/n".into(),
                until,
            };
            assert_eq!(read(&sql), Some(Ok(wanted)), "{sql}");
        }
        for sql in [
            "BACKUP",
            "BACKUP TO",
            "BACKUP TO folder",
            "BACKUP TO ''",
            "BACKUP TO 'a' 'b'",
            "BACKUP TABLE t TO 'a'",
            "RESTORE FROM 'b' TO 'n'",
            "RESTORE FROM 'b' ARCHIVE 'a' TO 'n' UNTIL",
            "RESTORE FROM 'b' ARCHIVE 'a' TO 'n' UNTIL GSN -1",
            "RESTORE FROM 'b' ARCHIVE 'a' TO 'n' UNTIL 7",
        ] {
            assert!(read(sql).unwrap().is_err(), "{sql}");
        }
        assert_eq!(read("SELECT backup FROM restore"), None);
    }
}
