//! What is said about statements that fail.

use crate::{error, rows, session};

#[path = "../../../../fuzz/src/sql/insides.rs"]
mod insides;

const TABLES: &str = "
    CREATE TABLE t (
        id BIGINT PRIMARY KEY, name TEXT, d DATE, ts TIMESTAMP, dd NUMERIC(5,2), b BYTEA,
        f DOUBLE PRECISION
    );
    INSERT INTO t VALUES
        (1, 'a', '2020-01-01', '2020-01-01 00:00:00', 1.5, '\\x00', 2.5),
        (2, 'b', '2020-01-02', '2020-01-01 00:00:00', 2.5, '\\x01', 1.5);";

/// Whatever is wrong with a statement is told in the words of SQL.
#[test]
fn no_message_shows_the_insides_of_a_library() {
    let mut session = session(TABLES);
    for sql in [
        "SELECT nope(1)",
        "SELECT abss(1)",
        "SELECT abs('x', 2)",
        "SELECT sum(name) FROM t",
        "SELECT name + 1 FROM t",
        "SELECT * FROM t WHERE name",
        "SELECT * FROM t GROUP BY id",
        "SELECT id, count(*) FROM t",
        "SELECT sum(count(*)) FROM t",
        "SELECT CAST('x' AS int)",
        "SELECT CAST('x' AS date)",
        "SELECT substring(1, 'b')",
        "SELECT * FROM t WHERE id = (SELECT id FROM t)",
        "SELECT * FROM t LIMIT 'x'",
        "SELECT * FROM t JOIN t ON true",
        "SELECT id FROM t a JOIN t b ON a.id = b.id",
        "SELECT CAST(1 AS json)",
        "SELECT date '2020-13-45'",
        "SELECT true + 1",
        "SELECT d + dd FROM t",
        "SELECT -name FROM t",
        "SELECT NOT id FROM t",
        "SELECT id LIKE 1 FROM t",
        "SELECT id, rank() OVER (ORDER BY nope) FROM t",
        "SELECT max(id) FILTER (WHERE name) FROM t",
        "SELECT * FROM generate_series(1, 'x')",
        "SELECT unnest(1)",
        "SELECT extract(foo FROM d) FROM t",
        "SELECT date_trunc('foo', ts) FROM t",
        "SELECT regexp_replace(name, '(', 'x') FROM t",
        "SELECT id FROM t WHERE id IN (SELECT id, name FROM t)",
        "SELECT * FROM (SELECT id INTO x FROM t) q",
        "SELECT * FROM t RIGHT JOIN LATERAL (SELECT t.id) x ON true",
        "SELECT round(dd, name) FROM t",
        "SELECT string_agg(id) FROM t",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY name) FROM t",
        "SELECT avg(d) FROM t",
        "SELECT stddev(name) FROM t",
        "SELECT * FROM x.y.z",
        "SELECT id FROM t HAVING id > 1",
        "SELECT 1 WHERE 1",
        "SELECT id::nope FROM t",
        "SELECT $1",
        "SELECT arrow_typeof(1, 2)",
        "SELECT struct(1, 2).x",
        "SELECT get_field(1, 'x')",
        "SELECT lag(id, 'x') OVER (ORDER BY id) FROM t",
        "SELECT * FROM t PIVOT (sum(id) FOR name IN ('a'))",
        "SELECT b || 1 FROM t",
        "SELECT trim(1)",
        "SELECT position(1 IN 'x')",
        "SELECT bit_and(name) FROM t",
        "SELECT (-9223372036854775808) / -1",
        "SELECT abs(-9223372036854775808)",
        "SELECT TOP 1 id FROM t",
        "SELECT repeat('x', 10000000000)",
        "SELECT arrow_cast(1, 'Int99')",
        "SELECT r.x FROM (SELECT 1) r",
        "SHOW nope",
    ] {
        let found = error(&mut session, sql);
        let said = format!("{} {}", found.message(), found.hint().unwrap_or_default());
        for insides in insides::INSIDES {
            assert!(!said.contains(insides), "{sql}: {said}");
        }
        assert!(!found.message().contains('\n') || sql.contains("regexp"), "{sql}: {said}");
    }
}

#[test]
fn messages_say_what_to_do() {
    let mut session = session(TABLES);
    let mut said = |sql: &str| {
        let error = error(&mut session, sql);
        format!("{} | {}", error.message(), error.hint().unwrap_or_default())
    };
    for (sql, wanted) in [
        ("SELECT abss(1)", "function abss does not exist | did you mean abs?"),
        ("SELECT pg_doze(1)", "function pg_doze does not exist | "),
        ("SELECT sum(name) FROM t", "sum takes numbers, not text; cast the text | "),
        (
            "SELECT id LIKE 1 FROM t",
            "LIKE compares texts, not bigint and bigint | CAST both sides to text",
        ),
        (
            "SELECT count(DISTINCT id, name) FROM t",
            "COUNT DISTINCT with multiple arguments is not supported | ",
        ),
        (
            "SELECT bit_and(name) FROM t",
            "there is no function bit_and(text) | there is bit_and(bigint); CAST the arguments",
        ),
        (
            "SELECT * FROM t JOIN t ON true",
            "two tables of the query have the name \"t\" | name one otherwise, as in FROM a, a \
             AS b",
        ),
        (
            "SELECT id FROM t a JOIN t b ON a.id = b.id",
            "column \"id\" is ambiguous: more than one table has it | write its table before it, \
             as in t.id",
        ),
        (
            "SELECT id, count(*) FROM t",
            "t.id must appear in GROUP BY or inside an aggregate function | ",
        ),
    ] {
        assert_eq!(said(sql), wanted, "{sql}");
    }
}

/// The hint of a refused statement names all statements that are carried out, and no others.
#[test]
fn the_statements_that_a_hint_names_are_carried_out() {
    let mut session = session(TABLES);
    let refused = error(&mut session, "CREATE ROLE x");
    let hint = refused.hint().unwrap_or_default().strip_prefix("the statements are ");
    let named: Vec<&str> =
        hint.expect("a list").split(", ").flat_map(|s| s.split(" and ")).collect();
    let statements = [
        ("CREATE TABLE", "CREATE TABLE u (id BIGINT PRIMARY KEY)"),
        ("PREPARE", "PREPARE p AS SELECT 1"),
        ("EXECUTE", "EXECUTE p"),
        ("DEALLOCATE", "DEALLOCATE p"),
        ("BEGIN", "BEGIN"),
        ("LOCK TABLE", "LOCK TABLE u"),
        ("INSERT", "INSERT INTO u VALUES (1)"),
        ("SAVEPOINT", "SAVEPOINT s"),
        ("RELEASE", "RELEASE s"),
        ("UPDATE", "UPDATE u SET id = 2"),
        ("COMMIT", "COMMIT"),
        ("DELETE", "DELETE FROM u"),
        ("BEGIN", "BEGIN"),
        ("ROLLBACK", "ROLLBACK"),
        ("COPY", "COPY u FROM '/dev/null' (FORMAT csv)"),
        ("ALTER TABLE", "ALTER TABLE u ADD v int"),
        ("CREATE INDEX", "CREATE INDEX i ON u (v)"),
        ("ALTER INDEX", "ALTER INDEX i RENAME TO j"),
        ("DROP INDEX", "DROP INDEX j"),
        ("CREATE VIEW", "CREATE VIEW w AS SELECT id FROM u"),
        ("ALTER VIEW", "ALTER VIEW w RENAME TO y"),
        ("COMMENT", "COMMENT ON VIEW y IS 'numbers'"),
        ("DROP VIEW", "DROP VIEW y"),
        ("CREATE SEQUENCE", "CREATE SEQUENCE q"),
        ("ALTER SEQUENCE", "ALTER SEQUENCE q INCREMENT BY 2"),
        ("DROP SEQUENCE", "DROP SEQUENCE q"),
        ("CREATE SCHEMA", "CREATE SCHEMA a"),
        ("ALTER SCHEMA", "ALTER SCHEMA a RENAME TO b"),
        ("DROP SCHEMA", "DROP SCHEMA b"),
        ("CREATE TYPE", "CREATE TYPE e AS ENUM ('a')"),
        ("ALTER TYPE", "ALTER TYPE e ADD VALUE 'b'"),
        ("DROP TYPE", "DROP TYPE e"),
        ("CREATE DOMAIN", "CREATE DOMAIN d AS int"),
        ("ALTER DOMAIN", "ALTER DOMAIN d SET NOT NULL"),
        ("DROP DOMAIN", "DROP DOMAIN d"),
        ("TRUNCATE", "TRUNCATE u"),
        ("DROP TABLE", "DROP TABLE u"),
        ("SELECT", "SELECT 1"),
        ("EXPLAIN", "EXPLAIN SELECT 1"),
        ("LISTEN", "LISTEN x"),
        ("NOTIFY", "NOTIFY x"),
        ("UNLISTEN", "UNLISTEN x"),
        ("SHOW", "SHOW lock_timeout"),
        ("SET", "SET lock_timeout = 1"),
        ("RESET", "RESET lock_timeout"),
    ];
    for (kind, sql) in statements {
        assert!(named.contains(&kind), "{kind} is missing: {named:?}");
        session.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    for name in named {
        assert!(statements.iter().any(|(kind, _)| *kind == name), "{name} is not a statement");
    }
}

#[test]
fn a_column_that_does_not_exist_has_its_place() {
    let mut session = session(TABLES);
    for (sql, place) in [
        ("SELECT wrong FROM t", (1, 8)),
        ("SELECT id\nFROM t\nWHERE wrong = 1", (3, 7)),
        ("SELECT 1 + wrong FROM t", (1, 12)),
        ("SELECT id FROM t WHERE wrong", (1, 24)),
    ] {
        let error = error(&mut session, sql);
        assert_eq!(error.message(), "column \"wrong\" does not exist", "{sql}");
        assert_eq!(error.position(), Some(place), "{sql}");
    }
}

/// Clauses that would change what a query returns, or do something, and would be passed over.
#[test]
fn clauses_that_are_not_carried_out_are_refused() {
    let mut session = session(TABLES);
    for (sql, named) in [
        ("SELECT * FROM t TABLESAMPLE BERNOULLI (10)", "TABLESAMPLE"),
        ("SELECT * FROM t TABLESAMPLE SYSTEM (10) REPEATABLE (1)", "TABLESAMPLE"),
        ("SELECT (SELECT count(*) FROM t TABLESAMPLE SYSTEM (1))", "TABLESAMPLE"),
        ("SELECT * FROM t FOR SHARE NOWAIT", "NOWAIT"),
        ("SELECT * FROM (SELECT * FROM t FOR UPDATE SKIP LOCKED) x", "FOR UPDATE"),
        ("SELECT DISTINCT id FROM t ORDER BY id FETCH FIRST 1 ROWS WITH TIES", "WITH TIES"),
        ("SELECT * FROM t ORDER BY id FETCH FIRST 50 PERCENT ROWS ONLY", "PERCENT"),
        ("SELECT * FROM (SELECT id INTO x FROM t) q", "SELECT … INTO"),
        ("SELECT abs(id) FILTER (WHERE false) FROM t", "FILTER"),
        ("SELECT abs(DISTINCT id) FROM t", "DISTINCT"),
        ("SELECT abs(id) OVER (ORDER BY id) FROM t", "OVER"),
        ("SELECT abs(id ORDER BY id) FROM t", "ORDER BY"),
        ("SELECT CAST(name AS nvarchar(1)) FROM t", "NVARCHAR(1)"),
        ("EXPLAIN (COSTS) SELECT 1", "COSTS"),
        ("EXPLAIN (ANALYZE, FORMAT XML) SELECT 1", "FORMAT"),
        ("EXPLAIN (ANALYZE 7) SELECT 1", "ANALYZE"),
    ] {
        let message = error(&mut session, sql).message().to_owned();
        assert!(message.contains(named), "{sql}: {message}");
    }
}

#[test]
fn clauses_that_mean_the_same_do_the_same() {
    let mut session = session(TABLES);
    let mut plan = |sql: &str| rows(&mut session, sql).join("\n");
    for sql in [
        "EXPLAIN (FORMAT JSON) SELECT id FROM t WHERE id = 1",
        "EXPLAIN (FORMAT 'json', COSTS off) UPDATE t SET name = 'x'",
        "EXPLAIN (ANALYZE, FORMAT JSON) SELECT sum(id) FROM t GROUP BY name ORDER BY 1",
    ] {
        let plan: serde_json::Value = serde_json::from_str(&plan(sql)).unwrap();
        assert!(plan[0]["Plan"]["Node Type"].is_string(), "{sql}: {plan}");
    }
    assert!(plan("EXPLAIN (ANALYZE) SELECT id FROM t").contains("metrics="));
    assert!(plan("EXPLAIN (ANALYZE true, VERBOSE) SELECT id FROM t").contains("metrics="));
    for sql in ["EXPLAIN SELECT id FROM t", "EXPLAIN (ANALYZE off) SELECT id FROM t"] {
        assert!(!plan(sql).contains("metrics="), "{sql}");
    }
    for (sql, wanted) in [
        ("SELECT id FROM t ORDER BY id FETCH FIRST 1 ROWS ONLY", "1"),
        ("SELECT id FROM t ORDER BY id OFFSET 1 FETCH NEXT ROW ONLY", "2"),
        ("SELECT id FROM t ORDER BY id OFFSET 1 ROW FETCH FIRST 5 ROWS ONLY", "2"),
        ("SELECT count(DISTINCT name) FILTER (WHERE id > 1) FROM t", "1"),
        ("SELECT max(id) OVER () FROM t LIMIT 1", "2"),
        ("SELECT count(*) FROM t GROUP BY ALL", "2"),
    ] {
        assert_eq!(plan(sql), wanted, "{sql}");
    }
}

#[test]
fn mistakes_of_names_and_groups_have_their_states() {
    let mut session = session(TABLES);
    for (sql, state) in [
        ("SELECT a.id FROM t a, t b WHERE name = 'a'", "42702"),
        ("SELECT name FROM t a JOIN t b USING (id)", "42702"),
        ("SELECT name, count(*) FROM t", "42803"),
        ("SELECT count(*) FROM t HAVING name = 'a'", "42803"),
        ("SELECT sum(count(*)) FROM t", "42803"),
    ] {
        let failed = error(&mut session, sql);
        assert_eq!(failed.sqlstate(), state, "{sql}: {}", failed.message());
    }
}
