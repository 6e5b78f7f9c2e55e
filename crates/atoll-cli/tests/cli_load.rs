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
    let err = world.run(&["load", "db", "nobody.csv", "--key", "id"]).failed();
    assert!(err.contains("nobody.csv"), "{err}");
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
