//! `s.t.*` and `t.*` of a table that FROM names with its schema.
//!
//! DataFusion finds the columns of a relation by the whole name that FROM has for it.

use sqlparser::ast::{
    Ident, ObjectName, Select, SelectItem, SelectItemQualifiedWildcardKind as Kind, TableFactor,
    TableWithJoins,
};

use crate::names;
use crate::parse::MARK;

/// Writes the names before `.*` as FROM has them.
pub(super) fn qualify(select: &mut Select) {
    let Select { projection, from, .. } = select;
    for item in projection {
        if let SelectItem::QualifiedWildcard(Kind::ObjectName(name), _) = item
            && let Some(whole) = from.iter().flat_map(factors).find_map(|one| named(one, name))
        {
            *name = whole;
        }
    }
}

fn factors(table: &TableWithJoins) -> impl Iterator<Item = &TableFactor> {
    std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation))
}

/// The name of a relation, if it is the one that a name means.
fn named(factor: &TableFactor, name: &ObjectName) -> Option<ObjectName> {
    let TableFactor::Table { name: table, alias, .. } = factor else { return None };
    let idents = |name: &ObjectName| -> Vec<Ident> {
        name.0.iter().filter_map(|part| part.as_ident().cloned()).collect()
    };
    let (wanted, whole) = (idents(name), idents(table));
    let (last, before) = wanted.split_last()?;
    match alias {
        // The table of a change has a name of its own, and its own name as an alias.
        Some(alias) => {
            let is_target = whole.last()?.value.starts_with(MARK);
            let is_it = names::fold(&alias.name) == names::fold(last);
            (is_target && is_it && !before.is_empty())
                .then(|| ObjectName::from(vec![alias.name.clone()]))
        }
        None => {
            let folded = |idents: &[Ident]| idents.iter().map(names::fold).collect::<Vec<_>>();
            folded(&whole).ends_with(&folded(&wanted)).then(|| table.clone())
        }
    }
}
