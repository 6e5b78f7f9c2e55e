//! Changes of a `jsonb`: parts that are put in, replaced and taken away.

use super::json_values::{made, path, value};
use super::refused;
use crate::error::SqlError;
use crate::json::{self, Json, Node};
use crate::literal::Literal;

pub(super) fn concatenated(left: Json, right: Json) -> Result<Json, SqlError> {
    let items = |value: Json| match value {
        Json::Array(items) => items,
        other => vec![other.into()],
    };
    Ok(match (left, right) {
        (Json::Object(mut pairs), Json::Object(more)) => {
            pairs.extend(more);
            Json::Object(pairs)
        }
        (left, right) => {
            let mut all = items(left);
            all.extend(items(right));
            Json::Array(all)
        }
    })
}

pub(super) fn check_container(value: &Json, message: &'static str) -> Result<(), SqlError> {
    match value {
        Json::Array(_) | Json::Object(_) => Ok(()),
        _ => Err(refused("22023", message)),
    }
}

/// Without the keys, or the elements that are these texts.
pub(super) fn without(value: Json, names: &[String]) -> Result<Json, SqlError> {
    check_container(&value, "cannot delete from scalar")?;
    let is_named = |item: &Node| matches!(&item.value, Json::Text(text) if names.contains(text));
    Ok(match value {
        Json::Object(mut pairs) => {
            pairs.retain(|(key, _)| !names.contains(key));
            Json::Object(pairs)
        }
        Json::Array(mut items) => {
            items.retain(|item| !is_named(item));
            Json::Array(items)
        }
        other => other,
    })
}

pub(super) fn without_element(value: Json, at: i64) -> Result<Json, SqlError> {
    match value {
        Json::Array(mut items) => {
            if let Some(at) = json::place(items.len(), at).filter(|at| *at < items.len()) {
                items.remove(at);
            }
            Ok(Json::Array(items))
        }
        Json::Object(_) => Err(refused("22023", "cannot delete from object using integer index")),
        _ => Err(refused("22023", "cannot delete from scalar")),
    }
}

/// What is put in the place of a value: a node, or nothing.
type Change<'c> = &'c mut dyn FnMut(Option<Node>, bool) -> Option<Vec<Node>>;

/// The value with another part at a path. `change` gets the part and whether it is an element, and
/// returns what stands there; `None` takes it away. Where there is no part, it is asked only if
/// `adds` is set.
pub(super) fn changed(
    value: Json,
    path: &[String],
    change: Change<'_>,
    adds: bool,
) -> Result<Json, SqlError> {
    let Some((step, rest)) = path.split_first() else { return Ok(value) };
    let is_last = rest.is_empty();
    Ok(match value {
        Json::Object(mut pairs) => {
            match pairs.iter().position(|(key, _)| key == step) {
                Some(at) if is_last => {
                    let (key, old) = pairs.remove(at);
                    let new = change(Some(old), false).and_then(|mut nodes| nodes.pop());
                    pairs.extend(new.map(|new| (key, new)));
                }
                Some(at) => {
                    let old = std::mem::replace(&mut pairs[at].1, Json::Null.into());
                    pairs[at].1 = changed(old.value, rest, change, adds)?.into();
                }
                None if is_last && adds => {
                    let new = change(None, false).and_then(|mut nodes| nodes.pop());
                    pairs.extend(new.map(|new| (step.clone(), new)));
                }
                None => {}
            }
            Json::Object(pairs)
        }
        Json::Array(mut items) => {
            let at = step.trim().parse::<i64>().map_err(|_| {
                let number = path.len();
                let what =
                    format!("path element at position {number} is not an integer: \"{step}\"");
                refused("22P02", what)
            })?;
            match json::place(items.len(), at).filter(|at| *at < items.len()) {
                Some(at) if is_last => {
                    let old = items.remove(at);
                    let new = change(Some(old), true).unwrap_or_default();
                    items.splice(at..at, new);
                }
                Some(at) => {
                    let old = std::mem::replace(&mut items[at], Json::Null.into());
                    items[at] = changed(old.value, rest, change, adds)?.into();
                }
                None if is_last && adds => {
                    let end = if at < 0 { 0 } else { items.len() };
                    items.splice(end..end, change(None, true).unwrap_or_default());
                }
                None => {}
            }
            Json::Array(items)
        }
        other => other,
    })
}

/// `jsonb_set(target, path, value, adds)`.
pub(super) fn set(values: &[Literal]) -> Result<Literal, SqlError> {
    let (target, new) = (value(values, 0)?, value(values, 2)?);
    check_container(&target, "cannot set path in scalar")?;
    let adds = !matches!(values.get(3), Some(Literal::Bool(false)));
    let mut change = |_: Option<Node>, _: bool| Some(vec![Node::from(new.clone())]);
    made(changed(target, &path(values, 1), &mut change, adds)?)
}

/// `jsonb_insert(target, path, value, is_behind)`.
pub(super) fn insert(values: &[Literal]) -> Result<Literal, SqlError> {
    let (target, new) = (value(values, 0)?, value(values, 2)?);
    check_container(&target, "cannot set path in scalar")?;
    let is_behind = matches!(values.get(3), Some(Literal::Bool(true)));
    let mut is_taken = false;
    let mut change = |old: Option<Node>, is_element: bool| {
        let new = Node::from(new.clone());
        Some(match old {
            None => vec![new],
            Some(old) if !is_element => {
                is_taken = true;
                vec![old]
            }
            Some(old) if is_behind => vec![old, new],
            Some(old) => vec![new, old],
        })
    };
    let changed = changed(target, &path(values, 1), &mut change, true)?;
    if is_taken {
        let hint = "Try using the function jsonb_set to replace key value.".to_owned();
        let error = refused("22023", "cannot replace existing key");
        return Err(error.with_hint(Some(hint)));
    }
    made(changed)
}

pub(super) fn stripped(value: Json) -> Json {
    match value {
        Json::Object(pairs) => {
            let kept = pairs.into_iter().filter(|(_, item)| item.value != Json::Null);
            Json::Object(kept.map(|(key, item)| (key, stripped(item.value).into())).collect())
        }
        Json::Array(items) => {
            Json::Array(items.into_iter().map(|item| stripped(item.value).into()).collect())
        }
        other => other,
    }
}
