//! The rows of the tables of `pg_catalog`.

mod attributes;
mod classes;
mod indexes;
mod others;
mod statistics;
mod types;

use super::Around;
use super::definitions::Definitions;
use crate::literal::Literal;

/// A row: columns with their values. Of two values of a column the last counts; one that is left
/// out has zero, false, an empty name or NULL.
pub(super) type Row = Vec<(&'static str, Literal)>;

/// The rows of a table. The others, of what Atoll does not have, are empty.
pub(super) fn of(table: &str, definitions: &Definitions, around: &Around) -> Vec<Row> {
    match table {
        "pg_namespace" => classes::namespaces(definitions),
        "pg_class" => classes::classes(definitions, around),
        "pg_sequence" => classes::sequences(definitions),
        "pg_description" => classes::descriptions(definitions),
        "pg_depend" => classes::dependencies(definitions),
        "pg_attribute" => attributes::attributes(definitions),
        "pg_attrdef" => attributes::defaults(definitions),
        "pg_index" => indexes::indexes(definitions),
        "pg_constraint" => indexes::constraints(definitions),
        "pg_opclass" => indexes::operator_classes(),
        "pg_type" => types::types(definitions),
        "pg_enum" => types::labels(definitions),
        "pg_proc" => types::functions(),
        "pg_am" => others::access_methods(),
        "pg_collation" => others::collations(),
        "pg_database" => others::databases(around),
        "pg_language" => others::languages(),
        "pg_roles" => others::roles(around),
        "pg_settings" => others::settings(around),
        "pg_tablespace" => others::tablespaces(),
        "pg_locks" => statistics::locks(around),
        "pg_stat_activity" => statistics::activity(around),
        "pg_stat_database" => statistics::databases(around),
        "pg_stat_ssl" => statistics::encryption(around),
        "pg_stat_statements" => statistics::statements(around),
        "atoll_snapshots" => statistics::named_snapshots(around),
        "atoll_stat_aborts" => statistics::aborts(around),
        "atoll_stat_health" => statistics::health(around),
        "atoll_stat_log" => statistics::log(around),
        "atoll_stat_memory" => statistics::memory(around),
        "atoll_stat_nodes" => statistics::nodes(around),
        "atoll_stat_snapshots" => statistics::snapshots(around),
        "atoll_stat_time" => statistics::time(around),
        _ => Vec::new(),
    }
}

fn oid(oid: u32) -> Literal {
    Literal::Integer(oid.into())
}

/// The role that owns something, by its name; without one it is the owner of the database.
fn owner(around: &Around, name: Option<&str>) -> Literal {
    let role = around.roles.iter().find(|role| Some(role.name.as_str()) == name);
    oid(role.map_or(super::oids::OWNER, |role| role.number))
}

fn number(value: impl Into<i128>) -> Literal {
    Literal::Integer(value.into())
}

fn text(text: &str) -> Literal {
    Literal::Text(text.to_owned())
}

fn flag(value: bool) -> Literal {
    Literal::Bool(value)
}

fn numbers(values: impl IntoIterator<Item = i64>) -> Literal {
    Literal::List(values.into_iter().map(|value| Literal::Integer(value.into())).collect())
}

/// A text that may be missing.
fn optional(text: Option<impl Into<String>>) -> Literal {
    text.map_or(Literal::Null, |text| Literal::Text(text.into()))
}
