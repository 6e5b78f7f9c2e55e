//! Patterns: `LIKE` where DataFusion's differs, `SIMILAR TO`, and regular expressions.
//!
//! As in PostgreSQL, `LIKE … ESCAPE` and `SIMILAR TO` are the plain operators with a pattern that a
//! function has rewritten (`like_escape`, `similar_to_escape`).

use regex::{Captures, Regex};

use super::regex_syntax::{Flags, compile};
use super::{Function, Kind, refused, strict};
use crate::error::SqlError;
use crate::literal::Literal;

use Kind::{Bool, Int32, Text};

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "textlike", overloads: &[strict(&[Text, Text], Bool, |v| like(v, false))] },
    Function { name: "texticlike", overloads: &[strict(&[Text, Text], Bool, |v| like(v, true))] },
    Function {
        name: "like_escape",
        overloads: &[strict(&[Text, Text], Text, |v| {
            like_escape(text(v, 0), text(v, 1)).map(Literal::Text)
        })],
    },
    Function {
        name: "similar_to_escape",
        overloads: &[
            strict(&[Text], Text, |v| similar(text(v, 0), "\\").map(Literal::Text)),
            strict(&[Text, Text], Text, |v| similar(text(v, 0), text(v, 1)).map(Literal::Text)),
        ],
    },
    Function { name: "textregexeq", overloads: &[strict(&[Text, Text], Bool, |v| matches(v, ""))] },
    Function {
        name: "texticregexeq",
        overloads: &[strict(&[Text, Text], Bool, |v| matches(v, "i"))],
    },
    Function {
        name: "regexp_like",
        overloads: &[
            strict(&[Text, Text], Bool, |v| matches(v, "")),
            strict(&[Text, Text, Text], Bool, |v| matches(v, text(v, 2))),
        ],
    },
    Function {
        name: "regexp_replace",
        overloads: &[
            strict(&[Text, Text, Text], Text, |v| replace(v, "", 1, None)),
            strict(&[Text, Text, Text, Text], Text, |v| replace(v, text(v, 3), 1, None)),
            strict(&[Text, Text, Text, Int32], Text, |v| replace(v, "", int(v, 3), Some(1))),
            strict(&[Text, Text, Text, Int32, Int32], Text, |v| {
                replace(v, "", int(v, 3), Some(int(v, 4)))
            }),
            strict(&[Text, Text, Text, Int32, Int32, Text], Text, |v| {
                replace(v, text(v, 5), int(v, 3), Some(int(v, 4)))
            }),
        ],
    },
    Function {
        name: "regexp_count",
        overloads: &[
            strict(&[Text, Text], Int32, count),
            strict(&[Text, Text, Int32], Int32, count),
            strict(&[Text, Text, Int32, Text], Int32, count),
        ],
    },
    Function {
        name: "regexp_substr",
        overloads: &[
            strict(&[Text, Text], Text, substr),
            strict(&[Text, Text, Int32], Text, substr),
            strict(&[Text, Text, Int32, Int32], Text, substr),
            strict(&[Text, Text, Int32, Int32, Text], Text, substr),
            strict(&[Text, Text, Int32, Int32, Text, Int32], Text, substr),
        ],
    },
    Function {
        name: "regexp_instr",
        overloads: &[
            strict(&[Text, Text], Int32, instr),
            strict(&[Text, Text, Int32], Int32, instr),
            strict(&[Text, Text, Int32, Int32], Int32, instr),
            strict(&[Text, Text, Int32, Int32, Int32], Int32, instr),
            strict(&[Text, Text, Int32, Int32, Int32, Text], Int32, instr),
            strict(&[Text, Text, Int32, Int32, Int32, Text, Int32], Int32, instr),
        ],
    },
];

/// The text at a place of a row; empty where there is none.
pub(super) fn text(values: &[Literal], at: usize) -> &str {
    match values.get(at) {
        Some(Literal::Text(text)) => text,
        _ => "",
    }
}

/// The integer at a place of a row; 0 where there is none.
pub(super) fn int(values: &[Literal], at: usize) -> i64 {
    match values.get(at) {
        Some(Literal::Integer(value)) => i64::try_from(*value).unwrap_or(i64::MAX),
        _ => 0,
    }
}

fn int_or(values: &[Literal], at: usize, missing: i64) -> i64 {
    if at < values.len() { int(values, at) } else { missing }
}

fn like(values: &[Literal], ignores_case: bool) -> Result<Literal, SqlError> {
    let chars = |at: usize| -> Vec<char> {
        let written = text(values, at);
        if ignores_case {
            written.to_lowercase().chars().collect()
        } else {
            written.chars().collect()
        }
    };
    Ok(Literal::Bool(like_chars(&chars(0), &chars(1))? == Found::Yes))
}

#[derive(PartialEq)]
enum Found {
    Yes,
    No,
    /// No, and no later place of the text can change that.
    Never,
}

fn like_chars(mut text: &[char], mut pattern: &[char]) -> Result<Found, SqlError> {
    let lone = || refused("22025", "LIKE pattern must not end with escape character");
    while !text.is_empty() && !pattern.is_empty() {
        match pattern[0] {
            '\\' => {
                pattern = &pattern[1..];
                if *pattern.first().ok_or_else(lone)? != text[0] {
                    return Ok(Found::No);
                }
            }
            '%' => {
                while let Some(wild @ ('%' | '_')) = pattern.first() {
                    if *wild == '_' {
                        if text.is_empty() {
                            return Ok(Found::Never);
                        }
                        text = &text[1..];
                    }
                    pattern = &pattern[1..];
                }
                let first = match pattern {
                    [] => return Ok(Found::Yes),
                    ['\\', rest @ ..] => *rest.first().ok_or_else(lone)?,
                    [first, ..] => *first,
                };
                while !text.is_empty() {
                    if text[0] == first {
                        let found = like_chars(text, pattern)?;
                        if found != Found::No {
                            return Ok(found);
                        }
                    }
                    text = &text[1..];
                }
                return Ok(Found::Never);
            }
            '_' => {}
            other if other != text[0] => return Ok(Found::No),
            _ => {}
        }
        (text, pattern) = (&text[1..], &pattern[1..]);
    }
    if !text.is_empty() {
        return Ok(Found::No);
    }
    Ok(if pattern.iter().all(|one| *one == '%') { Found::Yes } else { Found::Never })
}

/// The one character that escapes, if there is one.
fn escape_of(escape: &str) -> Result<Option<char>, SqlError> {
    let mut chars = escape.chars();
    let first = chars.next();
    if chars.next().is_some() {
        let hint = "ESCAPE takes one character, or none".to_owned();
        return Err(refused("22025", "invalid escape string").with_hint(Some(hint)));
    }
    Ok(first)
}

/// A pattern of `LIKE … ESCAPE` with backslashes as what escapes.
///
/// # Errors
/// More than one character that escapes.
pub(crate) fn like_escape(pattern: &str, escape: &str) -> Result<String, SqlError> {
    let escape = escape_of(escape)?;
    if escape == Some('\\') {
        return Ok(pattern.to_owned());
    }
    let mut made = String::with_capacity(pattern.len());
    let mut is_escaped = false;
    for next in pattern.chars() {
        if Some(next) == escape && !is_escaped {
            made.push('\\');
            is_escaped = true;
            continue;
        }
        if next == '\\' && !is_escaped {
            made.push('\\');
        }
        made.push(next);
        is_escaped = false;
    }
    Ok(made)
}

/// A pattern of `SIMILAR TO` as a regular expression.
fn similar(pattern: &str, escape: &str) -> Result<String, SqlError> {
    let escape = escape_of(escape)?;
    let mut made = "^(?:".to_owned();
    let (mut is_escaped, mut in_bracket) = (false, false);
    for next in pattern.chars() {
        if is_escaped {
            if next == '"' && !in_bracket {
                return Err(SqlError::unsupported("a quoted part of a pattern is not supported"));
            }
            made.extend(['\\', next]);
            is_escaped = false;
            continue;
        }
        match next {
            _ if Some(next) == escape => is_escaped = true,
            '\\' if in_bracket => made.push_str("\\\\"),
            _ if in_bracket => {
                made.push(next);
                in_bracket = next != ']';
            }
            '[' => {
                made.push(next);
                in_bracket = true;
            }
            '%' => made.push_str(".*"),
            '_' => made.push('.'),
            '(' => made.push_str("(?:"),
            '\\' | '.' | '^' | '$' => made.extend(['\\', next]),
            other => made.push(other),
        }
    }
    made.push_str(")$");
    Ok(made)
}

fn matches(values: &[Literal], flags: &str) -> Result<Literal, SqlError> {
    let flags = local(flags, "regexp_like")?;
    Ok(Literal::Bool(compile(text(values, 1), flags)?.is_match(text(values, 0))))
}

/// The flags of a function that has no use for `g`.
pub(super) fn local(letters: &str, function: &str) -> Result<Flags, SqlError> {
    let flags = Flags::read(letters)?;
    if flags.is_global {
        let message = format!("{function}() does not support the \"global\" option");
        return Err(refused("22023", message));
    }
    Ok(flags)
}

/// Where in a text a search begins, from a count of characters.
fn place(text: &str, start: i64) -> Result<usize, SqlError> {
    let parameter = || refused("22023", format!("invalid value for parameter \"start\": {start}"));
    let before = usize::try_from(start - 1).map_err(|_| parameter())?;
    let places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    Ok(places.into_iter().nth(before).unwrap_or(text.len() + 1))
}

/// A parameter that counts.
fn counted(name: &str, value: i64, least: i64) -> Result<usize, SqlError> {
    usize::try_from(value)
        .ok()
        .filter(|_| value >= least)
        .ok_or_else(|| refused("22023", format!("invalid value for parameter \"{name}\": {value}")))
}

/// The matches of an expression from a place on.
pub(super) fn found<'r, 't>(
    regex: &'r Regex,
    text: &'t str,
    from: usize,
) -> impl Iterator<Item = Captures<'t>> + use<'r, 't> {
    let mut at = from;
    std::iter::from_fn(move || {
        if at > text.len() {
            return None;
        }
        let captures = regex.captures_at(text, at)?;
        let whole = captures.get_match();
        at = match whole.is_empty() {
            true => whole.end() + text[whole.end()..].chars().next().map_or(1, char::len_utf8),
            false => whole.end(),
        };
        Some(captures)
    })
}

fn replace(
    values: &[Literal],
    flags: &str,
    start: i64,
    number: Option<i64>,
) -> Result<Literal, SqlError> {
    let (source, replacement) = (text(values, 0), text(values, 2));
    let flags = Flags::read(flags)?;
    let number = number.map(|number| counted("n", number, 0)).transpose()?;
    // The first one, each, or the one of a number; 0 stands for each.
    let only = number.unwrap_or(if flags.is_global { 0 } else { 1 });
    let from = place(source, start)?;
    let regex = compile(text(values, 1), flags)?;
    let (mut made, mut done) = (String::with_capacity(source.len()), 0);
    for (at, captures) in found(&regex, source, from).enumerate() {
        if only != 0 && at + 1 < only {
            continue;
        }
        let whole = captures.get_match();
        made.push_str(&source[done..whole.start()]);
        fill(replacement, &captures, &mut made);
        done = whole.end();
        if only != 0 {
            break;
        }
    }
    made.push_str(&source[done..]);
    Ok(Literal::Text(made))
}

/// Writes a replacement, in which `\1` is a group and `\&` all that was found.
fn fill(replacement: &str, captures: &Captures<'_>, made: &mut String) {
    let mut rest = replacement.chars();
    while let Some(next) = rest.next() {
        if next != '\\' {
            made.push(next);
            continue;
        }
        let mut ahead = rest.clone();
        let group = match ahead.next() {
            Some('&') => Some(0),
            Some(digit @ '1'..='9') => digit.to_digit(10),
            Some('\\') => None,
            _ => {
                made.push('\\');
                continue;
            }
        };
        rest = ahead;
        match group {
            Some(group) => {
                made.push_str(captures.get(group as usize).map_or("", |part| part.as_str()));
            }
            None => made.push('\\'),
        }
    }
}

fn count(values: &[Literal]) -> Result<Literal, SqlError> {
    let source = text(values, 0);
    let from = place(source, int_or(values, 2, 1))?;
    let regex = compile(text(values, 1), local(text(values, 3), "regexp_count")?)?;
    Ok(Literal::Integer(found(&regex, source, from).count() as i128))
}

/// The match of a number, and in it the group of a number.
fn group<'t>(
    (source, pattern): (&'t str, &str),
    (start, number, group): (i64, i64, i64),
    flags: Flags,
) -> Result<Option<(usize, &'t str)>, SqlError> {
    let (number, group) = (counted("n", number, 1)?, counted("subexpr", group, 0)?);
    let from = place(source, start)?;
    let regex = compile(pattern, flags)?;
    let captures = found(&regex, source, from).nth(number - 1);
    let part = captures.and_then(|captures| captures.get(group));
    Ok(part.map(|part| (part.start(), &source[part.range()])))
}

fn substr(values: &[Literal]) -> Result<Literal, SqlError> {
    let flags = local(text(values, 4), "regexp_substr")?;
    let which = (int_or(values, 2, 1), int_or(values, 3, 1), int_or(values, 5, 0));
    let part = group((text(values, 0), text(values, 1)), which, flags)?;
    Ok(part.map_or(Literal::Null, |(_, part)| Literal::Text(part.to_owned())))
}

fn instr(values: &[Literal]) -> Result<Literal, SqlError> {
    let source = text(values, 0);
    let flags = local(text(values, 5), "regexp_instr")?;
    let which = (int_or(values, 2, 1), int_or(values, 3, 1), int_or(values, 6, 0));
    let end = int_or(values, 4, 0);
    if !(0..=1).contains(&end) {
        let message = format!("invalid value for parameter \"endoption\": {end}");
        return Err(refused("22023", message));
    }
    let part = group((source, text(values, 1)), which, flags)?;
    Ok(Literal::Integer(part.map_or(0, |(at, part)| {
        let before = if end == 1 { at + part.len() } else { at };
        source[..before].chars().count() as i128 + 1
    })))
}

/// The part of a text that an expression finds: its first group, if it has one.
pub(super) fn first_part(values: &[Literal]) -> Result<Literal, SqlError> {
    let regex = compile(text(values, 1), Flags::default())?;
    let Some(captures) = regex.captures(text(values, 0)) else { return Ok(Literal::Null) };
    let group = if regex.captures_len() > 1 { 1 } else { 0 };
    Ok(captures.get(group).map_or(Literal::Null, |part| Literal::Text(part.as_str().to_owned())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_escape_becomes_a_backslash() {
        assert_eq!(like_escape("a#%##\\_", "#").unwrap(), "a\\%\\#\\\\_");
        assert_eq!(like_escape("a\\%", "").unwrap(), "a\\\\%");
        assert_eq!(like_escape("a", "ab").unwrap_err().sqlstate(), "22025");
    }

    #[test]
    fn a_lone_escape_is_refused_where_the_text_reaches_it() {
        let like = |text: &str, pattern: &str| {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            like_chars(&chars(text), &chars(pattern)).map(|found| found == Found::Yes)
        };
        assert_eq!(like("abc", "ab\\").unwrap_err().sqlstate(), "22025");
        assert!(!like("abc", "abc\\").unwrap());
        assert!(like("abc", "%b_").unwrap());
        assert!(like("a%", "a\\%").unwrap());
        assert!(!like("ab", "a\\%").unwrap());
    }
}
