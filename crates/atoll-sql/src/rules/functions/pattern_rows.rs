//! Regular expressions that find several parts of a text: arrays of them, and rows, which
//! [`super::super::row_functions`] makes of arrays.

use regex::Captures;

use super::pattern::{found, local, text};
use super::regex_syntax::{Flags, compile};
use super::{Function, Kind, Overload, strict};
use crate::array_text;
use crate::error::SqlError;
use crate::literal::Literal;

use Kind::{Text, Texts};

/// The groups of each match, each as the text of an array. No statement can have the name
/// (`NAME-1`).
pub(crate) const MATCHES: &str = "\u{1}regexp_matches";

type Body = fn(&[Literal]) -> Result<Literal, SqlError>;

const fn two(run: Body) -> Overload {
    strict(&[Text, Text], Texts, run)
}

const fn three(run: Body) -> Overload {
    strict(&[Text, Text, Text], Texts, run)
}

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "regexp_match", overloads: &[two(first), three(first)] },
    Function { name: MATCHES, overloads: &[two(each), three(each)] },
    Function { name: "regexp_split_to_array", overloads: &[two(split), three(split)] },
];

/// The groups of a match, or all of it where the expression has none.
fn groups(captures: &Captures<'_>) -> Vec<Option<String>> {
    let part = |at: usize| captures.get(at).map(|part| part.as_str().to_owned());
    match captures.len() {
        1 => vec![part(0)],
        count => (1..count).map(part).collect(),
    }
}

fn first(values: &[Literal]) -> Result<Literal, SqlError> {
    let flags = local(text(values, 2), "regexp_match").map_err(|error| {
        error.with_hint(Some("Use the regexp_matches function instead.".to_owned()))
    })?;
    let regex = compile(text(values, 1), flags)?;
    let captures = found(&regex, text(values, 0), 0).next();
    let list = |captures: Captures<'_>| {
        let items = groups(&captures).into_iter();
        Literal::List(items.map(|item| item.map_or(Literal::Null, Literal::Text)).collect())
    };
    Ok(captures.map_or(Literal::Null, list))
}

fn each(values: &[Literal]) -> Result<Literal, SqlError> {
    let flags = Flags::read(text(values, 2))?;
    let most = if flags.is_global { usize::MAX } else { 1 };
    let regex = compile(text(values, 1), flags)?;
    let all = found(&regex, text(values, 0), 0).take(most);
    let all = all.map(|captures| array_text::write(groups(&captures).into_iter()));
    Ok(Literal::List(all.map(Literal::Text).collect()))
}

fn split(values: &[Literal]) -> Result<Literal, SqlError> {
    let source = text(values, 0);
    let regex = compile(text(values, 1), local(text(values, 2), "regexp_split_to_array")?)?;
    let (mut parts, mut done) = (Vec::new(), 0);
    for captures in found(&regex, source, 0) {
        let whole = captures.get_match();
        // An empty match counts between two characters only.
        if whole.start() < source.len() && whole.end() > done {
            parts.push(Literal::Text(source[done..whole.start()].to_owned()));
            done = whole.end();
        }
    }
    parts.push(Literal::Text(source[done..].to_owned()));
    Ok(Literal::List(parts))
}
