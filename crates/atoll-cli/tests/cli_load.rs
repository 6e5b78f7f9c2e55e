//! `atoll load` and `\load`: files into tables, and what is wrong with files.

#![allow(clippy::unwrap_used)]

mod common;
use common::World;

const PEOPLE: &str = "id,name,born\n1,Ann,1990-05-01\n2,Bob,\n3,\"Cid, the third\",2001-12-31\n";

#[test]
fn a_csv_file_becomes_a_table_with_the_types_that_it_shows() {
    let world = World::new();
    world.file("people.csv", PEOPLE);
    let query = "SELECT name, born FROM people WHERE id = 3";
    let out = world.run(&["load", "db", "people.csv", "--key", "id", "-c", query]).ok();
    assert!(out.starts_with("people: 3 rows from people.csv"), "{out}");
    assert!(out.contains("│ Cid, the third │ 2001-12-31 │"), "{out}");
}

#[test]
fn several_tables_are_loaded_and_reported_as_json() {
    let world = World::new();
    world.file("people.csv", PEOPLE);
    world.file("pets.tsv", "owner\tpet\n1\tcat\n1\tdog\n");
    let pets = ["--table", "pets=pets.tsv", "--key", "pets=owner,pet"];
    let mut words = vec!["load", "db", "people.csv", "--key", "id", "--json", "-c", "\\d"];
    words.extend(pets);
    let json = world.run(&words).json();
    assert_eq!(json[0]["table"], "pets");
    assert_eq!(json[1]["rows"], 3);
    assert_eq!(json[3]["table"], "pets");
    assert_eq!(json[3]["key"], serde_json::json!(["owner", "pet"]));
}

#[test]
fn a_malformed_file_is_answered_with_its_line_and_column_and_nothing_is_loaded() {
    let world = World::new();
    world.file("schema.sql", "CREATE TABLE people (id BIGINT PRIMARY KEY, name TEXT, born DATE);");
    world.file("people.csv", "id,name,born\n1,Ann,1990-05-01\n2,Bob,yesterday\n");
    let err = world.run(&["load", "db", "people.csv", "--schema", "schema.sql"]).failed();
    for part in ["people.csv", "line 3", "born", "yesterday"] {
        assert!(err.contains(part), "{part} is not in {err}");
    }
    let script = "\\i schema.sql\n\\load people.csv people\n";
    let ended = world.pipe(&["sql", "db"], script);
    assert!(ended.failed().contains("line 3"));
}

#[test]
fn a_table_needs_a_key_and_a_file_must_be_there() {
    let world = World::new();
    world.file("people.csv", PEOPLE);
    let err = world.run(&["load", "db", "people.csv"]).failed();
    assert!(err.contains("primary key") && err.contains("--key"), "{err}");
    let err = world.run(&["load", "db", "missing.csv", "--key", "id"]).failed();
    assert!(err.contains("missing.csv"), "{err}");
    let err = world.run(&["load", "db", "people.csv", "--key", "idd"]).failed();
    assert!(err.contains("idd"), "{err}");
    let err = world.run(&["load", "db"]).failed();
    assert!(err.contains("nothing to load"), "{err}");
}

#[test]
fn a_served_database_is_read_until_its_owner_is_told_to_end() {
    let world = World::new();
    world.file("people.csv", PEOPLE);
    let mut owner = world.talk(&["load", "db", "people.csv", "--key", "id", "--serve"]);
    owner.hear("3 rows");
    let out = world.run(&["attach", "db", "-c", "SELECT count(*) AS n FROM people"]).ok();
    assert!(out.contains("│ 3 │"), "{out}");
    let pid = owner.child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(owner.child.wait().unwrap().code(), Some(0));
    let out = world.run(&["list"]).ok();
    assert!(out.contains("no databases are open"), "{out}");
}

#[test]
fn a_stream_is_loaded_whole() {
    let world = World::new();
    let rows = 200_000;
    let content: String = std::iter::once("id,name\n".to_owned())
        .chain((0..rows).map(|id| format!("{id},name {id}\n")))
        .collect();
    world.file("t.csv", &content);
    let wanted = format!("│ {rows} │");
    let count = "SELECT count(*) AS n FROM t";
    for stream in ["-", "/dev/stdin"] {
        let table = format!("t={stream}");
        let words =
            ["load", "db", "--table", &table, "--format", "csv", "--key", "id", "-c", count];
        let out = world.pipe(&words, &content).ok();
        assert!(out.starts_with("t: 200,000 rows from") && out.contains(&wanted), "{out}");
    }
    // A pipe of the shell and a FIFO.
    let program = env!("CARGO_BIN_EXE_atoll");
    for line in [
        format!("{program} load db --table t=<(cat t.csv) --format csv --key id -c '{count}'"),
        format!(
            "mkfifo t.fifo; cat t.csv > t.fifo & \
             {program} load db --table t=t.fifo --format csv --key id -c '{count}'"
        ),
        format!(
            "{program} load db --table t=<(cat t.csv) --format csv --schema <(echo '\
             CREATE TABLE t (id int PRIMARY KEY, name text);') -c '{count}'"
        ),
    ] {
        let mut command = world.command(&[]);
        let runtime = world.runtime_dir();
        let mut bash = std::process::Command::new("bash");
        bash.args(["-c", &line]).current_dir(command.get_current_dir().unwrap());
        bash.env("ATOLL_RUNTIME_DIR", runtime).stdin(std::process::Stdio::null());
        command = bash;
        let out = common::Ended::from(command.output().unwrap()).ok();
        assert!(out.contains(&wanted), "{line}: {out}");
    }
}

#[test]
fn a_stream_without_a_table_or_a_format_is_answered_with_what_to_write() {
    let world = World::new();
    let err = world.pipe(&["load", "db", "-", "--key", "id"], "id\n1\n").failed();
    assert!(err.contains("--table NAME=-"), "{err}");
    let err = world.pipe(&["load", "db", "--table", "t=-", "--key", "id"], "id\n1\n").failed();
    assert!(err.contains("--format"), "{err}");
    let words = ["load", "db", "--table", "t=-", "--key", "id", "--format", "csv"];
    let err = world.pipe(&words, "id,v\n1,\"a\n").failed();
    assert!(err.contains("(standard input): line 2, field 2: the quote that opens here"), "{err}");
}

#[test]
fn columns_that_need_quotes_and_those_without_a_name_are_told() {
    let world = World::new();
    world.file("t.csv", ",Name,name,order\n1,a,b,2\n");
    let words = ["load", "db", "t.csv", "--key", "COLUMN1"];
    let query = "SELECT \"Name\", name, \"order\" FROM t WHERE column1 = 1";
    let out = world.run(&[&words[..], &["-c", query]].concat()).ok();
    assert!(out.contains("columns without a name in the file: column1\n"), "{out}");
    assert!(out.contains("columns that SQL needs in quotes: \"Name\", \"order\"\n"), "{out}");
    assert!(out.contains("│ a    │ b    │     2 │"), "{out}");
    let json = world.run(&[&words[..], &["--json", "-c", query]].concat()).json();
    assert_eq!(json[0]["quoted"], serde_json::json!(["\"Name\"", "\"order\""]));
    assert_eq!(json[0]["named"], serde_json::json!(["column1"]));
    world.file("plain.csv", "id,name\n1,a\n");
    let out = world.run(&["load", "db", "plain.csv", "--key", "\"id\"", "-c", "SELECT 1"]).ok();
    assert!(!out.contains("columns"), "{out}");
}

#[test]
fn columns_without_a_value_are_text_and_told() {
    let world = World::new();
    world.file("t.csv", "id,a,b,c\n1,,x,\n2,,,\n");
    let words = ["load", "db", "t.csv", "--key", "id"];
    let out = world.run(&[&words[..], &["-c", r"\d t"]].concat()).ok();
    assert!(out.contains("columns without a value in the file, made text: a, c\n"), "{out}");
    let json = world.run(&[&words[..], &["--json", "-c", "SELECT 1"]].concat()).json();
    assert_eq!(json[0]["untyped"], serde_json::json!(["a", "c"]));
}

#[test]
fn rows_whose_key_is_there_are_refused_skipped_or_replaced() {
    let world = World::new();
    world.file("t.csv", "day,v\n2024-05-01,1\n2024-05-02,2\n2024-05-01,3\n");
    let words = ["load", "db", "t.csv", "--key", "day", "-c", "SELECT sum(v) AS s FROM t"];
    let err = world.run(&words).failed();
    for part in ["t.csv: line 4: ", "with key day = '2024-05-01' already", "--on-conflict skip"] {
        assert!(err.contains(part), "{part} is not in {err}");
    }
    let run = |what: &str, more: &[&str]| {
        world.run(&[&words[..], &["--on-conflict", what], more].concat())
    };
    let out = run("skip", &[]).ok();
    assert!(out.contains("t: 2 rows") && out.contains("1 row skipped"), "{out}");
    assert!(out.contains("│ 3 │"), "{out}");
    let out = run("replace", &[]).ok();
    assert!(out.contains("t: 3 rows") && out.contains("1 row of them replaced"), "{out}");
    assert!(out.contains("│ 5 │"), "{out}");
    let json = run("skip", &["--json"]).json();
    assert_eq!((&json[0]["rows"], &json[0]["skipped"]), (&2.into(), &1.into()));
}

#[test]
fn fine_timestamps_are_cut_if_that_is_wanted() {
    let world = World::new();
    world.file("t.csv", "id,at\n1,2024-05-01 10:00:00.123456789\n");
    let query = "SELECT arrow_typeof(at) AS type, at FROM t";
    let words = ["load", "db", "t.csv", "--key", "id", "-c", query];
    let out = world.run(&words).ok();
    assert!(out.contains("Utf8") && out.contains("10:00:00.123456789"), "{out}");
    let out = world.run(&[&words[..], &["--truncate-timestamps"]].concat()).ok();
    assert!(out.contains("Timestamp") && out.contains("10:00:00.123456 "), "{out}");
    world.file("t.sql", "CREATE TABLE t (id int PRIMARY KEY, at timestamp);");
    let err = world.run(&["load", "db", "t.csv", "--schema", "t.sql"]).failed();
    assert!(err.contains("--truncate-timestamps"), "{err}");
}

#[test]
fn a_file_with_too_many_columns_is_refused_with_the_first_of_them() {
    let world = World::new();
    let names: Vec<String> = (1..=1601).map(|at| format!("c{at}")).collect();
    world.file("t.csv", &format!("{}\n", names.join(",")));
    let err = world.run(&["load", "db", "t.csv", "--key", "c1"]).failed();
    assert!(err.contains("1601 columns") && err.contains("1600") && err.contains("c1601"), "{err}");
}

#[test]
fn a_byte_order_mark_before_a_script_is_skipped() {
    let world = World::new();
    let script = "\u{feff}CREATE TABLE t (id int PRIMARY KEY);\nINSERT INTO t VALUES (7);\n\
                  SELECT id FROM t;\n";
    world.file("s.sql", script);
    for out in [
        world.run(&["sql", "db", "-f", "s.sql"]),
        world.pipe(&["sql", "db"], script),
        world.pipe(&["sql", "db", "-f", "-"], script),
        world.pipe(&["sql", "db"], "\u{feff}\\i s.sql\n"),
    ] {
        let out = out.ok();
        assert!(out.contains("│  7 │"), "{out}");
    }
}
