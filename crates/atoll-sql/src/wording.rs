//! Messages of libraries about a query, in the words of SQL.
//!
//! `WORDING-1`: no message names a library, its types, its plans or its faults. A known message
//! gets its own sentence here; in the others the types and values of Arrow are written as in SQL. A
//! message that still shows internals of a library is reported as an unsupported part of SQL, or as
//! a fault in Atoll.

use crate::error::{SqlError, SqlErrorKind};
use crate::names;

/// The message when Atoll or a library below it has failed, and not the statement.
const FAULT: &str = "the query failed because of a fault in Atoll; please report it";

/// The error of a query that failed through no fault of its statement.
pub(crate) fn fault() -> SqlError {
    SqlError::new(SqlErrorKind::Database, FAULT)
        .with_hint(Some("the report needs the statement and the tables that it reads".to_owned()))
}

/// Translates the message of a library about a query.
pub(crate) fn of_query(text: &str) -> SqlError {
    known(text).unwrap_or_else(|| {
        let told = in_sql(sentence(text).as_str());
        if shows_insides(&told) {
            return fault();
        }
        SqlError::new(SqlErrorKind::Query, told)
    })
}

/// The same for a feature that a library does not have.
pub(crate) fn of_missing(text: &str) -> SqlError {
    if let Some(error) = known(text) {
        return error;
    }
    let told = in_sql(sentence(text).as_str());
    if shows_insides(&told) {
        return SqlError::unsupported("a part of this query is not supported");
    }
    // Some messages are the name of the clause alone.
    let says_so = ["support", "implement"].iter().any(|word| told.contains(word));
    let is_not = if says_so { "" } else { " is not supported" };
    SqlError::unsupported(format!("{told}{is_not}"))
}

/// Translates an internal error of a library: as a rule a fault.
pub(crate) fn of_internal(text: &str) -> SqlError {
    known(text).unwrap_or_else(fault)
}

/// A message without a backtrace and without the plea to report it elsewhere.
fn first_part(text: &str) -> &str {
    let text = text.split("\n\nbacktrace:").next().unwrap_or(text);
    text.split(".\nThis issue was likely caused").next().unwrap_or(text).trim()
}

/// Known messages with their sentences.
fn known(text: &str) -> Option<SqlError> {
    let text = text.split("\n\nbacktrace:").next().unwrap_or(text).trim();
    let query = |message: String, hint: &str| {
        let hint = (!hint.is_empty()).then(|| hint.to_owned());
        Some(SqlError::new(SqlErrorKind::Query, message).with_hint(hint))
    };
    let called = between(text, "argument types '", "'");
    if text.contains("No function matches the given name and argument types")
        && let Some(call) = called
    {
        return Some(no_such_call(call, text));
    }
    if text.contains("rojections require unique expression names") {
        let name = between(text, "expression \"", "\" at position").map(last_name)?;
        let message = format!("two columns of the result would have the name \"{name}\"");
        return query(message, "name one with AS");
    }
    if let Some(name) = between(text, "nvalid function '", "'") {
        let near = between(text, "Did you mean '", "'");
        let near = names::near(name, near.into_iter());
        let hint = near.first().map_or_else(String::new, |near| format!("did you mean {near}?"));
        return query(format!("function {name} does not exist"), &hint);
    }
    if let Some(name) = text.split("duplicate qualified field name ").nth(1) {
        let table = name.split('.').next().unwrap_or(name).trim_matches('"');
        let message = format!("two tables of the query have the name \"{table}\"");
        return query(message, "name one otherwise, as in FROM a, a AS b");
    }
    if let Some(name) = text.split("duplicate unqualified field name ").nth(1) {
        let message = format!("two columns have the name \"{}\"", last_name(name));
        return query(message, "name one otherwise with AS");
    }
    if let Some(name) = text.split("mbiguous reference to ").nth(1) {
        let name = last_name(name.rsplit(' ').next().unwrap_or(name));
        let message = format!("column \"{name}\" is ambiguous: more than one table has it");
        return query(message, &format!("write its table before it, as in t.{name}"));
    }
    if let Some(pair) = between(text, "coerce arithmetic expression ", " to valid types") {
        let message = format!("there is no operator for {}", in_sql(pair));
        return query(message, "CAST one side to the type of the other");
    }
    if text.contains("must be in GROUP BY or an aggregate function")
        && let Some(column) = between(text, "column \"", "\" must appear")
    {
        let column = in_sql(column);
        let message = format!("{column} must appear in GROUP BY or inside an aggregate function");
        return query(message, "");
    }
    if let Some(used) = between(text, "HAVING clause references: ", " must appear in") {
        let message = format!(
            "HAVING uses {}, which must appear in GROUP BY or inside an aggregate function",
            in_sql(used)
        );
        return query(message, "WHERE filters rows before they are grouped");
    }
    if let Some((predicate, given)) =
        between(text, "non-boolean predicate '", "").and_then(|rest| {
            let (predicate, given) = rest.rsplit_once("' returning ")?;
            Some((in_sql(predicate), in_sql(given)))
        })
    {
        return query(format!("a condition is boolean, and {predicate} is {given}"), "");
    }
    if text.contains("aggregate function calls cannot be nested")
        || text.contains("Aggregate function calls cannot be nested")
    {
        return query(
            "an aggregate function stands inside another".to_owned(),
            "aggregate in a subquery first",
        );
    }
    if text.contains("logical expression OuterReferenceColumn")
        || text.contains("correlated subquery") && text.contains("not support")
    {
        let message = "such a use of columns of the query around a subquery is not supported";
        let hint = "a join does it, as a rule";
        return Some(SqlError::unsupported(message).with_hint(Some(hint.to_owned())));
    }
    if text.contains("annot access field at argument") {
        let message = "a column hides the table of the same name in an outer query";
        return query(message.to_owned(), "give the table another name, as in FROM t AS other");
    }
    if text.contains("hysical plan does not support logical expression")
        || text.contains("ubquery can only be used in")
    {
        let message = "a subquery of this form is not supported where it stands";
        let hint = "a join, or a subquery in FROM, does it as a rule";
        return Some(SqlError::unsupported(message).with_hint(Some(hint.to_owned())));
    }
    if let Some(pair) = between(text, "common type to coerce ", " in LIKE expression") {
        let message = format!("LIKE compares texts, not {}", in_sql(pair));
        return query(message, "CAST both sides to text");
    }
    if text.contains("Must be a supported arrow type name")
        && let Some(name) = between(text, "nsupported type '", "'")
    {
        return query(format!("there is no type '{name}'"), "CAST takes the types of SQL");
    }
    if text.contains("nsupported ast node") || text.contains("nsupported AST node") {
        return Some(SqlError::unsupported("a part of this query is not supported"));
    }
    if text.contains("was not provided a value for execution") {
        let message = "parameters such as $1 are not supported";
        return Some(SqlError::unsupported(message));
    }
    None
}

/// A call of a function that takes no arguments of these types, with what it takes.
fn no_such_call(call: &str, text: &str) -> SqlError {
    const SHOWN_MAX: usize = 6;
    let name = call.split('(').next().unwrap_or(call);
    let mut takes: Vec<String> = Vec::new();
    for line in text.split("Candidate functions:").nth(1).unwrap_or("").lines() {
        let told = in_sql(line.trim().trim_end_matches('.'));
        let said = !told.is_empty() && told.starts_with(name) && !shows_insides(&told);
        // Types that no column and no literal has, and functions that look at the types themselves.
        let odd = ["Duration", "UserDefined"].iter().any(|odd| told.contains(odd));
        if said && !odd && !takes.contains(&told) {
            takes.push(told);
        }
    }
    takes.truncate(SHOWN_MAX);
    let hint = match takes.as_slice() {
        [] => format!("CAST the arguments to types that {name} takes"),
        takes => format!("there is {}; CAST the arguments", takes.join(", ")),
    };
    let message = format!("there is no function {}", in_sql(call));
    SqlError::new(SqlErrorKind::Query, message).with_hint(Some(hint))
}

/// What stands between two texts; an empty `end` is the end.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    let rest = &text[text.find(begin)? + begin.len()..];
    if end.is_empty() { Some(rest) } else { Some(&rest[..rest.find(end)?]) }
}

/// The last name of `a.b AS c`: what the column is called.
fn last_name(text: &str) -> &str {
    let text = text.rsplit(" AS ").next().unwrap_or(text);
    // The name of an expression is the whole of it.
    if text.contains('(') {
        return text.trim_matches('"');
    }
    text.rsplit('.').next().unwrap_or(text).trim_matches('"')
}

/// Whether a message still shows the insides of a library.
fn shows_insides(text: &str) -> bool {
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
    let (Ok(digits), Ok(scale)) = (value.parse::<i128>(), scale.parse::<usize>()) else {
        return value.to_owned();
    };
    if scale == 0 {
        return digits.to_string();
    }
    let sign = if digits < 0 { "-" } else { "" };
    let text = format!("{:0>width$}", digits.unsigned_abs(), width = scale + 1);
    let (whole, part) = text.split_at(text.len() - scale);
    format!("{sign}{whole}.{part}")
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

    #[test]
    fn messages_that_show_insides_are_faults() {
        for text in [
            "Assertion failed: compatible: DFSchema { inner: Schema { fields: [] } }.\nThis issue \
             was likely caused by a bug in DataFusion's code.",
            "Internal error: oh.\nThis issue was likely caused by a bug in DataFusion's code.",
        ] {
            assert_eq!(of_query(text), fault());
        }
        let missing = of_missing("Unsupported ast node Pivot { table: Ident { } }");
        assert_eq!(missing.kind(), SqlErrorKind::Unsupported);
        assert_eq!(missing.message(), "a part of this query is not supported");
        assert_eq!(of_missing("TOP").message(), "TOP is not supported");
    }

    #[test]
    fn a_call_that_there_is_not_is_told_with_those_that_there_are() {
        let error = of_query(
            "Internal error: Function 'sum' failed.\nThis issue was likely caused by a bug in \
             DataFusion's code. No function matches the given name and argument types \
             'sum(Utf8View)'. You might need to add explicit type casts.\n\tCandidate \
             functions:\n\tsum(Decimal)\n\tsum(Int64)\n\tsum(UInt64)\n\tsum(Duration)",
        );
        assert_eq!(error.message(), "there is no function sum(text)");
        assert_eq!(error.hint(), Some("there is sum(numeric), sum(bigint); CAST the arguments"));
    }
}
