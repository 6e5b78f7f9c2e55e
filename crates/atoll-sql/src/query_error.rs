//! Errors of DataFusion and Arrow as errors of statements, and the way of ours through DataFusion.
//!
//! The error at the root decides. One of ours comes back unchanged; a message of a library that is
//! known gets its own sentence, and any other is put into the words of SQL (`WORDING-1`).

use std::error::Error;

use arrow_schema::ArrowError;
use datafusion::common::{Column, DataFusionError, SchemaError};
use sqlparser::tokenizer::{Location, Span};

use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::output_names;
use crate::wording::{in_sql, sentence, shows_insides};
use crate::{limits, names};

/// The message when Atoll or a library below it has failed, and not the statement.
const FAULT: &str = "the query failed because of a fault in Atoll; please report it";

/// Parts of messages that a value causes, with the SQLSTATE that PostgreSQL has for the same.
const STATES: &[(&str, &str)] = &[
    ("negative count not allowed", "22011"),
    ("negative substring length not allowed", "22011"),
    ("field position must not be zero", "22023"),
    ("ercentile value must be between", "22003"),
    ("tep cannot be zero", "22023"),
];

/// An error of ours on its way through DataFusion.
pub(crate) fn external(error: impl Error + Send + Sync + 'static) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

impl From<DataFusionError> for SqlError {
    fn from(error: DataFusionError) -> Self {
        let span = error.diagnostic().and_then(|diagnostic| diagnostic.span);
        let translated = translate(error.find_root());
        match span {
            Some(span) => translated.at(Span::new(
                Location::new(span.start.line, span.start.column),
                Location::new(span.end.line, span.end.column),
            )),
            None => translated,
        }
    }
}

/// The error at the root of one of DataFusion's.
fn translate(error: &DataFusionError) -> SqlError {
    match error {
        DataFusionError::External(inner) => of_external(inner.as_ref()),
        DataFusionError::Diagnostic(_, inner) | DataFusionError::Context(_, inner) => {
            translate(inner)
        }
        DataFusionError::Shared(inner) => translate(inner),
        DataFusionError::Collection(errors) if !errors.is_empty() => translate(&errors[0]),
        DataFusionError::SchemaError(schema, _) => match schema.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => {
                unknown_field(field, valid_fields)
            }
            other => of_query(&other.to_string()),
        },
        // `LIMITS-2`: only our pool refuses, whatever the operator reports.
        DataFusionError::ResourcesExhausted(_) => limits::exhausted("the query needs"),
        DataFusionError::IoError(error) => of_spill(error),
        DataFusionError::NotImplemented(text) => of_missing(text),
        DataFusionError::SQL(parser, _) => SqlError::from((**parser).clone()),
        DataFusionError::Plan(text)
            if ["DDL ", "DML ", "Statement "].iter().any(|what| text.starts_with(what)) =>
        {
            SqlError::unsupported("a query reads tables; it cannot create or change anything")
        }
        DataFusionError::Plan(text) if text.contains("not supported") => of_missing(text),
        DataFusionError::ArrowError(arrow, _) => match arrow.as_ref() {
            ArrowError::DivideByZero => SqlError::new(SqlErrorKind::Query, "division by zero")
                .with_cause(Cause::DivisionByZero),
            ArrowError::IoError(_, error) => of_spill(error),
            ArrowError::ExternalError(inner) => of_external(inner.as_ref()),
            ArrowError::NotYetImplemented(text) => of_missing(text),
            other => of_query(&other.to_string()),
        },
        // An internal error of DataFusion, unless it is the last part of a known message.
        DataFusionError::Internal(text) => of_internal(text),
        DataFusionError::ExecutionJoin(_) => fault(),
        other => of_query(&other.message()),
    }
}

/// An error that came through DataFusion or Arrow.
fn of_external(error: &(dyn Error + Send + Sync + 'static)) -> SqlError {
    if let Some(own) = error.downcast_ref::<SqlError>() {
        return own.clone();
    }
    if let Some(own) = error.downcast_ref::<atoll::Error>() {
        return SqlError::from(own);
    }
    if let Some(inner) = error.downcast_ref::<DataFusionError>() {
        return translate(inner.find_root());
    }
    of_query(&error.to_string())
}

/// The error of a spill file, which is the only kind of file that a query has.
fn of_spill(error: &std::io::Error) -> SqlError {
    let own = error.get_ref().and_then(|inner| inner.downcast_ref::<SqlError>());
    let other = || SqlError::new(SqlErrorKind::Query, sentence(&error.to_string()));
    own.cloned().unwrap_or_else(other)
}

/// The error for a column that is not there: perhaps its table is not there either.
fn unknown_field(field: &Column, valid: &[Column]) -> SqlError {
    let table_of = |column: &Column| column.relation.as_ref().map(|r| r.table().to_owned());
    let table = table_of(field);
    if let Some(table) = &table {
        let mut tables: Vec<String> = valid.iter().filter_map(table_of).collect();
        tables.sort();
        tables.dedup();
        if !tables.contains(table) {
            return names::unknown_qualifier(table, tables.iter().map(String::as_str));
        }
    }
    let columns = valid
        .iter()
        .filter(|column| table.is_none() || table_of(column) == table)
        // One without a name of its own cannot be written.
        .filter(|column| in_sql(&column.name) == column.name)
        .map(|column| column.name.as_str());
    names::unknown_column(field.name(), table.as_deref(), columns)
}

/// The error of a query that failed through no fault of its statement.
pub(crate) fn fault() -> SqlError {
    SqlError::new(SqlErrorKind::Database, FAULT)
        .with_hint(Some("the report needs the statement and the tables that it reads".to_owned()))
}

/// Translates the message of a library about a query.
fn of_query(text: &str) -> SqlError {
    let text = &output_names::without_marks(text);
    known(text).unwrap_or_else(|| {
        let told = in_sql(&sentence(text));
        if shows_insides(&told) {
            return fault();
        }
        SqlError::new(SqlErrorKind::Query, told)
    })
}

/// The same for a feature that a library does not have.
fn of_missing(text: &str) -> SqlError {
    let text = &output_names::without_marks(text);
    if let Some(error) = known(text) {
        return error;
    }
    let told = in_sql(&sentence(text));
    if shows_insides(&told) {
        return SqlError::unsupported("a part of this query is not supported");
    }
    // Some messages are the name of the clause alone.
    let says_so = ["support", "implement"].iter().any(|word| told.contains(word));
    let is_not = if says_so { "" } else { " is not supported" };
    SqlError::unsupported(format!("{told}{is_not}"))
}

/// Translates an internal error of a library: as a rule a fault.
fn of_internal(text: &str) -> SqlError {
    let text = &output_names::without_marks(text);
    known(text).unwrap_or_else(fault)
}

/// Known messages with their sentences.
fn known(text: &str) -> Option<SqlError> {
    let text = text.split("\n\nbacktrace:").next().unwrap_or(text).trim();
    let query = |message: String, hint: &str| {
        let hint = (!hint.is_empty()).then(|| hint.to_owned());
        Some(SqlError::new(SqlErrorKind::Query, message).with_hint(hint))
    };
    let with_cause = |error: Option<SqlError>, cause| error.map(|error| error.with_cause(cause));
    for (part, state) in STATES {
        if text.contains(part) {
            return Some(SqlError::new(SqlErrorKind::Query, sentence(text)).with_state(state));
        }
    }
    let no_operator = |message, hint: &str| with_cause(query(message, hint), Cause::NoSuchOperator);
    let other_type = |message, hint: &str| with_cause(query(message, hint), Cause::OtherType);
    if text.starts_with("Substring without for/from") {
        let message = "there is no function substring of one argument".to_owned();
        return no_operator(message, "there is substring(text FROM start FOR length)");
    }
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
        let message = format!("function {name} does not exist");
        return no_operator(message, &hint);
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
        let hint = format!("write its table before it, as in t.{name}");
        return query(message, &hint).map(|error| error.with_state("42702"));
    }
    if let Some(pair) = between(text, "coerce arithmetic expression ", " to valid types") {
        let message = format!("there is no operator for {}", in_sql(pair));
        return no_operator(message, "CAST one side to the type of the other");
    }
    if let Some(pair) = between(text, "common argument type for regex operation ", "")
        .or_else(|| between(text, "common string type for string concat operation ", ""))
    {
        let message = format!("there is no operator for {}", in_sql(pair));
        return no_operator(message, "CAST both sides to text");
    }
    if let Some(pair) = between(text, "common argument type for logical boolean operation ", "") {
        return other_type(format!("AND and OR connect truth values, not {}", in_sql(pair)), "");
    }
    if let Some(given) = between(text, "'NOT' requires a boolean expression, got ", "") {
        return other_type(format!("NOT takes a truth value, not {}", in_sql(given)), "");
    }
    if text.contains("must be in GROUP BY or an aggregate function")
        && let Some(column) = between(text, "column \"", "\" must appear")
    {
        let column = in_sql(column);
        let message = format!("{column} must appear in GROUP BY or inside an aggregate function");
        return with_cause(query(message, ""), Cause::Grouping);
    }
    if let Some(used) = between(text, "HAVING clause references: ", " must appear in") {
        let message = format!(
            "HAVING uses {}, which must appear in GROUP BY or inside an aggregate function",
            in_sql(used)
        );
        let hint = "WHERE filters rows before they are grouped";
        return with_cause(query(message, hint), Cause::Grouping);
    }
    if let Some((predicate, given)) =
        between(text, "non-boolean predicate '", "").and_then(|rest| {
            let (predicate, given) = rest.rsplit_once("' returning ")?;
            Some((in_sql(predicate), in_sql(given)))
        })
    {
        // Some expressions are not in words of SQL.
        let is_odd = predicate.contains("Boolean") || shows_insides(&predicate);
        let predicate = if is_odd { "this one" } else { &predicate };
        return other_type(format!("a condition is boolean, and {predicate} is {given}"), "");
    }
    if text.contains("aggregate function calls cannot be nested")
        || text.contains("Aggregate function calls cannot be nested")
    {
        let message = "an aggregate function stands inside another".to_owned();
        return with_cause(query(message, "aggregate in a subquery first"), Cause::Grouping);
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
    for operator in ["LIKE", "ILIKE", "SIMILAR TO"] {
        let end = format!(" in {operator} expression");
        if let Some(pair) = between(text, "common type to coerce ", &end) {
            let message = format!("{operator} compares texts, not {}", in_sql(pair));
            return no_operator(message, "CAST both sides to text");
        }
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
    let error = SqlError::new(SqlErrorKind::Query, message).with_hint(Some(hint));
    error.with_cause(Cause::NoSuchOperator)
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

#[cfg(test)]
mod tests {
    use super::*;

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
