//! Values of types that look otherwise outside a table than inside.

use arrow_array::cast::AsArray;
use atoll_sql::{Literal, Outcome, SqlSession};

use super::{fields, session};

fn rows(session: &mut SqlSession, sql: &str, params: &[Literal]) -> Vec<Vec<String>> {
    match session.execute_with(sql, params).unwrap() {
        Outcome::Rows(result) => fields(&result),
        other => panic!("{sql} returned {other:?}"),
    }
}

fn text(text: &str) -> Literal {
    Literal::Text(text.to_owned())
}

#[test]
fn a_character_is_shown_with_its_blanks_whatever_runs_the_query() {
    let mut session = session(
        "CREATE TABLE c (k char(4) PRIMARY KEY, a char(3)); INSERT INTO c VALUES ('ab', 'x')",
    );
    for sql in [
        "SELECT k, a FROM c WHERE k = 'ab'",
        "SELECT k, a FROM c",
        "SELECT k, min(a) OVER () AS a FROM c",
        "SELECT k, max(a) AS a FROM c GROUP BY k",
        "SELECT k, a FROM c UNION ALL SELECT k, a FROM c WHERE false",
        "SELECT k, coalesce(a, a) AS a FROM c",
        "SELECT 'ab'::char(4) AS k, 'xyz'::char(3) AS a WHERE false UNION ALL SELECT k, a FROM c",
        "SELECT k, (SELECT a FROM c) AS a FROM (SELECT k FROM c) s",
    ] {
        assert_eq!(rows(&mut session, sql, &[]), [["ab  ", "x  "]], "{sql}");
    }
    let update = "UPDATE c SET a = 'xy' RETURNING k, a";
    assert_eq!(rows(&mut session, update, &[]), [["ab  ", "xy "]]);
    // A text has none.
    assert_eq!(rows(&mut session, "SELECT k::text, a || '' FROM c", &[]), [["ab", "xy"]]);
    let window = "SELECT k::text, count(*) OVER () FROM c";
    assert_eq!(rows(&mut session, window, &[]), [["ab", "1"]]);
}

#[test]
fn parameters_have_the_types_of_their_places() {
    let mut session = session(
        "CREATE TABLE t (id integer PRIMARY KEY, v varchar(3), c char(3), at timestamptz, \
         day time, u uuid)",
    );
    let uuid = [7; 16];
    let insert = "INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6)";
    let values = |v: &str| {
        let (at, day) = (Literal::Instant(1_500_000), Literal::Time(3_600_000_000));
        [Literal::Integer(1), text(v), text("a "), at, day, Literal::Uuid(uuid)]
    };
    let error = session.execute_with(insert, values("abcd")).unwrap_err();
    assert_eq!(error.sqlstate(), "22001", "{error:?}");
    session.execute_with(insert, values("abc")).unwrap();
    let all = "SELECT id FROM t WHERE v = $1 AND c = $2 AND at = $3 AND day = $4 AND u = $5";
    let found = [
        text("abc"),
        text("a     "),
        Literal::Instant(1_500_000),
        Literal::Time(3_600_000_000),
        Literal::Uuid(uuid),
    ];
    let texts = [
        text("abc"),
        text("a"),
        text("1970-01-01 01:00:01.5+01"),
        text("01:00"),
        text("07070707070707070707070707070707"),
    ];
    for params in [&found, &texts] {
        assert_eq!(rows(&mut session, all, params), [["1"]]);
        let window = format!("SELECT id FROM (SELECT id, count(*) OVER () FROM ({all}) s) r");
        assert_eq!(rows(&mut session, &window, params), [["1"]]);
    }
    let update = "UPDATE t SET v = $1, c = $1 WHERE id = 1";
    let error = session.execute_with(update, &[text("abcd")]).unwrap_err();
    assert_eq!(error.sqlstate(), "22001", "{error:?}");
    session.execute_with(update, &[text("xy  ")]).unwrap();
    let shown = "SELECT '[' || v || '][' || c || ']' FROM t";
    assert_eq!(rows(&mut session, shown, &[]), [["[xy ][xy]"]]);
    let cut = [text("abcdef"), text("x")];
    let casts = "SELECT $1::varchar(3), $2::char(3), count(*) FROM t";
    assert_eq!(rows(&mut session, casts, &cut), [["abc", "x  ", "1"]]);
    let alone = "SELECT $1::text, $2::text, $3::text";
    let params = [Literal::Instant(0), Literal::Time(0), Literal::Uuid(uuid)];
    assert_eq!(
        rows(&mut session, alone, &params),
        [["1970-01-01 00:00:00+00", "00:00:00", "07070707-0707-0707-0707-070707070707"]]
    );
}

#[test]
fn results_have_the_arrow_types_of_data_frames() {
    let mut session = session(
        "CREATE TABLE t (id integer PRIMARY KEY, u uuid, b binary(16), at timestamptz, day time); \
         INSERT INTO t VALUES (1, '00000000-0000-0000-0000-000000000001', \
         '\\x00000000000000000000000000000002', '2024-01-01', '10:00')",
    );
    for sql in [
        "SELECT u, b, at, day FROM t",
        "SELECT u, b, at, day, count(*) OVER () FROM t",
        "SELECT u, b, at, day FROM t WHERE b = '\\x00000000000000000000000000000002'",
    ] {
        let Outcome::Rows(result) = session.execute(sql).unwrap() else { panic!("{sql}") };
        let schema = result.schema();
        assert_eq!(schema.field(0).extension_type_name(), Some("arrow.uuid"), "{sql}");
        assert_ne!(schema.field(1).extension_type_name(), Some("arrow.uuid"), "{sql}");
        assert_eq!(schema.field(2).data_type().to_string(), "Timestamp(µs, \"UTC\")");
        assert_eq!(schema.field(3).data_type().to_string(), "Time64(µs)");
        let batch = &result.batches()[0];
        assert_eq!(batch.column(0).as_fixed_size_binary().value(0)[15], 1);
        assert_eq!(batch.num_rows(), 1);
    }
    let Outcome::Rows(result) = session.execute("SELECT coalesce(u, u) AS u FROM t").unwrap()
    else {
        panic!("no rows")
    };
    assert_eq!(result.schema().field(0).extension_type_name(), Some("arrow.uuid"));
}
