//! Messages of libraries about a query, in the words of SQL.
//!
//! `WORDING-1`: no message names a library, its types, its plans or its faults. A known message
//! gets its own sentence in `query_error`; in the others the types and values of Arrow are written
//! as in SQL. A message that still shows internals of a library is reported as an unsupported part
//! of SQL, or as a fault in Atoll.

use crate::show;

/// A message without a backtrace and without the plea to report it elsewhere.
fn first_part(text: &str) -> &str {
    let text = text.split("\n\nbacktrace:").next().unwrap_or(text);
    text.split(".\nThis issue was likely caused").next().unwrap_or(text).trim()
}

/// Whether a message still shows the insides of a library.
pub(crate) fn shows_insides(text: &str) -> bool {
    const INSIDES: [&str; 26] = [
        "DataFusion",
        "datafusion",
        "Arrow",
        "arrow",
        "nternal error",
        "panicked",
        "backtrace",
        "Schema {",
        "Field {",
        "Ident {",
        "Span(",
        "Some(",
        "RecordBatch",
        "LogicalPlan",
        "ExecutionPlan",
        "AccumulatorArgs",
        "ScalarValue",
        "ColumnarValue",
        "PhysicalExpr",
        "assertion failed",
        "Assertion failed",
        "Utf8",
        "Int64",
        "Float64",
        "Decimal128",
        "This issue was likely caused by a bug",
    ];
    INSIDES.iter().any(|insides| text.contains(insides))
}

/// A message of another library as one of ours: no prefix of its kind, no capital at its start, no
/// full stop at its end.
pub(crate) fn sentence(text: &str) -> String {
    let mut text = first_part(text);
    const PREFIXES: [&str; 15] = [
        "Error during planning: ",
        "Execution error: ",
        "Arrow error: ",
        "Parser error: ",
        "Cast error: ",
        "Compute error: ",
        "Invalid argument error: ",
        "Arithmetic overflow: ",
        "Schema error: ",
        "External error: ",
        "SQL error: ",
        "Not yet implemented: ",
        "This feature is not implemented: ",
        "Optimizer rule 'simplify_expressions' failed\ncaused by\n",
        "type_coercion\ncaused by\n",
    ];
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)) {
        text = rest.trim_start();
    }
    let text = text.trim_end_matches('.');
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        // A word in capitals (a keyword) keeps them, and so does the name of a type.
        (Some(first), Some(second))
            if first.is_uppercase() && second.is_lowercase() && !begins_with_type(text) =>
        {
            first.to_lowercase().chain(text.chars().skip(1)).collect()
        }
        _ => text.to_owned(),
    }
}

fn begins_with_type(text: &str) -> bool {
    let word = text.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or("");
    simple_type(word.trim_end_matches("Array")).is_some() || is_generic(word)
}

/// SQL's name of a type of Arrow that has no parameters.
fn simple_type(word: &str) -> Option<&'static str> {
    Some(match word {
        "Utf8" | "LargeUtf8" | "Utf8View" => "text",
        "Int8" | "Int16" => "smallint",
        "Int32" => "integer",
        "Int64" => "bigint",
        "UInt8" | "UInt16" | "UInt32" | "UInt64" => "bigint",
        "Float16" | "Float32" => "real",
        "Float64" => "double precision",
        "Date32" | "Date64" => "date",
        "BinaryView" | "LargeBinary" => "bytea",
        "Boolean" => "boolean",
        "IntervalMonthDayNano" => "interval",
        _ => return None,
    })
}

/// Types of Arrow and classes of types that have parameters.
fn is_generic(word: &str) -> bool {
    let list = ["Decimal32", "Decimal64", "Decimal128", "Decimal256", "Timestamp", "Interval"];
    list.contains(&word) || ["FixedSizeBinary", "List", "LargeList", "Dictionary"].contains(&word)
}

/// A library's message about a value or a type, in the words of SQL.
pub fn in_words_of_sql(text: &str) -> String {
    in_sql(&sentence(text))
}

/// A text with the types and the values of Arrow as SQL writes them.
pub(crate) fn in_sql(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // What was written in quotes is the user's.
    while let Some(at) = rest.find(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '\'') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with('\'') {
            let end = rest[1..].find('\'').map_or(rest.len(), |end| end + 2);
            let quoted = &rest[1..end.max(2) - 1];
            // Quotes also stand around calls and types.
            let is_own = quoted.contains('(') || simple_type(quoted).is_some();
            if is_own {
                out.push_str(&in_sql(quoted));
            } else {
                out.push_str(&rest[..end]);
            }
            rest = &rest[end..];
            continue;
        }
        let end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        let (written, left) = word_in_sql(word, behind);
        out.push_str(&written);
        rest = left;
    }
    out.push_str(rest);
    out
}

/// A word with what stands behind it, if that belongs to it, in SQL; and what is left.
fn word_in_sql<'a>(word: &str, behind: &'a str) -> (String, &'a str) {
    let bare = word.strip_suffix("Array").unwrap_or(word);
    let arguments = arguments(behind);
    if let Some(name) = simple_type(bare) {
        return match arguments {
            Some((value, left)) if bare == word => (literal(word, value), left),
            _ => (name.to_owned(), behind),
        };
    }
    let Some((inner, left)) = arguments else {
        let name = match word {
            "Timestamp" | "Interval" => &word.to_lowercase(),
            "nullable" | "Null" => "NULL",
            _ => word,
        };
        return (name.to_owned(), behind);
    };
    let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
    let written = match (word, parts.as_slice()) {
        ("Decimal32" | "Decimal64" | "Decimal128" | "Decimal256", [value, _, scale]) => {
            decimal(value, scale)
        }
        ("Decimal32" | "Decimal64" | "Decimal128" | "Decimal256" | "Decimal", [p, s]) => {
            format!("numeric({p},{s})")
        }
        ("Timestamp", [_] | [_, "None"]) => "timestamp".to_owned(),
        ("Timestamp", _) => "timestamp with time zone".to_owned(),
        ("TimestampSecond" | "TimestampMillisecond", _)
        | ("TimestampMicrosecond" | "TimestampNanosecond", _) => "a timestamp".to_owned(),
        ("Interval" | "Duration", _) => "interval".to_owned(),
        ("Time32" | "Time64", _) => "time".to_owned(),
        ("FixedSizeBinary", [width]) if *width == "16" => "uuid".to_owned(),
        ("FixedSizeBinary", [width]) => format!("binary({width})"),
        ("List" | "LargeList" | "ListView", _) => {
            format!("{}[]", in_sql(inner.trim_start_matches("nullable ")))
        }
        ("Dictionary", [_, values]) => in_sql(values),
        ("Literal", [value, "None"]) => in_sql(value),
        ("Numeric", ["1"]) => "numeric".to_owned(),
        // The arguments of a function: names and classes of types.
        _ => {
            let list: Vec<String> = split_arguments(inner).into_iter().map(argument).collect();
            format!("{word}({})", list.join(", "))
        }
    };
    (written, left)
}

/// An argument in the list of those that a function takes.
fn argument(text: &str) -> String {
    match text.trim() {
        "String" => "text".to_owned(),
        "Decimal" | "Numeric" => "numeric".to_owned(),
        "Integer" => "bigint".to_owned(),
        "Float" => "double precision".to_owned(),
        "Date" => "date".to_owned(),
        "Any" => "any".to_owned(),
        other => match other.split_once(": ") {
            Some((name, class)) => format!("{name} {}", argument(class)),
            None => in_sql(other),
        },
    }
}

/// Splits at the commas outside parentheses and quotes.
fn split_arguments(text: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut begin) = (0i32, false, 0);
    let mut parts = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '"' | '\'' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts
}

/// What stands in the parentheses that a text begins with, and what stands behind them.
fn arguments(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('(')?;
    let (mut depth, mut quoted) = (1, false);
    for (at, c) in inner.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&inner[..at], &inner[at + 1..]));
        }
    }
    None
}

/// A value of Arrow's as a literal of SQL's.
fn literal(word: &str, value: &str) -> String {
    let value = value.trim();
    let inner = value.strip_prefix("Some(").and_then(|inner| inner.strip_suffix(')'));
    let value = inner.unwrap_or(value);
    match value.strip_prefix('"').and_then(|value| value.strip_suffix('"')) {
        Some(text) if simple_type(word) == Some("text") => format!("'{text}'"),
        Some(text) => format!("{} '{text}'", simple_type(word).unwrap_or(word)),
        None if value == "None" => "NULL".to_owned(),
        None => value.to_owned(),
    }
}

/// A decimal that is shown as its digits and its scale.
fn decimal(value: &str, scale: &str) -> String {
    let value = value.strip_prefix("Some(").and_then(|v| v.strip_suffix(')')).unwrap_or(value);
    match (value.parse(), scale.parse()) {
        (Ok(digits), Ok(scale)) => show::decimal(digits, scale),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_backtraces_of_other_libraries_go() {
        assert_eq!(
            sentence("Error during planning: Arrow error: Bad thing.\n\nbacktrace: 0: x"),
            "bad thing"
        );
        assert_eq!(sentence("SELECT is odd"), "SELECT is odd");
        assert_eq!(
            in_sql(&sentence("Int64Array overflow on abs(-9)")),
            "bigint overflow on abs(-9)"
        );
    }

    #[test]
    fn types_and_values_are_written_as_sql_writes_them() {
        for (given, wanted) in [
            ("Utf8View + Int64", "text + bigint"),
            ("Date32 + Decimal128(5, 2)", "date + numeric(5,2)"),
            ("Timestamp(µs) - Timestamp(ns, \"UTC\")", "timestamp - timestamp with time zone"),
            ("t.id > Int64(1)", "t.id > 1"),
            ("Utf8(\"a)b\") || Utf8(NULL)", "'a)b' || NULL"),
            ("sum(Decimal128(150,5,2)) + Decimal128(-5,3,2)", "sum(1.50) + -0.05"),
            ("List(Int64) and FixedSizeBinary(4)", "bigint[] and binary(4)"),
            ("Int64Array overflow", "bigint overflow"),
            ("'Utf8View' is not 'Utf8 text'", "text is not 'Utf8 text'"),
            ("substr(str: String, start_pos: Int64)", "substr(str text, start_pos bigint)"),
            ("a name Int64x and été", "a name Int64x and été"),
            ("Date32(\"2020-01-01\")", "date '2020-01-01'"),
            ("count(Int64(1))", "count(1)"),
            ("it's", "it's"),
            ("", ""),
        ] {
            assert_eq!(in_sql(given), wanted, "{given}");
        }
    }
}
