//! `EXPLAIN (FORMAT JSON)`: the lines of a plan as the tree that PostgreSQL writes.
//!
//! ```text
//! [ { "Plan": { "Node Type": "Sort", "Plans": [ { "Node Type": "Scan of t" } ] } } ]
//! ```
//!
//! What a line says behind the name of a step is its `Detail`.

use sqlparser::ast::{Expr, UtilityOption};

use crate::error::{SqlError, SqlErrorKind};
use crate::json;

/// Takes `FORMAT` out of the options; returns whether the plan is to be JSON.
///
/// # Errors
/// Another format than text and JSON.
pub(crate) fn take_format(options: &mut Option<Vec<UtilityOption>>) -> Result<bool, SqlError> {
    let Some(all) = options else { return Ok(false) };
    let mut is_json = false;
    for at in (0..all.len()).rev() {
        let UtilityOption { name, arg } = &all[at];
        if !name.value.eq_ignore_ascii_case("format") {
            continue;
        }
        let format = arg.as_ref().map(Expr::to_string).unwrap_or_default();
        match format.trim_matches('\'').to_ascii_lowercase().as_str() {
            "json" => is_json = true,
            "text" => {}
            other => {
                let hint = "the formats are TEXT and JSON".to_owned();
                let message = match other {
                    "xml" | "yaml" => format!("EXPLAIN option FORMAT {other} is not supported"),
                    other => {
                        format!("unrecognized value for EXPLAIN option \"format\": \"{other}\"")
                    }
                };
                let error = match other {
                    "xml" | "yaml" => SqlError::unsupported(message),
                    _ => SqlError::new(SqlErrorKind::Syntax, message).with_state("22023"),
                };
                return Err(error.with_hint(Some(hint)).at(name.span));
            }
        }
        all.remove(at);
    }
    if all.is_empty() {
        *options = None;
    }
    Ok(is_json)
}

/// A step of a plan.
struct Step<'l> {
    indent: usize,
    title: &'l str,
    below: Vec<Step<'l>>,
}

/// The JSON of the lines of a plan, each step below the one that takes its rows.
pub(crate) fn of_lines<'l>(lines: impl Iterator<Item = &'l str>) -> String {
    let mut roots: Vec<Step<'_>> = Vec::new();
    let mut open: Vec<Step<'_>> = Vec::new();
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let bare = line.trim_start();
        let (title, arrow) = match bare.strip_prefix("-> ") {
            Some(title) => (title, 3),
            None => (bare, 0),
        };
        let indent = line.len() - bare.len() + arrow;
        close(&mut open, &mut roots, indent);
        open.push(Step { indent, title, below: Vec::new() });
    }
    close(&mut open, &mut roots, 0);
    let mut roots = roots.into_iter();
    let mut written = String::from("[\n  {\n    \"Plan\": ");
    if let Some(mut first) = roots.next() {
        // Subqueries, which stand behind the plan.
        first.below.extend(roots);
        write(&first, 4, &mut written);
    }
    written.push_str("\n  }\n]");
    written
}

/// Closes the steps that are not above one of this indent.
fn close<'l>(open: &mut Vec<Step<'l>>, roots: &mut Vec<Step<'l>>, indent: usize) {
    while let Some(last) = open.pop_if(|last| last.indent >= indent) {
        match open.last_mut() {
            Some(above) => above.below.push(last),
            None => roots.push(last),
        }
    }
}

fn write(step: &Step<'_>, indent: usize, written: &mut String) {
    let (name, detail) = match step.title.split_once(": ") {
        Some((name, detail)) => (name, Some(detail)),
        None => (step.title.trim_end_matches(':'), None),
    };
    let pad = " ".repeat(indent + 2);
    written.push_str(&format!("{{\n{pad}\"Node Type\": {}", json::quoted(name)));
    if let Some(detail) = detail {
        written.push_str(&format!(",\n{pad}\"Detail\": {}", json::quoted(detail)));
    }
    if !step.below.is_empty() {
        written.push_str(&format!(",\n{pad}\"Plans\": [\n{pad}  "));
        for (at, below) in step.below.iter().enumerate() {
            if at > 0 {
                written.push_str(&format!(",\n{pad}  "));
            }
            write(below, indent + 4, written);
        }
        written.push_str(&format!("\n{pad}]"));
    }
    written.push_str(&format!("\n{}}}", " ".repeat(indent)));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn lines_become_a_tree() {
        let lines = ["Join", "-> Scan of t: all", "   -> Sort", "-> Values, 2 rows", "Subquery 1:"];
        let text = of_lines(lines.into_iter());
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let wanted = serde_json::json!([{ "Plan": { "Node Type": "Join", "Plans": [
            { "Node Type": "Scan of t", "Detail": "all", "Plans": [{ "Node Type": "Sort" }] },
            { "Node Type": "Values, 2 rows" },
            { "Node Type": "Subquery 1" },
        ] } }]);
        assert_eq!(value, wanted);
    }
}
