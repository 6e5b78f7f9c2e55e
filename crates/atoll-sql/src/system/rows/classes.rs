//! Schemas, relations, and what is said of them.

use super::super::definitions::{Definitions, TableDefinition, What};
use super::super::tables::TABLES;
use super::super::{Around, constraints, oids, types, views};
use super::{Row, flag, number, oid, optional, owner, text};
use crate::declared::Declared;
use crate::literal::Literal;

pub(super) fn namespaces(definitions: &Definitions) -> Vec<Row> {
    let own = definitions.spaces.iter().map(|space| (space.oid, space.name.as_str()));
    let system =
        [(oids::PG_CATALOG, "pg_catalog"), (oids::INFORMATION_SCHEMA, "information_schema")];
    let row = |(number, name)| {
        vec![("oid", oid(number)), ("nspname", text(name)), ("nspowner", oid(oids::OWNER))]
    };
    system.into_iter().chain(own).map(row).collect()
}

/// A relation, with what all of them have.
fn class(number: u32, name: &str, space: u32, kind: &str) -> Row {
    vec![
        ("oid", oid(number)),
        ("relname", text(name)),
        ("relnamespace", oid(space)),
        ("relkind", text(kind)),
        ("relowner", oid(oids::OWNER)),
        ("relfilenode", oid(number)),
        ("relpersistence", text("p")),
        ("relreplident", text(if matches!(kind, "r") { "d" } else { "n" })),
        ("relispopulated", flag(true)),
    ]
}

pub(super) fn classes(definitions: &Definitions, around: &Around) -> Vec<Row> {
    let mut rows = Vec::new();
    for relation in &definitions.relations {
        let kind = match relation.what {
            What::Table(_) => "r",
            What::View(_) => "v",
            What::Sequence(_) => "S",
        };
        let mut row = class(relation.oid, &relation.name, relation.space, kind);
        let owner = owner(around, relation.comments.rights.owner.as_deref());
        row.push(("relowner", owner.clone()));
        let columns = match &relation.what {
            What::Table(table) => {
                row.extend(table_columns(table, definitions));
                table.schema.visible().len()
            }
            What::View(view) => {
                row.push(("relhasrules", flag(true)));
                view.columns.len()
            }
            What::Sequence(_) => {
                row.push(("reltuples", Literal::Real(1.0)));
                3
            }
        };
        row.push(("relnatts", number(columns as i64)));
        rows.push(row);
        if let What::Table(table) = &relation.what {
            rows.extend(table.indexes.iter().map(|index| {
                let mut row = class(index.oid, &index.name, relation.space, "i");
                row.push(("relowner", owner.clone()));
                row.push(("relnatts", number(index.columns.len() as i64)));
                row.push(("relam", oid(oids::BTREE)));
                row.push(("reltuples", Literal::Real(table.rows as f32)));
                row
            }));
        }
    }
    rows.extend(TABLES.iter().map(|table| {
        let mut row = class(table.oid, table.name, oids::PG_CATALOG, "r");
        row.push(("relnatts", number(table.columns.len() as i64)));
        row.push(("relam", oid(oids::HEAP)));
        row
    }));
    rows.extend(views::all().enumerate().map(|(at, (schema, name))| {
        let space = match schema {
            "pg_catalog" => oids::PG_CATALOG,
            _ => oids::INFORMATION_SCHEMA,
        };
        class(oids::INFORMATION_SCHEMA + 1 + at as u32, name, space, "v")
    }));
    rows
}

fn table_columns(table: &TableDefinition, definitions: &Definitions) -> Row {
    let Declared { checks, foreign_keys, .. } = &table.declared;
    let is_referred = definitions.tables().any(|(_, other)| {
        let mut keys = other.declared.foreign_keys.iter();
        keys.any(|key| {
            let referred = definitions.named(&key.table).and_then(|one| one.table());
            referred.is_some_and(|one| std::ptr::eq(one, table))
        })
    });
    vec![
        ("relam", oid(oids::HEAP)),
        ("reltuples", Literal::Real(table.rows as f32)),
        ("relhasindex", flag(!table.indexes.is_empty())),
        ("relchecks", number(checks.len() as i64)),
        // In PostgreSQL they are what keeps foreign keys.
        ("relhastriggers", flag(!foreign_keys.is_empty() || is_referred)),
    ]
}

pub(super) fn sequences(definitions: &Definitions) -> Vec<Row> {
    let sequences = definitions.relations.iter().filter_map(|relation| match &relation.what {
        What::Sequence(definition) => Some((relation, definition)),
        _ => None,
    });
    let row = |(relation, definition): (&super::super::definitions::Relation, &Box<_>)| {
        let definition: &crate::sequence::definition::Definition = definition;
        vec![
            ("seqrelid", oid(relation.oid)),
            ("seqtypid", oid(types::named_number(definition.kind.name()))),
            ("seqstart", number(definition.start)),
            ("seqincrement", number(definition.increment)),
            ("seqmax", number(definition.max)),
            ("seqmin", number(definition.min)),
            ("seqcache", number(definition.cache)),
            ("seqcycle", flag(definition.cycle)),
        ]
    };
    sequences.map(row).collect()
}

/// Comments: of what, in which catalog, on which column.
pub(super) fn descriptions(definitions: &Definitions) -> Vec<Row> {
    let mut found: Vec<(u32, u32, i64, &String)> = Vec::new();
    for space in &definitions.spaces {
        found.extend(space.comment.iter().map(|text| (space.oid, oids::PG_NAMESPACE, 0, text)));
    }
    for one in &definitions.types {
        found.extend(one.comment.iter().map(|text| (one.oid, oids::PG_TYPE, 0, text)));
    }
    for relation in &definitions.relations {
        let comments = &relation.comments;
        let own = comments.relation.iter();
        found.extend(own.map(|text| (relation.oid, oids::PG_CLASS, 0, text)));
        found.extend(comments.columns.iter().filter_map(|(column, text)| {
            Some((relation.oid, oids::PG_CLASS, relation.position(column)?, text))
        }));
        if let What::Table(table) = &relation.what {
            found.extend(table.indexes.iter().filter_map(|index| {
                Some((index.oid, oids::PG_CLASS, 0, comments.indexes.get(&index.name)?))
            }));
        }
    }
    for constraint in constraints::all(definitions) {
        if let constraints::Of::Table(relation, _) = constraint.of {
            let text = relation.comments.constraints.get(constraint.name);
            found.extend(text.map(|text| (constraint.oid, oids::PG_CONSTRAINT, 0, text)));
        }
    }
    let row = |(of, catalog, column, comment): (u32, u32, i64, &String)| {
        vec![
            ("objoid", oid(of)),
            ("classoid", oid(catalog)),
            ("objsubid", number(column)),
            ("description", optional(Some(comment.as_str()))),
        ]
    };
    found.into_iter().map(row).collect()
}

/// Sequences depend on the columns that they belong to.
pub(super) fn dependencies(definitions: &Definitions) -> Vec<Row> {
    let owned = definitions.relations.iter().filter_map(|relation| {
        let What::Sequence(definition) = &relation.what else { return None };
        let owner = definition.owner.as_ref()?;
        let table = definitions.named(&owner.table)?;
        Some(vec![
            ("classid", oid(oids::PG_CLASS)),
            ("objid", oid(relation.oid)),
            ("refclassid", oid(oids::PG_CLASS)),
            ("refobjid", oid(table.oid)),
            ("refobjsubid", number(table.position(&owner.column)?)),
            ("deptype", text(if owner.is_identity { "i" } else { "a" })),
        ])
    });
    owned.collect()
}
