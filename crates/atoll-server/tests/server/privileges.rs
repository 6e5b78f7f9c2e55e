//! GRANT and REVOKE, owners, and what roles may do.

use crate::Served;
use crate::client::{Client, bind, describe, execute, parse, sync};

/// A server with roles that may log in, and a superuser on it.
fn served(roles: &[&str]) -> (Served, Client) {
    let served = Served::start();
    let mut admin = served.client();
    for role in roles {
        assert_eq!(admin.query(&format!("CREATE ROLE {role} LOGIN")), ["CREATE ROLE", "ZI"]);
    }
    (served, admin)
}

fn client(served: &Served, role: &str) -> Client {
    Client::login_as(&served.socket(), role, "bank", &[])
}

/// Runs a statement that is permitted.
fn ok(client: &mut Client, sql: &str) {
    let answers = client.query(sql);
    assert!(!answers.iter().any(|one| one.starts_with("E ")), "{sql}: {answers:?}");
}

/// Runs a statement that is not, and returns the message.
fn refused(client: &mut Client, sql: &str) -> String {
    client.send(b'Q', &[sql.as_bytes(), &[0]].concat());
    let answers = client.until_ready();
    let error = answers.iter().find(|one| one.kind == 'E');
    let error = error.unwrap_or_else(|| panic!("{sql} is permitted"));
    assert_eq!(error.field('C').unwrap(), "42501", "{sql}: {:?}", error.field('M'));
    error.field('M').unwrap()
}

#[test]
fn each_privilege_is_for_its_statements() {
    let (served, mut admin) = served(&["ann"]);
    ok(&mut admin, "CREATE TABLE t (id int PRIMARY KEY, a int); INSERT INTO t VALUES (1, 1)");
    let mut ann = client(&served, "ann");
    let statements = [
        ("SELECT", "SELECT * FROM t"),
        ("SELECT", "SELECT count(*) OVER () FROM t"),
        ("SELECT", "WITH x AS (SELECT a FROM t) SELECT * FROM x"),
        ("SELECT", "SELECT 1 WHERE EXISTS (SELECT FROM t)"),
        ("SELECT", "COPY t TO STDOUT"),
        ("SELECT", "COPY (SELECT * FROM t) TO STDOUT"),
        ("SELECT", "EXPLAIN SELECT * FROM t"),
        ("INSERT", "INSERT INTO t VALUES (2, 2)"),
        ("UPDATE", "UPDATE t SET a = 5"),
        ("DELETE", "DELETE FROM t"),
        ("TRUNCATE", "TRUNCATE t"),
    ];
    for (_, sql) in statements {
        assert_eq!(refused(&mut ann, sql), "permission denied for table t", "{sql}");
    }
    for granted in ["SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE"] {
        ok(&mut admin, &format!("GRANT {granted} ON t TO ann"));
        for (needed, sql) in statements {
            match needed == granted {
                true => ok(&mut ann, sql),
                false => drop(refused(&mut ann, sql)),
            }
        }
        ok(&mut admin, &format!("REVOKE {granted} ON TABLE t FROM ann"));
    }
    // What is read must be readable.
    ok(&mut admin, "GRANT UPDATE, DELETE, INSERT ON t TO ann");
    for sql in [
        "UPDATE t SET a = a + 1",
        "UPDATE t SET a = 1 WHERE id = 1",
        "DELETE FROM t WHERE id = 1",
        "INSERT INTO t VALUES (7, 7) RETURNING a",
        "INSERT INTO t SELECT * FROM t",
        "SELECT * FROM t FOR UPDATE",
    ] {
        refused(&mut ann, sql);
    }
    ok(&mut admin, "GRANT ALL ON t TO PUBLIC");
    ok(&mut ann, "UPDATE t SET a = a + 1 WHERE id = 1");
    ok(&mut ann, "SELECT * FROM t FOR UPDATE");
}

#[test]
fn prepared_statements_are_checked_when_they_run() {
    let (served, mut admin) = served(&["ann"]);
    ok(&mut admin, "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)");
    ok(&mut admin, "GRANT SELECT ON t TO ann");
    let mut ann = client(&served, "ann");
    let run = [bind("", "s", &[Some("1")], &[]), execute("", 0), sync()];
    let first = [parse("s", "SELECT id FROM t WHERE id = $1", &[]), sync()];
    assert_eq!(ann.answers(&first), ["1", "ZI"]);
    assert_eq!(ann.answers(&run), ["2", "D 1", "SELECT 1", "ZI"]);
    // A statement that the superuser has run is kept for all, and checked for each.
    ok(&mut admin, "SELECT id FROM t WHERE id = 1");
    ok(&mut admin, "REVOKE SELECT ON t FROM ann");
    assert_eq!(ann.answers(&run), ["2", "E 42501", "ZI"]);
    refused(&mut ann, "SELECT id FROM t WHERE id = 1");
    ok(&mut admin, "ALTER ROLE ann SUPERUSER");
    assert_eq!(ann.answers(&run), ["2", "D 1", "SELECT 1", "ZI"]);
    ok(&mut admin, "ALTER ROLE ann NOSUPERUSER");
    assert_eq!(ann.answers(&run), ["2", "E 42501", "ZI"]);
}

#[test]
fn grants_are_part_of_transactions_and_follow_names() {
    let (served, mut admin) = served(&["ann"]);
    ok(&mut admin, "CREATE TABLE t (id int PRIMARY KEY)");
    let mut ann = client(&served, "ann");
    ok(&mut admin, "BEGIN; GRANT SELECT ON t TO ann; ROLLBACK");
    refused(&mut ann, "SELECT * FROM t");
    ok(&mut admin, "BEGIN; GRANT SELECT ON t TO ann; COMMENT ON TABLE t IS 'x'; COMMIT");
    ok(&mut ann, "SELECT * FROM t");
    ok(
        &mut admin,
        "ALTER TABLE t RENAME TO u; ALTER TABLE u ADD COLUMN b text NOT NULL DEFAULT ''",
    );
    ok(&mut ann, "SELECT b FROM u");
    ok(&mut admin, "CREATE TABLE t (id int PRIMARY KEY)");
    refused(&mut ann, "SELECT * FROM t");
    ok(&mut admin, "DROP TABLE u; CREATE TABLE u (id int PRIMARY KEY)");
    refused(&mut ann, "SELECT * FROM u");
}

#[test]
fn owners_may_do_everything_with_what_they_have_made() {
    let (served, mut admin) = served(&["ann", "bob"]);
    let (mut ann, mut bob) = (client(&served, "ann"), client(&served, "bob"));
    let denied = refused(&mut ann, "CREATE TABLE own (id int PRIMARY KEY)");
    assert_eq!(denied, "permission denied for schema public");
    refused(&mut ann, "CREATE SCHEMA s");
    ok(&mut admin, "GRANT CREATE ON SCHEMA public TO ann, bob");
    ok(&mut ann, "CREATE TABLE own (id serial PRIMARY KEY, a int)");
    ok(&mut ann, "INSERT INTO own (a) VALUES (1), (2)");
    ok(&mut ann, "CREATE INDEX ON own (a); ALTER TABLE own ADD COLUMN b int");
    assert_eq!(refused(&mut bob, "SELECT * FROM own"), "permission denied for table own");
    for sql in [
        "DROP TABLE own",
        "ALTER TABLE own ADD COLUMN c int",
        "CREATE INDEX ON own (b)",
        "COMMENT ON TABLE own IS 'x'",
        "COMMENT ON COLUMN own.a IS 'x'",
        "ALTER TABLE own OWNER TO bob",
    ] {
        assert_eq!(refused(&mut bob, sql), "must be owner of table own", "{sql}");
    }
    refused(&mut bob, "GRANT SELECT ON own TO bob");
    refused(&mut bob, "CREATE TABLE child (id int PRIMARY KEY, own int REFERENCES own)");
    ok(&mut ann, "GRANT SELECT, REFERENCES, INSERT ON own TO bob");
    ok(&mut bob, "CREATE TABLE child (id int PRIMARY KEY, own int REFERENCES own)");
    // The sequence of a serial column has privileges of its own, that of an identity does not.
    let denied = refused(&mut bob, "INSERT INTO own (a) VALUES (3)");
    assert_eq!(denied, "permission denied for sequence own_id_seq");
    ok(&mut ann, "GRANT USAGE ON SEQUENCE own_id_seq TO bob");
    ok(&mut bob, "INSERT INTO own (a) VALUES (3)");
    refused(&mut bob, "SELECT setval('own_id_seq', 1)");
    ok(&mut ann, "CREATE TABLE i (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int)");
    ok(&mut ann, "GRANT INSERT ON i TO bob");
    ok(&mut bob, "INSERT INTO i (a) VALUES (3)");
    assert_eq!(admin.query("DROP ROLE bob"), ["E 2BP01", "ZI"]);
    refused(&mut ann, "ALTER TABLE own OWNER TO bob");
    ok(&mut admin, "DROP TABLE child; ALTER TABLE own OWNER TO bob");
    ok(&mut bob, "ALTER TABLE own DROP COLUMN b");
    refused(&mut ann, "SELECT * FROM own");
    ok(&mut bob, "DROP TABLE own");
}

#[test]
fn roles_have_the_privileges_of_those_they_are_members_of() {
    let (served, mut admin) = served(&["ann", "readers", "all_of_them"]);
    ok(&mut admin, "CREATE SCHEMA s; CREATE TABLE s.t (id int PRIMARY KEY)");
    ok(&mut admin, "CREATE TABLE s.u (id int PRIMARY KEY); CREATE SEQUENCE s.q");
    ok(&mut admin, "GRANT SELECT ON ALL TABLES IN SCHEMA s TO readers");
    let mut ann = client(&served, "ann");
    assert_eq!(admin.query("GRANT readers TO all_of_them"), ["GRANT ROLE", "ZI"]);
    assert_eq!(admin.query("GRANT all_of_them TO ann"), ["GRANT ROLE", "ZI"]);
    assert_eq!(admin.query("GRANT ann TO readers"), ["E 0LP01", "ZI"]);
    assert_eq!(admin.query("GRANT no_role TO ann"), ["E 42704", "ZI"]);
    refused(&mut ann, "GRANT readers TO ann");
    assert_eq!(refused(&mut ann, "SELECT * FROM s.t"), "permission denied for schema s");
    ok(&mut admin, "GRANT USAGE ON SCHEMA s TO all_of_them");
    ok(&mut ann, "SELECT * FROM s.t, s.u");
    ok(&mut ann, "SET search_path = s; SELECT * FROM t; RESET search_path");
    let denied = refused(&mut ann, "SELECT nextval('s.q')");
    assert_eq!(denied, "permission denied for sequence q");
    ok(&mut admin, "GRANT ALL ON ALL SEQUENCES IN SCHEMA s TO readers");
    ok(&mut ann, "SELECT nextval('s.q')");
    assert_eq!(admin.query("REVOKE readers FROM all_of_them"), ["REVOKE ROLE", "ZI"]);
    refused(&mut ann, "SELECT * FROM s.t");
}

#[test]
fn a_view_reads_as_its_owner() {
    let (served, mut admin) = served(&["ann", "bob"]);
    ok(&mut admin, "GRANT CREATE ON SCHEMA public TO ann");
    ok(&mut admin, "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)");
    ok(&mut admin, "CREATE VIEW v AS SELECT id FROM t; GRANT SELECT ON v TO ann");
    let (mut ann, mut bob) = (client(&served, "ann"), client(&served, "bob"));
    ok(&mut ann, "SELECT * FROM v");
    refused(&mut ann, "SELECT * FROM t");
    assert_eq!(refused(&mut bob, "SELECT * FROM v"), "permission denied for view v");
    ok(&mut ann, "CREATE VIEW w AS SELECT id FROM v; GRANT SELECT ON w TO bob");
    ok(&mut bob, "SELECT * FROM w");
    ok(&mut admin, "REVOKE SELECT ON v FROM ann");
    assert_eq!(refused(&mut bob, "SELECT * FROM w"), "permission denied for view v");
}

#[test]
fn mistakes_in_grants_are_told_as_in_postgresql() {
    let (served, mut admin) = served(&["ann"]);
    ok(&mut admin, "CREATE TABLE t (id int PRIMARY KEY)");
    for (sql, state) in [
        ("GRANT SELECT ON t TO no_role", "E 42704"),
        ("GRANT SELECT ON missing TO ann", "E 42P01"),
        ("GRANT USAGE ON t TO ann", "E 0LP01"),
        ("GRANT SELECT ON SCHEMA public TO ann", "E 0LP01"),
        ("GRANT SELECT ON SEQUENCE t TO ann", "E 42809"),
        ("GRANT SELECT (id) ON t TO ann", "E 0A000"),
        ("GRANT SELECT ON t TO ann WITH GRANT OPTION", "E 0A000"),
        ("GRANT ALL ON ALL TABLES IN SCHEMA missing TO ann", "E 3F000"),
        ("CREATE ROLE public", "E 42939"),
    ] {
        assert_eq!(admin.query(sql)[0], state, "{sql}");
    }
    ok(&mut admin, "GRANT SELECT ON t TO ann");
    let mut ann = client(&served, "ann");
    let asked = "SELECT has_table_privilege('t', 'SELECT'), has_table_privilege('t', 'INSERT'), \
                 has_table_privilege('ann', 't', 'insert, select'), \
                 has_schema_privilege('public', 'CREATE'), pg_has_role('ann', 'MEMBER')";
    assert_eq!(ann.query(asked), ["D t|f|t|f|t", "SELECT 1", "ZI"]);
    assert_eq!(admin.query(asked), ["D t|t|t|t|t", "SELECT 1", "ZI"]);
    assert_eq!(ann.query("SELECT has_table_privilege('t', 'FLY')")[0], "E 22023");
    // All may read the catalogs.
    ok(&mut ann, "SELECT relname FROM pg_class; SELECT * FROM information_schema.tables");
    // The privileges of everyone can be taken away.
    ok(&mut admin, "REVOKE USAGE ON SCHEMA public FROM PUBLIC");
    assert_eq!(refused(&mut ann, "SELECT * FROM t"), "permission denied for schema public");
}

/// The answer to a statement is this error.
fn fails(client: &mut Client, sql: &str, state: &str) {
    let answers = client.query(sql);
    assert!(answers.contains(&format!("E {state}")), "{sql}: {answers:?}");
}

#[test]
fn files_of_the_server_are_for_superusers_however_a_copy_is_written() {
    let (served, mut admin) = served(&["ann"]);
    ok(&mut admin, "GRANT CREATE ON SCHEMA public TO ann");
    let mut ann = client(&served, "ann");
    ok(&mut ann, "CREATE TABLE mine (line text)");
    for sql in [
        "COPY mine FROM '/etc/hostname' WITH (FORMAT text)",
        "\u{b}COPY mine FROM '/etc/hostname' WITH (FORMAT text)",
        "--\rCOPY mine FROM '/etc/hostname' WITH (FORMAT text) /*\nSELECT 1 */",
        "COPY mine TO '/tmp/atoll-never'",
    ] {
        let answers = ann.query(sql);
        assert!(answers.iter().any(|one| one.starts_with("E 4")), "{sql}: {answers:?}");
        assert_eq!(ann.query("SELECT count(*) FROM mine")[0], "D 0", "{sql}");
    }
}

#[test]
fn no_definition_reads_a_table_for_its_owner() {
    let (served, mut admin) = served(&["ann"]);
    ok(&mut admin, "CREATE TABLE secret (pw text); INSERT INTO secret VALUES ('hunter2')");
    ok(&mut admin, "GRANT CREATE ON SCHEMA public TO ann");
    let mut ann = client(&served, "ann");
    ok(&mut ann, "CREATE TABLE mine (i int); INSERT INTO mine VALUES (1)");
    for sql in [
        "ALTER TABLE mine ALTER COLUMN i TYPE text USING (SELECT max(pw) FROM secret)",
        "ALTER TABLE mine ADD COLUMN a int[] DEFAULT ARRAY(SELECT 1 FROM secret)",
        "ALTER TABLE mine ADD CHECK (ARRAY(SELECT * FROM secret) IS NOT NULL)",
        "CREATE TABLE theirs (i int DEFAULT (SELECT count(*) FROM secret))",
    ] {
        fails(&mut ann, sql, "0A000");
    }
    // For all roles, where the expression would be kept.
    for sql in [
        "CREATE TABLE x (a bigint[] DEFAULT ARRAY(SELECT count(*) FROM secret))",
        "CREATE TABLE x (i int, CHECK (ARRAY(SELECT * FROM secret) IS NOT NULL))",
        "CREATE DOMAIN d AS bigint[] DEFAULT ARRAY(SELECT count(*) FROM secret)",
    ] {
        fails(&mut admin, sql, "0A000");
    }
    let read = "EXPLAIN ANALYZE SELECT pw::int FROM secret";
    let answers = ann.answers(&[parse("", read, &[]), describe(b'S', ""), sync()]);
    assert!(answers.contains(&"E 42501".to_owned()), "{answers:?}");
}

#[test]
fn a_recursive_query_hides_no_table_from_the_checks() {
    let (served, mut admin) = served(&["ann"]);
    ok(&mut admin, "CREATE TABLE secret (pw text); INSERT INTO secret VALUES ('hunter2')");
    ok(&mut admin, "CREATE VIEW v AS SELECT 1 AS one FROM secret; GRANT SELECT ON v TO ann");
    let mut ann = client(&served, "ann");
    for sql in [
        "WITH RECURSIVE secret AS (SELECT * FROM secret)
         SELECT secret.* FROM secret, (SELECT 1 FROM v LIMIT 1) x",
        "WITH RECURSIVE secret AS (SELECT * FROM secret UNION SELECT pw FROM secret)
         SELECT secret.* FROM secret, (SELECT 1 FROM v LIMIT 1) x",
        "WITH RECURSIVE a AS (SELECT * FROM secret), secret AS (SELECT 'x' AS pw)
         SELECT a.* FROM a, (SELECT 1 FROM v LIMIT 1) x",
    ] {
        refused(&mut ann, sql);
    }
    let counted = "WITH RECURSIVE secret(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM secret
                   WHERE n < 3) SELECT sum(n) FROM secret";
    assert_eq!(ann.query(counted)[0], "D 6");
}

#[test]
fn a_privilege_reaches_no_further_than_its_statement() {
    let (served, mut admin) = served(&["ann"]);
    ok(&mut admin, "CREATE TABLE acc (id int PRIMARY KEY, n int); INSERT INTO acc VALUES (1, 1)");
    ok(&mut admin, "CREATE TABLE child (id int REFERENCES acc (id)); INSERT INTO child VALUES (1)");
    ok(&mut admin, "CREATE TABLE idt (id int GENERATED ALWAYS AS IDENTITY, n int)");
    ok(&mut admin, "GRANT INSERT, TRUNCATE ON acc TO ann; GRANT INSERT ON idt TO ann");
    ok(&mut admin, "GRANT CREATE ON SCHEMA public TO ann; CREATE SCHEMA app");
    ok(&mut admin, "GRANT USAGE ON SCHEMA app TO ann");
    let mut ann = client(&served, "ann");
    refused(&mut ann, "COPY acc FROM STDIN WITH (FORMAT csv, ON_CONFLICT replace)");
    refused(&mut ann, "TRUNCATE acc CASCADE");
    refused(&mut ann, "SELECT setval('idt_id_seq', 100)");
    ok(&mut ann, "INSERT INTO idt (n) VALUES (5)");
    ok(&mut ann, "CREATE TABLE sh (i int)");
    refused(&mut ann, "ALTER TABLE sh SET SCHEMA app");
    assert_eq!(admin.query("SELECT count(*) FROM child")[0], "D 1");
    // A new name of a schema gives nothing in it to another owner.
    ok(&mut admin, "CREATE SCHEMA s; CREATE TABLE s.pay (i int); ALTER SCHEMA s OWNER TO ann");
    ok(&mut ann, "ALTER SCHEMA s RENAME TO s2");
    refused(&mut ann, "SELECT * FROM s2.pay");
    // A role of the same name has nothing of an earlier one.
    let mut other = served.client();
    ok(&mut admin, "CREATE ROLE bob LOGIN; GRANT SELECT ON acc TO bob");
    ok(&mut admin, "BEGIN");
    ok(&mut admin, "REVOKE SELECT ON acc FROM bob");
    fails(&mut admin, "DROP ROLE bob", "25001");
    ok(&mut admin, "ROLLBACK");
    fails(&mut other, "DROP ROLE bob", "2BP01");
}
