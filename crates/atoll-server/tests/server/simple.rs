//! The simple protocol, transactions and their states.

use crate::Served;
use crate::client::{Client, user};
use crate::extended::types_of;

#[test]
fn statements_are_answered_with_rows_tags_and_the_state_of_the_transaction() {
    let served = Served::start();
    let mut client = served.client();
    assert_eq!(client.query("SELECT 1 AS a, NULL, 'x'"), ["D 1|NULL|x", "SELECT 1", "ZI"]);
    assert_eq!(client.query("CREATE TABLE t (id int PRIMARY KEY, a text)"), ["CREATE TABLE", "ZI"]);
    assert_eq!(client.query("INSERT INTO t VALUES (1, 'a'), (2, 'b')"), ["INSERT 0 2", "ZI"]);
    assert_eq!(client.query("BEGIN"), ["BEGIN", "ZT"]);
    assert_eq!(client.query("DELETE FROM t WHERE id = 1"), ["DELETE 1", "ZT"]);
    assert_eq!(client.query("SELECT nonsense"), ["E 42703", "ZE"]);
    assert_eq!(client.query("SELECT 1"), ["E 25P02", "ZE"]);
    assert_eq!(client.query("COMMIT"), ["ROLLBACK", "ZI"]);
    assert_eq!(client.query("SELECT count(*) FROM t"), ["D 2", "SELECT 1", "ZI"]);
    assert_eq!(client.query("UPDATE t SET a = 'c' RETURNING id"), ["D 1", "D 2", "UPDATE 2", "ZI"]);
    assert_eq!(client.query("SHOW TimeZone"), ["D UTC", "SHOW", "ZI"]);
}

#[test]
fn empty_texts_have_an_answer_of_their_own() {
    let served = Served::start();
    let mut client = served.client();
    for empty in ["", ";", " ; ;", "-- nothing", "/* nothing */"] {
        assert_eq!(client.query(empty), ["I", "ZI"], "{empty:?}");
    }
}

#[test]
fn several_statements_are_one_transaction() {
    let served = Served::start();
    let mut client = served.client();
    client.query("CREATE TABLE t (id int PRIMARY KEY)");
    assert_eq!(
        client.query("INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)"),
        ["INSERT 0 1", "E 23505", "ZI"]
    );
    assert_eq!(client.query("SELECT count(*) FROM t"), ["D 0", "SELECT 1", "ZI"]);
    // The first result is sent before the error.
    assert_eq!(
        client.query("SELECT 1; SELECT * FROM missing"),
        ["D 1", "SELECT 1", "E 42P01", "ZI"]
    );
    // A text with a mistake in it does nothing.
    assert_eq!(client.query("INSERT INTO t VALUES (1); SELEKT"), ["E 42601", "ZI"]);
    assert_eq!(
        client.query("INSERT INTO t VALUES (1); COMMIT; INSERT INTO t VALUES (2); SELECT 1/0"),
        ["INSERT 0 1", "N 25P01", "COMMIT", "INSERT 0 1", "E 22012", "ZI"]
    );
    assert_eq!(client.query("SELECT id FROM t"), ["D 1", "SELECT 1", "ZI"]);
    assert_eq!(client.query("BEGIN; INSERT INTO t VALUES (3)"), ["BEGIN", "INSERT 0 1", "ZT"]);
    assert_eq!(client.query("ROLLBACK"), ["ROLLBACK", "ZI"]);
}

#[test]
fn what_ends_or_begins_no_transaction_is_warned_of() {
    let served = Served::start();
    let mut client = served.client();
    assert_eq!(client.query("COMMIT"), ["N 25P01", "COMMIT", "ZI"]);
    assert_eq!(client.query("ROLLBACK"), ["N 25P01", "ROLLBACK", "ZI"]);
    client.query("BEGIN");
    assert_eq!(client.query("BEGIN"), ["N 25001", "BEGIN", "ZT"]);
}

#[test]
fn notices_come_before_the_end_of_their_statement() {
    let served = Served::start();
    let mut client = served.client();
    client.send(b'Q', b"DROP TABLE IF EXISTS nope\0");
    let messages = client.until_ready();
    let notice = &messages[0];
    let field = |code| notice.field(code).unwrap();
    assert_eq!((notice.kind, field('S'), field('C')), ('N', "NOTICE".into(), "00000".into()));
    assert_eq!(field('M'), "table \"nope\" does not exist, skipping");
    assert_eq!(messages[1].show(), "DROP TABLE");
    client.query("CREATE TABLE t (id int PRIMARY KEY); CREATE VIEW v AS SELECT id FROM t");
    client.query("CREATE VIEW w AS SELECT id FROM t");
    client.send(b'Q', b"DROP TABLE t CASCADE\0");
    let notice = client.until_ready().remove(0);
    assert_eq!(notice.field('M').unwrap(), "drop cascades to 2 other objects");
    let detail = notice.field('D').unwrap();
    assert_eq!(detail, "drop cascades to view v\ndrop cascades to view w");
    let nothing = ["DROP TABLE", "ZI"];
    assert_eq!(client.query("SET client_min_messages = warning"), ["SET", "ZI"]);
    assert_eq!(client.query("DROP TABLE IF EXISTS nope"), nothing);
    assert_eq!(client.query("COMMIT"), ["N 25P01", "COMMIT", "ZI"]);
    client.query("SET client_min_messages = error");
    assert_eq!(client.query("COMMIT"), ["COMMIT", "ZI"]);
}

#[test]
fn an_error_has_its_fields() {
    let served = Served::start();
    let mut client = served.client();
    let sql = "SELECT 'ä',\n  nonsense FROM (VALUES (1)) AS v (nonsens)\0";
    client.send(b'Q', sql.as_bytes());
    let error = client.until_ready().remove(0);
    assert_eq!(error.kind, 'E');
    let field = |code| error.field(code).unwrap();
    assert_eq!(
        (field('S'), field('V'), field('C')),
        ("ERROR".into(), "ERROR".into(), "42703".into())
    );
    assert!(field('M').contains("nonsense"));
    assert_eq!(field('P'), "15");
    // The place counts from the start of the text.
    client.send(b'Q', b"SELECT 1; SELECT nonsense\0");
    let messages = client.until_ready();
    let error = messages.iter().find(|one| one.kind == 'E').unwrap();
    assert_eq!(error.field('P').unwrap(), "18");
}

#[test]
fn clients_are_told_of_settings_that_change() {
    let served = Served::start();
    let mut client = served.client();
    let told = |name: &str| client.settings.iter().any(|(told, _)| told == name);
    for name in ["server_version", "client_encoding", "DateStyle", "integer_datetimes", "TimeZone"]
    {
        assert!(told(name), "{name}");
    }
    assert_eq!(client.query("SET TIME ZONE 'Europe/Berlin'"), ["SET", "S", "ZI"]);
    assert_eq!(client.query("SET TIME ZONE 'Europe/Berlin'"), ["SET", "ZI"]);
    assert_eq!(client.query("BEGIN; SET application_name = 'Me'"), ["BEGIN", "SET", "S", "ZT"]);
    assert_eq!(client.query("ROLLBACK"), ["ROLLBACK", "S", "ZI"]);
    assert_eq!(client.query("SHOW application_name"), ["D ", "SHOW", "ZI"]);
    assert_eq!(client.query("DISCARD ALL"), ["DISCARD ALL", "S", "ZI"]);
    assert_eq!(client.query("SHOW TimeZone"), ["D UTC", "SHOW", "ZI"]);
}

#[test]
fn settings_are_those_that_exist_and_those_of_the_program() {
    let served = Served::start();
    let mut client = served.client();
    for sql in ["SET nope = 1", "SHOW nope", "RESET nope", "SELECT current_setting('nope')"] {
        assert_eq!(client.query(sql), ["E 42704", "ZI"], "{sql}");
    }
    assert_eq!(client.query("SET app.user = 'Ann'"), ["SET", "ZI"]);
    assert_eq!(client.query("SHOW app.user"), ["D Ann", "SHOW", "ZI"]);
    let started = [("app.user", "Bob"), ("options", "-c app.id=7")];
    let mut other = Client::login_as(&served.socket(), &user(), "bank", &started);
    let sql = "SELECT current_setting('app.user'), current_setting('app.id')";
    assert_eq!(other.query(sql), ["D Bob|7", "SELECT 1", "ZI"]);
    let set = "SELECT set_config('TimeZone', 'Europe/' || 'Paris', false)";
    assert_eq!(client.query(set), ["D Europe/Paris", "SELECT 1", "S", "ZI"]);
}

#[test]
fn cursors_are_read_in_pieces() {
    let served = Served::start();
    let mut client = served.client();
    let declare = "DECLARE c CURSOR FOR SELECT * FROM generate_series(1, 5)";
    assert_eq!(client.query(declare), ["E 25P01", "ZI"]);
    client.query("BEGIN");
    assert_eq!(client.query(declare), ["DECLARE CURSOR", "ZT"]);
    assert_eq!(client.query("FETCH 2 FROM c"), ["D 1", "D 2", "FETCH 2", "ZT"]);
    assert_eq!(client.query("MOVE c"), ["MOVE 1", "ZT"]);
    assert_eq!(client.query("FETCH ALL c"), ["D 4", "D 5", "FETCH 2", "ZT"]);
    assert_eq!(client.query("FETCH c"), ["FETCH 0", "ZT"]);
    assert_eq!(client.query("CLOSE c"), ["CLOSE CURSOR", "ZT"]);
    assert_eq!(client.query("FETCH c"), ["E 34000", "ZE"]);
    client.query("ROLLBACK");
    client.query("BEGIN");
    client.query(declare);
    client.query("COMMIT");
    assert_eq!(client.query("FETCH c"), ["E 34000", "ZI"]);
}

#[test]
fn cursors_scroll_and_outlive_their_transactions() {
    let served = Served::start();
    let mut client = served.client();
    let series = "SELECT * FROM generate_series(1, 3)";
    client.query("BEGIN");
    client.query(&format!("DECLARE s SCROLL CURSOR FOR {series}"));
    client.query(&format!("DECLARE n CURSOR FOR {series}"));
    assert_eq!(client.query("FETCH LAST FROM s"), ["D 3", "FETCH 1", "ZT"]);
    assert_eq!(client.query("FETCH BACKWARD ALL FROM s"), ["D 2", "D 1", "FETCH 2", "ZT"]);
    assert_eq!(client.query("MOVE ABSOLUTE 2 FROM s"), ["MOVE 1", "ZT"]);
    assert_eq!(client.query("FETCH RELATIVE 0 s"), ["D 2", "FETCH 1", "ZT"]);
    // Without SCROLL there is a way to rows that were not read.
    assert_eq!(client.query("FETCH ABSOLUTE 2 FROM n"), ["D 2", "FETCH 1", "ZT"]);
    assert_eq!(client.query("FETCH PRIOR FROM n"), ["E 55000", "ZE"]);
    client.query("ROLLBACK");
    assert_eq!(client.query("FETCH s"), ["E 34000", "ZI"]);
    // Outside of a transaction; then in one that fails, is rolled back, and commits.
    let hold = format!("DECLARE h CURSOR WITH HOLD FOR {series}");
    assert_eq!(client.query(&hold), ["DECLARE CURSOR", "ZI"]);
    assert_eq!(client.query("FETCH 2 FROM h"), ["D 1", "D 2", "FETCH 2", "ZI"]);
    client.query("BEGIN");
    client.query("ROLLBACK");
    assert_eq!(client.query("FETCH h"), ["D 3", "FETCH 1", "ZI"]);
    assert_eq!(client.query(&hold), ["E 42P03", "ZI"]);
    assert_eq!(client.query("CLOSE h"), ["CLOSE CURSOR", "ZI"]);
    client.query("BEGIN");
    client.query(&hold);
    assert_eq!(client.query("SELECT 1 / 0"), ["E 22012", "ZE"]);
    assert_eq!(client.query("COMMIT"), ["ROLLBACK", "ZI"]);
    assert_eq!(client.query("FETCH h"), ["E 34000", "ZI"]);
    client.query(&format!("BEGIN; {hold}; ROLLBACK"));
    assert_eq!(client.query("FETCH h"), ["E 34000", "ZI"]);
    client.query(&format!("BEGIN; {hold}; FETCH h; COMMIT"));
    assert_eq!(client.query("FETCH h"), ["D 2", "FETCH 1", "ZI"]);
    assert_eq!(client.query("DISCARD ALL"), ["DISCARD ALL", "ZI"]);
    assert_eq!(client.query("FETCH h"), ["E 34000", "ZI"]);
}

#[test]
fn the_rows_that_cursors_keep_have_a_limit() {
    let served = Served::start();
    let mut client = served.client();
    let wide = "DECLARE w CURSOR WITH HOLD FOR
                SELECT i, repeat('x', 100000) FROM generate_series(1, 10000) AS s (i)";
    assert_eq!(client.query(wide), ["E 53200", "ZI"]);
    assert_eq!(client.query("FETCH w"), ["E 34000", "ZI"]);
    assert_eq!(client.query("DECLARE c CURSOR WITH HOLD FOR SELECT 1"), ["DECLARE CURSOR", "ZI"]);
}

/// As PostgreSQL 15 describes them: numbers that are written are integers.
#[test]
fn columns_have_the_types_that_their_text_gives_them() {
    let served = Served::start();
    let mut client = served.client();
    client.query("CREATE TABLE t (a bigint, v varchar(5))");
    for (sql, wanted) in [
        ("SELECT 1, 3000000000, 'x'", vec![23, 20, 25]),
        ("SELECT a, v, v::text, current_user, 1 + a FROM t", vec![20, 1043, 25, 19, 20]),
        ("SELECT count(*), max(v), 5 AS five FROM t", vec![20, 25, 23]),
        ("VALUES (1, 'x')", vec![23, 25]),
    ] {
        client.send(b'Q', format!("{sql}\0").as_bytes());
        let answers = client.until_ready();
        let described = answers.iter().find(|one| one.kind == 'T').unwrap();
        assert_eq!(types_of(&described.body), wanted, "{sql}");
    }
}
