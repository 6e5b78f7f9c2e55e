//! Indexes and constraints.

use super::super::constraints::{Kind, Of, action, all};
use super::super::definitions::Definitions;
use super::super::{oids, types, written};
use super::{Row, flag, number, numbers, oid, text};
use crate::literal::Literal;

pub(super) fn indexes(definitions: &Definitions) -> Vec<Row> {
    let mut rows = Vec::new();
    for (relation, table) in definitions.tables() {
        for index in &table.indexes {
            let (mut collations, mut classes) = (Vec::new(), Vec::new());
            for name in &index.columns {
                let column = table.schema.columns().iter().find(|one| one.name == *name);
                let of = column.map_or(0, |column| definitions.number_of(column.data_type));
                collations.push(types::collation_of(of, definitions).into());
                classes.push(operator_class(of).into());
            }
            let count = index.columns.len();
            rows.push(vec![
                ("indexrelid", oid(index.oid)),
                ("indrelid", oid(relation.oid)),
                ("indnatts", number(count as i64)),
                ("indnkeyatts", number(count as i64)),
                ("indisunique", flag(index.is_unique)),
                ("indnullsnotdistinct", flag(index.nulls_not_distinct)),
                ("indisprimary", flag(index.is_primary)),
                ("indimmediate", flag(true)),
                ("indisvalid", flag(true)),
                ("indisready", flag(true)),
                ("indislive", flag(true)),
                ("indkey", numbers(table.positions(&index.columns))),
                ("indcollation", numbers(collations)),
                ("indclass", numbers(classes)),
                ("indoption", numbers(vec![0; count])),
            ]);
        }
    }
    rows
}

/// The class of operators that orders a type.
fn operator_class(of: u32) -> u32 {
    let of = match types::builtin(of) {
        // Theirs are those of text.
        Some(one) if one.name == "varchar" => types::named_number("text"),
        Some(one) if one.category == "A" => 2277,
        Some(one) => one.oid,
        None => 3500,
    };
    let mut classes = types::lines(include_str!("../classes.txt"));
    let class = classes.find(|class| class.get(2).is_some_and(|one| one.parse() == Ok(of)));
    class.and_then(|class| class[0].parse().ok()).unwrap_or_default()
}

pub(super) fn operator_classes() -> Vec<Row> {
    let row = |class: Vec<&'static str>| {
        let field = |at: usize| class.get(at).and_then(|one| one.parse().ok()).unwrap_or_default();
        vec![
            ("oid", oid(field(0))),
            ("opcmethod", oid(oids::BTREE)),
            ("opcname", text(class.get(1).copied().unwrap_or_default())),
            ("opcnamespace", oid(oids::PG_CATALOG)),
            ("opcowner", oid(oids::OWNER)),
            ("opcfamily", oid(field(3))),
            ("opcintype", oid(field(2))),
            ("opcdefault", flag(true)),
        ]
    };
    types::lines(include_str!("../classes.txt")).map(row).collect()
}

pub(super) fn constraints(definitions: &Definitions) -> Vec<Row> {
    let mut rows = Vec::new();
    for constraint in all(definitions) {
        let columns = constraint.columns();
        let mut row = vec![
            ("oid", oid(constraint.oid)),
            ("conname", text(constraint.name)),
            ("connamespace", oid(constraint.space)),
            ("contype", text(constraint.letter())),
            ("convalidated", flag(true)),
            ("conislocal", flag(true)),
            ("connoinherit", flag(!matches!(constraint.kind, Kind::Check(_)))),
        ];
        match constraint.of {
            Of::Table(relation, _) => row.push(("conrelid", oid(relation.oid))),
            Of::Domain(domain) => row.push(("contypid", oid(domain.oid))),
        }
        if !columns.is_empty() {
            row.push(("conkey", numbers(columns)));
        }
        match constraint.kind {
            Kind::Index(index) => row.push(("conindid", oid(index.oid))),
            Kind::Check(check) => {
                row.push(("conbin", text(&written::expression(&check.condition))));
            }
            Kind::Foreign(key, other) => {
                row.push(("confupdtype", text(action(key.on_update))));
                row.push(("confdeltype", text(action(key.on_delete))));
                row.push(("confmatchtype", text(if key.match_full { "f" } else { "s" })));
                row.push(("condeferrable", flag(key.timing.is_deferrable())));
                row.push(("condeferred", flag(key.timing.is_deferred())));
                let Some((relation, table)) = other else { continue };
                row.push(("confrelid", oid(relation.oid)));
                row.push(("confkey", numbers(table.positions(&key.referenced))));
                let mut indexes = table.indexes.iter().filter(|index| index.is_unique);
                let mut sorted = key.referenced.clone();
                sorted.sort();
                let referenced = indexes.find(|index| {
                    let mut columns = index.columns.clone();
                    columns.sort();
                    columns == sorted
                });
                row.push(("conindid", referenced.map_or(oid(0), |index| oid(index.oid))));
                if let (Of::Table(_, own), false) =
                    (constraint.of, key.on_delete_columns.is_empty())
                {
                    let columns = own.positions(&key.on_delete_columns);
                    row.push(("confdelsetcols", numbers(columns)));
                }
            }
        }
        // They are of no kind of PostgreSQL's that has other letters.
        for column in ["confupdtype", "confdeltype", "confmatchtype"] {
            if !row.iter().any(|(name, _)| *name == column) {
                row.push((column, Literal::Text(" ".to_owned())));
            }
        }
        rows.push(row);
    }
    rows
}
