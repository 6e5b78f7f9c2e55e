//! `COPY` through the connection.

use crate::Served;
use crate::client::{Message, bind, describe, execute, frame, parse, sync};

#[test]
fn rows_go_in_and_come_out_as_text_and_as_csv() {
    let served = Served::start();
    let mut client = served.client();
    client.query("CREATE TABLE t (id int PRIMARY KEY, a text, b boolean)");
    let begin = |sql: &str| frame(b'Q', &[sql.as_bytes(), &[0]].concat());
    let data = |text: &str| frame(b'd', text.as_bytes());
    // The data may come before the server has asked for them, in any pieces.
    let messages = [
        begin("COPY t FROM STDIN"),
        data("1\ta\\tb\tt\n2\t\\"),
        data("N\tf\n3\t\\\\N\t\\N\n"),
        frame(b'c', &[]),
    ];
    assert_eq!(client.answers(&messages), ["G", "COPY 3", "ZI"]);
    let shown = |messages: Vec<Message>| {
        let data = messages.iter().filter(|one| one.kind == 'd');
        let data: Vec<u8> = data.flat_map(|one| one.body.clone()).collect();
        (String::from_utf8(data).unwrap(), messages[messages.len() - 2].show())
    };
    let mut out = |sql: &str| {
        client.socket.write_all(&begin(sql)).unwrap();
        shown(client.until_ready())
    };
    assert_eq!(
        out("COPY t TO STDOUT"),
        ("1\ta\\tb\tt\n2\t\\N\tf\n3\t\\\\N\t\\N\n".to_owned(), "COPY 3".to_owned())
    );
    assert_eq!(
        out("COPY (SELECT a, max(id) AS \"m,x\" FROM t GROUP BY a ORDER BY a) TO STDOUT WITH \
             (FORMAT csv, HEADER, FORCE_QUOTE (a))"),
        ("a,\"m,x\"\n\"\\N\",3\n\"a\tb\",1\n,2\n".to_owned(), "COPY 3".to_owned())
    );
    assert_eq!(out("COPY t (id) TO STDOUT WITH CSV HEADER").0, "id\n1\n2\n3\n");
    assert_eq!(out("COPY (VALUES (1, 'x')) TO STDOUT (DELIMITER '|')").0, "1|x\n");
    assert_eq!(
        out("COPY (DELETE FROM t WHERE id = 3 RETURNING id) TO STDOUT"),
        ("3\n".to_owned(), "COPY 1".to_owned())
    );
}

#[test]
fn the_binary_format_is_read_as_it_is_written() {
    let served = Served::start();
    let mut client = served.client();
    client.query("CREATE TABLE t (id int PRIMARY KEY, n numeric(9,2), x text, l int[])");
    client.query("CREATE TABLE u (LIKE t INCLUDING ALL)");
    client.query("INSERT INTO t VALUES (1, -1.5, 'a', '{1,2}'), (2, NULL, NULL, NULL)");
    let spellings = [
        "COPY t TO STDOUT (FORMAT binary)",
        "COPY t TO STDOUT (FORMAT \"binary\")",
        "COPY t TO STDOUT WITH BINARY",
        "COPY t TO STDOUT binary",
    ];
    let mut data = Vec::new();
    for sql in spellings {
        client.send(b'Q', &[sql.as_bytes(), &[0]].concat());
        let messages = client.until_ready();
        let pieces = messages.iter().filter(|one| one.kind == 'd');
        data = pieces.flat_map(|one| one.body.clone()).collect();
        assert!(data.starts_with(b"PGCOPY\n\xff\r\n\0") && data.ends_with(&[255, 255]), "{sql}");
    }
    // Its end may be missing.
    for end in [data.len(), data.len() - 2] {
        client.query("DELETE FROM u");
        client.send(b'Q', b"COPY u FROM STDIN (FORMAT binary)\0");
        data[..end].chunks(7).for_each(|piece| client.send(b'd', piece));
        client.send(b'c', &[]);
        let answers: Vec<_> = client.until_ready().iter().map(Message::show).collect();
        assert_eq!(answers, ["G", "COPY 2", "ZI"]);
        assert_eq!(
            client.query("SELECT * FROM u ORDER BY id"),
            ["D 1|-1.50|a|{1,2}", "D 2|NULL|NULL|NULL", "SELECT 2", "ZI"]
        );
    }
    // A row that is cut off, and one with other fields.
    client.query("DELETE FROM u");
    for broken in [&data[..data.len() - 4], &data[..25], b"PGCOPY", b""] {
        client.send(b'Q', b"COPY u FROM STDIN (FORMAT binary)\0");
        client.send(b'd', broken);
        client.send(b'c', &[]);
        let answers: Vec<_> = client.until_ready().iter().map(Message::show).collect();
        assert_eq!(answers, ["G", "E 22P04", "ZI"]);
    }
    assert_eq!(client.query("SELECT count(*) FROM u")[0], "D 0");
}

#[test]
fn a_copy_that_fails_changes_nothing_and_drops_what_follows() {
    let served = Served::start();
    let mut client = served.client();
    client.query("CREATE TABLE t (id int PRIMARY KEY)");
    let start = frame(b'Q', b"COPY t FROM STDIN\0");
    let broken = [start.clone(), frame(b'd', b"1\nx\n"), frame(b'c', &[])];
    assert_eq!(client.answers(&broken), ["G", "E 22P02", "ZI"]);
    let given_up = [start, frame(b'd', b"1\n"), frame(b'f', b"enough\0")];
    assert_eq!(client.answers(&given_up), ["G", "E 57014", "ZI"]);
    // Of one that never began: what its client sends is dropped.
    let missing = [
        frame(b'Q', b"COPY missing FROM STDIN\0"),
        frame(b'd', b"1\n"),
        frame(b'c', &[]),
        frame(b'Q', b"SELECT count(*) FROM t\0"),
    ];
    assert_eq!(client.answers(&missing), ["E 42P01", "ZI"]);
    let next: Vec<_> = client.until_ready().iter().map(Message::show).collect();
    assert_eq!(next[1..], ["D 0", "SELECT 1", "ZI"]);
}

/// In the form of PostgreSQL, which shows the row or the value too.
#[test]
fn an_error_in_data_tells_the_line() {
    let served = Served::start();
    let mut client = served.client();
    client.query("CREATE TABLE t (id int PRIMARY KEY, a text)");
    let invalid = "\"x\" is not an integer";
    let taken = "duplicate key value violates unique constraint \"t_pkey\"";
    for (data, state, message, context) in [
        ("1\tb\nx\tb\n", "22P02", invalid, "COPY t, line 2, column id"),
        ("1\tb\n2\tb\n1\tb\n", "23505", taken, "COPY t, line 3"),
    ] {
        client.send(b'Q', b"COPY t FROM STDIN\0");
        client.send(b'd', data.as_bytes());
        client.send(b'c', &[]);
        let answers = client.until_ready();
        let field = |code| answers[1].field(code).unwrap();
        assert_eq!(
            (field('C'), field('M'), field('W')),
            (state.into(), message.into(), context.into())
        );
    }
}

#[test]
fn a_copy_comes_through_the_extended_protocol_too() {
    let served = Served::start();
    let mut client = served.client();
    client.query("CREATE TABLE t (id int PRIMARY KEY)");
    let run = |sql: &str| {
        [parse("", sql, &[]), bind("", "", &[], &[1]), describe(b'P', ""), execute("", 0)].concat()
    };
    let load = [
        run("COPY t FROM STDIN"),
        // Clients send Sync ahead of the data.
        sync(),
        frame(b'd', b"1\n2\n"),
        frame(b'c', &[]),
        sync(),
    ];
    assert_eq!(client.answers(&load), ["1", "2", "n", "G", "COPY 2", "ZI"]);
    let read = client.answers(&[run("COPY t TO STDOUT"), sync()]);
    assert_eq!(read, ["1", "2", "n", "H", "d", "d", "c", "COPY 2", "ZI"]);
}
