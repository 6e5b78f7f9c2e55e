//! Relations, schemas and roles by their names and numbers, as the session sees them.

use super::definitions::Relation;
use super::tables::TABLES;
use super::{System, oids, written};
use crate::error::SqlError;
use crate::{names, sequence_names};

impl System {
    /// The relation that a text names.
    pub(super) fn relation_in(&self, text: &str) -> Result<Option<&Relation>, SqlError> {
        let name = sequence_names::object_name(text)?;
        let parts: Vec<String> =
            name.0.iter().filter_map(|part| part.as_ident()).map(names::fold).collect();
        let find = |schema: &str, name: &str| {
            let is_it = |one: &&Relation| one.schema == schema && one.name == name;
            self.definitions.relations.iter().find(is_it)
        };
        Ok(match parts.as_slice() {
            [name] => self.around.path.iter().find_map(|schema| find(schema, name)),
            [.., schema, name] => find(schema, name),
            [] => None,
        })
    }

    /// The number of the relation, or of the index, that a text names.
    pub(super) fn number_in(&self, text: &str) -> Result<Option<u32>, SqlError> {
        if let Some(relation) = self.relation_in(text)? {
            return Ok(Some(relation.oid));
        }
        let name = sequence_names::object_name(text)?;
        let parts: Vec<String> =
            name.0.iter().filter_map(|part| part.as_ident()).map(names::fold).collect();
        let (schema, name) = match parts.as_slice() {
            [name] => (None, name.as_str()),
            [.., schema, name] => (Some(schema.as_str()), name.as_str()),
            [] => return Ok(None),
        };
        let is_in = |one: &str| match schema {
            Some(schema) => schema == one,
            None => self.around.path.iter().any(|schema| schema == one),
        };
        let index = self.definitions.tables().find_map(|(relation, table)| {
            let index = table.indexes.iter().find(|index| index.name == name)?;
            is_in(&relation.schema).then_some(index.oid)
        });
        let is_system = schema.is_none_or(|schema| schema == "pg_catalog");
        let system = TABLES.iter().find(|table| is_system && table.name == name);
        Ok(index.or(system.map(|table| table.oid)))
    }

    /// The number of the schema of a name.
    pub(super) fn space_in(&self, name: &str) -> Option<u32> {
        match name {
            "pg_catalog" => Some(oids::PG_CATALOG),
            "information_schema" => Some(oids::INFORMATION_SCHEMA),
            name => {
                let name = sequence_names::object_name(name).ok()?;
                let name = names::last(&name);
                self.definitions.spaces.iter().find(|one| one.name == name).map(|one| one.oid)
            }
        }
    }

    /// The number of the role of a name.
    pub(super) fn role_in(&self, name: &str) -> Option<u32> {
        let name = name.trim_matches('"');
        self.around.roles.iter().find(|role| role.name == name).map(|role| role.number)
    }

    /// The name of a relation or an index, with its schema where the path does not find it.
    pub(super) fn relation_name(&self, oid: u32) -> Option<String> {
        if let Some(relation) = self.definitions.relation(oid) {
            return Some(self.definitions.visible(relation, &self.around.path));
        }
        if let Some((relation, _, index)) = self.definitions.index(oid) {
            return Some(match self.around.path.contains(&relation.schema) {
                true => crate::quoted::quoted_if_needed(&index.name).into_owned(),
                false => written::qualified(&relation.schema, &index.name),
            });
        }
        TABLES.iter().find(|table| table.oid == oid).map(|table| table.name.to_owned())
    }

    /// Whether the path finds a relation by its bare name; `None` if there is none of the number.
    pub(super) fn is_visible(&self, oid: u32) -> Option<bool> {
        if TABLES.iter().any(|table| table.oid == oid) {
            return Some(true);
        }
        if let Some((relation, _, _)) = self.definitions.index(oid) {
            return Some(self.around.path.contains(&relation.schema));
        }
        let relation = self.definitions.relation(oid)?;
        Some(self.definitions.is_visible(relation, &self.around.path))
    }
}
