//! `format(…)`: `%s`, `%I`, `%L` and `%%` with positions and widths.

use super::pattern::text;
use super::texts::{output, quote_ident, quote_literal};
use super::{Function, Gives, Kind, Nulls, Overload, Run, refused};
use crate::error::SqlError;
use crate::literal::Literal;

pub(super) const FUNCTIONS: &[Function] = &[Function {
    name: "format",
    overloads: &[Overload {
        takes: &[Kind::Text],
        rest: Some(Kind::Any),
        gives: Gives::Kind(Kind::Text),
        nulls: Nulls::See,
        run: Run::Rows(format),
    }],
}];

fn too_few() -> SqlError {
    refused("22023", "too few arguments for format()")
}

fn unterminated() -> SqlError {
    refused("22023", "unterminated format() type specifier")
        .with_hint(Some("For a single \"%\" use \"%%\".".to_owned()))
}

/// The letters of a pattern that are not read yet, and the argument that comes next.
struct Reading<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    values: &'a [Literal],
    next: usize,
}

impl Reading<'_> {
    fn number(&mut self) -> Result<Option<usize>, SqlError> {
        let mut digits = String::new();
        while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        if digits.is_empty() {
            return Ok(None);
        }
        let number = digits.parse::<i32>().ok().and_then(|number| usize::try_from(number).ok());
        number.map(Some).ok_or_else(|| refused("22003", "number is out of range"))
    }

    /// `n$`, if it is there; a number that is none is given back.
    fn position(&mut self) -> Result<(Option<usize>, Option<usize>), SqlError> {
        let Some(number) = self.number()? else { return Ok((None, None)) };
        if self.rest.next_if_eq(&'$').is_none() {
            return Ok((None, Some(number)));
        }
        match number {
            0 => Err(refused(
                "22023",
                "format specifies argument 0, but arguments are numbered from 1",
            )),
            _ => Ok((Some(number), None)),
        }
    }

    fn value(&mut self, position: Option<usize>) -> Result<&Literal, SqlError> {
        let at = position.unwrap_or(self.next);
        self.next = at + 1;
        self.values.get(at).ok_or_else(too_few)
    }

    /// One specifier behind its `%`.
    fn specifier(&mut self, made: &mut String) -> Result<(), SqlError> {
        if self.rest.next_if_eq(&'%').is_some() {
            made.push('%');
            return Ok(());
        }
        let (position, mut width) = self.position()?;
        let mut is_left = false;
        if width.is_none() {
            while self.rest.next_if_eq(&'-').is_some() {
                is_left = true;
            }
            width = self.number()?;
            if width.is_none() && self.rest.next_if_eq(&'*').is_some() {
                let (position, _) = self.position()?;
                let given = match self.value(position)? {
                    Literal::Null => 0,
                    Literal::Integer(given) => i32::try_from(*given)
                        .map_err(|_| refused("22003", "number is out of range"))?,
                    other => {
                        let shown = other.to_text().unwrap_or_default();
                        let message = format!("invalid input syntax for type integer: \"{shown}\"");
                        shown.trim().parse().map_err(|_| refused("22P02", message))?
                    }
                };
                is_left |= given < 0;
                width = Some(given.unsigned_abs() as usize);
            }
        }
        let letter = self.rest.next().ok_or_else(unterminated)?;
        if !matches!(letter, 's' | 'I' | 'L') {
            let message = format!("unrecognized format() type specifier \"{letter}\"");
            let hint = "For a single \"%\" use \"%%\".".to_owned();
            return Err(refused("22023", message).with_hint(Some(hint)));
        }
        let value = output(self.value(position)?);
        let shown = match (letter, value) {
            ('s', value) => value.unwrap_or_default(),
            ('I', Some(value)) => quote_ident(&value),
            ('I', None) => {
                let message = "null values cannot be formatted as an SQL identifier";
                return Err(refused("22004", message));
            }
            (_, Some(value)) => quote_literal(&value),
            (_, None) => "NULL".to_owned(),
        };
        let missing = width.unwrap_or(0).saturating_sub(shown.chars().count());
        let pad = " ".repeat(missing);
        made.push_str(&if is_left { shown + &pad } else { pad + &shown });
        Ok(())
    }
}

fn format(values: &[Literal]) -> Result<Literal, SqlError> {
    if values[0] == Literal::Null {
        return Ok(Literal::Null);
    }
    let rest = text(values, 0).chars().peekable();
    let mut reading = Reading { rest, values, next: 1 };
    let mut made = String::new();
    while let Some(next) = reading.rest.next() {
        match next {
            '%' if reading.rest.peek().is_none() => return Err(unterminated()),
            '%' => reading.specifier(&mut made)?,
            other => made.push(other),
        }
    }
    Ok(Literal::Text(made))
}
