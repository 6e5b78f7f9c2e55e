//! The definitions of a dump.

use std::io::Write;
use std::ops::ControlFlow;

use atoll::{Column, DataType, IndexSpec, SnapshotTable};
use sqlparser::ast::{
    DataType as SqlType, Expr, Ident, ObjectNamePart, TypedString, VisitMut, visit_expressions_mut,
};

use super::{Dump, Result, text, unwritable};
use crate::comments::Comments;
use crate::declared::domain::Domain;
use crate::declared::{Check, Declared, expression};
use crate::quoted::{quoted_if_needed, quoted_list};
use crate::schemas::{PUBLIC, comment_in_snapshot};
use crate::sequence::definition::Definition;
use crate::{names, sequence_names};

/// A table of a dump.
pub(super) struct TableDump {
    pub(super) table: SnapshotTable,
    pub(super) declared: Declared,
    /// The columns of its primary key.
    pub(super) key: Vec<String>,
    indexes: Vec<IndexSpec>,
}

impl TableDump {
    pub(super) fn of(table: SnapshotTable) -> Result<Self> {
        let (declared, schema) = (Declared::of(table.schema())?, table.schema());
        let key = schema.visible_key().iter().map(|at| schema.columns()[*at].name.clone());
        let (key, indexes) = (key.collect(), table.indexes()?);
        Ok(Self { table, declared, key, indexes })
    }

    /// Whether an index is the order of the primary key.
    fn is_of_key(&self, index: &IndexSpec) -> bool {
        !self.key.is_empty() && index.columns == self.key && !index.unique
    }

    /// The conditions of a table, with those that stand for types that PostgreSQL does not have.
    fn checks(&self, bare: &str) -> Vec<Check> {
        let mut checks = self.declared.checks.clone();
        for column in self.table.schema().visible() {
            if let DataType::FixedBinary(width) = column.data_type {
                let name = format!("{bare}_{}_width", column.name);
                let condition =
                    format!("octet_length({}) = {width}", quoted_if_needed(&column.name));
                if !checks.iter().any(|check| check.name == name) {
                    checks.push(Check { name, condition });
                }
            }
        }
        checks
    }
}

impl Dump<'_> {
    /// What rows need: schemas, sequences, tables and what their rows are computed from, and views.
    pub(super) fn before_rows(&self, out: &mut dyn Write) -> Result<()> {
        for schema in self.own_schemas() {
            writeln!(out, "\nCREATE SCHEMA {};", quoted_if_needed(schema))?;
        }
        for labels in &self.enums {
            let quoted: Vec<_> = labels.labels().iter().map(|label| text(label)).collect();
            let (name, quoted) = (self.name(labels.name()), quoted.join(", "));
            writeln!(out, "\nCREATE TYPE {name} AS ENUM ({quoted});")?;
        }
        for (object, definition) in &self.sequences {
            if !is_identity(definition) {
                let (name, options) = (self.name(object.name()), options(definition, true));
                writeln!(out, "\nCREATE SEQUENCE {name}{options};")?;
            }
        }
        for (domain, of) in &self.domains {
            let Domain { name, not_null, default, checks } = domain;
            let mut parts = vec![format!("{} AS {}", self.name(name), self.type_name(*of))];
            if let Some(default) = default {
                parts.push(format!("DEFAULT {}", self.expression(default)?));
            }
            if *not_null {
                parts.push("NOT NULL".to_owned());
            }
            for Check { name, condition } in checks {
                let (name, condition) = (quoted_if_needed(name), self.expression(condition)?);
                parts.push(format!("CONSTRAINT {name} CHECK ({condition})"));
            }
            writeln!(out, "\nCREATE DOMAIN {};", parts.join(" "))?;
        }
        for table in &self.tables {
            self.table(table, out)?;
        }
        for (object, definition) in &self.sequences {
            let Some(owner) = &definition.owner else { continue };
            let (sequence, table) = (self.name(object.name()), self.name(&owner.table));
            let column = quoted_if_needed(&owner.column);
            if !owner.is_identity {
                writeln!(out, "\nALTER SEQUENCE {sequence} OWNED BY {table}.{column};")?;
                continue;
            }
            let tables = self.tables.iter().find(|one| one.table.name() == owner.table);
            let always = tables.and_then(|one| one.declared.identities.get(&owner.column));
            let kind = if always == Some(&true) { "ALWAYS" } else { "BY DEFAULT" };
            let options = options(definition, false);
            writeln!(
                out,
                "\nALTER TABLE {table} ALTER COLUMN {column} ADD GENERATED {kind} AS IDENTITY (\n\
                 \x20   SEQUENCE NAME {sequence}{options}\n);"
            )?;
        }
        for (name, view) in &self.views {
            let columns: Vec<&str> = view.columns.iter().map(|one| one.name.as_str()).collect();
            let mut query = view.qualified_query(&|flat| self.name(flat))?;
            self.name_types(&mut query);
            writeln!(
                out,
                "\nCREATE VIEW {} ({}) AS\n {query};",
                self.name(name),
                quoted_list(&columns)
            )?;
        }
        Ok(())
    }

    fn table(&self, dumped: &TableDump, out: &mut dyn Write) -> Result<()> {
        let TableDump { table, key, .. } = dumped;
        let bare = self.bare(table.name());
        let mut parts = Vec::new();
        for column in table.schema().visible() {
            parts.push(self.column(column, dumped)?);
        }
        for Check { name, condition } in dumped.checks(bare) {
            let condition = self.expression(&condition)?;
            parts.push(format!("CONSTRAINT {} CHECK ({condition})", quoted_if_needed(&name)));
        }
        if !key.is_empty() {
            let index = dumped.indexes.iter().find(|index| dumped.is_of_key(index));
            let name = index.map_or_else(|| format!("{bare}_pkey"), |index| index.name.clone());
            let name = quoted_if_needed(&name);
            parts.push(format!("CONSTRAINT {name} PRIMARY KEY ({})", quoted_list(key)));
        }
        let body = match parts.is_empty() {
            true => String::new(),
            false => format!("\n    {}\n", parts.join(",\n    ")),
        };
        Ok(writeln!(out, "\nCREATE TABLE {} ({body});", self.name(table.name()))?)
    }

    fn column(&self, column: &Column, dumped: &TableDump) -> Result<String> {
        let declared = &dumped.declared;
        let of = match declared.domains.get(&column.name) {
            Some(domain) => self.name(&domain.name),
            None => self.type_name(column.data_type),
        };
        let mut written = format!("{} {of}", quoted_if_needed(&column.name));
        if let Some(generated) = declared.generated.get(&column.name) {
            let generated = self.expression(generated)?;
            written.push_str(&format!(" GENERATED ALWAYS AS ({generated}) STORED"));
        } else if let Some(default) = declared.defaults.get(&column.name)
            && !declared.identities.contains_key(&column.name)
        {
            written.push_str(&format!(" DEFAULT {}", self.expression(default)?));
        }
        if !column.nullable {
            written.push_str(" NOT NULL");
        }
        Ok(written)
    }

    /// A type as PostgreSQL has it.
    fn type_name(&self, data_type: DataType) -> String {
        match data_type {
            DataType::Decimal { precision, scale } => format!("numeric({precision},{scale})"),
            // With a condition for its width.
            DataType::FixedBinary(_) => "bytea".to_owned(),
            DataType::Enum(labels) => self.name(labels.name()),
            DataType::Array(element) if let Some(one) = element.data_type() => {
                format!("{}[]", self.type_name(one))
            }
            other => other.to_string(),
        }
    }

    /// A kept expression, with the schemas of the sequences and the types that it names (`DUMP-2`).
    fn expression(&self, kept: &str) -> Result<String> {
        let mut expr: Expr = expression(kept).map_err(|error| {
            unwritable(format!("\"{kept}\" cannot be read: {}", error.message()))
        })?;
        sequence_names::with_schemas(&mut expr);
        self.name_types(&mut expr);
        Ok(expr.to_string())
    }

    /// Gives the types that casts name their schemas.
    fn name_types<V: VisitMut>(&self, within: &mut V) {
        let is_own = |name: &str| {
            self.enums.iter().any(|labels| labels.name() == name)
                || self.domains.iter().any(|(domain, _)| domain.name == name)
        };
        let _ = visit_expressions_mut(within, |expr| {
            if let Expr::Cast { data_type: SqlType::Custom(name, _), .. }
            | Expr::TypedString(TypedString { data_type: SqlType::Custom(name, _), .. }) = expr
                && name.0.len() == 1
                && is_own(&names::last(name))
            {
                name.0.insert(0, ObjectNamePart::Identifier(Ident::new(PUBLIC)));
            }
            ControlFlow::<()>::Continue(())
        });
    }

    /// What is made once the rows are there: indexes, then foreign keys, then comments.
    pub(super) fn behind_rows(&self, out: &mut dyn Write) -> Result<()> {
        for dumped in &self.tables {
            let table = self.name(dumped.table.name());
            for index in dumped.indexes.iter().filter(|index| !dumped.is_of_key(index)) {
                let (name, columns) = (quoted_if_needed(&index.name), quoted_list(&index.columns));
                let nulls = if index.nulls_not_distinct { "NULLS NOT DISTINCT " } else { "" };
                match index.unique {
                    true => writeln!(
                        out,
                        "\nALTER TABLE ONLY {table} ADD CONSTRAINT {name} UNIQUE \
                         {nulls}({columns});"
                    )?,
                    false => {
                        writeln!(out, "\nCREATE INDEX {name} ON {table} USING btree ({columns});")?
                    }
                }
            }
        }
        for dumped in &self.tables {
            let table = self.name(dumped.table.name());
            for key in &dumped.declared.foreign_keys {
                let (name, key) =
                    (quoted_if_needed(&key.name), key.written(&self.name(&key.table)));
                writeln!(out, "\nALTER TABLE ONLY {table} ADD CONSTRAINT {name} {key};")?;
            }
        }
        self.comments(out)
    }

    fn comments(&self, out: &mut dyn Write) -> Result<()> {
        for schema in &self.schemas {
            let comment = comment_in_snapshot(self.snapshot, schema)?;
            write(out, "SCHEMA", &quoted_if_needed(schema), comment.as_ref())?;
        }
        let tables = self.tables.iter().map(|one| (one.table.name(), "TABLE"));
        let views = self.views.iter().map(|(name, _)| (name.as_str(), "VIEW"));
        let sequences = self.sequences.iter().map(|(object, _)| (object.name(), "SEQUENCE"));
        let enums = self.enums.iter().map(|labels| (labels.name(), "TYPE"));
        let domains = self.domains.iter().map(|(domain, _)| (domain.name.as_str(), "DOMAIN"));
        let types = enums.chain(domains);
        for (flat, kind) in types.chain(sequences).chain(tables).chain(views) {
            let name = self.name(flat);
            let Comments { relation, columns, indexes, constraints, .. } =
                Comments::in_snapshot(self.snapshot, flat)?;
            write(out, kind, &name, relation.as_ref())?;
            for (column, comment) in &columns {
                let column = format!("{name}.{}", quoted_if_needed(column));
                write(out, "COLUMN", &column, Some(comment))?;
            }
            for (index, comment) in &indexes {
                let schema = name.split_at(name.len() - quoted_if_needed(self.bare(flat)).len()).0;
                let index = format!("{schema}{}", quoted_if_needed(index));
                write(out, "INDEX", &index, Some(comment))?;
            }
            for (constraint, comment) in &constraints {
                let constraint = format!("{} ON {name}", quoted_if_needed(constraint));
                write(out, "CONSTRAINT", &constraint, Some(comment))?;
            }
        }
        Ok(())
    }
}

fn write(out: &mut dyn Write, kind: &str, name: &str, comment: Option<&String>) -> Result<()> {
    match comment {
        Some(comment) => Ok(writeln!(out, "\nCOMMENT ON {kind} {name} IS {};", text(comment))?),
        None => Ok(()),
    }
}

fn is_identity(definition: &Definition) -> bool {
    definition.owner.as_ref().is_some_and(|owner| owner.is_identity)
}

/// The options of a sequence; the type of one that belongs to an identity is that of the column.
fn options(definition: &Definition, with_type: bool) -> String {
    let Definition { kind, start, increment, min, max, cache, cycle, .. } = definition;
    let (least, greatest) = kind.limits();
    let (usual_min, usual_max) = if *increment > 0 { (1, greatest) } else { (least, -1) };
    let limit = |word: &str, value: i64, usual: i64| match value == usual {
        true => format!("NO {word}"),
        false => format!("{word} {value}"),
    };
    let mut lines = Vec::new();
    if with_type {
        lines.push(format!("AS {}", kind.name()));
    }
    lines.push(format!("START WITH {start}"));
    lines.push(format!("INCREMENT BY {increment}"));
    lines.push(limit("MINVALUE", *min, usual_min));
    lines.push(limit("MAXVALUE", *max, usual_max));
    lines.push(format!("CACHE {cache}"));
    if *cycle {
        lines.push("CYCLE".to_owned());
    }
    lines.into_iter().map(|line| format!("\n    {line}")).collect()
}
