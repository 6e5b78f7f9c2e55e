//! Dumps, and scripts of `pg_dump`: loaded as the shell loads them.

use atoll::Database;
use atoll_sql::{
    DumpOptions, Input, Notice, SqlError, SqlSession, StatementScanner, copies_from_stdin, dump,
};

use super::{database, error, rows, tag};

/// Runs a script with the data of its `COPY … FROM stdin`.
fn load(session: &mut SqlSession, script: &str) -> Result<(), SqlError> {
    let mut rest = script;
    let mut scanner = StatementScanner::new();
    while let Some(length) = scanner.advance(rest) {
        let (statement, behind) = rest.split_at(length);
        rest = behind;
        if !copies_from_stdin(statement) {
            session.execute(statement)?;
            continue;
        }
        let data = rest.strip_prefix('\n').unwrap_or(rest);
        let end = if data.starts_with("\\.\n") { 0 } else { data.find("\n\\.\n").unwrap() + 1 };
        let line = 1 + script[..script.len() - data.len()].matches('\n').count() as u64;
        let input = Input::spool("the script", &data.as_bytes()[..end])?.at_line(line);
        session.copy_in(statement, input)?;
        rest = &data[end + 3..];
    }
    Ok(())
}

/// The script of a database.
fn script(db: &Database, options: &DumpOptions) -> String {
    let mut written = Vec::new();
    dump(&db.snapshot().unwrap(), options, &mut written).unwrap();
    String::from_utf8(written).unwrap()
}

/// A database that a script makes.
#[track_caller]
fn made(script: &str) -> Database {
    let db = database();
    let mut session = SqlSession::on_database(db.clone());
    if let Err(error) = load(&mut session, script) {
        panic!("{}\n{}\n{script}", error.message(), error.hint().unwrap_or_default());
    }
    db
}

const SHOP: &str = r#"
CREATE SCHEMA shop;
COMMENT ON SCHEMA shop IS 'it''s a shop';
CREATE SEQUENCE shop.numbers INCREMENT BY 5 START WITH 100 CYCLE MAXVALUE 1000;
CREATE TABLE shop.customers (
    id int GENERATED ALWAYS AS IDENTITY (START WITH 10) PRIMARY KEY,
    "Name" varchar(20) NOT NULL UNIQUE,
    born date, joined timestamptz DEFAULT '2024-02-29 12:00:00+01',
    balance numeric(10,2) DEFAULT 0 CHECK (balance >= -100),
    score double precision, weight real, active boolean DEFAULT true,
    code char(4), token uuid, at time, seen timestamp, picture bytea, hash binary(4)
);
CREATE TABLE shop.orders (
    customer int NOT NULL REFERENCES shop.customers ON DELETE CASCADE,
    number bigint DEFAULT nextval('shop.numbers'),
    pos serial,
    price numeric(8,2), amount smallint,
    total numeric(12,2) GENERATED ALWAYS AS (price * amount) STORED,
    PRIMARY KEY (customer, pos)
);
CREATE INDEX by_number ON shop.orders (number, customer);
CREATE TABLE log (line text, "order" int);
CREATE SEQUENCE plain;
CREATE TYPE shop.size AS ENUM ('small', 'it''s large');
CREATE TYPE mood AS ENUM ('ok');
CREATE TABLE sized (s shop.size DEFAULT 'small'::shop.size, m mood DEFAULT 'ok'::mood);
INSERT INTO sized VALUES ('it''s large', NULL), (DEFAULT, DEFAULT);
CREATE DOMAIN shop.small AS integer DEFAULT 1 NOT NULL CONSTRAINT few CHECK (VALUE < 100);
COMMENT ON DOMAIN shop.small IS 'a few';
COMMENT ON TYPE mood IS 'how it is';
CREATE TABLE counted (n shop.small, o integer UNIQUE NULLS NOT DISTINCT, m integer);
INSERT INTO counted VALUES (99, NULL, 1), (DEFAULT, 7, NULL);
CREATE VIEW moods AS SELECT m FROM sized WHERE m = 'ok'::mood;
CREATE VIEW a_view AS SELECT o.customer, c."Name" AS name
    FROM shop.orders o JOIN shop.customers c ON c.id = o.customer;
CREATE VIEW shop.names AS SELECT name FROM a_view WHERE name <> '';
COMMENT ON TABLE shop.orders IS E'two\nlines';
COMMENT ON COLUMN shop.orders.price IS 'of one';
COMMENT ON VIEW a_view IS 'names';
COMMENT ON INDEX shop.by_number IS 'search';
COMMENT ON CONSTRAINT orders_customer_fkey ON shop.orders IS 'owner';
INSERT INTO shop.customers ("Name", born, score, weight, code, token, at, seen, picture, hash)
    VALUES
    ('Ann\', '2000-02-29', 0.1, 1.5, 'ab', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '12:34:56.5',
        '2024-01-01 00:00:00.25', '\x00ff', '\x01020304'),
    (E'tab\tline\nbreak', NULL, 'NaN', '-Infinity', NULL, NULL, NULL, NULL, NULL, NULL),
    ('\N', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', NULL);
INSERT INTO shop.orders (customer, price, amount) VALUES (10, 1.25, 3), (11, 2, 2), (10, NULL, 1);
INSERT INTO log VALUES ('b', 1), ('a', 2), (NULL, 3), ('b', 1), ('\.', NULL), ('', 0);
SELECT nextval('plain');
"#;

fn shop() -> Database {
    let db = database();
    let mut session = SqlSession::on_database(db.clone());
    for outcome in session.execute_script(SHOP) {
        outcome.unwrap_or_else(|error| panic!("{}", error.render(SHOP)));
    }
    db
}

#[test]
fn the_dump_of_what_a_dump_has_made_is_the_dump() {
    let db = shop();
    let first = script(&db, &DumpOptions::default());
    let again = made(&first);
    assert_eq!(script(&again, &DumpOptions::default()), first);
    // Both know the same, and go on in the same way, but for numbers that were set aside.
    for sql in [
        "SELECT * FROM shop.customers ORDER BY id",
        "SELECT * FROM shop.orders ORDER BY 1, pos",
        "SELECT * FROM log ORDER BY 1, 2",
        "SELECT * FROM shop.names ORDER BY 1",
        "SELECT * FROM sized ORDER BY s",
        "SELECT * FROM moods",
        "INSERT INTO shop.customers (\"Name\") VALUES ('new') RETURNING \"Name\"",
        "INSERT INTO shop.orders (customer, price, amount) VALUES (10, 1, 1) RETURNING total",
        "DELETE FROM shop.customers WHERE id = 10 RETURNING id",
        "SELECT count(*) FROM shop.orders",
    ] {
        let answers = [&db, &again].map(|db| rows(&mut SqlSession::on_database(db.clone()), sql));
        assert_eq!(answers[0], answers[1], "{sql}");
    }
    let mut session = SqlSession::on_database(again);
    for (sql, state) in [
        ("INSERT INTO shop.customers (\"Name\") VALUES ('new')", "23505"),
        ("UPDATE shop.customers SET balance = -101", "23514"),
        ("INSERT INTO shop.customers VALUES (1, 'x')", "428C9"),
        ("INSERT INTO shop.orders (customer) VALUES (99)", "23503"),
        ("UPDATE shop.customers SET hash = '\\x00'", "23514"),
        ("UPDATE counted SET n = 100", "23514"),
        ("INSERT INTO counted (o) VALUES (NULL)", "23505"),
    ] {
        assert_eq!(error(&mut session, sql).sqlstate(), state, "{sql}");
    }
}

#[test]
fn a_dump_may_have_definitions_or_rows_alone_or_some_tables() {
    let db = shop();
    let all = DumpOptions::default();
    let definitions = script(&db, &DumpOptions { rows: false, ..all.clone() });
    assert!(!definitions.contains("COPY") && !definitions.contains("setval"), "{definitions}");
    let rows_alone = script(&db, &DumpOptions { definitions: false, ..all.clone() });
    assert!(!rows_alone.contains("CREATE"), "{rows_alone}");
    let again = made(&definitions);
    // A parent has to come before its children, and does so by its name here.
    load(&mut SqlSession::on_database(again.clone()), &rows_alone).unwrap();
    assert_eq!(script(&again, &all), script(&db, &all));
    let some = DumpOptions { tables: vec!["log".to_owned()], ..all.clone() };
    let some = script(&db, &some);
    assert!(some.contains("CREATE TABLE public.log") && !some.contains("shop"), "{some}");
    assert_eq!(made(&some).tables(), ["log"]);
    let unknown = DumpOptions { tables: vec!["nothing".to_owned()], ..all };
    assert!(dump(&db.snapshot().unwrap(), &unknown, &mut Vec::new()).is_err());
}

/// As `pg_dump` of PostgreSQL 15 writes it.
const OF_POSTGRESQL: &str = r"
--
-- PostgreSQL database dump
--

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

CREATE SCHEMA tracker;


ALTER SCHEMA tracker OWNER TO postgres;

SET default_tablespace = '';

SET default_table_access_method = heap;

CREATE TABLE tracker.issues (
    id integer NOT NULL,
    title character varying(100) DEFAULT ''::character varying NOT NULL,
    state text DEFAULT 'open'::text NOT NULL,
    opened timestamp without time zone
        DEFAULT '2024-01-01 00:00:00'::timestamp without time zone NOT NULL,
    points numeric(5,2),
    CONSTRAINT issues_points_check CHECK ((points > (0)::numeric)),
    CONSTRAINT issues_state_check CHECK ((state = ANY (ARRAY['open'::text, 'closed'::text])))
);


ALTER TABLE tracker.issues OWNER TO postgres;

CREATE SEQUENCE tracker.issues_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER SEQUENCE tracker.issues_id_seq OWNER TO postgres;

ALTER SEQUENCE tracker.issues_id_seq OWNED BY tracker.issues.id;

CREATE TABLE tracker.notes (
    id bigint NOT NULL,
    issue integer,
    body text
);


ALTER TABLE tracker.notes ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME tracker.of_notes
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TYPE tracker.kind AS ENUM (
    'bug',
    'wish'
);


ALTER TYPE tracker.kind OWNER TO postgres;

CREATE VIEW tracker.open AS
 SELECT issues.id,
    issues.title
   FROM tracker.issues
  WHERE (issues.state = 'open'::text);

ALTER TABLE ONLY tracker.issues ALTER COLUMN id
    SET DEFAULT nextval('tracker.issues_id_seq'::regclass);

COPY tracker.issues (id, title, state, opened, points) FROM stdin;
1	It fails	open	2024-03-01 10:00:00	1.50
2	back\\slash\ttab	closed	2024-01-01 00:00:00	\N
\.

COPY tracker.notes (id, issue, body) FROM stdin;
7	1	first\nsecond
\.

SELECT pg_catalog.setval('tracker.issues_id_seq', 2, true);

SELECT pg_catalog.setval('tracker.of_notes', 7, true);

ALTER TABLE ONLY tracker.issues
    ADD CONSTRAINT pk_issues PRIMARY KEY (id);

ALTER TABLE ONLY tracker.notes
    ADD CONSTRAINT notes_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tracker.issues
    ADD CONSTRAINT issues_title_key UNIQUE (title);

CREATE INDEX notes_issue_idx ON tracker.notes USING btree (issue DESC);

ALTER TABLE ONLY tracker.notes
    ADD CONSTRAINT notes_issue_fkey FOREIGN KEY (issue) REFERENCES tracker.issues(id)
        ON DELETE SET NULL;

COMMENT ON TABLE tracker.issues IS 'what is wrong';
";

#[test]
fn a_dump_of_postgresql_is_loaded() {
    let db = database();
    let mut session = SqlSession::on_database(db.clone());
    load(&mut session, OF_POSTGRESQL).unwrap_or_else(|error| panic!("{error:?}"));
    let notices = session.take_notices();
    let told: Vec<&str> = notices.iter().map(Notice::message).collect();
    assert_eq!(told, ["OWNER TO has no effect: this program has no roles"]);
    let mut session = SqlSession::on_database(db.clone());
    assert_eq!(rows(&mut session, "SELECT * FROM tracker.open"), ["1|It fails"]);
    let added = "INSERT INTO tracker.issues (title) VALUES ('new') RETURNING id, state, opened";
    assert_eq!(rows(&mut session, added), ["3|open|2024-01-01T00:00:00"]);
    let added = "INSERT INTO tracker.notes (issue) VALUES (2) RETURNING id";
    assert_eq!(rows(&mut session, added), ["8"]);
    for (sql, state) in [
        ("INSERT INTO tracker.issues (title) VALUES ('new')", "23505"),
        ("INSERT INTO tracker.issues (state) VALUES ('lost')", "23514"),
        ("INSERT INTO tracker.notes (issue) VALUES (9)", "23503"),
    ] {
        assert_eq!(error(&mut session, sql).sqlstate(), state, "{sql}");
    }
    let first = script(&db, &DumpOptions::default());
    assert!(first.contains("CONSTRAINT pk_issues PRIMARY KEY (id)"), "{first}");
    assert!(first.contains("SEQUENCE NAME tracker.of_notes"), "{first}");
    assert_eq!(script(&made(&first), &DumpOptions::default()), first);
}

#[test]
fn data_that_copy_cannot_take_has_its_line() {
    let db = database();
    let mut session = SqlSession::on_database(db);
    tag(&mut session, "CREATE TABLE t (a int PRIMARY KEY, b text)");
    for (data, message, state) in [
        ("1\tx\n2\n", "line 12 misses data for column \"b\"", "22P04"),
        ("1\tx\ty\n", "line 11 has extra data after last expected column", "22P04"),
        ("1\tx\n\\N\ty\n", "line 12, column \"a\" must not be NULL", "23000"),
        ("one\tx\n", "line 11, column \"a\": \"one\" is not an integer", "22P02"),
        ("1\tx\\0\n", "line 11 has the character U+0000", "22P04"),
    ] {
        let input = Input::spool("data", data.as_bytes()).unwrap().at_line(11);
        let failed = session.copy_in("COPY t FROM stdin", input).unwrap_err();
        assert_eq!((failed.message(), failed.sqlstate()), (message, state), "{data}");
        assert_eq!(rows(&mut session, "SELECT count(*) FROM t"), ["0"]);
    }
    let input = |data: &str| Input::spool("data", data.as_bytes()).unwrap();
    let other = "COPY t (b, a) FROM STDIN WITH (DELIMITER ';', NULL '-', HEADER)";
    session.copy_in(other, input("b;a\n-;1\nx\\;y;2\r\n\\.\n7;7;7\n")).unwrap();
    assert_eq!(rows(&mut session, "SELECT * FROM t ORDER BY a"), ["1|NULL", "2|x;y"]);
    session.copy_in("COPY t FROM STDIN (FORMAT csv)", input("3,\"\"\n4,\n")).unwrap();
    assert_eq!(rows(&mut session, "SELECT * FROM t WHERE a > 2"), ["3|", "4|NULL"]);
    // In a transaction, and undone with it.
    tag(&mut session, "BEGIN");
    session.copy_in("COPY t FROM STDIN", input("5\tfive\n")).unwrap();
    assert_eq!(rows(&mut session, "SELECT b FROM t WHERE a = 5"), ["five"]);
    tag(&mut session, "ROLLBACK");
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t"), ["4"]);
    assert_eq!(error(&mut session, "COPY t FROM STDIN").sqlstate(), "0A000");
}

#[test]
fn what_has_no_effect_is_told_or_refused() {
    let mut session = SqlSession::on_database(database());
    tag(&mut session, "CREATE TABLE t (a int) WITH (fillfactor=100)");
    tag(&mut session, "CREATE INDEX i ON t USING btree (a) WITH (fillfactor='70')");
    tag(&mut session, "ALTER TABLE t OWNER TO me");
    tag(&mut session, "ALTER TABLE IF EXISTS nothing OWNER TO me");
    let notices = session.take_notices();
    assert_eq!(notices.len(), 3, "{notices:?}");
    for (sql, state) in [
        ("ALTER TABLE nothing OWNER TO me", "42P01"),
        ("CREATE TABLE u (a int) WITH (colour = 3)", "22023"),
        ("GRANT SELECT ON t TO me", "0A000"),
        ("REVOKE ALL ON SCHEMA public FROM PUBLIC", "0A000"),
        ("CREATE EXTENSION hstore", "0A000"),
        ("SET client_encoding = 'LATIN1'", "22023"),
        ("SET standard_conforming_strings = off", "22023"),
        ("SET default_tablespace = 'fast'", "22023"),
    ] {
        let failed = error(&mut session, sql);
        assert_eq!(failed.sqlstate(), state, "{sql}");
        assert!(failed.hint().is_some() || state != "0A000", "{sql}");
    }
    assert_eq!(rows(&mut session, "SHOW client_encoding"), ["UTF8"]);
    assert!(session.take_notices().is_empty());
}
