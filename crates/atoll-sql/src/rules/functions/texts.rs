//! Texts: parts of them, what stands for a value in a statement, and letters by their number.

use std::sync::Arc;

use datafusion::common::Result as DataFusionResult;
use datafusion::functions::{string, unicode};
use datafusion::logical_expr::{Expr, ScalarUDF, lit};

use super::bytes::{bytes, count};
use super::pattern::{first_part, int, text};
use super::{Function, Gives, Kind, Nulls, Overload, Run, builtin, kind, refused, strict};
use crate::error::SqlError;
use crate::literal::Literal;
use crate::rules::typed::Typed;
use crate::schemas::PUBLIC;

use Kind::{Any, Bool, Bytes, Int32, Int64, Text, Texts};

/// More letters than a text of PostgreSQL holds.
const PADDED_MAX: usize = 1 << 28;

const SUBSTRING: &[Overload] = &[
    builtin(&[Text, Int32], Text, unicode::substr),
    builtin(&[Text, Int32, Int32], Text, unicode::substr),
    strict(&[Bytes, Int32], Bytes, substring_of_bytes),
    strict(&[Bytes, Int32, Int32], Bytes, substring_of_bytes),
    strict(&[Text, Text], Text, first_part),
];

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "substring", overloads: SUBSTRING },
    Function { name: "substr", overloads: SUBSTRING },
    Function { name: "strpos", overloads: &[builtin(&[Text, Text], Int32, unicode::strpos)] },
    Function {
        name: "position",
        overloads: &[
            builtin(&[Text, Text], Int32, unicode::strpos),
            strict(&[Bytes, Bytes], Int32, |v| {
                let (all, part) = (bytes(v, 0), bytes(v, 1));
                let at = (0..=all.len()).find(|at| all[*at..].starts_with(part));
                count(at.map_or(0, |at| at + 1))
            }),
        ],
    },
    Function {
        name: "lpad",
        overloads: &[
            strict(&[Text, Int32], Text, |v| padded(v, true)),
            strict(&[Text, Int32, Text], Text, |v| padded(v, true)),
        ],
    },
    Function {
        name: "rpad",
        overloads: &[
            strict(&[Text, Int32], Text, |v| padded(v, false)),
            strict(&[Text, Int32, Text], Text, |v| padded(v, false)),
        ],
    },
    Function {
        name: "overlay",
        overloads: &[
            strict(&[Text, Text, Int32], Text, overlay),
            strict(&[Text, Text, Int32, Int32], Text, overlay),
            strict(&[Bytes, Bytes, Int32], Bytes, overlay_of_bytes),
            strict(&[Bytes, Bytes, Int32, Int32], Bytes, overlay_of_bytes),
        ],
    },
    Function {
        name: "chr",
        overloads: &[strict(&[Int32], Text, |v| {
            let number = int(v, 0);
            let letter = u32::try_from(number).ok().and_then(char::from_u32);
            match letter {
                _ if number < 0 => Err(refused("54000", "character number must be positive")),
                Some('\0') => Err(refused("54000", "null character not permitted")),
                Some(letter) => Ok(Literal::Text(letter.to_string())),
                None => {
                    let message = format!("requested character too large for encoding: {number}");
                    Err(refused("54000", message))
                }
            }
        })],
    },
    Function {
        name: "to_hex",
        overloads: &[
            strict(&[Int32], Text, |v| Ok(Literal::Text(format!("{:x}", int(v, 0) as i32)))),
            strict(&[Int64], Text, |v| Ok(Literal::Text(format!("{:x}", int(v, 0))))),
        ],
    },
    Function {
        name: "concat",
        overloads: &[
            rest(&[], Text, Run::Rewrite(|values| builtin_call(string::concat(), values))),
            rest(&[], Any, Run::Rows(|v| Ok(Literal::Text(v.iter().filter_map(output).collect())))),
        ],
    },
    Function {
        name: "concat_ws",
        overloads: &[
            rest(&[Text], Text, Run::Rewrite(|values| builtin_call(string::concat_ws(), values))),
            rest(&[Text], Any, Run::Rows(concat_ws)),
        ],
    },
    Function {
        name: "quote_ident",
        overloads: &[strict(&[Text], Text, |v| Ok(Literal::Text(quote_ident(text(v, 0)))))],
    },
    Function {
        name: "quote_literal",
        overloads: &[
            strict(&[Text], Text, |v| Ok(Literal::Text(quote_literal(text(v, 0))))),
            strict(&[Any], Text, |v| {
                Ok(Literal::Text(quote_literal(&v[0].to_text().unwrap_or_default())))
            }),
        ],
    },
    Function {
        name: "quote_nullable",
        overloads: &[Overload {
            takes: &[Any],
            rest: None,
            gives: Gives::Kind(Text),
            nulls: Nulls::See,
            run: Run::Rows(|v| {
                let quoted = v[0].to_text().map(|text| quote_literal(&text));
                Ok(Literal::Text(quoted.unwrap_or_else(|| "NULL".to_owned())))
            }),
        }],
    },
    Function {
        name: "pg_typeof",
        overloads: &[Overload {
            takes: &[Any],
            rest: None,
            gives: Gives::Kind(Text),
            nulls: Nulls::See,
            run: Run::Rewrite(|values| Ok(lit(values.first().map(kind::name).unwrap_or_default()))),
        }],
    },
    Function {
        name: "current_schema",
        overloads: &[
            strict(&[], Text, |_| Ok(Literal::Text(PUBLIC.to_owned()))),
            // With the schema that the search path begins with (`resolve`).
            strict(&[Text], Text, |values| Ok(values[0].clone())),
        ],
    },
    Function {
        name: "current_schemas",
        overloads: &[
            strict(&[Bool], Texts, |values| {
                Ok(schemas(&values[0], [Literal::Text(PUBLIC.to_owned())].to_vec()))
            }),
            // With the schemas of the search path (`resolve`).
            strict(&[Bool, Texts], Texts, |values| match &values[1] {
                Literal::List(path) => Ok(schemas(&values[0], path.clone())),
                _ => Ok(Literal::Null),
            }),
        ],
    },
    Function {
        name: "version",
        overloads: &[strict(&[], Text, |_| {
            // Clients of PostgreSQL read the version in front.
            let version = concat!("PostgreSQL 15.0 (Atoll ", env!("CARGO_PKG_VERSION"), ")");
            Ok(Literal::Text(version.to_owned()))
        })],
    },
];

/// The schemas of a path, and those that every path has if they are to be `implicit`.
fn schemas(implicit: &Literal, path: Vec<Literal>) -> Literal {
    let catalog = (*implicit == Literal::Bool(true)).then(|| Literal::Text("pg_catalog".into()));
    Literal::List(catalog.into_iter().chain(path).collect())
}

/// A function of any number of arguments behind the first ones, which looks at each NULL.
const fn rest(takes: &'static [Kind], rest: Kind, run: Run) -> Overload {
    Overload { takes, rest: Some(rest), gives: Gives::Kind(Text), nulls: Nulls::See, run }
}

fn builtin_call(function: Arc<ScalarUDF>, values: Vec<Typed>) -> DataFusionResult<Expr> {
    let text = Kind::Text.arrow();
    let text = |value: Typed| match value.arrow.is_string() {
        true => Ok(value.expr),
        false => value.with_parameter_type(&text).into_type(&text).map(|value| value.expr),
    };
    Ok(function.call(values.into_iter().map(text).collect::<DataFusionResult<_>>()?))
}

/// The text of a value as a client gets it; `None` for NULL.
pub(super) fn output(value: &Literal) -> Option<String> {
    match value {
        Literal::Bool(true) => Some("t".to_owned()),
        Literal::Bool(false) => Some("f".to_owned()),
        other => other.to_text(),
    }
}

fn concat_ws(values: &[Literal]) -> Result<Literal, SqlError> {
    let Some(between) = output(&values[0]) else { return Ok(Literal::Null) };
    let parts: Vec<String> = values[1..].iter().filter_map(output).collect();
    Ok(Literal::Text(parts.join(&between)))
}

/// The places that a part takes of a sequence: from a place counted from 1, and as many as `length`
/// or to the end.
fn span(length: usize, values: &[Literal], at: usize) -> Result<std::ops::Range<usize>, SqlError> {
    let begin = int(values, at);
    let end = match values.get(at + 1) {
        Some(_) if int(values, at + 1) < 0 => {
            return Err(refused("22011", "negative substring length not allowed"));
        }
        Some(_) => begin.saturating_add(int(values, at + 1)),
        None => i64::MAX,
    };
    let bounded = |place: i64| usize::try_from(place - 1).unwrap_or(0).min(length);
    Ok(bounded(begin)..bounded(end).max(bounded(begin)))
}

fn substring_of_bytes(values: &[Literal]) -> Result<Literal, SqlError> {
    let all = bytes(values, 0);
    Ok(Literal::Bytes(all[span(all.len(), values, 1)?].to_vec()))
}

/// A text cut to a length, or filled up to it before or behind.
fn padded(values: &[Literal], is_before: bool) -> Result<Literal, SqlError> {
    let length = usize::try_from(int(values, 1)).unwrap_or(0);
    if length >= PADDED_MAX {
        return Err(refused("54000", "requested length too large"));
    }
    let kept: String = text(values, 0).chars().take(length).collect();
    let fill = if values.len() > 2 { text(values, 2) } else { " " };
    let missing = length - kept.chars().count();
    let pad: String =
        fill.chars().cycle().take(if fill.is_empty() { 0 } else { missing }).collect();
    Ok(Literal::Text(if is_before { pad + &kept } else { kept + &pad }))
}

/// What an overlay keeps before and behind the new part.
fn kept(values: &[Literal], length: usize, new: usize) -> Result<(usize, usize), SqlError> {
    let begin = int(values, 2);
    let covered = if values.len() > 3 { int(values, 3) } else { new as i64 };
    if begin <= 0 {
        return Err(refused("22011", "negative substring length not allowed"));
    }
    let bounded = |place: i64| usize::try_from(place).unwrap_or(0).min(length);
    Ok((bounded(begin - 1), bounded((begin - 1).saturating_add(covered))))
}

fn overlay(values: &[Literal]) -> Result<Literal, SqlError> {
    let all: Vec<char> = text(values, 0).chars().collect();
    let (before, behind) = kept(values, all.len(), text(values, 1).chars().count())?;
    let mut made: String = all[..before].iter().collect();
    made.push_str(text(values, 1));
    made.extend(&all[behind..]);
    Ok(Literal::Text(made))
}

fn overlay_of_bytes(values: &[Literal]) -> Result<Literal, SqlError> {
    let all = bytes(values, 0);
    let (before, behind) = kept(values, all.len(), bytes(values, 1).len())?;
    Ok(Literal::Bytes([&all[..before], bytes(values, 1), &all[behind..]].concat()))
}

/// A name as a statement has it, in quotes where it needs them.
pub(super) fn quote_ident(name: &str) -> String {
    let mut letters = name.chars();
    let is_plain = letters.next().is_some_and(|first| first.is_ascii_lowercase() || first == '_')
        && letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    match is_plain && !super::keywords::is_reserved(name) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// A text as a statement has it.
pub(super) fn quote_literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    match quoted.contains('\\') {
        true => format!("E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}
