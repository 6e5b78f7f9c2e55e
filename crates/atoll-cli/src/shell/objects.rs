//! The output of `\dv`, `\di`, `\ds`, `\dT` and `\dD`, and what `\d` says of views and of comments.

use atoll::IndexSpec;
use atoll_sql::{Comments, UserType, View};
use serde::Serialize;

use crate::error::Result;
use crate::output::Output;
use crate::render::table::{Align, Grid};
use crate::session::Session;

#[derive(Serialize)]
struct ViewJson<'a> {
    view: &'a str,
    columns: Vec<ViewColumnJson<'a>>,
    definition: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    comment: Option<String>,
}

#[derive(Serialize)]
struct ViewColumnJson<'a> {
    name: &'a str,
    r#type: &'a str,
}

#[derive(Serialize)]
struct IndexJson<'a> {
    index: &'a str,
    table: &'a str,
    columns: &'a [String],
    unique: bool,
}

#[derive(Serialize)]
struct SequenceJson<'a> {
    sequence: &'a str,
}

#[derive(Serialize)]
struct TypeJson<'a> {
    r#type: &'a str,
    labels: &'a [String],
}

#[derive(Serialize)]
struct DomainJson<'a> {
    domain: &'a str,
    r#type: &'a str,
    not_null: bool,
    default: Option<&'a str>,
    checks: Vec<&'a str>,
}

fn json<'a>(name: &'a str, view: &'a View, comments: Comments) -> Result<ViewJson<'a>> {
    let columns = view.columns.iter();
    let columns = columns.map(|one| ViewColumnJson { name: &one.name, r#type: &one.data_type });
    let (columns, definition) = (columns.collect(), view.definition()?);
    Ok(ViewJson { view: name, columns, definition, comment: comments.relation })
}

/// Writes the list of views; with `more`, also their comments and queries.
///
/// # Errors
/// Those of asking the session and of writing.
pub fn views(session: &Session, output: &mut Output, more: bool) -> Result<()> {
    let mut heads = vec![("view", Align::Left), ("columns", Align::Left)];
    if more {
        heads.extend([("comment", Align::Left), ("definition", Align::Left)]);
    }
    let mut grid = Grid::new(heads);
    for (name, view) in session.views()? {
        let comments = session.comments(&name)?;
        if output.json {
            output.json(&json(&name, &view, comments)?)?;
            continue;
        }
        let columns: Vec<&str> = view.columns.iter().map(|column| column.name.as_str()).collect();
        let mut cells = vec![Some(name), Some(columns.join(", "))];
        if more {
            let comment = Some(comments.relation.unwrap_or_default());
            cells.extend([comment, Some(view.definition()?)]);
        }
        grid.push(cells);
    }
    write(&grid, output, "no views yet; CREATE VIEW makes one")
}

/// Writes the list of the indexes of the database's own tables.
///
/// # Errors
/// Those of asking the session and of writing.
pub fn indexes(session: &Session, output: &mut Output, more: bool) -> Result<()> {
    let mut heads = vec![
        ("index", Align::Left),
        ("table", Align::Left),
        ("columns", Align::Left),
        ("unique", Align::Left),
    ];
    if more {
        heads.push(("comment", Align::Left));
    }
    let mut grid = Grid::new(heads);
    for table in session.tables()? {
        let comments = session.comments(&table.name)?;
        for IndexSpec { name, columns, unique, .. } in table.indexes.iter().flatten() {
            if output.json {
                let (index, table, unique) = (name.as_str(), table.name.as_str(), *unique);
                output.json(&IndexJson { index, table, columns, unique })?;
                continue;
            }
            let unique = if *unique { "yes" } else { "" };
            let cells = [name.clone(), table.name.clone(), columns.join(", "), unique.to_owned()];
            let comment = more.then(|| comments.indexes.get(name).cloned().unwrap_or_default());
            grid.push(cells.into_iter().chain(comment).map(Some).collect());
        }
    }
    write(&grid, output, "no indexes")
}

/// Writes the list of sequences.
///
/// # Errors
/// Those of asking the session and of writing.
pub fn sequences(session: &Session, output: &mut Output) -> Result<()> {
    let mut grid = Grid::new([("sequence", Align::Left)]);
    for (name, _) in session.objects("sequence")? {
        match output.json {
            true => output.json(&SequenceJson { sequence: &name })?,
            false => grid.push(vec![Some(name)]),
        }
    }
    write(&grid, output, "no sequences")
}

/// Writes the list of types.
///
/// # Errors
/// Those of asking the session and of writing.
pub fn types(session: &Session, output: &mut Output) -> Result<()> {
    let mut grid = Grid::new([("type", Align::Left), ("labels", Align::Left)]);
    for (name, schema) in session.objects("enum")? {
        let Some(UserType::Enum(labels)) = UserType::of(&name, &schema)? else { continue };
        let labels = labels.labels();
        match output.json {
            true => output.json(&TypeJson { r#type: &name, labels })?,
            false => grid.push(vec![Some(name), Some(labels.join(", "))]),
        }
    }
    write(&grid, output, "no types yet; CREATE TYPE makes one")
}

#[derive(Serialize)]
struct SchemaJson<'a> {
    schema: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    comment: Option<&'a str>,
}

/// Writes the list of schemas; with `more`, also their comments.
///
/// # Errors
/// Those of asking the session and of writing.
pub fn schemas(session: &Session, output: &mut Output, more: bool) -> Result<()> {
    let mut heads = vec![("schema", Align::Left)];
    if more {
        heads.push(("comment", Align::Left));
    }
    let mut grid = Grid::new(heads);
    for (schema, comment) in session.schemas()? {
        if output.json {
            output.json(&SchemaJson { schema: &schema, comment: comment.as_deref() })?;
            continue;
        }
        let comment = more.then(|| comment.unwrap_or_default());
        grid.push([schema].into_iter().chain(comment).map(Some).collect());
    }
    write(&grid, output, "no schemas")
}

/// Writes the list of domains.
///
/// # Errors
/// Those of asking the session and of writing.
pub fn domains(session: &Session, output: &mut Output) -> Result<()> {
    let titles = ["domain", "type", "nullable", "default", "checks"];
    let mut grid = Grid::new(titles.map(|title| (title, Align::Left)));
    for (name, schema) in session.objects("domain")? {
        let Some(UserType::Domain(domain, of)) = UserType::of(&name, &schema)? else { continue };
        let of = of.to_string();
        let checks: Vec<&str> = domain.checks.iter().map(|one| one.condition.as_str()).collect();
        if output.json {
            output.json(&DomainJson {
                domain: &name,
                r#type: &of,
                not_null: domain.not_null,
                default: domain.default.as_deref(),
                checks,
            })?;
            continue;
        }
        let nullable = if domain.not_null { "" } else { "yes" };
        grid.push(vec![
            Some(name),
            Some(of),
            Some(nullable.to_owned()),
            Some(domain.default.unwrap_or_default()),
            Some(checks.join(", ")),
        ]);
    }
    write(&grid, output, "no domains yet; CREATE DOMAIN makes one")
}

/// Writes the columns of a view; with `more`, also its comments and its query.
///
/// # Errors
/// Those of asking the session and of writing.
pub fn view(
    session: &Session,
    output: &mut Output,
    (name, view): (&str, &View),
    more: bool,
) -> Result<()> {
    let comments = session.comments(name)?;
    if output.json {
        return Ok(output.json(&json(name, view, comments)?)?);
    }
    let mut heads = vec![("column", Align::Left), ("type", Align::Left)];
    if more {
        heads.push(("comment", Align::Left));
    }
    let mut grid = Grid::new(heads);
    for column in &view.columns {
        let comment = comments.columns.get(&column.name).cloned().unwrap_or_default();
        let cells = [column.name.clone(), column.data_type.clone()];
        grid.push(cells.into_iter().chain(more.then_some(comment)).map(Some).collect());
    }
    let (width, style) = (output.width(), output.style);
    output.line(&format!("{}: view", style.bold(name)))?;
    grid.write(output, width, style)?;
    if more {
        output.line("Definition:")?;
        output.line(&format!("  {}", view.definition()?))?;
        comment(output, &comments)?;
    }
    Ok(())
}

/// Writes the comments on a relation, its indexes and its constraints; those on its columns stand
/// beside them.
///
/// # Errors
/// Those of writing.
pub fn comment(output: &mut Output, comments: &Comments) -> Result<()> {
    if let Some(comment) = &comments.relation {
        output.line(&format!("Comment: {comment}"))?;
    }
    for (kind, of) in [("index", &comments.indexes), ("constraint", &comments.constraints)] {
        for (name, comment) in of {
            output.line(&format!("Comment on {kind} {name}: {comment}"))?;
        }
    }
    Ok(())
}

/// Writes what else there is beside tables, one line for each kind.
///
/// # Errors
/// Those of asking the session and of writing.
pub fn beside_tables(session: &Session, output: &mut Output) -> Result<()> {
    for (kind, title) in
        [("view", "Views"), ("sequence", "Sequences"), ("enum", "Types"), ("domain", "Domains")]
    {
        let names: Vec<_> = session.objects(kind)?.into_iter().map(|(name, _)| name).collect();
        if !names.is_empty() {
            output.line(&format!("{title}: {}", names.join(", ")))?;
        }
    }
    Ok(())
}

fn write(grid: &Grid, output: &mut Output, none: &str) -> Result<()> {
    if output.json {
        return Ok(());
    }
    if grid.is_empty() {
        return Ok(output.line(none)?);
    }
    let (width, style) = (output.width(), output.style);
    grid.write(output, width, style)?;
    Ok(())
}
