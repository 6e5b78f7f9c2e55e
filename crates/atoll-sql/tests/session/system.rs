//! The system catalogs: their answers are those of PostgreSQL 15, in transactions and on snapshots.

use std::sync::{Arc, Mutex};
use std::thread;

use arrow_array::{Array, ArrayRef};
use arrow_schema::FieldRef;
use atoll::{Database, DatabaseOptions};
use atoll_sql::{
    ClientState, Literal, Outcome, QueryResult, RoleInfo, Roles, SYSTEM_TYPE, Serving, SqlSession,
    Surroundings, SystemClient, SystemRole, SystemStatement, literal_at,
};

use super::{database, error, rows, session, tag};

/// A value as PostgreSQL's client shows it.
fn shown(value: &Literal) -> String {
    match value {
        Literal::Null => "NULL".to_owned(),
        Literal::Bool(value) => if *value { "t" } else { "f" }.to_owned(),
        other => other.text().unwrap_or_default(),
    }
}

/// The rows of a result.
fn answers(result: &QueryResult) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in result.batches() {
        for at in 0..batch.num_rows() {
            let value = |(column, field): (&ArrayRef, &FieldRef)| {
                if column.is_null(at) {
                    return "NULL".to_owned();
                }
                let text = shown(&literal_at(column, at).unwrap());
                match field.metadata().get(SYSTEM_TYPE).map(String::as_str) {
                    // A server writes a vector without signs.
                    Some("int2vector") => text.trim_matches(['{', '}']).replace(',', " "),
                    _ => text,
                }
            };
            let schema = batch.schema();
            let columns = batch.columns().iter().zip(schema.fields());
            rows.push(columns.map(value).collect::<Vec<_>>().join(" | "));
        }
    }
    rows
}

#[test]
fn the_answers_are_those_of_postgresql() {
    let mut session = session(include_str!("system/schema.sql"));
    let text = include_str!("system/answers.txt");
    let mut wrong = Vec::new();
    for part in text.split("\n-- ").skip(1) {
        let mut lines = part.lines();
        let (sql, wanted) = (lines.next().unwrap(), lines.collect::<Vec<_>>());
        match session.execute(sql) {
            Ok(Outcome::Rows(result)) => {
                let found = answers(&result);
                if found != wanted {
                    wrong.push(format!(
                        "{sql}\nfound\n  {}\nwanted\n  {}",
                        found.join("\n  "),
                        wanted.join("\n  ")
                    ));
                }
            }
            Ok(_) => wrong.push(format!("{sql} returned no rows")),
            Err(error) => wrong.push(error.render(sql)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn every_table_and_view_can_be_read() {
    let mut session = session(include_str!("system/schema.sql"));
    let all = "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n
               ON n.oid = c.relnamespace
               WHERE n.nspname IN ('pg_catalog', 'information_schema')";
    let all = rows(&mut session, all);
    assert!(all.len() > 70, "{}", all.len());
    for name in all {
        let name = name.replace('|', ".");
        rows(&mut session, &format!("SELECT * FROM {name}"));
    }
}

#[test]
fn a_transaction_sees_its_own_definitions() {
    let mut session = session("CREATE TABLE t (id int PRIMARY KEY)");
    let names =
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 2200 ORDER BY 1";
    tag(&mut session, "BEGIN");
    tag(&mut session, "INSERT INTO t VALUES (1)");
    tag(&mut session, "CREATE TABLE u (id int)");
    assert_eq!(rows(&mut session, names), ["t", "u"]);
    assert_eq!(rows(&mut session, "SELECT 'u'::regclass"), ["u"]);
    // A query that reads rows as well would have to see those of the transaction.
    let mixed = "SELECT t.id, c.relname FROM t, pg_class c WHERE c.relname = 't'";
    assert_eq!(error(&mut session, mixed).sqlstate(), "0A000");
    tag(&mut session, "ROLLBACK");
    assert_eq!(rows(&mut session, names), ["t"]);
    assert_eq!(rows(&mut session, mixed), Vec::<String>::new());
}

#[test]
fn a_snapshot_shows_the_definitions_of_its_cut() {
    let db = database();
    let mut owner = SqlSession::on_database(db.clone());
    tag(&mut owner, "CREATE TABLE t (id int PRIMARY KEY, name text)");
    let mut reader = SqlSession::on_snapshot(db.snapshot().unwrap());
    tag(&mut owner, "ALTER TABLE t DROP COLUMN name");
    let columns = "SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass ORDER BY attnum";
    assert_eq!(rows(&mut reader, columns), ["id", "name"]);
    assert_eq!(rows(&mut owner, columns), ["id"]);
}

#[test]
fn a_relation_keeps_its_number_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let number = "SELECT 't'::regclass::oid, 't_pkey'::regclass::oid";
    let mut found = Vec::new();
    for opened in 0..2 {
        let db = Database::open(folder.path(), DatabaseOptions::default()).unwrap();
        let mut session = SqlSession::on_database(db);
        if opened == 0 {
            tag(&mut session, "CREATE TABLE other (id int)");
            tag(&mut session, "CREATE TABLE t (id int PRIMARY KEY)");
            tag(&mut session, "DROP TABLE other");
        }
        found.push(rows(&mut session, number));
    }
    assert_eq!(found[0], found[1]);
}

/// A server with the superuser ann and with bob, each a client, and a statement of each.
#[derive(Default)]
struct Bank(Mutex<Vec<(i32, bool)>>);

fn bank() -> Arc<Bank> {
    Arc::default()
}

impl Serving for Bank {
    fn roles(&self) -> Vec<SystemRole> {
        let role = |(name, number): (&str, u32)| SystemRole {
            number,
            name: name.to_owned(),
            is_superuser: number == 10,
            can_log_in: true,
        };
        [("ann", 10), ("bob", 16_400)].map(role).into()
    }

    fn clients(&self) -> Vec<SystemClient> {
        let client = |(number, role): (i32, &str)| SystemClient {
            number,
            role: role.to_owned(),
            address: (number == 8).then(|| ("::1".to_owned(), 999)),
            began: 1_000_000,
            state: ClientState::InTransaction,
            statement: format!("SELECT {number}"),
            ..SystemClient::default()
        };
        [(7, "ann"), (8, "bob")].map(client).into()
    }

    fn statements(&self) -> Vec<SystemStatement> {
        let of = |role: &str| SystemStatement {
            role: role.to_owned(),
            text: "SELECT ?".to_owned(),
            calls: 4,
            rows: 3,
            total_ms: 2.0,
            ..SystemStatement::default()
        };
        ["ann", "bob"].map(of).into()
    }

    fn forget_statements(&self) {}

    fn began(&self) -> i64 {
        0
    }

    fn end(&self, client: i32, connection: bool) -> bool {
        self.0.lock().unwrap().push((client, connection));
        true
    }
}

/// Bob's roles.
struct Bob;

impl Roles for Bob {
    fn version(&self) -> u64 {
        0
    }

    fn role(&self, name: &str) -> Option<RoleInfo> {
        Some(RoleInfo { is_superuser: false, roles: [name.to_owned()].into() })
    }
}

#[test]
fn a_role_sees_and_ends_what_it_may() {
    let (db, server) = (database(), bank());
    let mut ann = SqlSession::on_database(db.clone());
    ann.set_surroundings(Surroundings::new(("bank", "ann"), 7, server.clone()));
    let mut bob = SqlSession::on_database(db);
    bob.set_surroundings(Surroundings::new(("bank", "bob"), 8, server.clone()));
    bob.set_role(Some((Arc::new(Bob), "bob")));
    let activity = "SELECT pid, usename, state, query, client_addr, client_port FROM
                    pg_stat_activity ORDER BY pid";
    let of_bob = "8|bob|idle in transaction|SELECT 8|::1|999";
    let seen = ["7|ann|idle in transaction|SELECT 7|NULL|-1", of_bob];
    assert_eq!(rows(&mut ann, activity), seen);
    let seen = ["7|ann|NULL|<insufficient privilege>|NULL|NULL", of_bob];
    assert_eq!(rows(&mut bob, activity), seen);
    let statements = "SELECT query, calls, mean_exec_time, rows, queryid IS NULL
                      FROM pg_stat_statements ORDER BY userid";
    let of_bob = "SELECT ?|4|0.5|3|false";
    assert_eq!(rows(&mut ann, statements), [of_bob, of_bob]);
    assert_eq!(rows(&mut bob, statements)[0], "<insufficient privilege>|4|0.5|3|true");
    assert_eq!(rows(&mut bob, "SELECT pg_cancel_backend(8), pg_cancel_backend(5)"), ["true|false"]);
    assert_eq!(error(&mut bob, "SELECT pg_terminate_backend(7)").sqlstate(), "42501");
    assert_eq!(error(&mut bob, "SELECT pg_stat_statements_reset()").sqlstate(), "42501");
    let ends = "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity ORDER BY pid";
    rows(&mut ann, &format!("EXPLAIN {ends}"));
    rows(&mut ann, "EXPLAIN SELECT pg_terminate_backend(7)");
    assert_eq!(rows(&mut ann, ends), ["7|true", "8|true"]);
    assert_eq!(*server.0.lock().unwrap(), [(8, false), (7, true), (8, true)]);
}

#[test]
fn statistics_tell_what_the_database_has_done() {
    let db = database();
    let mut session = SqlSession::on_database(db.clone());
    let size = "SELECT pg_table_size('t'), pg_indexes_size('t'::regclass),
                       pg_total_relation_size('t')";
    tag(&mut session, "CREATE TABLE t (id int PRIMARY KEY, name text)");
    let commits = "SELECT xact_commit FROM pg_stat_database";
    let before: u64 = rows(&mut session, commits)[0].parse().unwrap();
    let sizes = |session: &mut SqlSession| -> Vec<u64> {
        rows(session, size)[0].split('|').map(|bytes| bytes.parse().unwrap()).collect()
    };
    let empty = sizes(&mut session);
    let insert = "INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(1, 20000) AS g(g)";
    tag(&mut session, insert);
    let full = sizes(&mut session);
    assert!(full[0] > empty[0] + 20_000 * 104 && full[1] > empty[1], "{empty:?} {full:?}");
    assert_eq!(full[0] + full[1], full[2]);
    let after: u64 = rows(&mut session, commits)[0].parse().unwrap();
    assert!(after > before);
    assert_eq!(rows(&mut session, "SELECT count(*) FROM atoll_stat_health"), ["6"]);
    let _held = db.snapshot().unwrap();
    let held = "SELECT pid > 0, state, bytes_shared > 2000000 FROM atoll_stat_snapshots";
    assert_eq!(rows(&mut session, held), ["true|live|true"]);
    tag(&mut session, "DELETE FROM t");
    let sql = "SELECT bytes > 2000000 FROM atoll_stat_memory WHERE part = 'tables'";
    assert_eq!(rows(&mut session, sql), ["true"]);
    assert!(!rows(&mut session, "SELECT * FROM atoll_stat_nodes").is_empty());
    let sql = "SELECT count(*) > 3, sum(seconds) > 0 FROM atoll_stat_time";
    assert_eq!(rows(&mut session, sql), ["true|true"]);
    let mut before = SqlSession::on_snapshot(db.snapshot().unwrap());
    assert!(rows(&mut before, "SELECT * FROM atoll_stat_memory").is_empty());
    assert_eq!(rows(&mut before, "SELECT pg_table_size('t')"), ["NULL"]);
}

#[test]
fn advisory_locks_are_listed_with_those_that_wait() {
    let db = database();
    let (mut one, mut other) =
        (SqlSession::on_database(db.clone()), SqlSession::on_database(db.clone()));
    one.set_number(71);
    other.set_number(72);
    rows(&mut one, "SELECT pg_advisory_lock(4294967298), pg_advisory_lock_shared(-1, 5)");
    let waits = thread::spawn(move || {
        rows(&mut other, "SELECT pg_advisory_lock(4294967298)");
    });
    let locks = "SELECT classid, objid, objsubid, pid, mode, granted FROM pg_locks ORDER BY 1, 4";
    let mut look = SqlSession::on_database(db);
    while rows(&mut look, "SELECT count(*) FROM pg_locks WHERE NOT granted") != ["1"] {
        thread::yield_now();
    }
    let wanted = [
        "1|2|1|71|ExclusiveLock|true",
        "1|2|1|72|ExclusiveLock|false",
        "4294967295|5|2|71|ShareLock|true",
    ];
    assert_eq!(rows(&mut look, locks), wanted);
    assert_eq!(rows(&mut look, "SELECT pg_blocking_pids(72), pg_blocking_pids(71)"), ["{71}|{}"]);
    drop(one);
    waits.join().unwrap();
}

#[test]
fn what_is_around_a_session_is_no_part_of_a_plan_that_is_kept() {
    let db = database();
    let sql = "SELECT current_user, current_database(), pg_backend_pid(), session_user";
    for (name, process) in [("ann", 7), ("bob", 8)] {
        let mut session = SqlSession::on_database(db.clone());
        session.set_surroundings(Surroundings::new(("bank", name), process, bank()));
        for _ in 0..2 {
            let wanted = format!("{name}|bank|{process}|{name}");
            assert_eq!(rows(&mut session, sql), [wanted]);
        }
        let found = rows(&mut session, "SELECT rolname, rolsuper FROM pg_roles ORDER BY 1");
        assert_eq!(found, ["ann|true", "bob|false"]);
        assert_eq!(rows(&mut session, "SELECT pg_get_userbyid(10)"), ["ann"]);
    }
}

#[test]
fn names_of_the_system_are_found_and_missed_as_in_postgresql() {
    let mut session = session(
        "CREATE SCHEMA s; CREATE TABLE s.t (id int); CREATE TABLE t (id int, name text);
         CREATE VIEW v AS SELECT relname FROM pg_catalog.pg_class WHERE relname = 't'",
    );
    for (sql, state) in [
        ("SELECT * FROM pg_catalog.pg_nothing", "42P01"),
        ("SELECT * FROM information_schema.nothing", "42P01"),
        ("SELECT 'nothing'::regclass", "42P01"),
        ("SELECT 'nothing'::regtype", "42704"),
        ("SELECT 'nothing'::regnamespace", "3F000"),
        ("INSERT INTO pg_class (relname) VALUES ('x')", "42P01"),
        ("DROP TABLE pg_catalog.pg_class", "42P01"),
    ] {
        assert_eq!(error(&mut session, sql).sqlstate(), state, "{sql}");
    }
    // A query of a WITH hides a table of the system, as it hides others.
    let hidden = "WITH pg_class AS (SELECT 1 AS a) SELECT a FROM pg_class";
    assert_eq!(rows(&mut session, hidden), ["1"]);
    assert_eq!(rows(&mut session, "SELECT relname FROM v"), ["t", "t"]);
    let path = "SELECT relname FROM pg_class WHERE pg_table_is_visible(oid) AND relname = 't'";
    assert_eq!(rows(&mut session, path).len(), 1);
    assert_eq!(rows(&mut session, "SELECT 's.t'::regclass"), ["s.t"]);
    tag(&mut session, "SET search_path TO s, public");
    assert_eq!(rows(&mut session, "SELECT 's.t'::regclass, 'public.t'::regclass"), ["t|public.t"]);
    tag(&mut session, "SET search_path TO ''");
    assert_eq!(rows(&mut session, path), Vec::<String>::new());
}
