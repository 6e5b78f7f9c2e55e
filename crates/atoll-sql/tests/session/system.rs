//! The system catalogs: their answers are those of PostgreSQL 15, in transactions and on snapshots.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use arrow_array::{Array, ArrayRef};
use arrow_schema::FieldRef;
use atoll::{Database, DatabaseOptions, Snapshot};
use atoll_sql::{
    ClientState, Literal, NamedSnapshot, Outcome, QueryResult, RoleInfo, Roles, SYSTEM_TYPE,
    Serving, SqlError, SqlSession, Surroundings, SystemClient, SystemRole, SystemStatement,
    literal_at,
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
struct Bank(Mutex<Vec<(i32, bool)>>, Mutex<Option<(String, Snapshot)>>);

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

    fn take_snapshot(
        &self,
        owner: &str,
        name: Option<&str>,
        max_age: Duration,
    ) -> Result<String, SqlError> {
        Ok(format!("{owner} {name:?} {max_age:?}"))
    }

    fn release_snapshot(&self, name: &str) -> bool {
        let mut kept = self.1.lock().unwrap();
        kept.take_if(|(one, _)| one == name).is_some()
    }

    fn snapshots(&self) -> Vec<NamedSnapshot> {
        let kept = self.1.lock().unwrap();
        let named = |(name, _): &(String, Snapshot)| NamedSnapshot {
            name: name.clone(),
            owner: "ann".to_owned(),
            taken: 1_000_000,
            expires: 61_000_000,
        };
        kept.iter().map(named).collect()
    }

    fn snapshot(&self, name: &str) -> Option<Snapshot> {
        let kept = self.1.lock().unwrap();
        kept.as_ref().filter(|(one, _)| one == name).map(|(_, snapshot)| snapshot.clone())
    }

    fn back_up_roles(&self, _: &Path) -> Result<(), SqlError> {
        Ok(())
    }

    fn restore_roles(&self, _: &Path, _: &Path) -> Result<(), SqlError> {
        Ok(())
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
    let sql = "SELECT bytes > 2000000 FROM atoll_stat_memory WHERE part = 'tables'";
    assert_eq!(rows(&mut session, sql), ["true"]);
    assert!(!rows(&mut session, "SELECT * FROM atoll_stat_nodes").is_empty());
    // A sample of the transactions is measured.
    for at in 1..=300 {
        tag(&mut session, &format!("UPDATE t SET name = 'y' WHERE id = {at}"));
    }
    let sql = "SELECT count(*) > 3, sum(seconds) > 0 FROM atoll_stat_time";
    assert_eq!(rows(&mut session, sql), ["true|true"]);
    let mut before = SqlSession::on_snapshot(db.snapshot().unwrap());
    assert!(rows(&mut before, "SELECT * FROM atoll_stat_memory").is_empty());
    assert_eq!(rows(&mut before, "SELECT pg_table_size('t')"), ["NULL"]);
}

#[test]
fn a_snapshot_is_taken_with_a_name_and_an_age() {
    let server = bank();
    let mut session = SqlSession::on_database(database());
    assert_eq!(error(&mut session, "SELECT atoll_snapshot()").sqlstate(), "0A000");
    session.set_surroundings(Surroundings::new(("bank", "bob"), 8, server));
    for (call, wanted) in [
        ("atoll_snapshot()", "bob None 3600s"),
        ("atoll_snapshot('x')", "bob Some(\"x\") 3600s"),
        ("atoll_snapshot(NULL, interval '2 minutes')", "bob None 120s"),
        ("atoll_snapshot('x', '1 day')", "bob Some(\"x\") 86400s"),
    ] {
        assert_eq!(rows(&mut session, &format!("SELECT {call}")), [wanted]);
    }
    for (call, state) in [
        ("atoll_snapshot('x', interval '0')", "22023"),
        ("atoll_snapshot('x', 'soon')", "22023"),
        ("atoll_snapshot('x', interval '-1 day')", "22023"),
        ("atoll_snapshot(5)", "22023"),
    ] {
        assert_eq!(error(&mut session, &format!("SELECT {call}")).sqlstate(), state, "{call}");
    }
}

#[test]
fn a_session_reads_a_snapshot_and_changes_nothing_meanwhile() {
    let (db, server) = (database(), bank());
    let mut session = SqlSession::on_database(db.clone());
    session.set_surroundings(Surroundings::new(("bank", "ann"), 7, server.clone()));
    tag(&mut session, "CREATE TABLE t (id int PRIMARY KEY, n int)");
    tag(&mut session, "INSERT INTO t VALUES (1, 10), (2, 20)");
    let by_key = session.prepare("SELECT n FROM t WHERE id = $1").unwrap();
    *server.1.lock().unwrap() = Some(("then".to_owned(), db.snapshot().unwrap()));
    tag(&mut session, "UPDATE t SET n = 11 WHERE id = 1");
    assert_eq!(error(&mut session, "SET atoll.snapshot = 'never'").sqlstate(), "42704");
    tag(&mut session, "SET atoll.snapshot = 'then'");
    let ask = |session: &mut SqlSession, sql: &str| rows(session, sql);
    assert_eq!(ask(&mut session, "SELECT n FROM t WHERE id = 1"), ["10"]);
    assert_eq!(ask(&mut session, "SELECT sum(n) FROM t"), ["30"]);
    let found = session.execute_with(&by_key, (1,)).unwrap();
    let Outcome::Rows(found) = found else { panic!("no rows") };
    assert_eq!(answers(&found), ["10"]);
    for sql in [
        "INSERT INTO t VALUES (3, 3)",
        "UPDATE t SET n = 5",
        "DELETE FROM t WHERE id = 1",
        "SELECT n FROM t WHERE id = 1 FOR UPDATE",
        "CREATE TABLE u (id int)",
        "DROP TABLE t",
        "TRUNCATE t",
        "CREATE INDEX ON t (n)",
        "COPY t FROM STDIN",
        "SELECT nextval('s')",
    ] {
        let refused = error(&mut session, sql);
        assert!(matches!(refused.sqlstate(), "25006" | "42P01"), "{sql}: {refused}");
    }
    // Transactions go on, and a change of the setting is one of theirs.
    for sql in ["BEGIN", "SELECT 1", "SET atoll.snapshot = ''"] {
        let _ = session.execute(sql).unwrap();
    }
    assert_eq!(ask(&mut session, "SELECT n FROM t WHERE id = 1"), ["11"]);
    tag(&mut session, "ROLLBACK");
    assert_eq!(ask(&mut session, "SELECT n FROM t WHERE id = 1"), ["10"]);
    tag(&mut session, "RESET atoll.snapshot");
    assert_eq!(ask(&mut session, "SELECT n FROM t WHERE id = 1"), ["11"]);
    tag(&mut session, "BEGIN");
    tag(&mut session, "UPDATE t SET n = 12 WHERE id = 1");
    assert_eq!(error(&mut session, "SET atoll.snapshot = 'then'").sqlstate(), "25001");
    tag(&mut session, "ROLLBACK");
    tag(&mut session, "BEGIN ISOLATION LEVEL SERIALIZABLE");
    tag(&mut session, "SET LOCAL atoll.snapshot = 'then'");
    assert_eq!(ask(&mut session, "SELECT n FROM t WHERE id = 1"), ["10"]);
    tag(&mut session, "COMMIT");
    assert_eq!(ask(&mut session, "SELECT n FROM t WHERE id = 1"), ["11"]);
    tag(&mut session, "SET atoll.snapshot = 'then'");
    let mut bob = SqlSession::on_database(db);
    bob.set_surroundings(Surroundings::new(("bank", "bob"), 8, server));
    bob.set_role(Some((Arc::new(Bob), "bob")));
    assert_eq!(
        ask(&mut bob, "SELECT name, owner, expires - taken FROM atoll_snapshots"),
        ["then|ann|1 mins"]
    );
    assert_eq!(error(&mut bob, "SELECT atoll_release_snapshot('then')").sqlstate(), "42501");
    tag(&mut bob, "SET atoll.snapshot = 'then'");
    assert_eq!(error(&mut bob, "SELECT * FROM t").sqlstate(), "42501");
    let release = "SELECT atoll_release_snapshot('then'), atoll_release_snapshot('then')";
    assert_eq!(ask(&mut session, release), ["true|false"]);
    assert_eq!(error(&mut session, "SELECT n FROM t").sqlstate(), "42704");
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
    assert_eq!(rows(&mut look, "SELECT pg_blocking_pids(72), pg_blocking_pids(71)"), ["[71]|[]"]);
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
