//! What a database has, in the form that the catalogs are made of.

use std::collections::HashMap;

use atoll::{Catalog, DataType, IndexSpec, Labels, Schema, Snapshot, Table};

use super::oids::{self, Numbers};
use crate::comments::Comments;
use crate::declared::Declared;
use crate::declared::domain::Domain;
use crate::error::SqlError;
use crate::schemas::{self, PUBLIC};
use crate::scope::Scope;
use crate::sequence::definition::Definition;
use crate::user_types::UserType;
use crate::view::View;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    pub(super) spaces: Vec<Space>,
    pub(super) relations: Vec<Relation>,
    pub(super) types: Vec<Named>,
}

/// A schema.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) oid: u32,
    pub(super) name: String,
    pub(super) comment: Option<String>,
}

/// A table, a view or a sequence.
#[derive(Debug)]
pub(super) struct Relation {
    pub(super) oid: u32,
    /// The number of its schema, and the name of that.
    pub(super) space: u32,
    pub(super) schema: String,
    pub(super) name: String,
    pub(super) comments: Comments,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Table(Box<TableDefinition>),
    View(View),
    Sequence(Box<Definition>),
}

#[derive(Debug)]
pub(super) struct TableDefinition {
    pub(super) schema: Schema,
    pub(super) declared: Declared,
    /// The index of the primary key comes first.
    pub(super) indexes: Vec<IndexDefinition>,
    pub(super) rows: u64,
}

#[derive(Debug)]
pub(super) struct IndexDefinition {
    pub(super) oid: u32,
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    pub(super) is_unique: bool,
    pub(super) is_primary: bool,
    pub(super) nulls_not_distinct: bool,
}

/// A type of its own.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) oid: u32,
    pub(super) space: u32,
    pub(super) schema: String,
    pub(super) name: String,
    pub(super) flat: String,
    pub(super) comment: Option<String>,
    pub(super) of: TypeOf,
}

#[derive(Debug)]
pub(super) enum TypeOf {
    Enum(Labels),
    Domain(Domain, DataType),
}

/// A table as it is found.
struct FoundTable {
    name: String,
    oid: u32,
    schema: Schema,
    indexes: Vec<IndexSpec>,
    rows: u64,
}

/// An object as it is found.
struct FoundObject {
    name: String,
    oid: u32,
    schema: Schema,
}

impl Definitions {
    /// Those of a database, as a transaction sees them.
    ///
    /// # Errors
    /// A definition that this version does not know.
    pub(crate) fn of_scope(scope: &Scope) -> Result<Self, SqlError> {
        let (catalog, mut numbers): (&Catalog, _) = (&scope.catalog, Numbers::default());
        let mut tables = Vec::new();
        for table in catalog.tables() {
            tables.push(FoundTable {
                name: table.name().to_owned(),
                oid: numbers.of(table.serial()),
                schema: table.schema().clone(),
                indexes: table.indexes(),
                rows: table.row_count(),
            });
        }
        let object = |object: &Table| FoundObject {
            name: object.name().to_owned(),
            oid: numbers.of(object.serial()),
            schema: object.schema().clone(),
        };
        let mut objects: Vec<_> = catalog.objects().map(object).collect();
        for base in scope.db.bases() {
            add_snapshot(base, &mut |_| numbers.other(), (&mut tables, &mut objects))?;
        }
        Self::of(tables, objects)
    }

    /// Those of a snapshot.
    ///
    /// # Errors
    /// As [`Self::of_scope`]; the snapshot has expired.
    pub(crate) fn of_snapshot(snapshot: &Snapshot) -> Result<Self, SqlError> {
        let (mut tables, mut objects, mut numbers) = (Vec::new(), Vec::new(), Numbers::default());
        add_snapshot(snapshot, &mut |serial| numbers.of(serial), (&mut tables, &mut objects))?;
        Self::of(tables, objects)
    }

    fn of(tables: Vec<FoundTable>, objects: Vec<FoundObject>) -> Result<Self, SqlError> {
        let known: HashMap<&str, &FoundObject> =
            objects.iter().map(|object| (object.name.as_str(), object)).collect();
        let has = |name: &str| known.contains_key(name);
        let comments = |flat: &str| match known.get(Comments::object_of(flat).as_str()) {
            Some(object) => Comments::of(&object.schema),
            None => Ok(Comments::default()),
        };
        let found = objects.iter().map(|object| (object.name.as_str(), &object.schema));
        let mut spaces = Vec::new();
        for name in schemas::named(found) {
            let object = known.get(schemas::hidden(&name).as_str());
            let oid = match name.as_str() {
                PUBLIC => oids::PUBLIC,
                _ => object.map_or(oids::PUBLIC, |object| object.oid),
            };
            let comment = object.map_or(Ok(None), |one| schemas::comment_of(&one.schema))?;
            spaces.push(Space { oid, name, comment });
        }
        let place = |flat: &str| {
            let (schema, name) = schemas::split(flat, &has);
            let space = spaces.iter().find(|space| space.name == schema);
            (space.map_or(oids::PUBLIC, |space| space.oid), schema.to_owned(), name.to_owned())
        };
        let (mut relations, mut types) = (Vec::new(), Vec::new());
        for table in tables {
            let (space, schema, name) = place(&table.name);
            let comments = comments(&table.name)?;
            let oid = table.oid;
            let what = What::Table(Box::new(TableDefinition::of(table, &name)?));
            relations.push(Relation { oid, space, schema, name, comments, what });
        }
        for object in &objects {
            let what = match object.schema.object().map(|(kind, _)| kind) {
                Some("sequence") => {
                    let definition = Definition::of_schema(&object.schema, &object.name)?;
                    What::Sequence(Box::new(definition))
                }
                _ => match View::of(&object.schema)? {
                    Some(view) => What::View(view),
                    None => {
                        let (space, schema, name) = place(&object.name);
                        let (oid, flat) = (object.oid, object.name.clone());
                        let Some(of) = UserType::of(&flat, &object.schema)? else { continue };
                        let of = match of {
                            UserType::Enum(labels) => TypeOf::Enum(labels),
                            UserType::Domain(domain, below) => TypeOf::Domain(domain, below),
                        };
                        let comment = comments(&flat)?.relation;
                        types.push(Named { oid, space, schema, name, flat, comment, of });
                        continue;
                    }
                },
            };
            let ((space, schema, name), oid) = (place(&object.name), object.oid);
            let comments = comments(&object.name)?;
            relations.push(Relation { oid, space, schema, name, comments, what });
        }
        Ok(Self { spaces, relations, types })
    }

    /// The relation of a number.
    pub(super) fn relation(&self, oid: u32) -> Option<&Relation> {
        self.relations.iter().find(|relation| relation.oid == oid)
    }

    /// The relation of a flat name.
    pub(super) fn named(&self, flat: &str) -> Option<&Relation> {
        let is_it = |one: &&Relation| schemas::flat(&one.schema, &one.name) == flat;
        self.relations.iter().find(is_it)
    }

    /// The tables.
    pub(super) fn tables(&self) -> impl Iterator<Item = (&Relation, &TableDefinition)> {
        self.relations.iter().filter_map(|relation| match &relation.what {
            What::Table(table) => Some((relation, table.as_ref())),
            _ => None,
        })
    }

    /// The index of a number, with its table.
    pub(super) fn index(
        &self,
        oid: u32,
    ) -> Option<(&Relation, &TableDefinition, &IndexDefinition)> {
        self.tables().find_map(|(relation, table)| {
            let index = table.indexes.iter().find(|index| index.oid == oid)?;
            Some((relation, table, index))
        })
    }

    /// The type of its own that a flat name has.
    pub(super) fn type_named(&self, flat: &str) -> Option<&Named> {
        self.types.iter().find(|one| one.flat == flat)
    }
}

/// Adds what a snapshot has.
fn add_snapshot(
    snapshot: &Snapshot,
    number: &mut dyn FnMut(u64) -> u32,
    (tables, objects): (&mut Vec<FoundTable>, &mut Vec<FoundObject>),
) -> Result<(), SqlError> {
    for name in snapshot.tables() {
        if tables.iter().any(|table| table.name == name) {
            continue;
        }
        let table = snapshot.table(&name)?;
        tables.push(FoundTable {
            oid: number(table.serial_number()),
            schema: table.schema().clone(),
            indexes: table.indexes()?,
            rows: table.row_count()?,
            name,
        });
    }
    for object in snapshot.objects() {
        let (name, schema) = (object.name().to_owned(), object.schema().clone());
        if !objects.iter().any(|one| one.name == name) {
            objects.push(FoundObject { name, oid: number(object.serial_number()), schema });
        }
    }
    Ok(())
}

impl Relation {
    /// The table that it is.
    pub(super) fn table(&self) -> Option<&TableDefinition> {
        match &self.what {
            What::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The number of a column, from 1.
    pub(super) fn position(&self, column: &str) -> Option<i64> {
        match &self.what {
            What::Table(table) => table.position(column),
            What::View(view) => {
                let at = view.columns.iter().position(|one| one.name == column)?;
                i64::try_from(at + 1).ok()
            }
            What::Sequence(_) => None,
        }
    }
}

impl TableDefinition {
    fn of(found: FoundTable, bare: &str) -> Result<Self, SqlError> {
        let FoundTable { schema, indexes, oid, rows, .. } = found;
        let declared = Declared::of(&schema)?;
        let key = schema.visible_key().iter().map(|at| schema.columns()[*at].name.clone());
        let key: Vec<String> = key.collect();
        // The order of the primary key, if there is one, has its name.
        let of_key = indexes.iter().position(|index| !index.unique && index.columns == key);
        let of_key = of_key.filter(|_| !key.is_empty());
        let mut all = Vec::new();
        if !key.is_empty() {
            let name = of_key.map(|at| indexes[at].name.clone());
            let name = name.unwrap_or_else(|| format!("{bare}_pkey"));
            all.push((name, key, true, true, false));
        }
        for (at, index) in indexes.into_iter().enumerate() {
            if Some(at) != of_key {
                let IndexSpec { name, columns, unique, nulls_not_distinct } = index;
                all.push((name, columns, unique, false, nulls_not_distinct));
            }
        }
        let number = |at: usize| oid + 1 + (at as u32).min(oids::BLOCK - 2);
        let indexes = all.into_iter().enumerate().map(|(at, one)| {
            let (name, columns, is_unique, is_primary, nulls_not_distinct) = one;
            let oid = number(at);
            IndexDefinition { oid, name, columns, is_unique, is_primary, nulls_not_distinct }
        });
        Ok(Self { declared, indexes: indexes.collect(), schema, rows })
    }

    /// The number of a column, from 1.
    pub(super) fn position(&self, column: &str) -> Option<i64> {
        let at = self.schema.visible().iter().position(|one| one.name == column)?;
        i64::try_from(at + 1).ok()
    }

    /// The numbers of columns.
    pub(super) fn positions(&self, columns: &[String]) -> Vec<i64> {
        columns.iter().filter_map(|column| self.position(column)).collect()
    }
}
