//! The constraints of tables and domains, with the texts that PostgreSQL has for them.

use super::definitions::{Definitions, IndexDefinition, Named, Relation, TableDefinition, TypeOf};
use super::{oids, written};
use crate::declared::Check;
use crate::foreign_key::{Action, ForeignKey};
use crate::quoted::{quoted_if_needed, quoted_list};

/// A constraint.
pub(super) struct Constraint<'d> {
    pub(super) oid: u32,
    pub(super) name: &'d str,
    pub(super) space: u32,
    pub(super) of: Of<'d>,
    pub(super) kind: Kind<'d>,
}

/// What has a constraint.
#[derive(Clone, Copy)]
pub(super) enum Of<'d> {
    Table(&'d Relation, &'d TableDefinition),
    Domain(&'d Named),
}

pub(super) enum Kind<'d> {
    /// A primary key, or what is unique.
    Index(&'d IndexDefinition),
    Check(&'d Check),
    /// With the table that is referred to.
    Foreign(&'d ForeignKey, Option<(&'d Relation, &'d TableDefinition)>),
}

/// All constraints.
pub(super) fn all(definitions: &Definitions) -> Vec<Constraint<'_>> {
    let mut all = Vec::new();
    for (relation, table) in definitions.tables() {
        let indexes = table.indexes.iter().filter(|index| index.is_unique);
        let indexes = indexes.map(|index| (index.name.as_str(), Kind::Index(index)));
        let checks = table.declared.checks.iter();
        let checks = checks.map(|check| (check.name.as_str(), Kind::Check(check)));
        let keys = table.declared.foreign_keys.iter().map(|key| {
            let other = definitions.named(&key.table);
            let other = other.and_then(|other| Some((other, other.table()?)));
            (key.name.as_str(), Kind::Foreign(key, other))
        });
        let (of, space) = (Of::Table(relation, table), relation.space);
        let each = indexes.chain(checks).chain(keys).enumerate();
        all.extend(each.map(|(at, (name, kind))| {
            let oid = relation.oid + (at as u32).min(oids::BLOCK - 1);
            Constraint { oid, name, space, of, kind }
        }));
    }
    for domain in &definitions.types {
        if let TypeOf::Domain(rules, _) = &domain.of {
            let (of, space) = (Of::Domain(domain), domain.space);
            all.extend(rules.checks.iter().enumerate().map(|(at, check)| {
                let oid = domain.oid + (at as u32).min(oids::BLOCK - 1);
                Constraint { oid, name: &check.name, space, of, kind: Kind::Check(check) }
            }));
        }
    }
    all
}

impl Constraint<'_> {
    /// The letter that tells its kind.
    pub(super) fn letter(&self) -> &'static str {
        match &self.kind {
            Kind::Index(index) if index.is_primary => "p",
            Kind::Index(_) => "u",
            Kind::Check(_) => "c",
            Kind::Foreign(..) => "f",
        }
    }

    /// As it is written behind its name, with fewer parentheses if it is to be `pretty`. Tables
    /// outside of the search path have their schemas.
    pub(super) fn text(&self, definitions: &Definitions, path: &[String], pretty: bool) -> String {
        match &self.kind {
            Kind::Index(index) => {
                let columns = quoted_list(&index.columns);
                match (index.is_primary, index.nulls_not_distinct) {
                    (true, _) => format!("PRIMARY KEY ({columns})"),
                    (false, true) => format!("UNIQUE NULLS NOT DISTINCT ({columns})"),
                    (false, false) => format!("UNIQUE ({columns})"),
                }
            }
            Kind::Check(check) => match (written::expression(&check.condition), pretty) {
                (condition, true) => format!("CHECK ({condition})"),
                (condition, false) => format!("CHECK (({condition}))"),
            },
            Kind::Foreign(key, other) => {
                let other = other.map(|(other, _)| definitions.visible(other, path));
                let other = other.unwrap_or_else(|| quoted_if_needed(&key.table).into_owned());
                let (own, referenced) = (quoted_list(&key.columns), quoted_list(&key.referenced));
                let head = format!("FOREIGN KEY ({own}) REFERENCES {other}({referenced})");
                head + &key.clauses()
            }
        }
    }

    /// The numbers of the columns that it is about.
    pub(super) fn columns(&self) -> Vec<i64> {
        let Of::Table(_, table) = self.of else { return Vec::new() };
        match &self.kind {
            Kind::Index(index) => table.positions(&index.columns),
            Kind::Foreign(key, _) => table.positions(&key.columns),
            Kind::Check(check) => {
                let named = written::columns_in(&check.condition);
                let all = table.schema.visible().iter();
                let used = all.filter(|column| named.contains(&column.name));
                used.filter_map(|column| table.position(&column.name)).collect()
            }
        }
    }
}

/// The letter of what a foreign key does.
pub(super) fn action(action: Action) -> &'static str {
    match action {
        Action::NoAction => "a",
        Action::Restrict => "r",
        Action::Cascade => "c",
        Action::SetNull => "n",
        Action::SetDefault => "d",
    }
}
