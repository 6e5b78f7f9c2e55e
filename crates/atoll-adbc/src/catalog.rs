//! What a client asks about the tables of a database. A database has one catalog with one schema.

use std::sync::Arc;

use adbc_core::error::Status;
use adbc_core::options::ObjectDepth;
use adbc_core::schemas::{
    COLUMN_SCHEMA, CONSTRAINT_SCHEMA, GET_OBJECTS_SCHEMA, GET_TABLE_TYPES_SCHEMA,
    OBJECTS_DB_SCHEMA_SCHEMA, TABLE_SCHEMA,
};
use arrow_array::{
    ArrayRef, Int16Array, Int32Array, ListArray, RecordBatch, StringArray, StructArray,
    new_null_array,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Fields, Schema as ArrowSchema};
use atoll::{Database, Schema, Snapshot, arrow_field};
use atoll_sql::{View, ViewColumn};

use crate::errors::{Result, error, of_database, of_sql};
use crate::link::Source;

/// The name of the one catalog.
pub(crate) const CATALOG: &str = "atoll";
/// The name of the one schema.
pub(crate) const SCHEMA: &str = "public";
/// The types of tables.
const TABLE: &str = "table";
const VIEW: &str = "view";

/// What [`objects`] is to show: everything that matches all patterns that are given.
pub(crate) struct Filter<'f> {
    pub(crate) depth: ObjectDepth,
    pub(crate) catalog: Option<&'f str>,
    pub(crate) schema: Option<&'f str>,
    pub(crate) table: Option<&'f str>,
    pub(crate) table_types: Option<Vec<&'f str>>,
    pub(crate) column: Option<&'f str>,
}

/// The types of tables.
pub(crate) fn table_types() -> Result<RecordBatch> {
    let types = Arc::new(StringArray::from(vec![TABLE, VIEW]));
    Ok(RecordBatch::try_new(Arc::clone(&GET_TABLE_TYPES_SCHEMA), vec![types])?)
}

/// The columns of a table as Arrow fields.
///
/// # Errors
/// There is no such table, catalog or schema.
pub(crate) fn table_schema(
    source: &Source,
    catalog: Option<&str>,
    schema: Option<&str>,
    table: &str,
) -> Result<ArrowSchema> {
    let is_here = |given: Option<&str>, only| given.is_none_or(|given| given == only);
    if !is_here(catalog, CATALOG) || !is_here(schema, SCHEMA) {
        let message = format!("there is no table \"{table}\" there; all are in {CATALOG}.{SCHEMA}");
        return Err(error(Status::NotFound, "42P01", message));
    }
    if let Some((_, view)) = views(source, |name| name == table)?.pop() {
        return Ok(view.arrow_schema());
    }
    let found = match source {
        Source::Owned(db) => match db.table(table) {
            Ok(table) => Ok(table.schema().clone()),
            Err(atoll::Error::InheritedTable(_)) => inherited(db, table),
            Err(error) => Err(error),
        },
        Source::Attached(_) => source.snapshot()?.table(table).map(|table| table.schema().clone()),
    };
    let found = found.map_err(|error| of_database(&error))?;
    Ok(ArrowSchema::new(found.visible().iter().map(arrow_field).collect::<Vec<_>>()))
}

fn inherited(db: &Database, table: &str) -> atoll::Result<Schema> {
    let mut found = db.snapshot()?.table(table);
    for base in db.bases() {
        if let Ok(table) = base.table(table) {
            found = Ok(table);
            break;
        }
    }
    found.map(|table| table.schema().clone())
}

/// A table as [`objects`] shows it.
struct Described {
    name: String,
    kind: &'static str,
    columns: Vec<ShownColumn>,
    /// The columns of its primary key.
    key: Option<Vec<String>>,
    /// Its unique indexes.
    unique: Vec<(String, Vec<String>)>,
}

struct ShownColumn {
    name: String,
    data_type: String,
    nullable: bool,
}

impl Described {
    fn table(name: String, schema: &Schema, unique: Vec<(String, Vec<String>)>) -> Self {
        let columns = schema.visible().iter().map(|column| ShownColumn {
            name: column.name.clone(),
            data_type: column.data_type.to_string(),
            nullable: column.nullable,
        });
        let key = schema.visible_key().iter().map(|at| schema.columns()[*at].name.clone());
        let (columns, key) = (columns.collect(), Some(key.collect()));
        let key = key.filter(|key: &Vec<String>| !key.is_empty());
        Self { name, kind: TABLE, columns, key, unique }
    }

    fn view((name, view): (String, View)) -> Self {
        let columns = view.columns.into_iter();
        let columns = columns.map(|ViewColumn { name, data_type }| ShownColumn {
            name,
            data_type,
            nullable: true,
        });
        let (columns, key, unique) = (columns.collect(), None, Vec::new());
        Self { name, kind: VIEW, columns, key, unique }
    }
}

/// The views with wanted names.
fn views(source: &Source, wanted: impl Fn(&str) -> bool) -> Result<Vec<(String, View)>> {
    let mut found = Vec::new();
    let mut add = |name: &str, schema: &Schema| -> Result<()> {
        if wanted(name) {
            let view = View::of(schema).map_err(|error| of_sql(&error, ""))?;
            found.extend(view.map(|view| (name.to_owned(), view)));
        }
        Ok(())
    };
    match source {
        Source::Owned(db) => {
            let catalog = db.catalog().map_err(|error| of_database(&error))?;
            catalog.objects().try_for_each(|object| add(object.name(), object.schema()))?;
        }
        Source::Attached(_) => {
            let snapshot = source.snapshot()?;
            snapshot.objects().try_for_each(|object| add(object.name(), object.schema()))?;
        }
    }
    Ok(found)
}

/// The tables with wanted names.
fn tables(source: &Source, wanted: impl Fn(&str) -> bool) -> Result<Vec<Described>> {
    let of_snapshot = |snapshot: &Snapshot, found: &mut Vec<Described>| {
        for name in snapshot.tables() {
            if wanted(&name)
                && !found.iter().any(|one| one.name == name)
                && let Ok(table) = snapshot.table(&name)
            {
                found.push(Described::table(name, table.schema(), Vec::new()));
            }
        }
    };
    let mut found = Vec::new();
    match source {
        Source::Owned(db) => {
            for name in db.tables().into_iter().filter(|name| wanted(name)) {
                let table = db.table(&name).map_err(|error| of_database(&error))?;
                let unique = table.indexes().into_iter().filter(|index| index.unique);
                let unique = unique.map(|index| (index.name, index.columns)).collect();
                found.push(Described::table(name, table.schema(), unique));
            }
            db.bases().iter().for_each(|base| of_snapshot(base, &mut found));
        }
        Source::Attached(_) => of_snapshot(&source.snapshot()?, &mut found),
    }
    Ok(found)
}

/// The catalog, its schema, tables and columns, as deep as wanted.
pub(crate) fn objects(source: &Source, filter: &Filter<'_>) -> Result<RecordBatch> {
    let matches = |pattern: Option<&str>, name: &str| pattern.is_none_or(|one| is_like(name, one));
    let catalogs = usize::from(matches(filter.catalog, CATALOG));
    let schemas = if catalogs == 1 { usize::from(matches(filter.schema, SCHEMA)) } else { 0 };
    let is_of_type =
        |kind| filter.table_types.as_ref().is_none_or(|types: &Vec<&str>| types.contains(&kind));
    let depth = match filter.depth {
        ObjectDepth::Catalogs => 1,
        ObjectDepth::Schemas => 2,
        ObjectDepth::Tables => 3,
        ObjectDepth::All | ObjectDepth::Columns => 4,
    };
    let wanted = |name: &str| matches(filter.table, name);
    let mut found = Vec::new();
    if depth >= 3 && schemas == 1 && is_of_type(TABLE) {
        found.extend(tables(source, wanted)?);
    }
    if depth >= 3 && schemas == 1 && is_of_type(VIEW) {
        found.extend(views(source, wanted)?.into_iter().map(Described::view));
    }
    let tables = found;
    let in_tables = match depth {
        4 => {
            let shown = |column: &ShownColumn| matches(filter.column, &column.name);
            vec![columns(&tables, shown)?, constraints(&tables)?]
        }
        _ => fields(&TABLE_SCHEMA)[2..].iter().map(|one| nulls(one, tables.len())).collect(),
    };
    let names = StringArray::from_iter_values(tables.iter().map(|table| &table.name));
    let types = StringArray::from_iter_values(tables.iter().map(|table| table.kind));
    let mut of_tables: Vec<ArrayRef> = vec![Arc::new(names), Arc::new(types)];
    of_tables.extend(in_tables);
    let tables_array = structs(&TABLE_SCHEMA, of_tables)?;
    let in_schema = match depth {
        3.. => list(tables_array, (0..schemas).map(|_| tables.len()))?,
        _ => nulls(&fields(&OBJECTS_DB_SCHEMA_SCHEMA)[1], schemas),
    };
    let names = Arc::new(StringArray::from_iter_values((0..schemas).map(|_| SCHEMA)));
    let schemas_array = structs(&OBJECTS_DB_SCHEMA_SCHEMA, vec![names, in_schema])?;
    let in_catalog = match depth {
        2.. => list(schemas_array, (0..catalogs).map(|_| schemas))?,
        _ => nulls(GET_OBJECTS_SCHEMA.field(1), catalogs),
    };
    let names = Arc::new(StringArray::from_iter_values((0..catalogs).map(|_| CATALOG)));
    Ok(RecordBatch::try_new(Arc::clone(&GET_OBJECTS_SCHEMA), vec![names, in_catalog])?)
}

fn columns(tables: &[Described], shown: impl Fn(&ShownColumn) -> bool) -> Result<ArrayRef> {
    let mut lengths = Vec::new();
    let mut all: Vec<(i32, &ShownColumn)> = Vec::new();
    for table in tables {
        let before = all.len();
        all.extend((1..).zip(&table.columns).filter(|(_, column)| shown(column)));
        lengths.push(all.len() - before);
    }
    let each = || all.iter().map(|(_, column)| *column);
    let of_type = |column: &ShownColumn| column.data_type.clone();
    let column = |field: &Arc<Field>| -> ArrayRef {
        match field.name().as_str() {
            "column_name" => Arc::new(StringArray::from_iter_values(each().map(|one| &one.name))),
            "ordinal_position" => {
                Arc::new(Int32Array::from_iter_values(all.iter().map(|(at, _)| *at)))
            }
            "xdbc_type_name" => Arc::new(StringArray::from_iter_values(each().map(of_type))),
            "xdbc_nullable" => {
                Arc::new(Int16Array::from_iter_values(each().map(|one| i16::from(one.nullable))))
            }
            "xdbc_is_nullable" => {
                let yes = |one: &ShownColumn| if one.nullable { "YES" } else { "NO" };
                Arc::new(StringArray::from_iter_values(each().map(yes)))
            }
            _ => nulls(field, all.len()),
        }
    };
    list(structs(&COLUMN_SCHEMA, fields(&COLUMN_SCHEMA).iter().map(column).collect())?, lengths)
}

fn constraints(tables: &[Described]) -> Result<ArrayRef> {
    let (mut names, mut types, mut columns) = (Vec::new(), Vec::new(), Vec::new());
    let mut lengths = Vec::new();
    for table in tables {
        if let Some(key) = &table.key {
            names.push(None);
            types.push("PRIMARY KEY");
            columns.push(key.clone());
        }
        for (name, of_index) in &table.unique {
            names.push(Some(name.clone()));
            types.push("UNIQUE");
            columns.push(of_index.clone());
        }
        lengths.push(usize::from(table.key.is_some()) + table.unique.len());
    }
    let count = names.len();
    let in_columns = columns.iter().map(Vec::len);
    let flat = StringArray::from_iter_values(columns.concat());
    let arrays = vec![
        Arc::new(StringArray::from(names)) as ArrayRef,
        Arc::new(StringArray::from(types)),
        list(Arc::new(flat), in_columns)?,
        nulls(&fields(&CONSTRAINT_SCHEMA)[3], count),
    ];
    list(structs(&CONSTRAINT_SCHEMA, arrays)?, lengths)
}

fn fields(of: &DataType) -> &Fields {
    match of {
        DataType::Struct(fields) => fields,
        other => unreachable!("{other} is no struct; the schemas of ADBC are fixed"),
    }
}

fn nulls(field: &Field, count: usize) -> ArrayRef {
    new_null_array(field.data_type(), count)
}

fn structs(of: &DataType, columns: Vec<ArrayRef>) -> Result<ArrayRef> {
    Ok(Arc::new(StructArray::try_new(fields(of).clone(), columns, None)?))
}

/// The values in lists of these lengths.
fn list(values: ArrayRef, lengths: impl IntoIterator<Item = usize>) -> Result<ArrayRef> {
    let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(item, offsets, values, None)?))
}

/// Whether a name matches a pattern: `_` stands for one character, `%` for any. Takes time in
/// proportion to the product of both lengths at most.
fn is_like(name: &str, pattern: &str) -> bool {
    let (name, pattern): (Vec<char>, Vec<char>) =
        (name.chars().collect(), pattern.chars().collect());
    let (mut at, mut here) = (0, 0);
    // Behind the last `%`: the place in the pattern, and that in the name from which it was tried.
    let mut again: Option<(usize, usize)> = None;
    while at < name.len() {
        match pattern.get(here) {
            Some('%') => {
                again = Some((here + 1, at));
                here += 1;
            }
            Some(one) if *one == '_' || *one == name[at] => (at, here) = (at + 1, here + 1),
            _ => match &mut again {
                Some((behind, from)) => {
                    *from += 1;
                    (at, here) = (*from, *behind);
                }
                None => return false,
            },
        }
    }
    pattern[here..].iter().all(|one| *one == '%')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_like() {
        for (name, pattern) in
            [("items", "items"), ("items", "i%s"), ("items", "%"), ("items", "_tem_"), ("é", "_")]
        {
            assert!(is_like(name, pattern), "{name} {pattern}");
        }
        for (name, pattern) in
            [("items", "item"), ("items", "items_"), ("items", ""), ("items", "I%"), ("ab", "%a")]
        {
            assert!(!is_like(name, pattern), "{name} {pattern}");
        }
        assert!(is_like("aaab", "%a%b"));
        let long = "%a".repeat(5000);
        assert!(!is_like(&"a".repeat(4999), &long));
    }
}
