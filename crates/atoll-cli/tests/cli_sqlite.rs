//! Dumps of sqlite3, in the shell.

#![allow(clippy::unwrap_used)]

mod common;

use common::World;

/// As sqlite3 3.40 writes it, but for the ends of lines.
const DUMP: &str = r#"PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE "Users"(
  id INTEGER PRIMARY KEY AUTOINCREMENT, name VARCHAR(20) NOT NULL UNIQUE,
  joined DATETIME DEFAULT CURRENT_TIMESTAMP, active BOOLEAN NOT NULL DEFAULT 1, score REAL,
  pic BLOB, balance DECIMAL(10,2) DEFAULT 0.0, born DATE, misc, u UNSIGNED BIG INT);
INSERT INTO Users VALUES(1,'Ann','2024-02-29 14:46:00',1,1.5,X'00ff',
  0.10000000000000000555,'2000-02-29',7,NULL);
INSERT INTO Users VALUES(2,'Bob''s',NULL,0,1e999,NULL,12,NULL,
  replace('é\nx','\n',char(10)),9223372036854775807);
CREATE TABLE parts(n INTEGER PRIMARY KEY,
  part INT REFERENCES whole(id) DEFERRABLE INITIALLY DEFERRED,
  owner INT NOT NULL REFERENCES Users ON DELETE CASCADE, "select" text DEFAULT "x",
  [sp ace] int, twice INT GENERATED ALWAYS AS (part * 2) VIRTUAL);
INSERT INTO parts VALUES(1,5,1,'y',NULL);
CREATE TABLE whole(id INTEGER PRIMARY KEY, CHECK (id > 0));
INSERT INTO whole VALUES(5);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('Users',9);
CREATE INDEX parts_owner ON parts(owner);
CREATE VIEW v AS SELECT name FROM "Users" WHERE active;
COMMIT;
"#;

#[test]
fn a_dump_of_sqlite3_is_loaded() {
    let world = World::new();
    let file = world.file("app.sql", DUMP);
    let queries = "SELECT id, name, joined, active, score, pic, balance, born, misc, u FROM USERS \
                   ORDER BY id; SELECT * FROM parts; SELECT * FROM v; \
                   INSERT INTO users (name) VALUES ('new') RETURNING id, active, balance; \
                   INSERT INTO whole DEFAULT VALUES RETURNING id; \
                   DELETE FROM users WHERE id = 1; SELECT count(*) AS n FROM parts;";
    let words = ["sql", "d", "--data", "d", "--json", "-f", file.to_str().unwrap(), "-c", queries];
    let told = world.run(&words).ok();
    let rows: Vec<&str> = told.lines().skip_while(|line| !line.contains("COMMIT")).collect();
    let told = rows.join("\n");
    for wanted in [
        r#"[1,"Ann","2024-02-29 14:46:00",true,1.5,"00ff","0.10","2000-02-29","7",null]"#,
        r#"[2,"Bob's",null,false,"inf",null,"12.00",null,"é\nx",9223372036854775807]"#,
        r#""rows":[[1,5,1,"y",null,10]]"#,
        r#""rows":[["Ann"]]"#,
        r#""rows":[[10,true,"0.00"]]"#,
        r#""rows":[[6]]"#,
        r#""rows":[[0]]"#,
    ] {
        assert!(told.contains(wanted), "{wanted}: {told}");
    }
    // What a later program stores is checked.
    let orphan = "INSERT INTO parts (part, owner) VALUES (5, 77)";
    let ended = world.run(&["sql", "d", "--data", "d", "-c", orphan]);
    assert!(ended.code == Some(1) && ended.err.contains("parts_owner_fkey"), "{}", ended.err);
}

#[test]
fn the_first_statement_that_cannot_be_loaded_is_named_with_its_line() {
    let begin = "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n";
    let trigger = "CREATE TRIGGER r AFTER INSERT ON t BEGIN DELETE FROM t; END;\n";
    let trigger = format!("CREATE TABLE t(a int);\n\n{trigger}");
    let parent = "CREATE TABLE t(a INTEGER PRIMARY KEY REFERENCES p(a));\n\
                  CREATE TABLE p(a INTEGER PRIMARY KEY);\n\
                  INSERT INTO t VALUES(1);\nCOMMIT;\n";
    let text = "CREATE TABLE t(a INTEGER);\nINSERT INTO t VALUES(1);\n\
                INSERT INTO t VALUES('x');\n";
    for (lines, line, wanted) in [
        ("CREATE TABLE t(a TEXT COLLATE NOCASE);\n", 3, "COLLATE NOCASE"),
        (text, 5, "not an integer"),
        (&trigger, 5, "TRIGGER"),
        ("CREATE TABLE t(a int);\nCREATE INDEX i ON t(a) WHERE a > 1;\n", 4, "WHERE"),
        (parent, 6, "foreign key"),
    ] {
        let world = World::new();
        let file = world.file("app.sql", &format!("{begin}{lines}"));
        let failed = world.run(&["sql", "d", "-f", file.to_str().unwrap()]).failed();
        let place = format!("app.sql:{line}");
        let is_placed = failed.contains(&place) || failed.contains(&format!("line {line}"));
        assert!(failed.contains(wanted) && is_placed, "{line}, {wanted}: {failed}");
    }
}
