//! Definitions that concern views: what they read gets another shape or is dropped (`VIEW-3`).

use atoll::{Catalog, Table};

use super::{KIND, View};
use crate::error::{SqlError, SqlErrorKind};
use crate::needed;

/// A view that depends on something.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dependent {
    pub(crate) view: String,
    /// As a message names it: `table t`, `view v`, `column a of table t`.
    on: String,
}

impl Dependent {
    /// The line of an error that tells it.
    pub(crate) fn line(&self) -> String {
        format!("view {} depends on {}", self.view, self.on)
    }
}

/// A relation that gets another shape.
pub(crate) struct Reshaped<'r> {
    pub(crate) old: &'r str,
    pub(crate) new: &'r str,
    /// The columns that it had and has.
    pub(crate) columns: &'r [Kept],
    /// Views that depend on what is dropped are dropped too.
    pub(crate) cascades: bool,
}

/// A column of a relation that gets another shape.
pub(crate) struct Kept {
    pub(crate) old: String,
    pub(crate) new: String,
    pub(crate) has_other_type: bool,
}

/// What becomes of a view.
pub(crate) struct Becomes {
    pub(crate) name: String,
    /// `None` if it is dropped.
    pub(crate) view: Option<View>,
}

/// How a message names a relation.
pub(crate) fn described(catalog: &Catalog, name: &str) -> String {
    let object = catalog.object(name).and_then(|object| object.schema().object());
    let kind = match object.map_or("table", |(kind, _)| kind) {
        "enum" | "domain" => "type",
        kind => kind,
    };
    format!("{kind} {name}")
}

/// The views that depend on these relations, also by way of other views.
///
/// # Errors
/// As [`View::of`].
pub(crate) fn dependent(catalog: &Catalog, on: &[&str]) -> Result<Vec<Dependent>, SqlError> {
    let views = View::all(catalog)?;
    let mut search =
        Search { catalog, views: &views, roots: on, path: Vec::new(), found: Vec::new() };
    on.iter().for_each(|relation| search.visit(relation));
    search.found.reverse();
    Ok(search.found)
}

/// The search for dependent views in the order of PostgreSQL: from the last view to the first, each
/// behind what depends on it; an error tells them in the reverse order.
struct Search<'s> {
    catalog: &'s Catalog,
    views: &'s [(&'s Table, View)],
    roots: &'s [&'s str],
    path: Vec<&'s str>,
    found: Vec<Dependent>,
}

impl Search<'_> {
    fn visit(&mut self, relation: &str) {
        for (object, view) in self.views.iter().rev() {
            let name = object.name();
            let mut known = self.found.iter();
            if self.roots.contains(&name)
                || self.path.contains(&name)
                || known.any(|one| one.view == name)
                || !view.relations().any(|one| one == relation)
            {
                continue;
            }
            // Noted first, so that views which read each other end the search.
            self.path.push(name);
            self.visit(name);
            let on = described(self.catalog, relation);
            self.found.push(Dependent { view: name.to_owned(), on });
        }
    }
}

/// What becomes of views when a relation gets another shape.
///
/// # Errors
/// A view uses what is dropped, or what gets another type; as [`View::of`].
pub(crate) fn reshaped(catalog: &Catalog, to: &Reshaped<'_>) -> Result<Vec<Becomes>, SqlError> {
    let (mut followed, mut needed): (Vec<Becomes>, Vec<Dependent>) = (Vec::new(), Vec::new());
    for (object, before) in View::all(catalog)? {
        let (name, mut view) = (object.name(), before.clone());
        let on = view.sources.iter_mut().filter(|source| source.relation == to.old);
        for source in on {
            to.new.clone_into(&mut source.relation);
            for (now, _) in &mut source.columns {
                match to.columns.iter().find(|column| column.old == *now) {
                    Some(column) if column.has_other_type => return Err(typed(name, now)),
                    Some(column) => now.clone_from(&column.new),
                    None => {
                        let on = format!("column {now} of {}", described(catalog, to.old));
                        let dependent = Dependent { view: name.to_owned(), on };
                        if !needed.contains(&dependent) {
                            needed.push(dependent);
                        }
                    }
                }
            }
        }
        if view != before {
            followed.push(Becomes { name: name.to_owned(), view: Some(view) });
        }
    }
    if needed.is_empty() {
        return Ok(followed);
    }
    let first: Vec<&str> = needed.iter().map(|one| one.view.as_str()).collect();
    let others = dependent(catalog, &first)?;
    if !to.cascades {
        let object = needed.first().map(|one| one.on.clone());
        let lines: Vec<_> = needed.iter().chain(&others).map(Dependent::line).collect();
        return Err(needed::cannot_drop(object.as_deref(), &lines));
    }
    let mut dropped: Vec<String> = others.into_iter().rev().map(|one| one.view).collect();
    dropped.extend(needed.into_iter().map(|one| one.view));
    dropped.dedup();
    followed.retain(|one| !dropped.contains(&one.name));
    followed.extend(dropped.into_iter().map(|name| Becomes { name, view: None }));
    Ok(followed)
}

/// The error of a column that gets another type.
fn typed(view: &str, column: &str) -> SqlError {
    let message = "cannot alter type of a column used by a view or rule";
    let detail = format!("rule _RETURN on {KIND} {view} depends on column \"{column}\"");
    SqlError::new(SqlErrorKind::Unsupported, message).with_detail(detail)
}
