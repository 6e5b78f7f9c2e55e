//! Statements, mostly grammatical, and values for their parameters.

use arbitrary::{Result, Unstructured};
use atoll_sql::Literal;

/// Deepest expression.
const DEPTH: usize = 3;

/// The columns of a table.
type Columns = &'static [&'static str];

/// Tables with their columns.
const TABLES: [(&str, Columns); 6] = [
    ("t", &["id", "v", "name"]),
    ("every", &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"]),
    ("hashed", &["id", "w"]),
    ("t AS x", &["id", "v", "x.name"]),
    ("made", &["id", "v", "nope"]),
    ("seen", &["id", "v"]),
];
const TYPES: [&str; 12] = [
    "smallint",
    "int",
    "bigint",
    "real",
    "double precision",
    "boolean",
    "date",
    "timestamp",
    "numeric(9,2)",
    "text",
    "bytea",
    "nope",
];
const CONSTANTS: [&str; 29] = [
    "1",
    "2",
    "0",
    "-1",
    "NULL",
    "true",
    "'a'",
    "'x'",
    "''",
    "10",
    "1.5",
    "1e10",
    "1e400",
    "2147483648",
    "-9223372036854775808",
    "9223372036854775807",
    "99999999999999999999",
    "0.000000000000000000000000000000000001",
    "DATE '2000-02-29'",
    "TIMESTAMP '2013-01-01 05:00'",
    "'2001-02-29'",
    "INTERVAL '1 month'",
    "'\\x0a'",
    "E'\\n'",
    "'NaN'",
    "$1",
    "$2",
    "now()",
    "'1'",
];
const OPERATORS: [&str; 22] = [
    "+",
    "-",
    "*",
    "/",
    "%",
    "||",
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "AND",
    "OR",
    "LIKE",
    "ILIKE",
    "IS DISTINCT FROM",
    "~",
    "&",
    "^",
    "->",
    "IN",
];
const FUNCTIONS: [&str; 24] = [
    "abs",
    "round",
    "coalesce",
    "nullif",
    "lower",
    "length",
    "substring",
    "greatest",
    "count",
    "sum",
    "min",
    "max",
    "avg",
    "date_trunc",
    "extract",
    "replace",
    "left",
    "concat",
    "trim",
    "string_agg",
    "floor",
    "sqrt",
    "row_number",
    "nope",
];
/// Pieces of text between which damage is done.
const PIECES: [&str; 34] = [
    "SELECT",
    "FROM",
    "WHERE",
    "(",
    ")",
    ",",
    ";",
    "'",
    "\"",
    "--",
    "/*",
    "*/",
    "$1",
    "$",
    "?",
    "E'",
    "::",
    ".",
    "*",
    "GROUP BY",
    "UNION",
    "VALUES",
    "ON CONFLICT",
    "RETURNING",
    "CASE",
    "END",
    "NOT",
    "\0",
    "\u{1}",
    "é",
    "\u{10ffff}",
    "1e",
    "0x",
    "OVER (",
];

type Input<'u, 'b> = &'u mut Unstructured<'b>;

fn pick<'c>(u: Input<'_, '_>, from: &[&'c str]) -> Result<&'c str> {
    u.choose(from).copied()
}

/// One statement.
pub fn statement(u: Input<'_, '_>) -> Result<String> {
    let sql = match u.int_in_range(0..=23u8)? {
        0..=4 => query(u, DEPTH)?,
        5..=8 => insert(u)?,
        9..=11 => update(u)?,
        12..=13 => {
            let (table, of) = table(u)?;
            format!("DELETE FROM {table}{}{}", filter(u, of)?, returning(u, of)?)
        }
        14..=15 => {
            let more = ["", "", "", " READ ONLY", " ISOLATION LEVEL SERIALIZABLE"];
            format!("BEGIN{}", pick(u, &more)?)
        }
        16 => pick(u, &["COMMIT", "COMMIT", "ROLLBACK"])?.to_owned(),
        17 => {
            let verb = pick(u, &["SAVEPOINT", "ROLLBACK TO", "RELEASE"])?;
            format!("{verb} {}", pick(u, &["s", "r"])?)
        }
        18 => {
            let rows = if u.arbitrary()? { insert(u)? } else { query(u, 1)? };
            format!("PREPARE {} AS {rows}", pick(u, &["p", "q"])?)
        }
        19 => {
            let name = pick(u, &["p", "q"])?;
            match u.int_in_range(0..=3u8)? {
                0 => format!("EXECUTE {name}"),
                1 => format!("DEALLOCATE {name}"),
                _ => format!(
                    "EXECUTE {name}({})",
                    list(u, 2, |u| Ok(pick(u, &CONSTANTS)?.to_owned()))?
                ),
            }
        }
        20 => format!("EXPLAIN {}", if u.arbitrary()? { query(u, 2)? } else { update(u)? }),
        21 => create(u)?,
        22 => {
            let what =
                ["SHOW ALL", "SET lock_timeout = 1", "RESET ALL", "SHOW TABLES", "DESCRIBE t"];
            pick(u, &what)?.to_owned()
        }
        _ => String::from_utf8_lossy(u.bytes(u.len().min(20))?).into_owned(),
    };
    if u.ratio(1, 5)? { damaged(u, sql) } else { Ok(sql) }
}

/// A statement with some damage.
fn damaged(u: Input<'_, '_>, sql: String) -> Result<String> {
    let mut chars: Vec<char> = sql.chars().collect();
    for _ in 0..u.int_in_range(1..=3u8)? {
        let at = u.int_in_range(0..=chars.len())?;
        let end = (at + u.int_in_range(0..=4usize)?).min(chars.len());
        match u.int_in_range(0..=2u8)? {
            0 => drop(chars.drain(at..end)),
            1 => {
                let piece = pick(u, &PIECES)?;
                drop(chars.splice(at..at, piece.chars()));
            }
            _ => {
                let twice: Vec<char> = chars[at..end].to_vec();
                drop(chars.splice(at..at, twice));
            }
        }
    }
    Ok(chars.into_iter().collect())
}

/// A table and its columns; mostly one that exists.
fn table(u: Input<'_, '_>) -> Result<(&'static str, Columns)> {
    Ok(TABLES[if u.ratio(1, 8)? { 4 } else { u.int_in_range(0..=3)? }])
}

fn list(
    u: Input<'_, '_>,
    most: usize,
    mut item: impl FnMut(Input<'_, '_>) -> Result<String>,
) -> Result<String> {
    let count = u.int_in_range(1..=most)?;
    let items = (0..count).map(|_| item(u)).collect::<Result<Vec<_>>>()?;
    Ok(items.join(", "))
}

fn query(u: Input<'_, '_>, depth: usize) -> Result<String> {
    let with = match depth > 1 && u.ratio(1, 8)? {
        true => format!("WITH made AS ({}) ", query(u, depth - 1)?),
        false => String::new(),
    };
    let distinct = if u.ratio(1, 6)? { "DISTINCT " } else { "" };
    let (table, of) = table(u)?;
    let items = match u.ratio(1, 4)? {
        true => "*".to_owned(),
        false => list(u, 3, |u| expr(u, of, depth))?,
    };
    let mut from = match depth > 0 && u.ratio(1, 6)? {
        true => format!("({}) AS made", query(u, depth - 1)?),
        false => table.to_owned(),
    };
    if u.ratio(1, 4)? {
        let join = pick(u, &["JOIN", "LEFT JOIN", "FULL JOIN", "CROSS JOIN", ","])?;
        from = format!("{from} {join} {}", pick(u, &["t AS y", "hashed AS y", "every AS y"])?);
        if join.ends_with("JOIN") && join != "CROSS JOIN" {
            from = format!("{from} ON {}", expr(u, of, 1)?);
        }
    }
    let mut sql = format!("{with}SELECT {distinct}{items} FROM {from}{}", filter(u, of)?);
    if u.ratio(1, 6)? {
        sql = format!("{sql} GROUP BY {}", list(u, 2, |u| expr(u, of, 0))?);
        if u.ratio(1, 3)? {
            sql = format!("{sql} HAVING {}", expr(u, of, 1)?);
        }
    }
    if depth > 0 && u.ratio(1, 8)? {
        let how = pick(u, &["UNION", "UNION ALL", "INTERSECT", "EXCEPT"])?;
        sql = format!("{sql} {how} {}", query(u, depth - 1)?);
    }
    if u.ratio(1, 4)? {
        let order = pick(u, &["", " DESC", " NULLS FIRST"])?;
        sql = format!("{sql} ORDER BY {}{order}", expr(u, of, 1)?);
    }
    if u.ratio(1, 5)? {
        sql = format!("{sql} LIMIT {} OFFSET {}", expr(u, of, 0)?, pick(u, &["0", "1", "$1"])?);
    }
    if u.ratio(1, 8)? {
        sql.push_str(pick(u, &[" FOR UPDATE", " FOR UPDATE NOWAIT", " FOR SHARE SKIP LOCKED"])?);
    }
    Ok(sql)
}

fn filter(u: Input<'_, '_>, of: Columns) -> Result<String> {
    Ok(match u.int_in_range(0..=3u8)? {
        0 => String::new(),
        1 => format!(" WHERE {} = {}", pick(u, of)?, pick(u, &CONSTANTS)?),
        2 => {
            let operator = pick(u, &OPERATORS[6..12])?;
            format!(" WHERE {} {operator} {}", pick(u, of)?, expr(u, of, 1)?)
        }
        _ => format!(" WHERE {}", expr(u, of, 2)?),
    })
}

fn returning(u: Input<'_, '_>, of: Columns) -> Result<String> {
    Ok(match u.ratio(1, 4)? {
        true => format!(" RETURNING {}", list(u, 2, |u| expr(u, of, 1))?),
        false => String::new(),
    })
}

fn insert(u: Input<'_, '_>) -> Result<String> {
    let (into, width) = *u.choose(&[
        ("t", 3),
        ("t (id, v)", 2),
        ("t (name, id)", 2),
        ("hashed", 2),
        ("every (b, i)", 2),
        ("every", 11),
        ("made", 1),
    ])?;
    let rows = match u.ratio(1, 4)? {
        true => query(u, 1)?,
        false => {
            let row = |u: Input<'_, '_>| {
                let value = |_| Ok(pick(u, &CONSTANTS)?.to_owned());
                let values = (0..width).map(value).collect::<Result<Vec<_>>>()?;
                Ok(format!("({})", values.join(", ")))
            };
            format!("VALUES {}", list(u, 3, row)?)
        }
    };
    let conflict = match u.int_in_range(0..=5u8)? {
        0 => " ON CONFLICT DO NOTHING".to_owned(),
        1 => format!(" ON CONFLICT (id) DO UPDATE SET v = {}", expr(u, TABLES[0].1, 1)?),
        2 => " ON CONFLICT (name) DO UPDATE SET v = excluded.v + t.v, id = excluded.id".to_owned(),
        _ => String::new(),
    };
    let returning = returning(u, if into.starts_with('t') { TABLES[0].1 } else { &["*"] })?;
    Ok(format!("INSERT INTO {into} {rows}{conflict}{returning}"))
}

fn update(u: Input<'_, '_>) -> Result<String> {
    let (table, of) = table(u)?;
    let set = list(u, 2, |u| Ok(format!("{} = {}", pick(u, of)?, expr(u, of, 1)?)))?;
    Ok(format!("UPDATE {table} SET {set}{}{}", filter(u, of)?, returning(u, of)?))
}

fn create(u: Input<'_, '_>) -> Result<String> {
    if u.ratio(1, 3)? {
        let begin = pick(
            u,
            &[
                "CREATE VIEW seen (id, v) AS",
                "CREATE OR REPLACE VIEW seen AS",
                "CREATE TABLE made AS",
                "DROP VIEW seen --",
                "ALTER VIEW seen RENAME v TO w --",
                "ALTER TABLE t RENAME v TO w --",
            ],
        )?;
        return Ok(format!("{begin} {}", query(u, 1)?));
    }
    let columns = list(u, 3, |u| {
        let (name, data_type) = (pick(u, &["id", "v", "w"])?, pick(u, &TYPES)?);
        let more = ["", " NOT NULL", " PRIMARY KEY", " UNIQUE", " DEFAULT 1"];
        Ok(format!("{name} {data_type}{}", pick(u, &more)?))
    })?;
    let more = ["", ", PRIMARY KEY (id)", ", INDEX i (v)", ", UNIQUE (v, id)"];
    Ok(format!("CREATE TABLE made ({columns}{})", pick(u, &more)?))
}

fn expr(u: Input<'_, '_>, of: Columns, depth: usize) -> Result<String> {
    if depth == 0 {
        return Ok(match u.arbitrary()? {
            true => pick(u, of)?.to_owned(),
            false => pick(u, &CONSTANTS)?.to_owned(),
        });
    }
    let depth = depth - 1;
    Ok(match u.int_in_range(0..=15u8)? {
        0..=2 => expr(u, of, 0)?,
        3..=7 => {
            let operator = pick(u, &OPERATORS)?;
            match operator {
                "IN" => format!("{} IN ({})", expr(u, of, depth)?, list(u, 3, |u| expr(u, of, 0))?),
                _ => format!("{} {operator} {}", expr(u, of, depth)?, expr(u, of, depth)?),
            }
        }
        8..=9 => format!("{}({})", pick(u, &FUNCTIONS)?, list(u, 3, |u| expr(u, of, depth))?),
        10 => format!("CAST({} AS {})", expr(u, of, depth)?, pick(u, &TYPES)?),
        11 => {
            let before = pick(u, &["NOT ", "-", "+", "(", "~"])?;
            let after = if before == "(" { ")" } else { "" };
            format!("{before}{}{after}", expr(u, of, depth)?)
        }
        12 => format!("{} IS NULL", expr(u, of, depth)?),
        13 => {
            let (when, then) = (expr(u, of, depth)?, expr(u, of, depth)?);
            format!("CASE WHEN {when} THEN {then} ELSE {} END", expr(u, of, depth)?)
        }
        14 => {
            let before = pick(u, &["", "EXISTS ", "id IN ", "v > ALL ", "NOT EXISTS "])?;
            format!("{before}({})", query(u, depth)?)
        }
        _ => format!("{}() OVER (ORDER BY {})", pick(u, &FUNCTIONS)?, expr(u, of, 0)?),
    })
}

/// Values for the parameters of a statement: mostly as many as it has.
pub fn values(u: Input<'_, '_>, sql: &str) -> Result<Vec<Literal>> {
    let mut count = match (sql.contains("$2"), sql.contains("$1")) {
        (true, _) => 2,
        (false, has_one) => usize::from(has_one),
    };
    if u.ratio(1, 20)? {
        count = u.int_in_range(0..=3usize)?;
    }
    (0..count).map(|_| value(u)).collect()
}

fn value(u: Input<'_, '_>) -> Result<Literal> {
    Ok(match u.int_in_range(0..=10u8)? {
        0 => Literal::Null,
        1..=2 => Literal::Integer(u.int_in_range(-2..=12)?),
        3 => Literal::Integer(u.arbitrary()?),
        4 => Literal::Bool(u.arbitrary()?),
        5 => Literal::Decimal(u.arbitrary()?, u.int_in_range(0..=40)?),
        6 => Literal::Float(u.arbitrary()?),
        7 => Literal::Text(pick(u, &["a", "x", "", "1", "2000-01-01", "é\0\u{1}"])?.to_owned()),
        8 => Literal::Date(u.arbitrary()?),
        9 => Literal::Timestamp(u.arbitrary()?),
        _ => Literal::Bytes(u.bytes(u.len().min(2))?.to_vec()),
    })
}
