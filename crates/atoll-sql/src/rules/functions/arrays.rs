//! Functions and operators of arrays (PostgreSQL's manual, 9.19). Subscripts begin with 1.

use std::cmp::Ordering;

use sqlparser::ast::BinaryOperator as Op;

use super::pattern::text;
use super::{Function, Gives, Kind, Nulls, Overload, Run, refused, strict};
use crate::error::SqlError;
use crate::literal::Literal;

use Kind::{Any, Array, Bool, Element, Int32, Int64, Text, Texts};

/// The function of an operator, if both operands are arrays.
pub(crate) fn of_operator(op: &Op) -> Option<&'static str> {
    Some(match op {
        Op::AtArrow => "arraycontains",
        Op::ArrowAt => "arraycontained",
        Op::PGOverlap => "arrayoverlap",
        _ => return None,
    })
}

/// The numbers of the elements of an array, and as many as the longest of several has. No statement
/// can have the names (`NAME-1`).
pub(crate) const SUBSCRIPTS: &str = "\u{1}subscripts";
pub(crate) const ORDINALS: &str = "\u{1}ordinals";

type Body = fn(&[Literal]) -> Result<Literal, SqlError>;

const fn array(takes: &'static [Kind], run: Body) -> Overload {
    Overload { takes, rest: None, gives: Gives::List, nulls: Nulls::See, run: Run::Rows(run) }
}

const fn seeing(takes: &'static [Kind], gives: Kind, run: Body) -> Overload {
    let gives = Gives::Kind(gives);
    Overload { takes, rest: None, gives, nulls: Nulls::See, run: Run::Rows(run) }
}

const fn one(name: &'static str, overloads: &'static [Overload]) -> Function {
    Function { name, overloads }
}

pub(super) const FUNCTIONS: &[Function] = &[
    one(
        "array_length",
        &[strict(&[Array, Int32], Int32, |v| {
            Ok(if number(v, 1) == 1 { length(v) } else { Literal::Null })
        })],
    ),
    one(
        "array_upper",
        &[strict(&[Array, Int32], Int32, |v| {
            Ok(if number(v, 1) == 1 { length(v) } else { Literal::Null })
        })],
    ),
    one(
        "array_lower",
        &[strict(&[Array, Int32], Int32, |v| {
            let is_it = number(v, 1) == 1 && !items(v, 0).is_empty();
            Ok(if is_it { Literal::Integer(1) } else { Literal::Null })
        })],
    ),
    one(
        "array_ndims",
        &[strict(&[Array], Int32, |v| {
            Ok(if items(v, 0).is_empty() { Literal::Null } else { Literal::Integer(1) })
        })],
    ),
    one(
        "array_dims",
        &[strict(&[Array], Text, |v| {
            Ok(match items(v, 0).len() {
                0 => Literal::Null,
                count => Literal::Text(format!("[1:{count}]")),
            })
        })],
    ),
    one(
        "cardinality",
        &[strict(&[Array], Int32, |v| Ok(Literal::Integer(items(v, 0).len() as i128)))],
    ),
    one(
        "array_append",
        &[array(&[Array, Element], |v| {
            let mut all = items(v, 0).to_vec();
            all.push(v[1].clone());
            Ok(Literal::List(all))
        })],
    ),
    one(
        "array_prepend",
        &[array(&[Element, Array], |v| {
            let mut all = vec![v[0].clone()];
            all.extend_from_slice(items(v, 1));
            Ok(Literal::List(all))
        })],
    ),
    one(
        "array_cat",
        &[array(&[Array, Array], |v| {
            if v[0] == Literal::Null && v[1] == Literal::Null {
                return Ok(Literal::Null);
            }
            Ok(Literal::List([items(v, 0), items(v, 1)].concat()))
        })],
    ),
    one(
        "array_remove",
        &[array(&[Array, Element], |v| {
            if v[0] == Literal::Null {
                return Ok(Literal::Null);
            }
            Ok(Literal::List(items(v, 0).iter().filter(|item| **item != v[1]).cloned().collect()))
        })],
    ),
    one(
        "array_replace",
        &[array(&[Array, Element, Element], |v| {
            if v[0] == Literal::Null {
                return Ok(Literal::Null);
            }
            let other = |item: &Literal| if *item == v[1] { v[2].clone() } else { item.clone() };
            Ok(Literal::List(items(v, 0).iter().map(other).collect()))
        })],
    ),
    one(
        "array_position",
        &[
            seeing(&[Array, Element], Int32, |v| Ok(position(v, 1))),
            seeing(&[Array, Element, Int32], Int32, |v| Ok(position(v, number(v, 2)))),
        ],
    ),
    one(
        "array_positions",
        &[Overload {
            gives: Gives::Ints,
            ..array(&[Array, Element], |v| {
                if v[0] == Literal::Null {
                    return Ok(Literal::Null);
                }
                let found = items(v, 0).iter().enumerate().filter(|(_, item)| **item == v[1]);
                Ok(Literal::List(found.map(|(at, _)| Literal::Integer(at as i128 + 1)).collect()))
            })
        }],
    ),
    one(
        "array_to_string",
        &[
            strict(&[Array, Text], Text, |v| Ok(joined(v, None))),
            seeing(&[Array, Text, Text], Text, |v| {
                let is_null = v[0] == Literal::Null || v[1] == Literal::Null;
                Ok(if is_null { Literal::Null } else { joined(v, v[2].to_text()) })
            }),
        ],
    ),
    one(
        "string_to_array",
        &[
            seeing(&[Text, Text], Texts, |v| Ok(parts(v))),
            seeing(&[Text, Text, Text], Texts, |v| Ok(parts(v))),
        ],
    ),
    one(
        "trim_array",
        &[Overload {
            nulls: Nulls::Pass,
            ..array(&[Array, Int32], |v| {
                let (all, less) = (items(v, 0), number(v, 1));
                let kept = usize::try_from(less).ok().and_then(|less| all.len().checked_sub(less));
                let message =
                    || format!("number of elements to trim must be between 0 and {}", all.len());
                let kept = kept.ok_or_else(|| refused("2202E", message()))?;
                Ok(Literal::List(all[..kept].to_vec()))
            })
        }],
    ),
    one(
        "array_element",
        &[Overload {
            gives: Gives::Item,
            nulls: Nulls::Pass,
            ..array(&[Array, Int64], |v| {
                let at = usize::try_from(number(v, 1) - 1).ok();
                Ok(at.and_then(|at| items(v, 0).get(at)).cloned().unwrap_or(Literal::Null))
            })
        }],
    ),
    one(
        "array_slice",
        &[Overload {
            nulls: Nulls::Pass,
            ..array(&[Array, Int64, Int64], |v| {
                let all = items(v, 0);
                let from = usize::try_from(number(v, 1).max(1) - 1).unwrap_or(usize::MAX);
                let to = usize::try_from(number(v, 2).max(0)).unwrap_or(usize::MAX).min(all.len());
                Ok(Literal::List(all.get(from..to).unwrap_or_default().to_vec()))
            })
        }],
    ),
    one(
        "arraycontains",
        &[strict(&[Array, Array], Bool, |v| Ok(Literal::Bool(has_all(items(v, 0), items(v, 1)))))],
    ),
    one(
        "arraycontained",
        &[strict(&[Array, Array], Bool, |v| Ok(Literal::Bool(has_all(items(v, 1), items(v, 0)))))],
    ),
    one(
        "arrayoverlap",
        &[strict(&[Array, Array], Bool, |v| {
            let (all, others) = (items(v, 0), items(v, 1));
            Ok(Literal::Bool(others.iter().any(|item| is_in(item, all))))
        })],
    ),
    // What `<` and the like ask: negative, zero or positive. Arrow has another order for NULL.
    one(
        "array_compare",
        &[strict(&[Array, Array], Int32, |v| {
            let (all, others) = (items(v, 0), items(v, 1));
            let first = all.iter().zip(others).map(|(a, b)| order(a, b)).find(|one| one.is_ne());
            let order = first.unwrap_or_else(|| all.len().cmp(&others.len()));
            Ok(Literal::Integer(order as i128))
        })],
    ),
    one(
        SUBSCRIPTS,
        &[
            Overload { gives: Gives::Ints, ..strict(&[Array, Int32], Int32, subscripts) },
            Overload { gives: Gives::Ints, ..strict(&[Array, Int32, Bool], Int32, subscripts) },
        ],
    ),
    one(
        ORDINALS,
        &[Overload {
            rest: Some(Any),
            gives: Gives::Ints,
            ..seeing(&[Any], Int32, |v| {
                let longest = (0..v.len()).map(|at| items(v, at).len()).max();
                Ok(counted(longest.unwrap_or_default()))
            })
        }],
    ),
    one(
        "array_out",
        &[strict(&[Any], Text, |v| Ok(v[0].to_text().map_or(Literal::Null, Literal::Text)))],
    ),
];

/// The numbers from 1.
fn counted(count: usize) -> Literal {
    Literal::List((1..=count).map(|at| Literal::Integer(at as i128)).collect())
}

fn subscripts(values: &[Literal]) -> Result<Literal, SqlError> {
    let count = if number(values, 1) == 1 { items(values, 0).len() } else { 0 };
    let mut all = counted(count);
    if let (Literal::List(all), Some(Literal::Bool(true))) = (&mut all, values.get(2)) {
        all.reverse();
    }
    Ok(all)
}

/// The order of two elements of a type: NULL is above all others.
fn order(a: &Literal, b: &Literal) -> Ordering {
    use Literal as L;
    match (a, b) {
        (L::Null, L::Null) => Ordering::Equal,
        (L::Null, _) => Ordering::Greater,
        (_, L::Null) => Ordering::Less,
        (L::Integer(a), L::Integer(b)) => a.cmp(b),
        // Elements of two arrays have the same digits behind the point here.
        (L::Decimal(a, _), L::Decimal(b, _)) => a.cmp(b),
        (L::Float(_) | L::Real(_), L::Float(_) | L::Real(_)) => {
            let (a, b) = (a.float(), b.float());
            a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        }
        (L::Text(a), L::Text(b)) => a.cmp(b),
        (L::Bool(a), L::Bool(b)) => a.cmp(b),
        (L::Date(a), L::Date(b)) => a.cmp(b),
        (L::Timestamp(a), L::Timestamp(b)) | (L::Instant(a), L::Instant(b)) => a.cmp(b),
        (L::Time(a), L::Time(b)) => a.cmp(b),
        (L::Uuid(a), L::Uuid(b)) => a.cmp(b),
        (L::Bytes(a), L::Bytes(b)) => a.cmp(b),
        (a, b) => a.to_text().cmp(&b.to_text()),
    }
}

/// The elements of an array; none for NULL.
fn items(values: &[Literal], at: usize) -> &[Literal] {
    match values.get(at) {
        Some(Literal::List(items)) => items,
        _ => &[],
    }
}

fn number(values: &[Literal], at: usize) -> i64 {
    match values.get(at) {
        Some(Literal::Integer(number)) => i64::try_from(*number).unwrap_or(i64::MAX),
        _ => 0,
    }
}

/// How many elements there are; NULL if there is none.
fn length(values: &[Literal]) -> Literal {
    match items(values, 0).len() {
        0 => Literal::Null,
        count => Literal::Integer(count as i128),
    }
}

fn position(values: &[Literal], from: i64) -> Literal {
    let skipped = usize::try_from(from.max(1) - 1).unwrap_or(usize::MAX);
    let mut all = items(values, 0).iter().enumerate().skip(skipped);
    let found = all.find(|(_, item)| **item == values[1]);
    found.map_or(Literal::Null, |(at, _)| Literal::Integer(at as i128 + 1))
}

/// NULL equals nothing.
fn is_in(item: &Literal, all: &[Literal]) -> bool {
    *item != Literal::Null && all.contains(item)
}

fn has_all(all: &[Literal], others: &[Literal]) -> bool {
    others.iter().all(|item| is_in(item, all))
}

fn joined(values: &[Literal], null: Option<String>) -> Literal {
    let texts = items(values, 0).iter().filter_map(|item| item.to_text().or_else(|| null.clone()));
    Literal::Text(texts.collect::<Vec<_>>().join(text(values, 1)))
}

/// The parts of a text between separators; all its characters, if the separator is NULL.
fn parts(values: &[Literal]) -> Literal {
    let Some(Literal::Text(whole)) = values.first() else { return Literal::Null };
    let null = values.get(2).and_then(Literal::to_text);
    let part = |part: &str| match null.as_deref() == Some(part) {
        true => Literal::Null,
        false => Literal::Text(part.to_owned()),
    };
    Literal::List(match &values[1] {
        _ if whole.is_empty() => Vec::new(),
        Literal::Text(separator) if separator.is_empty() => vec![part(whole)],
        Literal::Text(separator) => whole.split(separator.as_str()).map(part).collect(),
        _ => whole.chars().map(|one| part(one.encode_utf8(&mut [0; 4]))).collect(),
    })
}
