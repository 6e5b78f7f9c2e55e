//! JSON that is made of values of other types.

use super::refused;
use crate::error::SqlError;
use crate::json;
use crate::literal::Literal;

/// A value of any type as JSON.
pub(super) fn written(value: &Literal) -> Result<String, SqlError> {
    Ok(match value {
        Literal::Null => "null".to_owned(),
        Literal::Json(text) => text.clone(),
        Literal::Bool(truth) => truth.to_string(),
        Literal::Integer(_) | Literal::Decimal(..) => value.show(),
        Literal::Float(_) | Literal::Real(_) => {
            let shown = value.show();
            if value.float().is_finite() { shown } else { json::quoted(&shown) }
        }
        Literal::List(items) => {
            let items = items.iter().map(written).collect::<Result<Vec<_>, _>>()?;
            format!("[{}]", items.join(","))
        }
        Literal::Timestamp(_) => json::quoted(&value.show().replacen(' ', "T", 1)),
        Literal::Instant(_) => {
            let shown = value.show().replacen(' ', "T", 1);
            let has_minutes = shown.as_bytes().iter().rev().nth(2) == Some(&b':');
            json::quoted(&if has_minutes { shown } else { format!("{shown}:00") })
        }
        other => json::quoted(&other.to_text().unwrap_or_default()),
    })
}

pub(super) fn array(values: &[Literal]) -> Result<String, SqlError> {
    let items = values.iter().map(written).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("[{}]", items.join(", ")))
}

/// A key of an object.
pub(super) fn key(value: &Literal, at: usize) -> Result<String, SqlError> {
    match value.to_text() {
        Some(text) => Ok(json::quoted(&text)),
        None => {
            let hint = "Object keys should be text.".to_owned();
            let message = format!("argument {}: key must not be null", at + 1);
            Err(refused("22023", message).with_hint(Some(hint)))
        }
    }
}

pub(super) fn object(values: &[Literal]) -> Result<String, SqlError> {
    let (pairs, rest) = values.as_chunks::<2>();
    if !rest.is_empty() {
        let hint = "The arguments are names and values in turn.".to_owned();
        let error = refused("22023", "argument list must have even number of elements");
        return Err(error.with_hint(Some(hint)));
    }
    let pair = |(at, [name, value]): (usize, &[Literal; 2])| {
        Ok(format!("{} : {}", key(name, at * 2)?, written(value)?))
    };
    let pairs = pairs.iter().enumerate().map(pair).collect::<Result<Vec<_>, SqlError>>()?;
    Ok(format!("{{{}}}", pairs.join(", ")))
}

/// An object of a text array with names and values in turn.
pub(super) fn of_pairs(values: &[Literal]) -> Result<String, SqlError> {
    let Some(Literal::List(items)) = values.first() else { return Ok("{}".to_owned()) };
    if items.len() % 2 == 1 {
        return Err(refused("2202E", "array must have even number of elements"));
    }
    object(items)
}
