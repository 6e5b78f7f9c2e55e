//! Writing JSON.

use super::{Fault, Json};

/// Most digits of a number without its exponent, as PostgreSQL's `numeric` has before the point.
const DIGITS_MAX: usize = 131_072;

/// A text as a string of JSON.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote(text, &mut out);
    out
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for one in text.chars() {
        match one {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            control if control < ' ' => {
                out.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// How values are written.
#[derive(Clone, Copy)]
struct Style {
    comma: &'static str,
    colon: &'static str,
    /// Whether each element has a line, which begins with spaces.
    is_in_lines: bool,
}

/// The text of a `jsonb`.
pub(crate) fn of_jsonb(value: &Json) -> String {
    let mut out = String::new();
    write(value, Style { comma: ", ", colon: ": ", is_in_lines: false }, 0, &mut out);
    out
}

/// The text without any space.
pub(crate) fn compact(value: &Json) -> String {
    let mut out = String::new();
    write(value, Style { comma: ",", colon: ":", is_in_lines: false }, 0, &mut out);
    out
}

/// The text in lines.
pub(crate) fn pretty(value: &Json) -> String {
    let mut out = String::new();
    write(value, Style { comma: ",", colon: ": ", is_in_lines: true }, 0, &mut out);
    out
}

fn write(value: &Json, style: Style, depth: usize, out: &mut String) {
    let line = |depth: usize, out: &mut String| {
        if style.is_in_lines {
            out.push('\n');
            out.push_str(&"    ".repeat(depth));
        }
    };
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Json::Number(digits) => out.push_str(digits),
        Json::Text(text) => quote(text, out),
        Json::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push_str(style.comma);
                }
                line(depth + 1, out);
                write(&item.value, style, depth + 1, out);
            }
            line(depth, out);
            out.push(']');
        }
        Json::Object(pairs) => {
            out.push('{');
            for (at, (name, item)) in pairs.iter().enumerate() {
                if at > 0 {
                    out.push_str(style.comma);
                }
                line(depth + 1, out);
                quote(name, out);
                out.push_str(style.colon);
                write(&item.value, style, depth + 1, out);
            }
            line(depth, out);
            out.push('}');
        }
    }
}

/// The digits of a number as `numeric` shows them.
///
/// # Errors
/// There are too many.
pub(super) fn without_exponent(written: &str) -> Result<String, Fault> {
    let (mantissa, exponent) = match written.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => {
            let exponent = exponent.parse::<i64>().map_err(|_| Fault::of_digits())?;
            (mantissa, exponent)
        }
        None => (written, 0),
    };
    let (is_negative, unsigned) = match mantissa.strip_prefix('-') {
        Some(unsigned) => (true, unsigned),
        None => (false, mantissa),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = format!("{whole}{fraction}");
    let point = whole.len() as i64 + exponent;
    if point.unsigned_abs() as usize > DIGITS_MAX || digits.len() > DIGITS_MAX {
        return Err(Fault::of_digits());
    }
    let (before, behind) = match usize::try_from(point) {
        Ok(point) if point >= digits.len() => {
            (format!("{digits}{}", "0".repeat(point - digits.len())), String::new())
        }
        Ok(point) => (digits[..point].to_owned(), digits[point..].to_owned()),
        Err(_) => {
            let zeros = "0".repeat(point.unsigned_abs() as usize);
            (String::new(), format!("{zeros}{digits}"))
        }
    };
    let before = before.trim_start_matches('0');
    let is_zero = before.is_empty() && behind.bytes().all(|digit| digit == b'0');
    let sign = if is_negative && !is_zero { "-" } else { "" };
    let before = if before.is_empty() { "0" } else { before };
    Ok(match behind.as_str() {
        "" => format!("{sign}{before}"),
        behind => format!("{sign}{before}.{behind}"),
    })
}
