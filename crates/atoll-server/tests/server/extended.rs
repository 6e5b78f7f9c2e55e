//! The extended protocol: statements, portals, formats, and where they end.

use std::time::Duration;

use crate::Served;
use crate::client::{Client, bind, bind_raw, close, describe, execute, flush, frame, parse, sync};

fn with_table(served: &Served) -> Client {
    let mut client = served.client();
    client.query("CREATE TABLE t (id int PRIMARY KEY, a text)");
    client.query("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, NULL)");
    client
}

/// The numbers of the types in a description of columns.
pub(crate) fn types_of(body: &[u8]) -> Vec<u32> {
    let mut rest = &body[2..];
    let mut types = Vec::new();
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        let fields = &rest[end + 1..];
        types.push(u32::from_be_bytes(fields[6..10].try_into().unwrap()));
        rest = &fields[18..];
    }
    types
}

/// The modifiers of the types in a description of columns.
fn modifiers_of(body: &[u8]) -> Vec<i32> {
    let mut rest = &body[2..];
    let mut modifiers = Vec::new();
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        let fields = &rest[end + 1..];
        modifiers.push(i32::from_be_bytes(fields[12..16].try_into().unwrap()));
        rest = &fields[18..];
    }
    modifiers
}

#[test]
fn a_statement_is_described_bound_and_executed() {
    let served = Served::start();
    let mut client = with_table(&served);
    let messages =
        [parse("s", "SELECT id, a FROM t WHERE id >= $1", &[]), describe(b'S', "s"), sync()];
    client.socket.write_all(&messages.concat()).unwrap();
    let answers = client.until_ready();
    assert_eq!(answers[1].body, [0, 1, 0, 0, 0, 23]);
    assert_eq!(types_of(&answers[2].body), [23, 25]);
    let run = |value| [bind("", "s", &[Some(value)], &[]), execute("", 0), sync()];
    assert_eq!(client.answers(&run("2")), ["2", "D 2|b", "D 3|NULL", "SELECT 2", "ZI"]);
    assert_eq!(client.answers(&run("9")), ["2", "SELECT 0", "ZI"]);
    assert_eq!(client.answers(&run("x")), ["E 22P02", "ZI"]);
    assert_eq!(client.answers(&[close(b'S', "s"), sync()]), ["3", "ZI"]);
    assert_eq!(client.answers(&run("2")), ["E 26000", "ZI"]);
    // What does not exist is closed all the same.
    assert_eq!(client.answers(&[close(b'P', "x"), close(b'S', "x"), sync()]), ["3", "3", "ZI"]);
}

#[test]
fn parameters_and_results_have_binary_forms() {
    let served = Served::start();
    let mut client = with_table(&served);
    let run = |value: &[u8], oid: u32| {
        [
            parse("", "SELECT id, a FROM t WHERE id = $1", &[oid]),
            bind_raw(("", ""), &[1], &[Some(value)], &[1]),
            execute("", 0),
            sync(),
        ]
        .concat()
    };
    for (value, oid) in
        [(&2i32.to_be_bytes()[..], 23), (&2i64.to_be_bytes(), 20), (&2i16.to_be_bytes(), 21)]
    {
        client.socket.write_all(&run(value, oid)).unwrap();
        let answers = client.until_ready();
        let row = answers.iter().find(|one| one.kind == 'D').unwrap();
        assert_eq!(row.raw_values(), [Some(vec![0, 0, 0, 2]), Some(b"b".to_vec())]);
    }
    client.socket.write_all(&run(&[1], 23)).unwrap();
    assert_eq!(client.until_ready()[1].show(), "E 22P03");
}

#[test]
fn every_type_comes_in_both_formats() {
    let served = Served::start();
    let mut client = served.client();
    client.query(
        "CREATE TABLE v (id int PRIMARY KEY, s smallint, b bigint, r real, d double precision, \
         o boolean, t date, m timestamp, z timestamptz, c time, i interval, n numeric(10,2), \
         x text, h char(3), w varchar(5), y bytea, u uuid, j json, k jsonb, l int[], e text[])",
    );
    client.query(
        "INSERT INTO v VALUES (1, -2, 3, 1.5, 'Infinity', true, '2000-01-02', \
         '1999-12-31 23:59:59.5', '0044-03-15 00:00:00+00 BC', '01:02:03', \
         '1 month 2 days 00:00:03', -12.5, 'ä', 'a', 'bc', '\\x00ff', \
         '00112233-4455-6677-8899-aabbccddeeff', '{\"a\": 1}', '{\"a\":1}', '{1,NULL}', \
         '{\"a b\",c}')",
    );
    assert_eq!(
        client.query("SELECT * FROM v")[0],
        "D 1|-2|3|1.5|Infinity|t|2000-01-02|1999-12-31 23:59:59.5|0044-03-15 00:00:00+00 BC|\
         01:02:03|1 mon 2 days 00:00:03|-12.50|ä|a  |bc|\\x00ff|\
         00112233-4455-6677-8899-aabbccddeeff|{\"a\": 1}|{\"a\": 1}|{1,NULL}|{\"a b\",c}"
    );
    // The same from the short executor, and on a snapshot.
    for sql in ["SELECT * FROM v WHERE id = 1", "SELECT v.* FROM v, generate_series(1, 1)"] {
        let messages = [
            parse("", sql, &[]),
            bind("", "", &[], &[1]),
            describe(b'P', ""),
            execute("", 0),
            sync(),
        ];
        client.socket.write_all(&messages.concat()).unwrap();
        let answers = client.until_ready();
        let shown: Vec<_> = answers.iter().map(|one| one.kind).collect();
        assert_eq!(shown, ['1', '2', 'T', 'D', 'C', 'Z'], "{sql}");
        assert_eq!(
            types_of(&answers[2].body),
            [
                23, 21, 20, 700, 701, 16, 1082, 1114, 1184, 1083, 1186, 1700, 25, 1042, 1043, 17,
                2950, 114, 3802, 1007, 1009
            ]
        );
        let limits: Vec<_> =
            modifiers_of(&answers[2].body).into_iter().filter(|one| *one > 0).collect();
        assert_eq!(limits, [(10 << 16 | 2) + 4, 3 + 4, 5 + 4], "{sql}");
        let values: Vec<_> = answers[3].raw_values().into_iter().map(Option::unwrap).collect();
        let micros = |micros: i64| micros.to_be_bytes().to_vec();
        assert_eq!(values[1], (-2i16).to_be_bytes());
        assert_eq!(values[3], 1.5f32.to_be_bytes());
        assert_eq!(values[4], f64::INFINITY.to_be_bytes());
        assert_eq!(values[5], [1]);
        assert_eq!(values[6], [0, 0, 0, 1]);
        assert_eq!(values[7], micros(-500_000));
        assert_eq!(values[8], micros(-64_464_508_800_000_000));
        assert_eq!(values[9], micros(3_723_000_000));
        assert_eq!(values[10], [micros(3_000_000), vec![0, 0, 0, 2, 0, 0, 0, 1]].concat());
        assert_eq!(values[11], [0, 2, 0, 0, 0x40, 0, 0, 2, 0, 12, 0x13, 0x88]);
        assert_eq!(values[13], b"a  ");
        assert_eq!(values[15], [0, 255]);
        assert_eq!(values[16][..2], [0, 0x11]);
        assert_eq!(values[18], b"\x01{\"a\": 1}");
        assert_eq!(values[19].len(), 20 + 8 + 4);
    }
}

#[test]
fn portals_end_where_those_of_postgresql_do() {
    let served = Served::start();
    let mut client = with_table(&served);
    let ordered = "SELECT id FROM t ORDER BY id";
    client.answers(&[parse("s", ordered, &[]), sync()]);
    // Under autocommit: at Sync.
    assert_eq!(
        client.answers(&[bind("p", "s", &[], &[]), execute("p", 2), sync()]),
        ["2", "D 1", "D 2", "s", "ZI"]
    );
    assert_eq!(client.answers(&[execute("p", 2), sync()]), ["E 34000", "ZI"]);
    // In a transaction: with it. The one without a name survives Sync, too.
    client.query("BEGIN");
    for name in ["p", ""] {
        assert_eq!(
            client.answers(&[bind(name, "s", &[], &[]), execute(name, 2), sync()]),
            ["2", "D 1", "D 2", "s", "ZT"]
        );
    }
    for name in ["p", ""] {
        assert_eq!(client.answers(&[execute(name, 2), sync()]), ["D 3", "SELECT 1", "ZT"]);
        assert_eq!(client.answers(&[execute(name, 2), sync()]), ["SELECT 0", "ZT"]);
    }
    assert_eq!(client.answers(&[bind("p", "s", &[], &[]), sync()]), ["E 42P03", "ZE"]);
    client.query("ROLLBACK");
    assert_eq!(client.answers(&[execute("p", 2), sync()]), ["E 34000", "ZI"]);
    // A query that runs on and is read in pieces.
    client.query("BEGIN");
    let long = "SELECT * FROM generate_series(1, 100000)";
    let start = [parse("", long, &[]), bind("p", "", &[], &[]), execute("p", 3), sync()];
    assert_eq!(client.answers(&start), ["1", "2", "D 1", "D 2", "D 3", "s", "ZT"]);
    assert_eq!(client.answers(&[execute("p", 1), sync()]), ["D 4", "s", "ZT"]);
    let rest = client.answers(&[execute("p", 0), sync()]);
    assert_eq!(rest.len(), 100_000 - 4 + 2);
    assert_eq!(rest[rest.len() - 2], "SELECT 99996");
}

#[test]
fn an_error_passes_over_everything_up_to_sync() {
    let served = Served::start();
    let mut client = with_table(&served);
    let messages = [
        parse("a", "SELECT 1", &[]),
        parse("a", "SELECT 2", &[]),
        bind("", "a", &[], &[]),
        execute("", 0),
        frame(b'Q', b"SELECT 3\0"),
        sync(),
    ];
    assert_eq!(client.answers(&messages), ["1", "E 42P05", "ZI"]);
    // The statement of the message before is there.
    assert_eq!(
        client.answers(&[bind("", "a", &[], &[]), execute("", 0), sync()]),
        ["2", "D 1", "SELECT 1", "ZI"]
    );
}

#[test]
fn messages_that_do_not_fit_are_refused() {
    let served = Served::start();
    let mut client = with_table(&served);
    client.answers(&[parse("s", "SELECT id FROM t WHERE id = $1", &[]), sync()]);
    for (message, state) in [
        (bind("", "s", &[], &[]), "E 08P01"),
        (bind("", "s", &[Some("1")], &[0, 0]), "E 08P01"),
        (bind("", "s", &[Some("1")], &[2]), "E 22023"),
        (bind_raw(("", "s"), &[0, 0], &[Some(b"1")], &[]), "E 08P01"),
        (bind("", "none", &[], &[]), "E 26000"),
        (execute("none", 0), "E 34000"),
        (describe(b'P', "none"), "E 34000"),
        (describe(b'X', "s"), "E 08P01"),
        (parse("", "SELECT 1; SELECT 2", &[]), "E 42601"),
        (frame(b'B', b"\0"), "E 08P01"),
        (frame(b'P', b"\0SELECT \xff\0\0\0"), "E 22021"),
        (frame(b'F', b"\0\0\0\x01\0\0\0\0\0\0"), "E 0A000"),
    ] {
        let is_call = message[0] == b'F';
        let mut answers = client.answers(&[message, sync()]);
        if is_call {
            // A call is ready by itself, and then the Sync.
            answers.truncate(2);
            client.until_ready();
        }
        assert_eq!(answers, [state, "ZI"]);
    }
    // One format for no parameters and for no columns.
    let run = [
        parse("", "DELETE FROM t WHERE id = 77", &[]),
        bind_raw(("", ""), &[1], &[], &[1]),
        describe(b'P', ""),
        execute("", 0),
        sync(),
    ];
    assert_eq!(client.answers(&run), ["1", "2", "n", "DELETE 0", "ZI"]);
}

#[test]
fn flush_answers_without_sync_and_a_pipeline_is_one_transaction() {
    let served = Served::start();
    let mut client = with_table(&served);
    let insert = |id: &str| {
        [
            parse("", "INSERT INTO t VALUES ($1, 'p')", &[]),
            bind("", "", &[Some(id)], &[]),
            execute("", 0),
        ]
        .concat()
    };
    client.socket.write_all(&[insert("10"), flush()].concat()).unwrap();
    let kinds: Vec<_> = (0..3).map(|_| client.receive().unwrap().show()).collect();
    assert_eq!(kinds, ["1", "2", "INSERT 0 1"]);
    let mut other = served.client();
    assert_eq!(other.query("SELECT count(*) FROM t")[0], "D 3");
    assert_eq!(client.answers(&[insert("10"), sync()]), ["1", "2", "E 23505", "ZI"]);
    assert_eq!(other.query("SELECT count(*) FROM t")[0], "D 3");
    let both = [insert("10"), insert("11"), sync()];
    assert_eq!(client.answers(&both).last().unwrap(), "ZI");
    assert_eq!(other.query("SELECT count(*) FROM t")[0], "D 5");
}

#[test]
fn a_failed_transaction_takes_what_ends_it_with_any_limit() {
    let served = Served::start();
    let mut client = served.client();
    client.answers(&[parse("c", "COMMIT", &[]), parse("r", "ROLLBACK", &[]), sync()]);
    for (name, tag) in [("c", "ROLLBACK"), ("r", "ROLLBACK")] {
        client.query("BEGIN");
        client.query("SELECT nonsense");
        assert_eq!(client.answers(&[parse("", "SELECT 1", &[]), sync()]), ["E 25P02", "ZE"]);
        assert_eq!(client.answers(&[parse("", "ROLLBACK", &[]), sync()]), ["1", "ZE"]);
        let run = [bind("", name, &[], &[]), describe(b'P', ""), execute("", 1), sync()];
        assert_eq!(client.answers(&run), ["2", "n", tag, "ZI"]);
    }
    // BEGIN may share a packet with what follows.
    let packet = [
        frame(b'Q', b"BEGIN\0"),
        parse("", "SELECT 7", &[]),
        bind("", "", &[], &[]),
        execute("", 0),
        sync(),
    ];
    assert_eq!(client.answers(&packet), ["BEGIN", "ZT"]);
    let rest: Vec<_> = client.until_ready().iter().map(crate::client::Message::show).collect();
    assert_eq!(rest, ["1", "2", "D 7", "SELECT 1", "ZT"]);
}

#[test]
fn deallocate_and_discard_forget_statements_of_the_protocol() {
    let served = Served::start();
    let mut client = served.client();
    let prepare = |name| [parse(name, "SELECT 1", &[]), sync()];
    let run = |name| [bind("", name, &[], &[]), sync()];
    client.answers(&prepare("_pg3_0"));
    assert_eq!(client.query("DEALLOCATE \"_pg3_0\""), ["DEALLOCATE", "ZI"]);
    assert_eq!(client.answers(&run("_pg3_0")), ["E 26000", "ZI"]);
    for (sql, tag) in [("DEALLOCATE ALL", "DEALLOCATE ALL"), ("DISCARD ALL", "DISCARD ALL")] {
        client.answers(&prepare("a"));
        assert_eq!(client.query(sql), [tag, "ZI"]);
        assert_eq!(client.answers(&run("a")), ["E 26000", "ZI"]);
    }
    assert_eq!(client.query("DEALLOCATE nothing"), ["E 26000", "ZI"]);
}

/// However the messages before a Sync are cut into packets, their answers are the same.
#[test]
fn answers_to_messages_that_come_in_pieces_are_kept() {
    let served = Served::start();
    let messages = [
        parse("", "SELECT 1", &[]),
        bind("", "", &[], &[]),
        describe(b'P', ""),
        execute("", 0),
        sync(),
    ];
    for cuts in 0..16u32 {
        let mut client = served.client();
        for (at, message) in messages.iter().enumerate() {
            client.socket.write_all(message).unwrap();
            if cuts & (1 << at) != 0 {
                // The connection rests meanwhile.
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        let kinds: String = client.until_ready().iter().map(|one| one.kind).collect();
        assert_eq!(kinds, "12TDCZ", "cut as {cuts:05b}");
    }
}

#[test]
fn an_error_is_told_before_the_sync() {
    let served = Served::start();
    let mut client = served.client();
    for message in [parse("", "SELEC 1", &[]), flush()] {
        client.socket.write_all(&message).unwrap();
    }
    assert_eq!(client.receive().unwrap().show(), "E 42601");
    assert_eq!(client.answers(&[sync()]), ["ZI"]);
}

/// In the words of PostgreSQL 15, which programs look for.
#[test]
fn an_error_tells_the_constraint_that_it_is_of() {
    let served = Served::start();
    let mut client = served.client();
    client
        .query("CREATE TABLE p (id int PRIMARY KEY, v text NOT NULL UNIQUE, n int CHECK (n > 0))");
    client.query("INSERT INTO p VALUES (1, 'x', 5)");
    let mut told = |sql: &str| {
        client.send(b'Q', format!("{sql}\0").as_bytes());
        let error = client.until_ready().swap_remove(0);
        let fields = "CMstcn".chars().map(|code| error.field(code).unwrap_or_default());
        (fields.collect::<Vec<_>>().join("|"), error.field('D').unwrap_or_default())
    };
    let unique = "duplicate key value violates unique constraint";
    let null = "null value in column \"v\" of relation \"p\" violates not-null constraint";
    let check = "new row for relation \"p\" violates check constraint \"p_n_check\"";
    for (sql, wanted, detail) in [
        (
            "INSERT INTO p VALUES (1, 'y', 5)",
            format!("23505|{unique} \"p_pkey\"|public|p||p_pkey"),
            "Key (id)=(1) already exists.",
        ),
        (
            "INSERT INTO p VALUES (2, 'x', 5)",
            format!("23505|{unique} \"p_v_key\"|public|p||p_v_key"),
            "Key (v)=(x) already exists.",
        ),
        ("INSERT INTO p VALUES (3, 'z', -5)", format!("23514|{check}|public|p||p_n_check"), ""),
        ("INSERT INTO p VALUES (4, NULL, 5)", format!("23502|{null}|public|p|v|"), ""),
        ("INSERT INTO p (id) VALUES (4)", format!("23502|{null}|public|p|v|"), ""),
        ("UPDATE p SET v = NULL", format!("23502|{null}|public|p|v|"), ""),
        ("SELECT 1 FROM q", "42P01|relation \"q\" does not exist||||".to_owned(), ""),
        ("DROP TABLE q", "42P01|table \"q\" does not exist||||".to_owned(), ""),
        ("CREATE TABLE p (id int)", "42P07|relation \"p\" already exists||||".to_owned(), ""),
    ] {
        assert_eq!(told(sql), (wanted, detail.to_owned()));
    }
}

/// As PostgreSQL 15 answers: no value of a parameter gives a name a meaning.
#[test]
fn a_name_without_a_meaning_is_told_at_parse() {
    let served = Served::start();
    let mut client = with_table(&served);
    for (sql, wanted) in [
        ("SELECT a FROM nothing", "E 42P01"),
        ("SELECT a FROM nothing WHERE id = $1", "E 42P01"),
        ("SELECT b FROM t WHERE id = $1", "E 42703"),
        ("SELECT $1 + b, $2 FROM t", "E 42703"),
        ("SELECT nothing(a, $1) FROM t", "E 42883"),
        ("SELECT id, count(*) FROM t WHERE id = $1", "E 42803"),
        ("UPDATE t SET b = $1", "E 42703"),
        ("UPDATE t SET a = $1 WHERE b = $2", "E 42703"),
        ("DELETE FROM nothing WHERE id = $1", "E 42P01"),
        ("INSERT INTO t (id, b) VALUES ($1, $2)", "E 42703"),
        ("INSERT INTO nothing VALUES ($1)", "E 42P01"),
    ] {
        assert_eq!(client.answers(&[parse("", sql, &[]), sync()]), [wanted, "ZI"], "{sql}");
    }
    let wrong = [parse("", "SELECT b FROM t WHERE id = $1", &[]), sync()];
    client.query("BEGIN");
    assert_eq!(client.answers(&wrong), ["E 42703", "ZE"]);
    assert_eq!(client.answers(&wrong), ["E 25P02", "ZE"]);
    let end = [parse("", "ROLLBACK", &[]), bind("", "", &[], &[]), execute("", 0), sync()];
    assert_eq!(client.answers(&end), ["1", "2", "ROLLBACK", "ZI"]);
}

/// As PostgreSQL 15 describes them.
#[test]
fn a_change_returns_the_columns_that_it_is_described_with() {
    let served = Served::start();
    let mut client = with_table(&served);
    let sql = "UPDATE t SET a = d.a FROM (VALUES ($1, $2)) AS d (id, a) WHERE t.id = d.id::int \
               RETURNING t.id, d.a";
    let text = 25;
    assert_eq!(described(&mut client, sql, &[]), Ok((vec![text, text], vec![23, text])));
    let messages = [
        parse("", sql, &[]),
        describe(b'S', ""),
        bind("", "", &[Some("2"), Some("z")], &[]),
        execute("", 0),
        sync(),
    ];
    assert_eq!(client.answers(&messages), ["1", "t", "T", "2", "D 2|z", "UPDATE 1", "ZI"]);
}

#[test]
fn a_query_of_a_table_of_the_open_transaction_is_described() {
    let served = Served::start();
    let mut client = served.client();
    client.query("BEGIN");
    client.query("CREATE TABLE fresh (x double precision)");
    // A parameter of the type numeric.
    let described = described(&mut client, "SELECT x, x + $1 FROM fresh", &[1700]);
    assert_eq!(described, Ok((vec![1700], vec![701, 701])));
    assert_eq!(client.query("ROLLBACK"), ["ROLLBACK", "ZI"]);
}

#[test]
fn the_connection_closes_when_the_client_says_so() {
    let served = Served::start();
    for sql in ["SELECT 1", "CREATE TABLE closing (id int)", "DROP TABLE closing"] {
        let mut client = served.client();
        client.query(sql);
        client.send(b'X', b"");
        assert_eq!(client.receive(), None, "{sql}");
    }
}

/// The types of the parameters and of the columns of a statement, or the state of its error.
fn described(
    client: &mut Client,
    sql: &str,
    types: &[u32],
) -> Result<(Vec<u32>, Vec<u32>), String> {
    let messages = [parse("", sql, types), describe(b'S', ""), sync()];
    client.socket.write_all(&messages.concat()).unwrap();
    let answers = client.until_ready();
    let body = |kind| answers.iter().find(|one| one.kind == kind).map(|one| one.body.clone());
    match (body('t'), body('T')) {
        (Some(parameters), columns) => {
            let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
            let parameters = parameters[2..].chunks(4).map(number).collect();
            Ok((parameters, columns.map_or_else(Vec::new, |body| types_of(&body))))
        }
        _ => Err(answers[answers.len() - 2].show()),
    }
}

/// As PostgreSQL 15 describes them.
#[test]
fn parameters_have_the_types_that_postgresql_infers() {
    let served = Served::start();
    let mut client = served.client();
    client.query("CREATE TABLE l (id int PRIMARY KEY, at timestamptz, t text, n numeric(6,2))");
    for (sql, parameters) in [
        ("SELECT id FROM l WHERE id = ANY($1)", vec![1007]),
        ("SELECT id FROM l WHERE t <> ALL($1) AND n = ANY($2)", vec![1009, 1231]),
        ("SELECT count(*) FROM l WHERE id = ANY($1) GROUP BY t", vec![1007]),
        ("INSERT INTO l (id, t) SELECT * FROM unnest($1::int[], $2::text[])", vec![1007, 1009]),
        ("SELECT pg_terminate_backend($1)", vec![23]),
        ("SELECT pg_cancel_backend($1), to_regclass($2)", vec![23, 25]),
        (
            "SELECT $1::oid, $2::regclass, $3::name, $4::\"char\", $5::oid[]",
            vec![26, 2205, 19, 18, 1028],
        ),
        (
            "SELECT $1::varchar(3), $2::numeric(4,1), $3::char(2), $4::numeric, $5::varchar",
            vec![1043, 1700, 1042, 1700, 1043],
        ),
        ("SELECT pg_advisory_lock($1), pg_advisory_lock($2, $3)", vec![20, 23, 23]),
        ("SELECT id + $1, at - $2 FROM l", vec![23, 1184]),
        ("SELECT * FROM l LIMIT $1 OFFSET $2", vec![20, 20]),
        ("SELECT n * $1, n > $2 FROM l", vec![1700, 1700]),
        ("SELECT oid FROM pg_class WHERE oid = $1::oid AND relname = $2::name", vec![26, 19]),
    ] {
        let found = described(&mut client, sql, &[]).map(|(parameters, _)| parameters);
        assert_eq!(found, Ok(parameters), "{sql}");
    }
    // A list that is declared and one that is inferred run alike.
    client.query("INSERT INTO l (id) VALUES (1), (2), (3)");
    let list = [
        &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0, 0, 0, 2, 0, 0, 0, 1][..],
        &[0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 3],
    ];
    for types in [&[][..], &[1007]] {
        let messages = [
            parse("", "SELECT id FROM l WHERE id = ANY($1)", types),
            bind_raw(("", ""), &[1], &[Some(&list.concat())], &[]),
            execute("", 0),
            sync(),
        ];
        assert_eq!(client.answers(&messages), ["1", "2", "D 1", "D 3", "SELECT 2", "ZI"]);
    }
}

#[test]
fn columns_have_the_types_that_postgresql_gives_them() {
    let served = Served::start();
    let mut client = served.client();
    for (sql, columns) in [
        ("SELECT 1, -1, 2147483648, 1.5, 'x'", vec![23, 23, 20, 1700, 25]),
        ("SELECT 1 AS a UNION ALL SELECT 2", vec![23]),
        ("VALUES (1, 'a'), (2, 'b')", vec![23, 25]),
        ("SELECT 'x'::varchar(3), 'a'::\"char\", 1::oid, 'x'::name", vec![1043, 18, 26, 19]),
        (
            "SELECT CASE WHEN true THEN 1 END, coalesce(NULL, 1), 1 + 1, 1::bigint",
            vec![23, 23, 23, 20],
        ),
        ("SELECT current_user, current_database(), pg_backend_pid()", vec![19, 19, 23]),
    ] {
        let found = described(&mut client, sql, &[]).map(|(_, columns)| columns);
        assert_eq!(found, Ok(columns), "{sql}");
    }
    let messages = [
        parse("", "SELECT 1, 7::oid, 'ab'::varchar(3)", &[]),
        bind("", "", &[], &[1]),
        execute("", 0),
        sync(),
    ];
    client.socket.write_all(&messages.concat()).unwrap();
    let row = client.until_ready().remove(2).raw_values();
    assert_eq!(row, [Some(vec![0, 0, 0, 1]), Some(vec![0, 0, 0, 7]), Some(b"ab".to_vec())]);
}

#[test]
fn enums_are_described_by_their_own_numbers() {
    let served = Served::start();
    let mut client = served.client();
    client.query("CREATE TYPE mood AS ENUM ('sad', 'ok')");
    client.query("CREATE TABLE m (id int PRIMARY KEY, a mood)");
    let number = client.query("SELECT 'mood'::regtype::oid")[0].replace("D ", "");
    let own: u32 = number.parse().unwrap();
    let insert = "INSERT INTO m VALUES ($1, $2) RETURNING a";
    assert_eq!(described(&mut client, insert, &[]), Ok((vec![23, own], vec![own])));
    let select = "SELECT a, max(a), 'ok'::mood FROM m WHERE a = $1 GROUP BY a";
    assert_eq!(described(&mut client, select, &[]), Ok((vec![own], vec![own; 3])));
    assert_eq!(described(&mut client, "SELECT $1::mood", &[]), Ok((vec![own], vec![own])));
    for types in [&[][..], &[23, own]] {
        let id = if types.is_empty() { 1i32 } else { 2 }.to_be_bytes();
        let messages = [
            parse("", insert, types),
            bind_raw(("", ""), &[1], &[Some(&id), Some(b"sad")], &[1]),
            execute("", 0),
            sync(),
        ];
        assert_eq!(client.answers(&messages), ["1", "2", "D sad", "INSERT 0 1", "ZI"]);
    }
    let query = frame(b'Q', b"SELECT a FROM m WHERE id = 1\0");
    client.socket.write_all(&query).unwrap();
    assert_eq!(types_of(&client.until_ready()[0].body), [own]);
}

/// A client that does not know a type asks for all that it is made of.
#[test]
fn the_tree_of_a_type_is_found() {
    let served = Served::start();
    let mut client = served.client();
    client.query("CREATE TYPE mood AS ENUM ('sad', 'ok')");
    client.query("CREATE DOMAIN small AS int CHECK (VALUE < 9)");
    let types = "(SELECT t.oid, t.typname AS name, CASE WHEN t.typtype = 'd' THEN \
        (WITH RECURSIVE b(oid, depth) AS (SELECT i.typbasetype, 0 FROM pg_type i \
        WHERE i.oid = t.oid UNION ALL SELECT i.typbasetype, b.depth + 1 FROM pg_type i, b \
        WHERE b.oid = i.oid AND i.typbasetype <> 0) SELECT oid FROM b ORDER BY depth DESC LIMIT 1) \
        END AS base, t.typelem AS element, CASE WHEN t.typtype = 'c' THEN (SELECT \
        array_agg(a.atttypid ORDER BY a.attnum) FROM pg_attribute a JOIN pg_class c \
        ON a.attrelid = c.oid WHERE c.reltype = t.oid) END AS parts FROM pg_type AS t)";
    let sql = format!(
        "WITH RECURSIVE tree(oid, name, base, element, parts, depth) AS (SELECT ti.oid, ti.name, \
         ti.base, ti.element, ti.parts, 0 FROM {types} AS ti WHERE ti.oid = ANY($1::oid[]) \
         UNION ALL SELECT ti.oid, ti.name, ti.base, ti.element, ti.parts, tt.depth + 1 \
         FROM {types} AS ti, tree AS tt WHERE ti.oid = tt.element OR ti.oid = tt.base \
         OR (tt.parts IS NOT NULL AND ti.oid = ANY(tt.parts))) \
         SELECT DISTINCT name, depth, base::regtype::text AS b FROM tree ORDER BY depth DESC, name"
    );
    let tree = |columns: &str| sql.replace("name, depth, base::regtype::text AS b", columns);
    let (parameters, columns) = described(&mut client, &tree("*, parts"), &[]).unwrap();
    // An array of another type would be one to ask about.
    assert_eq!((parameters, columns[4], columns[6]), (vec![1028], 1028, 1028));
    let number = |client: &mut Client, name: &str| {
        let found = client.query(&format!("SELECT '{name}'::regtype::oid"))[0].replace("D ", "");
        found.parse::<u32>().unwrap().to_be_bytes()
    };
    let numbers = ["mood[]", "small", "int[]"].map(|name| number(&mut client, name));
    let mut list = vec![0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 26, 0, 0, 0, 3, 0, 0, 0, 1];
    numbers.iter().for_each(|number| list.extend([&[0, 0, 0, 4], &number[..]].concat()));
    let messages = [
        parse("", &sql, &[]),
        bind_raw(("", ""), &[1], &[Some(&list)], &[]),
        execute("", 0),
        sync(),
    ];
    assert_eq!(
        client.answers(&messages)[2..],
        [
            "D int4|1|NULL",
            "D mood|1|NULL",
            "D _int4|0|NULL",
            "D _mood|0|NULL",
            "D small|0|integer",
            "SELECT 5",
            "ZI"
        ]
    );
}

#[test]
fn numbers_of_any_digits_are_what_a_client_declares() {
    let served = Served::start();
    let mut client = served.client();
    client.query("CREATE TABLE n (id int PRIMARY KEY, l numeric(6,2)[])");
    assert_eq!(described(&mut client, "SELECT $1", &[1700]), Ok((vec![1700], vec![1700])));
    assert_eq!(described(&mut client, "SELECT $1 + 1", &[1700]), Ok((vec![1700], vec![1700])));
    let by_key = "SELECT id FROM n WHERE id = $1";
    assert_eq!(described(&mut client, by_key, &[1700]), Ok((vec![1700], vec![23])));
    let mut run = |sql: &str, oid: u32, format: i16, value: &[u8]| {
        let messages = [
            parse("", sql, &[oid]),
            bind_raw(("", ""), &[format], &[Some(value)], &[]),
            describe(b'P', ""),
            execute("", 0),
            sync(),
        ];
        client.answers(&messages)[3..].join(" ")
    };
    for (sql, text, wanted) in [
        ("SELECT $1", "1180591620717411303424", "D 1180591620717411303424 SELECT 1 ZI"),
        ("SELECT $1", "1.50", "D 1.50 SELECT 1 ZI"),
        ("SELECT $1", "5", "D 5 SELECT 1 ZI"),
        (by_key, "5", "SELECT 0 ZI"),
    ] {
        assert_eq!(run(sql, 1700, 0, text.as_bytes()), wanted, "{sql}");
    }
    // {1.50, NULL}, in binary form.
    let list = [
        &[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 6, 164, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 12][..],
        &[0, 2, 0, 0, 0, 0, 0, 2, 0, 1, 0x13, 0x88, 255, 255, 255, 255],
    ]
    .concat();
    let insert = "INSERT INTO n VALUES (1, $1) RETURNING l";
    assert_eq!(run(insert, 1231, 1, &list), "D {1.50,NULL} INSERT 0 1 ZI");
    let insert = "INSERT INTO n VALUES (2, $1) RETURNING l";
    assert_eq!(run(insert, 1231, 0, b"{2.25}"), "D {2.25} INSERT 0 1 ZI");
    assert_eq!(
        client.answers(&[
            parse("", "SELECT $1", &[869]),
            bind_raw(("", ""), &[1], &[Some(&[2, 32, 0, 4, 1, 2, 3, 4])], &[]),
            sync(),
        ])[1],
        "E 42704"
    );
}

#[test]
fn functions_are_shown_by_their_names() {
    let served = Served::start();
    let mut client = served.client();
    let sql = "SELECT typinput, typmodin FROM pg_type WHERE typname = 'int4'";
    assert_eq!(client.query(sql)[0], "D int4in|-");
    let messages = [parse("", sql, &[]), bind("", "", &[], &[1]), execute("", 0), sync()];
    client.socket.write_all(&messages.concat()).unwrap();
    let row = client.until_ready().remove(2).raw_values();
    assert_eq!(row, [Some(vec![0, 0, 0, 42]), Some(vec![0; 4])]);
}
