//! `atoll sql` and `atoll attach`: statements, scripts, errors, and two processes on one database.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use common::World;

#[test]
fn statements_on_the_command_line_run_in_order_and_rows_are_aligned() {
    let world = World::new();
    let out = world
        .run(&[
            "sql",
            "bank",
            "-c",
            "CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT)",
            "-c",
            "INSERT INTO t VALUES (1, 'ann'), (20, NULL); SELECT * FROM t ORDER BY id",
        ])
        .ok();
    assert_eq!(
        out,
        "CREATE TABLE\n\
         INSERT 0 2\n\
         ╭────┬──────╮\n\
         │ id │ name │\n\
         ├────┼──────┤\n\
         │  1 │ ann  │\n\
         │ 20 │ NULL │\n\
         ╰────┴──────╯\n\
         2 rows\n"
    );
}

#[test]
fn a_script_from_a_pipe_may_have_comments_commands_and_statements_over_lines() {
    let world = World::new();
    let script = "-- a table; with a semicolon\n\
                  CREATE TABLE t (\n  id BIGINT PRIMARY KEY,\n  note TEXT\n);\n\
                  INSERT INTO t VALUES (1, 'a;b'); INSERT INTO t VALUES (2, 'c');\n\
                  \\d t\n\
                  SELECT note FROM t WHERE id = 1";
    let out = world.pipe(&["sql", "bank"], script).ok();
    assert!(out.contains("t: 2 rows") && out.contains("bigint"), "{out}");
    assert!(out.ends_with("│ a;b  │\n╰──────╯\n1 row\n"), "{out}");
}

/// A megabyte of semicolons in a text, on one line and on many, and in comments. Each semicolon
/// would take a scan of the whole if it were not remembered what it stands in.
#[test]
fn semicolons_that_end_nothing_cost_no_scan_each() {
    let world = World::new();
    let many = ";".repeat(1 << 20);
    let lines = ";;;;;;;;;;;;;;;\n".repeat(1 << 16);
    let script = format!(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, b TEXT);\n\
         INSERT INTO t VALUES (1, '{many}');\n\
         INSERT INTO t VALUES (2, $a${lines}$a$);\n\
         /* {lines} */ -- {many}\n\
         SELECT id, char_length(b) AS n FROM t ORDER BY id"
    );
    let rows = world.pipe(&["sql", "bank", "--json"], &script).json().pop().unwrap();
    assert_eq!(rows["rows"], serde_json::json!([[1, 1 << 20], [2, 1 << 20]]));
    let begin = "SELECT 1 AS a;".repeat(1 << 12);
    let out = world.pipe(&["sql", "bank", "--json"], &begin).json();
    assert_eq!(out.len(), 1 << 12);
}

#[test]
fn a_dollar_sign_inside_a_name_opens_no_string() {
    let world = World::new();
    let script = "CREATE TABLE t$1 (a$b$c INT PRIMARY KEY);\n\
                  INSERT INTO t$1 VALUES (1);\nSELECT a$b$c FROM t$1;";
    let out = world.pipe(&["sql", "bank", "--json"], script).json();
    assert_eq!(out[2]["columns"][0]["name"], "a$b$c");
}

#[test]
fn a_byte_order_mark_before_a_script_is_no_part_of_it() {
    let world = World::new();
    let script = "\u{feff}SELECT 1 AS a;";
    assert_eq!(world.pipe(&["sql", "bank", "--json"], script).json().len(), 1);
    assert_eq!(world.run(&["sql", "bank", "--json", "-c", script]).json().len(), 1);
    let file = world.file("s.sql", "\u{feff}\\d\nSELECT 1;");
    let out = world.run(&["sql", "bank", "-f", file.to_str().unwrap()]).ok();
    assert!(out.starts_with("no tables yet"), "{out}");
    // A script behind another one, and one that a script runs.
    let file = file.to_str().unwrap();
    let out = world.pipe(&["sql", "bank", "-f", file, "-f", "-"], "\u{feff}\\d\n").ok();
    assert_eq!(out.matches("no tables yet").count(), 2, "{out}");
}

#[test]
fn results_are_json_for_programs() {
    let world = World::new();
    let json = world
        .run(&["sql", "bank", "--json", "-c", "SELECT 1 AS a, 'x' AS b, 0.5 AS c, NULL AS d"])
        .json();
    assert_eq!(json[0]["rows"], serde_json::json!([[1, "x", "0.5", null]]));
    assert_eq!(json[0]["columns"][0], serde_json::json!({"name": "a", "type": "bigint"}));
}

#[test]
fn an_error_points_at_its_place_in_the_script_and_stops_it() {
    let world = World::new();
    let script = world.file(
        "s.sql",
        "CREATE TABLE flights (id BIGINT PRIMARY KEY);\n\nSELECT 1; \
         SELECT id,\n  arrival FROM flights;\n\
         INSERT INTO flights VALUES (7);\n",
    );
    let ended = world.run(&["sql", "bank", "-f", script.to_str().unwrap()]);
    assert!(!ended.out.contains("INSERT"), "{}", ended.out);
    let err = ended.failed();
    assert!(err.contains("arrival"), "{err}");
    assert!(err.contains("s.sql:4:3"), "{err}");
    assert!(err.contains("\n4 |   arrival FROM flights;\n  |   ^"), "{err}");
}

#[test]
fn the_column_of_an_error_counts_the_statements_before_it_on_the_line() {
    let world = World::new();
    let script = world.file("s.sql", "SELECT 1; SELEKT 2;\n");
    let err = world.run(&["sql", "bank", "-f", script.to_str().unwrap()]).failed();
    assert!(err.contains("s.sql:1:11"), "{err}");
}

#[test]
fn a_misspelt_table_is_answered_with_the_right_one() {
    let world = World::new();
    let script = "CREATE TABLE flights (id BIGINT PRIMARY KEY);\nSELECT * FROM flight;";
    let err = world.pipe(&["sql", "bank"], script).failed();
    assert!(err.contains("flight") && err.contains("hint: ") && err.contains("flights"), "{err}");
    assert!(err.contains("\n2 | SELECT * FROM flight;\n"), "{err}");
}

#[test]
fn another_process_reads_a_snapshot_that_changes_only_by_refresh() {
    let world = World::new();
    let mut owner = world.owner("bank");
    let mut reader = world.talk(&["attach", "bank"]);
    reader.say("SELECT count(*) AS n FROM t;");
    assert!(reader.hear("1 row").contains("│ 2 │"));
    owner.say("INSERT INTO t VALUES (3, 'cid');");
    owner.hear("INSERT 0 1");
    reader.say("SELECT count(*) AS n FROM t;");
    assert!(reader.hear("1 row").contains("│ 2 │"), "a snapshot does not change");
    reader.say("refresh");
    reader.hear("snapshot of epoch");
    reader.say("SELECT count(*) AS n FROM t;");
    assert!(reader.hear("1 row").contains("│ 3 │"), "a new one shows the new row");
    assert_eq!(owner.end(), Some(0));
    reader.say("SELECT count(*) AS n FROM t;");
    assert!(reader.hear("1 row").contains("│ 3 │"), "a snapshot outlives its owner");
    assert_eq!(reader.end(), Some(0));
}

#[test]
fn a_snapshot_refuses_changes_and_says_where_to_make_them() {
    let world = World::new();
    let _owner = world.owner("bank");
    let err = world.run(&["attach", "bank", "-c", "DELETE FROM t"]).failed();
    assert!(err.contains("snapshot") && err.contains("hint: "), "{err}");
    let err = world.run(&["attach", "bank", "-c", r"\memory"]).failed();
    assert!(err.contains("snapshot"), "{err}");
}

#[test]
fn an_unknown_name_is_answered_with_those_that_are_open() {
    let world = World::new();
    let err = world.run(&["attach", "bank"]).failed();
    assert!(err.contains("bank") && err.contains("atoll sql bank"), "{err}");
    let _owner = world.owner("savings");
    let err = world.run(&["attach", "bank"]).failed();
    assert!(err.contains("savings"), "{err}");
}

#[test]
fn a_name_has_one_owner() {
    let world = World::new();
    let owner = world.owner("bank");
    let err = world.run(&["sql", "bank", "-c", "SELECT 1"]).failed();
    let pid = owner.child.id().to_string();
    assert!(err.contains("taken") && err.contains(&pid), "{err}");
    assert!(err.contains("hint: to read that database, run: atoll attach bank"), "{err}");
}

#[test]
fn a_transaction_that_is_left_open_is_told() {
    let world = World::new();
    let script = "CREATE TABLE t (id BIGINT PRIMARY KEY); BEGIN; INSERT INTO t VALUES (1);";
    let ended = world.pipe(&["sql", "bank"], script);
    assert!(ended.err.contains("rolled back"), "{}", ended.err);
    ended.ok();
}

#[test]
fn a_script_that_runs_itself_ends_with_an_error() {
    let world = World::new();
    let script = world.file("loop.sql", "\\i loop.sql\n");
    let err = world.run(&["sql", "bank", "-f", script.to_str().unwrap()]).failed();
    assert!(err.contains("does one run itself"), "{err}");
}

#[test]
fn a_script_that_cannot_be_read_is_named() {
    let world = World::new();
    let err = world.run(&["sql", "bank", "-f", "missing.sql"]).failed();
    assert!(err.contains("missing.sql"), "{err}");
    let err = world.run(&["sql", "bank", "-f", "/"]).failed();
    assert!(err.contains("directory"), "{err}");
}

#[test]
fn quit_ends_a_script() {
    let world = World::new();
    let out = world.pipe(&["sql", "bank"], "SELECT 1 AS a;\n\\q\nSELECT 2 AS b;\n").ok();
    assert!(out.contains("a") && !out.contains("b"), "{out}");
}

#[test]
fn what_is_wrong_with_a_database_is_told_once_and_to_whoever_asks() {
    let world = World::new();
    let path = |name: &str| world.runtime_dir().with_file_name(name);
    let (data, archive) = (path("data"), path("archive"));
    let words = ["--data", data.to_str().unwrap(), "--archive", archive.to_str().unwrap()];
    let mut owner = world.command(&[&["sql", "bank"], &words[..]].concat());
    owner.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut owner = owner.spawn().unwrap();
    let mut out = BufReader::new(owner.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut err = BufReader::new(owner.stderr.take().unwrap()).lines().map(Result::unwrap);
    let say = |text: &str| owner.stdin.as_ref().unwrap().write_all(text.as_bytes()).unwrap();
    let mut hear = |text: &str| assert!(out.any(|line| line.contains(text)), "{text}");
    say("CREATE TABLE acc (id bigint PRIMARY KEY);\n\\health\n");
    hear("nothing is wrong");
    std::fs::rename(&archive, path("elsewhere")).unwrap();
    say("INSERT INTO acc VALUES (1);\n\\checkpoint\n");
    // No question was asked.
    assert!(err.any(|line| line.starts_with("warning: the logs could not be archived")));
    say("INSERT INTO acc VALUES (2);\n\\checkpoint\n\\health\n");
    hear("checkpoint 2");
    hear("the logs could not be archived");
    drop(owner.stdin.take());
    assert_eq!(owner.wait().unwrap().code(), Some(1));
    let rest: Vec<String> = err.collect();
    assert!(!rest.iter().any(|line| line.contains("warning")), "{rest:?}");
}

#[test]
fn a_database_in_a_folder_is_there_again_and_can_be_checked_shown_and_copied() {
    let home = tempfile::tempdir().expect("a folder");
    let data = home.path().join("bank");
    let backup = home.path().join("copy");
    let atoll = |args: &[&str]| {
        let done = std::process::Command::new(env!("CARGO_BIN_EXE_atoll"))
            .args(args)
            .arg("--runtime-dir")
            .arg(home.path().join("run"))
            .output()
            .expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (done.status.success(), text(&done.stdout), text(&done.stderr))
    };
    let (data, backup) = (data.to_str().expect("UTF-8"), backup.to_str().expect("UTF-8"));
    let make = "CREATE TABLE acc (id bigint PRIMARY KEY, name text)";
    let insert = "INSERT INTO acc VALUES (1, 'alice in wonderland'), (2, NULL)";
    let (ok, _, err) = atoll(&["sql", "bank", "--data", data, "-c", make, "-c", insert]);
    assert!(ok, "{err}");
    let copy = format!("\\backup {backup}\n\\checkpoint\n");
    let script = home.path().join("script");
    std::fs::write(&script, copy).expect("written");
    let script = script.to_str().expect("UTF-8");
    let (ok, out, err) = atoll(&["sql", "bank", "--data", data, "-f", script]);
    assert!(ok && out.contains("checkpoint 2"), "{out}{err}");
    assert!(err.contains("2 rows"), "{err}");
    for folder in [data, backup] {
        let (ok, out, err) = atoll(&["check", folder]);
        assert!(ok && out.contains("0 damaged"), "{out}{err}");
        let query = ["sql", "bank", "--data", folder, "--json", "-c", "SELECT name FROM acc"];
        let (ok, out, err) = atoll(&query);
        assert!(ok && out.contains("alice in wonderland"), "{out}{err}");
    }
    let (ok, out, err) = atoll(&["log", data]);
    assert!(ok && out.contains("open"), "{out}{err}");
    // Both slots of the control file, and a program is told where.
    let control = std::path::Path::new(backup).join("control");
    let mut bytes = std::fs::read(&control).expect("read");
    [50, (16 << 10) + 50].into_iter().for_each(|at: usize| bytes[at] ^= 1);
    std::fs::write(&control, bytes).expect("written");
    let (ok, out, err) = atoll(&["check", backup, "--json"]);
    assert!(!ok && err.contains("2 places are damaged"), "{out}{err}");
    for field in
        [r#""file":""#, r#"/control","offset":16396,"expected":"checksum "#, r#""found":""#]
    {
        assert!(out.contains(field), "{field} in {out}");
    }
    let nowhere = home.path().to_str().expect("UTF-8");
    let (ok, _, err) = atoll(&["check", nowhere]);
    assert!(!ok && err.contains("no database"), "{err}");
    let (ok, out, err) = atoll(&["log", nowhere]);
    assert!(!ok && out.is_empty() && err.contains("no database"), "{out}{err}");
    let (ok, _, err) = atoll(&["sql", "bank", "--durability", "none", "-c", "SELECT 1"]);
    assert!(!ok && err.contains("--data"), "{err}");
}

#[test]
fn a_session_says_what_its_commits_survive() {
    let world = World::new();
    let data = world.runtime_dir().with_file_name("data").to_str().unwrap().to_owned();
    let words = ["sql", "bank", "--data", &data, "--durability", "group:3", "--json"];
    let script = "SHOW durability; SET durability = 'none'; SHOW durability; BEGIN;
                  SET LOCAL synchronous_commit = on; SHOW durability; COMMIT;
                  CREATE TABLE t (id bigint PRIMARY KEY); SET durability = 'group 5ms';
                  INSERT INTO t VALUES (1); SHOW durability; RESET durability;";
    let json = world.run(&[&words[..], &["-c", script, "-c", "SHOW durability"]].concat()).json();
    let shown = json.iter().filter(|one| one["columns"][0]["name"] == "durability");
    let shown: Vec<_> = shown.map(|one| one["rows"][0][0].as_str().unwrap()).collect();
    assert_eq!(shown, ["group:3", "none", "strict", "group:5", "group:3"]);
    let wrong = world.run(&[&words[..], &["-c", "SET durability = 'some'"]].concat());
    assert_eq!(wrong.code, Some(1));
    for word in ["\"some\"", "strict", "group:N", "none", "\n1 | SET durability = 'some'"] {
        assert!(wrong.err.contains(word), "{}", wrong.err);
    }
    let err = world.run(&["sql", "bank", "-c", "SET durability = 'strict'"]).failed();
    assert!(err.contains("in memory only") && err.contains("--data DIR"), "{err}");
}

#[test]
fn a_table_is_described_with_its_rules_and_those_that_refer_to_it() {
    let world = World::new();
    let make = "CREATE TABLE p (id int PRIMARY KEY, n varchar(9) DEFAULT 'x', CHECK (n <> ''));
                CREATE TABLE t (id int PRIMARY KEY, \"P\" int REFERENCES p ON DELETE SET NULL,
                w int GENERATED ALWAYS AS (id * 2) STORED)";
    let out = world.run(&["sql", "bank", "-c", make, "-c", r"\d p", "-c", r"\d t"]).ok();
    for shown in [
        "│ n      │ character varying(9) │ yes      │     │ 'x'     │",
        "Checks:\n  p_n_check CHECK (n <> '')\n",
        "Referenced by:\n  t t_P_fkey: FOREIGN KEY (\"P\") REFERENCES p (id) ON DELETE SET NULL\n",
        "generated: id * 2",
        "Foreign keys:\n  t_P_fkey FOREIGN KEY (\"P\") REFERENCES p (id) ON DELETE SET NULL\n",
    ] {
        assert!(out.contains(shown), "{shown} is not in\n{out}");
    }
}

#[test]
fn views_and_comments_are_shown() {
    let world = World::new();
    let make = "CREATE TABLE t (id int PRIMARY KEY, a int CONSTRAINT positive CHECK (a > 0));
                CREATE VIEW v AS SELECT id, a AS b FROM t WHERE a > 1;
                COMMENT ON TABLE t IS 'all of them'; COMMENT ON COLUMN t.a IS 'how many';
                COMMENT ON VIEW v IS 'the large ones'; COMMENT ON COLUMN v.b IS 'how large';
                COMMENT ON INDEX t_pkey IS 'by number';
                COMMENT ON CONSTRAINT positive ON t IS 'why'";
    let commands = [r"\d", r"\d+", r"\dt", r"\dv", r"\dv+", r"\di+", r"\ds", r"\d v", r"\d+ v"];
    let run = |first: &[&str], command: &str| {
        world.run(&[&["sql", "bank"], first, &["-c", make, "-c", command]].concat())
    };
    let [list, more, tables, views, views_more, indexes, sequences, view, view_more] =
        commands.map(|command| run(&[], command).ok());
    assert!(list.contains("│ t     │") && list.contains("Views: v\n"), "{list}");
    assert!(more.contains("│ all of them │"), "{more}");
    assert!(!tables.contains("Views"), "{tables}");
    assert!(views.contains("│ v    │ id, b   │"), "{views}");
    assert!(views_more.contains("the large ones │ SELECT id, a AS b FROM t WHERE a > 1"));
    assert!(indexes.contains("│ t_pkey │ t     │ id      │        │ by number │"), "{indexes}");
    assert!(sequences.contains("no sequences"), "{sequences}");
    assert!(view.contains("v: view\n") && view.contains("│ b      │ integer │\n"), "{view}");
    for shown in [
        "│ b      │ integer │ how large │\n",
        "Definition:\n  SELECT id, a AS b FROM t WHERE a > 1\n",
        "Comment: the large ones\n",
    ] {
        assert!(view_more.contains(shown), "{shown} is not in\n{view_more}");
    }
    let table = run(&[], r"\d+ t").ok();
    for shown in [
        "│ how many │\n",
        "Comment: all of them\n",
        "Comment on index t_pkey: by number\n",
        "Comment on constraint positive: why\n",
    ] {
        assert!(table.contains(shown), "{shown} is not in\n{table}");
    }
    let json = run(&["--json"], r"\d v").json();
    let json = json.last().unwrap();
    assert_eq!((&json["view"], &json["comment"]), (&"v".into(), &"the large ones".into()));
    assert_eq!(json["columns"][1], serde_json::json!({"name": "b", "type": "integer"}));
}

#[test]
fn indexes_are_shown_and_hold_when_the_database_is_opened_again() {
    let world = World::new();
    let data = world.runtime_dir().with_file_name("data").to_str().unwrap().to_owned();
    let run = |more: &[&str]| world.run(&[&["sql", "bank", "--data", &data], more].concat());
    let make = "CREATE TABLE t (id bigint PRIMARY KEY, mail text UNIQUE, age int, \
                INDEX by_age (age, id)); INSERT INTO t VALUES (1, 'a', 2)";
    let out = run(&["-c", make, "-c", r"\d t"]).ok();
    let indexes = "Indexes:\n  t_mail_key UNIQUE (mail)\n  by_age (age, id)\n";
    assert!(out.contains(indexes), "{out}");
    let json = run(&["--json", "-c", r"\d t", "-c", r"\d"]).json();
    for table in &json {
        assert_eq!(
            table["indexes"],
            serde_json::json!([
                {"name": "t_mail_key", "columns": ["mail"], "unique": true},
                {"name": "by_age", "columns": ["age", "id"], "unique": false},
                {"name": "t_pkey", "columns": ["id"], "unique": false},
            ])
        );
    }
    let taken = run(&["-c", "INSERT INTO t VALUES (2, 'a', 3)"]);
    assert_eq!(taken.code, Some(1));
    let err = taken.err;
    assert!(err.contains("t_mail_key") && err.contains("a row with mail = 'a' already"), "{err}");
    // A snapshot has none.
    let mut owner = world.owner("bank");
    let json = world.run(&["attach", "bank", "--json", "-c", r"\d t"]).json();
    assert!(json[0]["key"] == serde_json::json!(["id"]) && json[0].get("indexes").is_none());
    owner.say(r"\d t");
    assert!(!owner.hear("name").contains("Indexes"));
}

/// Whether a file of a folder with this prefix of its name holds a text.
fn holds(folder: &std::path::Path, prefix: &str, text: &str) -> bool {
    let files = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let files = files.filter(|file| file.file_name().to_string_lossy().starts_with(prefix));
    files
        .map(|file| std::fs::read(file.path()).unwrap())
        .any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
}

#[test]
fn a_table_lies_in_the_folder_of_the_tablespace_that_it_was_made_in() {
    let world = World::new();
    let data = world.runtime_dir().with_file_name("data");
    let words = |more: &'static [&'static str]| {
        let mut words = vec!["sql", "bank", "--nodes", "2", "--data", data.to_str().unwrap()];
        words.extend(more);
        world.run(&words)
    };
    let out = words(&[
        "-c",
        "CREATE TABLE near (id bigint PRIMARY KEY, name text) TABLESPACE node0;
         CREATE TABLE far (id bigint PRIMARY KEY, name text) TABLESPACE Node1;
         INSERT INTO near VALUES (1, 'a text of the near table');
         INSERT INTO far VALUES (1, 'a text of the far table')",
        "-c",
        r"\d far",
        "--checkpoint-every",
        "3600",
    ])
    .ok();
    assert!(out.ends_with("\nTablespace: node1\n"), "{out}");
    let folders = ["--node-folder", "a", "--node-folder", "b", "--node-folder", "c"];
    let few = ["sql", "few", "--nodes", "2", "--data", "few"];
    let err = world.run(&[&few[..], &folders, &["-c", "SELECT 1"]].concat()).failed();
    assert!(err.contains("3 folders are given") && err.contains("for 2, one for each"), "{err}");
    let wrong = "CREATE TABLE third (id bigint PRIMARY KEY) TABLESPACE node2";
    let other = ["sql", "other", "--nodes", "2", "--data", "other", "-c", wrong];
    let err = world.run(&other).err;
    assert!(err.contains("tablespace \"node2\" does not exist"), "{err}");
    assert!(err.contains("hint: the tablespaces are node0, node1"), "{err}");
    let place = |prefix: &str| {
        let holds = |node: &str, text: &str| holds(&data.join(node), prefix, text);
        let (near, far) = ("a text of the near table", "a text of the far table");
        assert!(holds("node-0", near) && !holds("node-0", far), "{prefix}");
        assert!(holds("node-1", far) && !holds("node-1", near), "{prefix}");
    };
    place("log");
    let log = |node: &str| {
        let folder = data.to_str().unwrap();
        world.run(&["log", folder, "--tablespace", node]).ok()
    };
    assert!(!log("0").contains("put table 1 ") && log("1").contains("put table 1 "));
    // Opened again, both are there, and a checkpoint writes each to its home.
    let json = words(&[
        "--json",
        "-c",
        "SELECT (SELECT name FROM near) AS near, (SELECT name FROM far) AS far",
        "-c",
        r"\d far",
        "-c",
        r"\checkpoint",
    ])
    .json();
    let rows = serde_json::json!([["a text of the near table", "a text of the far table"]]);
    assert_eq!(json[0]["rows"], rows);
    assert_eq!(json[1]["tablespace"], "node1");
    place("home");
    // In memory there are no tablespaces.
    let table = "CREATE TABLE t (id bigint PRIMARY KEY)";
    let out = world.run(&["sql", "bank", "-c", table, "-c", r"\d t"]).ok();
    assert!(out.contains("t: 0 rows") && !out.contains("Tablespace"), "{out}");
    let named = "CREATE TABLE t (id bigint PRIMARY KEY) TABLESPACE node0";
    let err = world.run(&["sql", "bank", "-c", named]).failed();
    assert!(err.contains("in memory only has no tablespaces"), "{err}");
}

#[test]
fn nodes_are_for_what_can_be_divided() {
    let world = World::new();
    for words in [
        &["sql", "bank", "--nodes", "2", "-c", "SELECT 1"][..],
        &["list", "--nodes", "2"],
        &["attach", "bank", "--nodes", "2"],
        &["bench", "floor", "--nodes", "2"],
    ] {
        let err = world.run(words).failed();
        assert!(err.contains("--nodes has no meaning for"), "{words:?}: {err}");
    }
}

/// A script with a closed output has failed if a part of it was not run.
#[test]
fn a_closed_output_is_an_error_where_statements_are_left() {
    let world = World::new();
    let closed = |words: &[&str], text: &str| {
        let mut command = world.command(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        // It may have ended before it has read all.
        let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
        let ended = child.wait_with_output().unwrap();
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
    };
    let cut = "error: the output was closed, and the rest of the script was not run\n";
    let failed = (Some(1), cut.to_owned());
    for script in ["SELECT 1; SELECT 2", "SELECT 1;\n\n-- x\nSELECT 2", "SELECT 1;\n\\d\n"] {
        assert_eq!(closed(&["sql", "bank"], script), failed, "{script}");
        assert_eq!(closed(&["sql", "bank", "-c", script], ""), failed, "{script}");
    }
    assert_eq!(closed(&["sql", "bank", "-c", "SELECT 1", "-c", "SELECT 2"], ""), failed);
    let inner = world.file("inner.sql", "SELECT 1;");
    let script = format!("\\i {}\nSELECT 2;", inner.display());
    assert_eq!(closed(&["sql", "bank"], &script), failed);
    // The last statement has run, and what it said goes nowhere.
    let done = (Some(0), String::new());
    for script in ["SELECT 1", "SELECT 1;\n-- x\n;", "SELECT 1;\n\\q\nSELECT 2;"] {
        assert_eq!(closed(&["sql", "bank"], script), done, "{script}");
    }
}

#[test]
fn a_database_is_restored_to_a_moment_from_a_backup_and_archived_logs() {
    let world = World::new();
    let [data, archive, backup] = ["data", "logs", "copy"]
        .map(|name| world.runtime_dir().with_file_name(name).to_str().unwrap().to_owned());
    let own = ["sql", "bank", "--nodes", "2", "--data", &data, "--archive", &archive];
    let run = |more: &[&str]| world.run(&[&own[..], more].concat());
    let make = "CREATE TABLE near (id bigint PRIMARY KEY, name text) TABLESPACE node0;
                CREATE TABLE far (id bigint PRIMARY KEY, name text) TABLESPACE node1;
                INSERT INTO near VALUES (1, 'first'); INSERT INTO far VALUES (1, 'first')";
    run(&["-c", make]).ok();
    let script = world.file("script", &format!("\\backup {backup}\n"));
    run(&["-f", script.to_str().unwrap()]).ok();
    run(&["-c", "INSERT INTO far VALUES (2, 'wanted')"]).ok();
    // The moment at which it was closed.
    let log = world.run(&["log", &data, "--json", "--limit", "100000"]).json();
    let blocks = log[0].as_array().unwrap();
    let last = blocks.iter().rfind(|block| block["kind"] == "time").unwrap();
    let (gsn, time) = (last["gsn"].to_string(), last["changes"][0].as_str().unwrap().to_owned());
    run(&["-c", "DELETE FROM far WHERE id = 2", "-c", "DELETE FROM near WHERE id = 1"]).ok();
    for (number, to) in [["--to", &time], ["--to-gsn", &gsn]].iter().enumerate() {
        let new = format!("{data}-{number}");
        let words = ["restore", &backup, &new, "--archive", &archive, "--memory-budget", "64MiB"];
        let out = world.run(&[&words[..], to].concat()).ok();
        assert!(out.contains("3 rows") && out.contains(&format!("GSN {gsn}")), "{out}");
        let query = "SELECT name FROM far ORDER BY id; SELECT name FROM near";
        let out = world.run(&["sql", "bank", "--data", &new, "--json", "-c", query]).ok();
        assert!(out.contains("wanted") && out.matches("first").count() == 2, "{out}");
    }
    let new = format!("{data}-latest");
    let words = ["restore", &backup, &new, "--archive", &archive, "--logs", &data];
    let out = world.run(&words).ok();
    assert!(out.starts_with("1 row, "), "{out}");
    let err = world.run(&words).failed();
    assert!(err.contains("holds a database already"), "{err}");
    let new = format!("{data}-folders");
    let words = ["restore", &backup, &new, "--archive", &archive];
    let folders = ["--node-folder", "a", "--node-folder", "b", "--node-folder", "c"];
    let err = world.run(&[&words[..], &folders].concat()).failed();
    assert!(err.contains("3 folders are given") && err.contains("for 2, one for each"), "{err}");
    world.run(&[&words[..], &folders[..4]].concat()).ok();
    let new = format!("{data}-early");
    let words = ["restore", &backup, &new, "--archive", &archive, "--to", "2020-01-01 00:00:00Z"];
    let err = world.run(&words).failed();
    assert!(err.contains("2020-01-01") && err.contains("to"), "{err}");
    let wrong = world.run(&["restore", &backup, &new, "--archive", &archive, "--to", "noon"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("2026-11-21 10:00:00"), "{}", wrong.err);
    let err = world.run(&["restore", &archive, &new, "--archive", &archive]).failed();
    assert!(err.contains("no backup"), "{err}");
}
