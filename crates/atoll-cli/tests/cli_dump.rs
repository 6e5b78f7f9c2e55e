//! `atoll dump`, and the scripts that it and others write, in the shell.

#![allow(clippy::unwrap_used)]

mod common;

use common::World;

const TABLES: &str = "CREATE SCHEMA s;
    CREATE TABLE s.t (id serial PRIMARY KEY, name text DEFAULT 'x', UNIQUE (name));
    CREATE TABLE u (t int REFERENCES s.t, n numeric(6,2));
    CREATE VIEW v AS SELECT name, n FROM s.t JOIN u ON t.id = u.t;
    INSERT INTO s.t (name) VALUES (E'tab\\there'), (NULL), ('\\.');
    INSERT INTO u VALUES (1, 1.50), (3, NULL);";

#[test]
fn a_dump_goes_from_one_database_to_another() {
    let world = World::new();
    world.run(&["sql", "a", "--data", "a", "-c", TABLES]).ok();
    let dumped = world.run(&["dump", "--data", "a"]).ok();
    assert!(
        dumped.contains("COPY s.t (id, name) FROM stdin;\n1\ttab\\there\n2\t\\N\n3\t\\\\.\n\\.\n")
    );
    let file = world.file("a.sql", &dumped);
    let file = file.to_str().unwrap();
    let told =
        world.run(&["sql", "b", "--data", "b", "-f", file, "-c", "SELECT * FROM public.v"]).ok();
    assert!(told.contains("COPY 3\n") && told.contains("1.50"), "{told}");
    world.run(&["dump", "--data", "b", "-o", "b.sql"]).ok();
    let again = std::fs::read_to_string(file.replace("a.sql", "b.sql")).unwrap();
    assert_eq!(again, dumped);
    // Of a database that another process has open.
    let mut owner = world.talk(&["sql", "c"]);
    owner.say("\\i a.sql");
    owner.hear("COPY 2");
    owner.say("SELECT 'loaded';");
    owner.hear("loaded");
    assert_eq!(world.run(&["dump", "c"]).ok(), dumped);
    let some = world.run(&["dump", "c", "--table", "u", "--data-only"]).ok();
    assert!(some.contains("COPY public.u (t, n)") && !some.contains("s.t"), "{some}");
    let schema = world.run(&["dump", "c", "--schema-only"]).ok();
    assert!(schema.contains("FOREIGN KEY (t) REFERENCES s.t (id)") && !schema.contains("COPY"));
    for (words, wanted) in [
        (vec!["dump"], "the name of a database"),
        (vec!["dump", "c", "--data", "b"], "the name of a database"),
        (vec!["dump", "c", "--table", "nothing"], "nothing"),
        (vec!["dump", "c", "-o", "no/where.sql"], "where.sql"),
    ] {
        let failed = world.run(&words).failed();
        assert!(failed.contains(wanted), "{words:?}: {failed}");
    }
    assert_eq!(owner.end(), Some(0));
}

#[test]
fn an_error_in_a_script_names_the_line_of_the_data() {
    let world = World::new();
    let script = "CREATE TABLE t (a int, b text);\n-- rows\nCOPY t (a, b) FROM stdin;\n1\tone\n\
                  two\ttwo\n\\.\nSELECT 1;\n";
    let file = world.file("bad.sql", script);
    let failed = world.run(&["sql", "d", "-f", file.to_str().unwrap()]).failed();
    assert!(failed.contains("line 5, column \"a\": \"two\" is not an integer"), "{failed}");
    assert!(failed.contains("bad.sql"), "{failed}");
    // Its data is not taken for statements, and what is behind it is run.
    let script = "CREATE TABLE t (a int, b text);\nCOPY t FROM STDIN;\n1\tDROP TABLE t;\n\\.\n\
                  SELECT b FROM t;\n";
    let told = world.pipe(&["sql", "d"], script).ok();
    assert!(told.contains("COPY 1\n") && told.contains("DROP TABLE t;"), "{told}");
}

#[test]
fn commands_of_dumps_and_schemas_are_understood() {
    let world = World::new();
    let script = "\\restrict key\nCREATE SCHEMA s;\nCREATE TABLE s.t (a int);\n\
                  ALTER TABLE s.t OWNER TO me;\nALTER SCHEMA s OWNER TO me;\n\\unrestrict key\n\
                  \\dn\n\\dt s.*\n\\d s.t\n";
    let ended = world.pipe(&["sql", "d"], script);
    assert_eq!(ended.err.matches("notice: OWNER TO has no effect").count(), 1, "{}", ended.err);
    let told = ended.ok();
    assert!(told.contains("│ public │\n│ s      │") && told.contains("s.t: 0 rows"), "{told}");
    let failed = world.pipe(&["sql", "d"], "\\restrict key\n\\i other.sql\n").failed();
    assert!(failed.contains("\\i other.sql is refused behind \\restrict"), "{failed}");
    let failed = world.pipe(&["sql", "d"], "\\restrict key\n\\unrestrict other\n").failed();
    assert!(failed.contains("is refused behind"), "{failed}");
}
