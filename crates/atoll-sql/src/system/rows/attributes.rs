//! The columns of relations.

use atoll::DataType;

use super::super::definitions::{Definitions, Relation, TableDefinition, What};
use super::super::tables::TABLES;
use super::super::{types, written};
use super::{Row, flag, number, oid, text};
use crate::types::of_field;

/// A column, with what all of them have.
struct Attribute<'a> {
    relation: u32,
    name: &'a str,
    at: i64,
    of: u32,
    modifier: i64,
    not_null: bool,
}

impl Attribute<'_> {
    fn row(&self, definitions: &Definitions) -> Row {
        let own = definitions.own_type(self.of);
        // Values of an enum have four bytes in PostgreSQL.
        let (length, by_value, align, storage) = match (types::builtin(self.of), own) {
            (Some(one), _) => (one.length, one.by_value, one.align, one.storage),
            (None, Some((one, false))) => one.layout(definitions),
            _ => (-1, false, "i", "x"),
        };
        let is_array = types::builtin(self.of).is_some_and(|one| one.name.starts_with('_'));
        vec![
            ("attrelid", oid(self.relation)),
            ("attname", text(self.name)),
            ("atttypid", oid(self.of)),
            ("attstattarget", number(-1)),
            ("attlen", number(length)),
            ("attnum", number(self.at)),
            ("attndims", number(i64::from(is_array))),
            ("attcacheoff", number(-1)),
            ("atttypmod", number(self.modifier)),
            ("attbyval", flag(by_value)),
            ("attalign", text(align)),
            ("attstorage", text(storage)),
            ("attnotnull", flag(self.not_null)),
            ("attislocal", flag(true)),
            ("attcollation", oid(types::collation_of(self.of, definitions))),
        ]
    }
}

pub(super) fn attributes(definitions: &Definitions) -> Vec<Row> {
    let mut rows = Vec::new();
    for relation in &definitions.relations {
        match &relation.what {
            What::Table(table) => {
                rows.extend(columns(relation, table, definitions));
                rows.extend(index_columns(table, definitions));
            }
            What::View(view) => {
                let schema = view.arrow_schema();
                rows.extend(schema.fields().iter().enumerate().map(|(at, field)| {
                    let of = of_field(field).unwrap_or(DataType::Text);
                    attribute(relation.oid, field.name(), at, of, definitions).row(definitions)
                }));
            }
            What::Sequence(_) => {
                let columns = [
                    ("last_value", DataType::Int64),
                    ("log_cnt", DataType::Int64),
                    ("is_called", DataType::Bool),
                ];
                rows.extend(columns.into_iter().enumerate().map(|(at, (name, of))| {
                    let mut column = attribute(relation.oid, name, at, of, definitions);
                    column.not_null = true;
                    column.row(definitions)
                }));
            }
        }
    }
    for table in TABLES.iter() {
        rows.extend(table.columns.iter().enumerate().map(|(at, (name, of))| {
            let (relation, at) = (table.oid, at as i64 + 1);
            let of = definitions.type_in(of, &[]).unwrap_or_else(|| types::named_number(of));
            let column = Attribute { relation, name, at, of, modifier: -1, not_null: false };
            column.row(definitions)
        }));
    }
    rows
}

fn attribute<'a>(
    relation: u32,
    name: &'a str,
    at: usize,
    of: DataType,
    definitions: &Definitions,
) -> Attribute<'a> {
    let (modifier, of) = (types::modifier_of(of), definitions.number_of(of));
    Attribute { relation, name, at: at as i64 + 1, of, modifier, not_null: false }
}

fn columns(relation: &Relation, table: &TableDefinition, definitions: &Definitions) -> Vec<Row> {
    let declared = &table.declared;
    let columns = table.schema.visible().iter().enumerate();
    let row = |(at, column): (usize, &atoll::Column)| {
        let name = column.name.as_str();
        let mut one = attribute(relation.oid, name, at, column.data_type, definitions);
        one.not_null = !column.nullable;
        let domain = declared.domains.get(name);
        if let Some(own) = domain.and_then(|domain| definitions.type_named(&domain.name)) {
            (one.of, one.modifier) = (own.oid, -1);
        }
        let identity = match declared.identities.get(name) {
            Some(true) => "a",
            Some(false) => "d",
            None => "",
        };
        let is_generated = declared.generated.contains_key(name);
        let mut row = one.row(definitions);
        row.push(("atthasdef", flag(default_of(table, name).is_some())));
        row.push(("attidentity", text(identity)));
        row.push(("attgenerated", text(if is_generated { "s" } else { "" })));
        row
    };
    columns.map(row).collect()
}

fn index_columns(table: &TableDefinition, definitions: &Definitions) -> Vec<Row> {
    let mut rows = Vec::new();
    for index in &table.indexes {
        let columns = index.columns.iter().filter_map(|name| table.schema.position(name));
        rows.extend(columns.enumerate().map(|(at, column)| {
            let column = &table.schema.columns()[column];
            attribute(index.oid, &column.name, at, column.data_type, definitions).row(definitions)
        }));
    }
    rows
}

/// The expression of a default, or of a column that is computed.
fn default_of<'t>(table: &'t TableDefinition, column: &str) -> Option<&'t str> {
    let declared = &table.declared;
    if declared.identities.contains_key(column) {
        return None;
    }
    let default = declared.defaults.get(column).or_else(|| declared.generated.get(column));
    default.map(String::as_str)
}

/// Their numbers are those of the tables, with the place of the column: a table has one for each.
pub(super) fn defaults(definitions: &Definitions) -> Vec<Row> {
    let mut rows = Vec::new();
    for (relation, table) in definitions.tables() {
        for column in table.schema.visible() {
            let Some(default) = default_of(table, &column.name) else { continue };
            let Some(at) = table.position(&column.name) else { continue };
            rows.push(vec![
                ("oid", oid(relation.oid.wrapping_add(at as u32))),
                ("adrelid", oid(relation.oid)),
                ("adnum", number(at)),
                ("adbin", text(&written::expression(default))),
            ]);
        }
    }
    rows
}
