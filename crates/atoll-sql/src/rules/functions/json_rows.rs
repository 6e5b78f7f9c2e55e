//! The parts of JSON as arrays, which [`super::super::json_rows`] makes rows of. No statement can
//! have their names (`NAME-1`).

use super::json_values::{read, text};
use super::{Function, Kind, Overload, refused, strict};
use crate::error::SqlError;
use crate::json::{Form, Json, Node};
use crate::literal::Literal;

use Kind::Texts;

/// The elements of an array as JSON, and as texts.
pub(crate) const ELEMENTS: &str = "\u{1}json_elements";
pub(crate) const ELEMENTS_TEXT: &str = "\u{1}json_elements_text";
/// The names of the fields of an object, their values as JSON, and as texts.
pub(crate) const KEYS: &str = "\u{1}json_keys";
pub(crate) const FIELDS: &str = "\u{1}json_fields";
pub(crate) const FIELDS_TEXT: &str = "\u{1}json_fields_text";
/// The same of what a function for keys alone is given.
pub(crate) const OBJECT_KEYS: &str = "\u{1}json_object_keys";

type Body = fn(&[Literal]) -> Result<Literal, SqlError>;

const fn one(name: &'static str, overloads: &'static [Overload]) -> Function {
    Function { name, overloads }
}

const fn of(form: Kind, run: Body) -> Overload {
    let takes: &'static [Kind] = match form {
        Kind::Json => &[Kind::Json],
        _ => &[Kind::Jsonb],
    };
    strict(takes, Texts, run)
}

pub(super) const FUNCTIONS: &[Function] = &[
    one(
        ELEMENTS,
        &[
            of(Kind::Json, |v| elements(v, Form::Json)),
            of(Kind::Jsonb, |v| elements(v, Form::Jsonb)),
        ],
    ),
    one(
        ELEMENTS_TEXT,
        &[
            of(Kind::Json, |v| elements_text(v, Form::Json)),
            of(Kind::Jsonb, |v| elements_text(v, Form::Jsonb)),
        ],
    ),
    one(
        KEYS,
        &[of(Kind::Json, |v| keys(v, Form::Json)), of(Kind::Jsonb, |v| keys(v, Form::Jsonb))],
    ),
    one(
        OBJECT_KEYS,
        &[
            of(Kind::Json, |v| object_keys(v, Form::Json)),
            of(Kind::Jsonb, |v| object_keys(v, Form::Jsonb)),
        ],
    ),
    one(
        FIELDS,
        &[of(Kind::Json, |v| fields(v, Form::Json)), of(Kind::Jsonb, |v| fields(v, Form::Jsonb))],
    ),
    one(
        FIELDS_TEXT,
        &[
            of(Kind::Json, |v| fields_text(v, Form::Json)),
            of(Kind::Jsonb, |v| fields_text(v, Form::Jsonb)),
        ],
    ),
];

/// A part as JSON.
fn part(values: &[Literal], form: Form, node: &Node) -> Literal {
    Literal::Text(form.part(text(values, 0), node))
}

/// A part as a text, which is NULL for `null`.
fn part_text(values: &[Literal], form: Form, node: &Node) -> Literal {
    match &node.value {
        Json::Null => Literal::Null,
        Json::Text(text) => Literal::Text(text.clone()),
        _ => part(values, form, node),
    }
}

fn items(values: &[Literal], form: Form) -> Result<Vec<Node>, SqlError> {
    match (read(values, 0)?.value, form) {
        (Json::Array(items), _) => Ok(items),
        (Json::Object(_), Form::Jsonb) => {
            Err(refused("22023", "cannot extract elements from an object"))
        }
        (Json::Object(_), Form::Json) => {
            Err(refused("22023", "cannot call json_array_elements on a non-array"))
        }
        (_, Form::Jsonb) => Err(refused("22023", "cannot extract elements from a scalar")),
        (_, Form::Json) => Err(refused("22023", "cannot call json_array_elements on a scalar")),
    }
}

fn elements(values: &[Literal], form: Form) -> Result<Literal, SqlError> {
    let items = items(values, form)?;
    Ok(Literal::List(items.iter().map(|node| part(values, form, node)).collect()))
}

fn elements_text(values: &[Literal], form: Form) -> Result<Literal, SqlError> {
    let items = items(values, form)?;
    Ok(Literal::List(items.iter().map(|node| part_text(values, form, node)).collect()))
}

fn pairs(values: &[Literal], form: Form) -> Result<Vec<(String, Node)>, SqlError> {
    match (read(values, 0)?.value, form) {
        (Json::Object(pairs), _) => Ok(pairs),
        (_, Form::Jsonb) => Err(refused("22023", "cannot call jsonb_each on a non-object")),
        (Json::Array(_), Form::Json) => {
            Err(refused("22023", "cannot deconstruct an array as an object"))
        }
        (_, Form::Json) => Err(refused("22023", "cannot deconstruct a scalar")),
    }
}

fn keys(values: &[Literal], form: Form) -> Result<Literal, SqlError> {
    let pairs = pairs(values, form)?;
    Ok(Literal::List(pairs.into_iter().map(|(key, _)| Literal::Text(key)).collect()))
}

fn object_keys(values: &[Literal], form: Form) -> Result<Literal, SqlError> {
    let name = if form == Form::Json { "json_object_keys" } else { "jsonb_object_keys" };
    match read(values, 0)?.value {
        Json::Object(pairs) => {
            Ok(Literal::List(pairs.into_iter().map(|(key, _)| Literal::Text(key)).collect()))
        }
        Json::Array(_) => Err(refused("22023", format!("cannot call {name} on an array"))),
        _ => Err(refused("22023", format!("cannot call {name} on a scalar"))),
    }
}

fn fields(values: &[Literal], form: Form) -> Result<Literal, SqlError> {
    let pairs = pairs(values, form)?;
    Ok(Literal::List(pairs.iter().map(|(_, node)| part(values, form, node)).collect()))
}

fn fields_text(values: &[Literal], form: Form) -> Result<Literal, SqlError> {
    let pairs = pairs(values, form)?;
    Ok(Literal::List(pairs.iter().map(|(_, node)| part_text(values, form, node)).collect()))
}
