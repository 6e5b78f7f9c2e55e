//! Functions and operators of JSON (PostgreSQL's manual, 9.16), of which each operator is a
//! function with a name of its own ([`of_operator`]).

use sqlparser::ast::BinaryOperator as Op;

use super::json_changes::{
    changed, check_container, concatenated, insert, set, stripped, without, without_element,
};
use super::json_made::{array, object, of_pairs, written};
use super::json_values::{failed, made, path, read, text, value};
use super::{Function, Gives, Kind, Nulls, Overload, Run, refused, strict};
use crate::error::SqlError;
use crate::json::{self, Form, Json, Node};
use crate::literal::Literal;

use Kind::{Any, Bool, Bytes, Int32, Int64, Text, Texts};

/// The function of an operator, if an operand is JSON.
pub(crate) fn of_operator(op: &Op) -> Option<&'static str> {
    Some(match op {
        Op::Arrow => "json_get",
        Op::LongArrow => "json_get_text",
        Op::HashArrow => "json_get_path",
        Op::HashLongArrow => "json_get_path_text",
        Op::AtArrow => "jsonb_contains",
        Op::ArrowAt => "jsonb_contained",
        Op::Question => "jsonb_exists",
        Op::QuestionPipe => "jsonb_exists_any",
        Op::QuestionAnd => "jsonb_exists_all",
        Op::StringConcat => "jsonb_concat",
        Op::Minus => "jsonb_delete",
        Op::HashMinus => "jsonb_delete_path",
        _ => return None,
    })
}

type Body = fn(&[Literal]) -> Result<Literal, SqlError>;

/// A function that sees NULL.
const fn seeing(takes: &'static [Kind], rest: Option<Kind>, gives: Kind, run: Body) -> Overload {
    Overload { takes, rest, gives: Gives::Kind(gives), nulls: Nulls::See, run: Run::Rows(run) }
}

const fn one(name: &'static str, overloads: &'static [Overload]) -> Function {
    Function { name, overloads }
}

pub(super) const FUNCTIONS: &[Function] = &[
    one(
        "json_in",
        &[
            strict(&[Text], Kind::Json, |v| as_form(Form::Json, v)),
            strict(&[Kind::Jsonb], Kind::Json, |v| as_form(Form::Json, v)),
        ],
    ),
    one(
        "jsonb_in",
        &[
            strict(&[Text], Kind::Jsonb, |v| as_form(Form::Jsonb, v)),
            strict(&[Kind::Json], Kind::Jsonb, |v| as_form(Form::Jsonb, v)),
        ],
    ),
    one(
        "json_out",
        &[
            strict(&[Kind::Json], Text, |v| Ok(Literal::Text(text(v, 0).to_owned()))),
            strict(&[Kind::Jsonb], Text, |v| Ok(Literal::Text(text(v, 0).to_owned()))),
        ],
    ),
    one("json_as", &[strict(&[Text], Kind::Json, |v| Ok(Literal::Json(text(v, 0).to_owned())))]),
    one("jsonb_as", &[strict(&[Text], Kind::Jsonb, |v| Ok(Literal::Json(text(v, 0).to_owned())))]),
    one("json_item", &[seeing(&[Any], None, Text, |v| Ok(Literal::Text(written(&v[0])?)))]),
    one(
        "json_pair",
        &[seeing(&[Any, Any], None, Text, |v| {
            let name = v[0].to_text().map(|name| json::quoted(&name));
            let name = name.ok_or_else(|| refused("22004", "field name must not be null"))?;
            Ok(Literal::Text(format!("{name} : {}", written(&v[1])?)))
        })],
    ),
    one(
        "jsonb_order",
        &[strict(&[Kind::Jsonb], Bytes, |v| Ok(Literal::Bytes(json::order::key(&value(v, 0)?))))],
    ),
    one("jsonb_scalar", &[strict(&[Kind::Jsonb, Text], Text, scalar)]),
    one(
        "json_get",
        &[
            strict(&[Kind::Json, Text], Kind::Json, |v| part(Form::Json, v, field(v))),
            strict(&[Kind::Json, Int64], Kind::Json, |v| part(Form::Json, v, element(v))),
            strict(&[Kind::Jsonb, Text], Kind::Jsonb, |v| part(Form::Jsonb, v, field(v))),
            strict(&[Kind::Jsonb, Int64], Kind::Jsonb, |v| part(Form::Jsonb, v, element(v))),
        ],
    ),
    one(
        "json_get_text",
        &[
            strict(&[Kind::Json, Text], Text, |v| part_text(Form::Json, v, field(v))),
            strict(&[Kind::Json, Int64], Text, |v| part_text(Form::Json, v, element(v))),
            strict(&[Kind::Jsonb, Text], Text, |v| part_text(Form::Jsonb, v, field(v))),
            strict(&[Kind::Jsonb, Int64], Text, |v| part_text(Form::Jsonb, v, element(v))),
        ],
    ),
    one(
        "json_get_path",
        &[
            strict(&[Kind::Json, Texts], Kind::Json, |v| at_path(Form::Json, v, &path(v, 1))),
            strict(&[Kind::Jsonb, Texts], Kind::Jsonb, |v| at_path(Form::Jsonb, v, &path(v, 1))),
        ],
    ),
    one(
        "json_get_path_text",
        &[
            strict(&[Kind::Json, Texts], Text, |v| at_path_text(Form::Json, v, &path(v, 1))),
            strict(&[Kind::Jsonb, Texts], Text, |v| at_path_text(Form::Jsonb, v, &path(v, 1))),
        ],
    ),
    one(
        "json_extract_path",
        &[Overload {
            rest: Some(Text),
            ..strict(&[Kind::Json], Kind::Json, |v| at_path(Form::Json, v, &words(v)))
        }],
    ),
    one(
        "json_extract_path_text",
        &[Overload {
            rest: Some(Text),
            ..strict(&[Kind::Json], Text, |v| at_path_text(Form::Json, v, &words(v)))
        }],
    ),
    one(
        "jsonb_extract_path",
        &[Overload {
            rest: Some(Text),
            ..strict(&[Kind::Jsonb], Kind::Jsonb, |v| at_path(Form::Jsonb, v, &words(v)))
        }],
    ),
    one(
        "jsonb_extract_path_text",
        &[Overload {
            rest: Some(Text),
            ..strict(&[Kind::Jsonb], Text, |v| at_path_text(Form::Jsonb, v, &words(v)))
        }],
    ),
    one(
        "jsonb_contains",
        &[strict(&[Kind::Jsonb, Kind::Jsonb], Bool, |v| {
            Ok(Literal::Bool(value(v, 0)?.contains(&value(v, 1)?)))
        })],
    ),
    one(
        "jsonb_contained",
        &[strict(&[Kind::Jsonb, Kind::Jsonb], Bool, |v| {
            Ok(Literal::Bool(value(v, 1)?.contains(&value(v, 0)?)))
        })],
    ),
    one(
        "jsonb_exists",
        &[strict(&[Kind::Jsonb, Text], Bool, |v| {
            Ok(Literal::Bool(has(&value(v, 0)?, text(v, 1))))
        })],
    ),
    one(
        "jsonb_exists_any",
        &[strict(&[Kind::Jsonb, Texts], Bool, |v| {
            let of = value(v, 0)?;
            Ok(Literal::Bool(path(v, 1).iter().any(|name| has(&of, name))))
        })],
    ),
    one(
        "jsonb_exists_all",
        &[strict(&[Kind::Jsonb, Texts], Bool, |v| {
            let of = value(v, 0)?;
            Ok(Literal::Bool(path(v, 1).iter().all(|name| has(&of, name))))
        })],
    ),
    one(
        "jsonb_concat",
        &[strict(&[Kind::Jsonb, Kind::Jsonb], Kind::Jsonb, |v| {
            made(concatenated(value(v, 0)?, value(v, 1)?)?)
        })],
    ),
    one(
        "jsonb_delete",
        &[
            strict(&[Kind::Jsonb, Text], Kind::Jsonb, |v| {
                made(without(value(v, 0)?, &[text(v, 1).to_owned()])?)
            }),
            strict(&[Kind::Jsonb, Int64], Kind::Jsonb, |v| {
                made(without_element(value(v, 0)?, number(v, 1))?)
            }),
            strict(&[Kind::Jsonb, Texts], Kind::Jsonb, |v| {
                made(without(value(v, 0)?, &path(v, 1))?)
            }),
        ],
    ),
    one(
        "jsonb_delete_path",
        &[strict(&[Kind::Jsonb, Texts], Kind::Jsonb, |v| {
            let of = value(v, 0)?;
            check_container(&of, "cannot delete path in scalar")?;
            made(changed(of, &path(v, 1), &mut |_, _| None, false)?)
        })],
    ),
    one("json_typeof", &[strict(&[Kind::Json], Text, type_of)]),
    one("jsonb_typeof", &[strict(&[Kind::Jsonb], Text, type_of)]),
    one("json_array_length", &[strict(&[Kind::Json], Int32, length)]),
    one("jsonb_array_length", &[strict(&[Kind::Jsonb], Int32, length)]),
    one(
        "jsonb_pretty",
        &[strict(&[Kind::Jsonb], Text, |v| Ok(Literal::Text(json::pretty(&value(v, 0)?))))],
    ),
    one(
        "json_strip_nulls",
        &[strict(&[Kind::Json], Kind::Json, |v| {
            Ok(Literal::Json(json::compact(&stripped(read(v, 0)?.value))))
        })],
    ),
    one(
        "jsonb_strip_nulls",
        &[strict(&[Kind::Jsonb], Kind::Jsonb, |v| made(stripped(value(v, 0)?)))],
    ),
    one(
        "jsonb_set",
        &[
            strict(&[Kind::Jsonb, Texts, Kind::Jsonb], Kind::Jsonb, set),
            strict(&[Kind::Jsonb, Texts, Kind::Jsonb, Bool], Kind::Jsonb, set),
        ],
    ),
    one(
        "jsonb_insert",
        &[
            strict(&[Kind::Jsonb, Texts, Kind::Jsonb], Kind::Jsonb, insert),
            strict(&[Kind::Jsonb, Texts, Kind::Jsonb, Bool], Kind::Jsonb, insert),
        ],
    ),
    one("to_json", &[strict(&[Any], Kind::Json, |v| Ok(Literal::Json(written(&v[0])?)))]),
    one("array_to_json", &[strict(&[Any], Kind::Json, |v| Ok(Literal::Json(written(&v[0])?)))]),
    one("to_jsonb", &[strict(&[Any], Kind::Jsonb, |v| as_jsonb(&written(&v[0])?))]),
    one(
        "json_build_array",
        &[seeing(&[], Some(Any), Kind::Json, |v| Ok(Literal::Json(array(v)?)))],
    ),
    one("jsonb_build_array", &[seeing(&[], Some(Any), Kind::Jsonb, |v| as_jsonb(&array(v)?))]),
    one(
        "json_build_object",
        &[seeing(&[], Some(Any), Kind::Json, |v| Ok(Literal::Json(object(v)?)))],
    ),
    one("jsonb_build_object", &[seeing(&[], Some(Any), Kind::Jsonb, |v| as_jsonb(&object(v)?))]),
    one("json_object", &[strict(&[Texts], Kind::Json, |v| Ok(Literal::Json(of_pairs(v)?)))]),
    one("jsonb_object", &[strict(&[Texts], Kind::Jsonb, |v| as_jsonb(&of_pairs(v)?))]),
];

fn number(values: &[Literal], at: usize) -> i64 {
    match values.get(at) {
        Some(Literal::Integer(number)) => i64::try_from(*number).unwrap_or(i64::MAX),
        _ => 0,
    }
}

/// Checks a literal that is to be JSON, as PostgreSQL does before it runs a statement.
///
/// # Errors
/// It is none.
pub(crate) fn check_literal(form: Form, text: &str) -> Result<(), SqlError> {
    as_form(form, &[Literal::Text(text.to_owned())]).map(drop)
}

fn as_form(form: Form, values: &[Literal]) -> Result<Literal, SqlError> {
    form.read(text(values, 0)).map(Literal::Json).map_err(failed)
}

fn as_jsonb(text: &str) -> Result<Literal, SqlError> {
    Form::Jsonb.read(text).map(Literal::Json).map_err(failed)
}

/// The arguments behind the first one.
fn words(values: &[Literal]) -> Vec<String> {
    values.iter().skip(1).filter_map(Literal::to_text).collect()
}

type Found = Result<Option<Node>, SqlError>;

fn field(values: &[Literal]) -> Found {
    Ok(read(values, 0)?.value.field(text(values, 1)).cloned())
}

fn element(values: &[Literal]) -> Found {
    Ok(read(values, 0)?.value.element(number(values, 1)).cloned())
}

/// A part of the first argument; NULL if there is none.
fn part(form: Form, values: &[Literal], found: Found) -> Result<Literal, SqlError> {
    Ok(found?.map_or(Literal::Null, |node| Literal::Json(form.part(text(values, 0), &node))))
}

/// The same as a text, which is NULL for `null`.
fn part_text(form: Form, values: &[Literal], found: Found) -> Result<Literal, SqlError> {
    Ok(match found? {
        None => Literal::Null,
        Some(Node { value: Json::Null, .. }) => Literal::Null,
        Some(Node { value: Json::Text(text), .. }) => Literal::Text(text),
        Some(node) => Literal::Text(form.part(text(values, 0), &node)),
    })
}

fn found_at(values: &[Literal], path: &[String]) -> Found {
    let node = read(values, 0)?;
    Ok(if path.is_empty() { Some(node) } else { node.value.node_at(path).cloned() })
}

fn at_path(form: Form, values: &[Literal], path: &[String]) -> Result<Literal, SqlError> {
    part(form, values, found_at(values, path))
}

fn at_path_text(form: Form, values: &[Literal], path: &[String]) -> Result<Literal, SqlError> {
    part_text(form, values, found_at(values, path))
}

/// Whether a text is a key of an object, an element of an array, or the text itself.
fn has(value: &Json, name: &str) -> bool {
    let is_name = |one: &Json| matches!(one, Json::Text(text) if text == name);
    match value {
        Json::Object(_) => value.field(name).is_some(),
        Json::Array(items) => items.iter().any(|item| is_name(&item.value)),
        other => is_name(other),
    }
}

fn type_of(values: &[Literal]) -> Result<Literal, SqlError> {
    Ok(Literal::Text(read(values, 0)?.value.type_name().to_owned()))
}

fn length(values: &[Literal]) -> Result<Literal, SqlError> {
    match read(values, 0)?.value {
        Json::Array(items) => Ok(Literal::Integer(items.len() as i128)),
        Json::Object(_) => Err(refused("22023", "cannot get array length of a non-array")),
        _ => Err(refused("22023", "cannot get array length of a scalar")),
    }
}

/// The text of a number or a truth value, for a cast to the type that is named.
fn scalar(values: &[Literal]) -> Result<Literal, SqlError> {
    let to = text(values, 1);
    let is_truth = to == "boolean";
    match value(values, 0)? {
        Json::Bool(truth) if is_truth => Ok(Literal::Text(truth.to_string())),
        Json::Number(digits) if !is_truth => Ok(Literal::Text(digits)),
        other => {
            let (name, article) = match other {
                Json::Bool(_) => ("boolean", ""),
                Json::Number(_) => ("numeric", ""),
                Json::Array(_) => ("array", ""),
                Json::Object(_) => ("object", ""),
                ref other => (other.type_name(), ""),
            };
            Err(refused("22023", format!("cannot cast jsonb {article}{name} to type {to}")))
        }
    }
}
