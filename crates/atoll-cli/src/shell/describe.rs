//! The output of `\d`, `\memory` and `\health`.

use atoll::{IndexSpec, Schema};
use atoll_sql::Declared;
use serde::Serialize;

use crate::error::{CliError, Result};
use crate::output::Output;
use crate::render::memory as account;
use crate::render::table::{Align, Grid};
use crate::session::{Session, TableInfo};
use crate::shell::objects;
use crate::size;

/// Which lists of relations there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed<'s> {
    /// Tables, and the names of what else there is.
    All,
    /// Tables only.
    Tables,
    /// The tables of a schema.
    Schema(&'s str),
}

#[derive(Serialize)]
struct TableJson<'a> {
    table: &'a str,
    rows: u64,
    key: Vec<&'a str>,
    columns: Vec<ColumnJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tablespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    indexes: Option<Vec<IndexJson<'a>>>,
}

#[derive(Serialize)]
struct IndexJson<'a> {
    name: &'a str,
    columns: &'a [String],
    unique: bool,
}

#[derive(Serialize)]
struct ColumnJson<'a> {
    name: &'a str,
    r#type: String,
    nullable: bool,
}

fn json(table: &TableInfo, rows: u64) -> TableJson<'_> {
    let TableInfo { name, schema, tablespace, indexes } = table;
    let columns = schema.visible().iter().map(|column| ColumnJson {
        name: &column.name,
        r#type: column.data_type.to_string(),
        nullable: column.nullable,
    });
    let indexes = indexes.as_ref().map(|indexes| {
        let all = indexes.iter().map(|IndexSpec { name, columns, unique, .. }| IndexJson {
            name,
            columns,
            unique: *unique,
        });
        all.collect()
    });
    let (columns, tablespace) = (columns.collect(), tablespace.as_deref());
    TableJson { table: name, rows, key: key(schema), columns, tablespace, indexes }
}

fn key(schema: &Schema) -> Vec<&str> {
    let columns = schema.columns();
    schema.visible_key().iter().map(|at| columns[*at].name.as_str()).collect()
}

/// Writes the list of tables; with `more`, also their comments.
///
/// # Errors
/// Those of asking the session and of writing.
pub fn tables(
    session: &Session,
    output: &mut Output,
    listed: Listed<'_>,
    more: bool,
) -> Result<()> {
    let mut tables = session.tables()?;
    if let Listed::Schema(schema) = listed {
        let schema = names_in(schema);
        let known: Vec<String> = session.schemas()?.into_iter().map(|(name, _)| name).collect();
        if !known.contains(&schema) {
            let hint = format!("the schemas are {}", known.join(", "));
            return Err(CliError::with_hint(format!("there is no schema \"{schema}\""), hint));
        }
        tables.retain(|table| {
            let before = table.name.split_once('.').map(|(before, _)| before.to_owned());
            let of = before.filter(|before| known.contains(before));
            of.as_deref().unwrap_or("public") == schema
        });
    }
    let mut heads = vec![
        ("table", Align::Left),
        ("rows", Align::Right),
        ("columns", Align::Right),
        ("primary key", Align::Left),
    ];
    if more {
        heads.push(("comment", Align::Left));
    }
    let mut grid = Grid::new(heads);
    for table in &tables {
        let rows = session.row_count(&table.name)?;
        if output.json {
            output.json(&json(table, rows))?;
            continue;
        }
        let mut cells = vec![
            Some(table.name.clone()),
            Some(size::count(rows)),
            Some(table.schema.visible().len().to_string()),
            Some(key(&table.schema).join(", ")),
        ];
        if more {
            cells.push(Some(session.comments(&table.name)?.relation.unwrap_or_default()));
        }
        grid.push(cells);
    }
    if output.json {
        return match listed {
            Listed::All => objects::views(session, output, more),
            Listed::Tables | Listed::Schema(_) => Ok(()),
        };
    }
    if grid.is_empty() {
        output.line("no tables yet; CREATE TABLE makes one, \\load fills one from a file")?;
    } else {
        let (width, style) = (output.width(), output.style);
        grid.write(output, width, style)?;
    }
    match listed {
        Listed::All => objects::beside_tables(session, output),
        Listed::Tables | Listed::Schema(_) => Ok(()),
    }
}

/// A name as the command line has it: folded unless it is in quotes.
fn names_in(word: &str) -> String {
    match word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => quoted.to_owned(),
        None => word.to_ascii_lowercase(),
    }
}

/// Writes the columns of a table or a view; with `more`, also the comments on it.
///
/// # Errors
/// No such table; those of writing.
pub fn table(session: &Session, output: &mut Output, name: &str, more: bool) -> Result<()> {
    let tables = session.tables()?;
    let folded = match atoll_sql::relation_in_text(name) {
        Some(flat) => flat,
        None => name.trim_matches('"').to_ascii_lowercase(),
    };
    let found = tables.iter().find(|table| table.name == name.trim_matches('"'));
    let Some(table) = found.or_else(|| tables.iter().find(|table| table.name == folded)) else {
        let views = session.views()?;
        let view = views.iter().find(|(view, _)| view == name.trim_matches('"'));
        if let Some((name, view)) = view.or_else(|| views.iter().find(|(one, _)| *one == folded)) {
            return objects::view(session, output, (name, view), more);
        }
        let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        let hint = match names.as_slice() {
            [] => "there are no tables yet".to_owned(),
            names => format!("the tables are {}", names.join(", ")),
        };
        return Err(CliError::with_hint(format!("there is no table \"{name}\""), hint));
    };
    let rows = session.row_count(&table.name)?;
    if output.json {
        return Ok(output.json(&json(table, rows))?);
    }
    let declared = Declared::of(&table.schema)?;
    let value = |column: &str| match declared.generated.get(column) {
        Some(expression) => format!("generated: {expression}"),
        None => declared.defaults.get(column).cloned().unwrap_or_default(),
    };
    let mut titles = vec![
        ("column", Align::Left),
        ("type", Align::Left),
        ("nullable", Align::Left),
        ("key", Align::Right),
    ];
    let has_values = !declared.defaults.is_empty() || !declared.generated.is_empty();
    if has_values {
        titles.push(("default", Align::Left));
    }
    let comments = session.comments(&table.name)?;
    if more {
        titles.push(("comment", Align::Left));
    }
    let mut grid = Grid::new(titles);
    let keys = table.schema.visible_key();
    for (at, column) in table.schema.visible().iter().enumerate() {
        let position = keys.iter().position(|key| *key == at);
        let mut cells = vec![
            Some(column.name.clone()),
            Some(column.data_type.to_string()),
            Some(if column.nullable { "yes" } else { "" }.to_owned()),
            Some(position.map_or(String::new(), |position| (position + 1).to_string())),
        ];
        if has_values {
            cells.push(Some(value(&column.name)));
        }
        if more {
            cells.push(Some(comments.columns.get(&column.name).cloned().unwrap_or_default()));
        }
        grid.push(cells);
    }
    let (width, style) = (output.width(), output.style);
    output.line(&format!("{}: {}", style.bold(&table.name), size::counted(rows, "row")))?;
    grid.write(output, width, style)?;
    let indexes = table.indexes.as_deref().unwrap_or_default().iter();
    let indexes = indexes.map(|IndexSpec { name, columns, unique, nulls_not_distinct }| {
        let unique = match (*unique, *nulls_not_distinct) {
            (false, _) => "",
            (true, false) => " UNIQUE",
            (true, true) => " UNIQUE NULLS NOT DISTINCT",
        };
        format!("  {name}{unique} ({})", columns.join(", "))
    });
    section(output, "Indexes:", &indexes.collect::<Vec<_>>())?;
    rules(output, &declared)?;
    let mut referring = Vec::new();
    for other in &tables {
        for key in Declared::of(&other.schema)?.foreign_keys {
            if key.table == table.name {
                referring.push(format!("  {} {}: {key}", other.name, key.name));
            }
        }
    }
    section(output, "Referenced by:", &referring)?;
    if let Some(tablespace) = &table.tablespace {
        output.line(&format!("Tablespace: {tablespace}"))?;
    }
    if more { objects::comment(output, &comments) } else { Ok(()) }
}

/// Writes the conditions and the foreign keys of a table.
fn rules(output: &mut Output, declared: &Declared) -> Result<()> {
    let checks = declared.checks.iter();
    let checks: Vec<_> =
        checks.map(|check| format!("  {} CHECK ({})", check.name, check.condition)).collect();
    section(output, "Checks:", &checks)?;
    let keys = declared.foreign_keys.iter();
    let keys: Vec<_> = keys.map(|key| format!("  {} {key}", key.name)).collect();
    section(output, "Foreign keys:", &keys)
}

/// Writes lines below a title, if there are some.
fn section(output: &mut Output, title: &str, lines: &[String]) -> Result<()> {
    if !lines.is_empty() {
        output.line(title)?;
    }
    Ok(lines.iter().try_for_each(|line| output.line(line))?)
}

/// What programs are told of memory.
#[derive(Serialize)]
struct Memory {
    #[serde(flatten)]
    counters: atoll::Counters,
    account: atoll::MemoryAccount,
    budget: Option<atoll::Budget>,
}

/// Writes the counters and the memory of the database.
///
/// # Errors
/// [`CliError::Said`] on a snapshot; those of writing.
pub fn memory(session: &Session, output: &mut Output) -> Result<()> {
    let database = session.database()?;
    let (counters, budget) = (database.counters(), database.budget()?);
    let memory = database.memory();
    if output.json {
        return Ok(output.json(&Memory { counters, account: memory, budget })?);
    }
    let mut lines = vec![
        ("allocated", size::bytes(counters.memory_allocated_bytes)),
        ("taken from the machine", size::bytes(counters.memory_committed_bytes)),
        ("limit", size::bytes(counters.memory_limit_bytes)),
        ("kept for snapshots", size::bytes(counters.memory_kept_bytes)),
        ("copied for snapshots", size::bytes(counters.bytes_copied_on_write)),
        ("snapshots", size::count(counters.snapshots)),
        ("epoch", size::count(counters.epoch)),
        ("commits", size::count(counters.commits)),
        ("aborts", size::count(counters.aborts)),
    ];
    if let Some(budget) = budget {
        let place = if budget.cold_node.is_some() { "of it in DRAM" } else { "of it in memory" };
        lines.insert(1, (place, size::bytes(budget.resident_bytes)));
        lines.insert(2, ("budget of memory", size::bytes(budget.budget_bytes)));
        lines.insert(3, ("evicted so far", size::bytes(budget.evicted_bytes)));
        if let Some(node) = budget.cold_node {
            lines.insert(4, ("waiting on node", node.to_string()));
            lines.insert(5, ("come back so far", size::bytes(budget.returned_bytes)));
        }
        if budget.has_failed {
            lines.insert(4, ("evicting", "has failed: open the database again".to_owned()));
        }
    }
    let mut grid = Grid::new([("", Align::Left), ("now", Align::Right)]);
    for (name, value) in lines {
        grid.push(vec![Some(name.to_owned()), Some(value)]);
    }
    let (width, style) = (output.width(), output.style);
    grid.write(output, width, style)?;
    account::write(output, &memory)
}

/// What programs are told of durability.
#[derive(Serialize)]
struct Health {
    is_well: bool,
    troubles: Vec<String>,
    checkpoints_failed: u64,
}

/// Writes the problems of the durability of the database.
///
/// # Errors
/// [`CliError::Said`] on a snapshot; those of writing.
pub fn health(session: &Session, output: &mut Output) -> Result<()> {
    let health = session.database()?.health();
    let (is_well, troubles) = (health.is_well(), health.troubles());
    let checkpoints_failed = health.checkpoint.map_or(0, |failed| failed.in_a_row);
    if output.json {
        return Ok(output.json(&Health { is_well, troubles, checkpoints_failed })?);
    }
    if is_well {
        output.line("nothing is wrong")?;
    }
    for trouble in &troubles {
        output.line(trouble)?;
    }
    if checkpoints_failed > 0 {
        let count = size::counted(checkpoints_failed, "checkpoint");
        output.line(&format!("{count} in a row could not be taken"))?;
    }
    Ok(())
}
