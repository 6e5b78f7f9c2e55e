//! Intervals, JSON and arrays as values of Rust, in files, in folders and in snapshots.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, IntervalMonthDayNanoType};
use atoll::machine::CrashMedium;
use atoll::{Database, DatabaseOptions, Interval};
use atoll_sql::{Literal, Outcome, SqlSession};

use super::{session, tag};

const TABLE: &str = "CREATE TABLE t (id integer PRIMARY KEY, v interval, j json, b jsonb, \
                     n integer[], s varchar(5)[], INDEX by_v (v), INDEX by_n (n))";
const ROW: &str = "INSERT INTO t VALUES (1, '1 mon 2 days 03:00', '{\"a\": 1}', \
                   '{\"b\":1,\"a\":[2]}', \
                   '{1,NULL,3}', '{a,\"b c\"}')";
const ALL: &str = "SELECT v::text, j::text, b::text, n::text, s::text FROM t";

fn shown() -> Vec<String> {
    ["1 mon 2 days 03:00:00", "{\"a\": 1}", "{\"a\": [2], \"b\": 1}", "{1,NULL,3}", "{a,\"b c\"}"]
        .map(str::to_owned)
        .to_vec()
}

fn with(session: &mut SqlSession, sql: &str, params: &[Literal]) -> Vec<Vec<String>> {
    match session.execute_with(sql, params).unwrap() {
        Outcome::Rows(result) => super::fields(&result),
        other => panic!("{sql} returned {other:?}"),
    }
}

#[test]
fn parameters_have_the_types_of_their_places() {
    let mut session = session(TABLE);
    let span = Interval { months: 1, days: 2, nanos: 10_800_000_000_000 };
    let list = Literal::List(vec![Literal::Integer(1), Literal::Null, Literal::Integer(3)]);
    let words = Literal::from(vec!["a", "b c"]);
    let values = |word: Literal| {
        let json = |text: &str| Literal::Json(text.to_owned());
        let text = Literal::Text("{\"a\": 1}".to_owned());
        let b = json("{\"b\":1,\"a\":[2]}");
        [Literal::Integer(1), Literal::Interval(span), text, b, list.clone(), word]
    };
    let insert = "INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6)";
    let long = Literal::from(vec!["abcdef"]);
    assert_eq!(session.execute_with(insert, values(long)).unwrap_err().sqlstate(), "22001");
    session.execute_with(insert, values(words.clone())).unwrap();
    assert_eq!(with(&mut session, ALL, &[]), [shown()]);
    let found = "SELECT id FROM t WHERE v = $1 AND b = $2 AND n = $3 AND s = $4";
    let typed = [
        Literal::Interval(Interval { months: 0, days: 32, nanos: span.nanos }),
        Literal::Json("{\"a\":[2.0],\"b\":1}".to_owned()),
        list.clone(),
        words,
    ];
    let texts = ["32 days 3 hours", "{\"a\":[2.0],\"b\":1}", "{1,null,3}", "{a,b c}"]
        .map(|text| Literal::Text(text.to_owned()));
    for params in [&typed[..], &texts[..]] {
        assert_eq!(with(&mut session, found, params), [["1"]]);
        let window = format!("SELECT id FROM (SELECT id, count(*) OVER () FROM ({found}) s) r");
        assert_eq!(with(&mut session, &window, params), [["1"]]);
    }
    let key = [Literal::Text("b".to_owned())];
    for sql in
        ["SELECT b->$1 FROM t", "SELECT b->>$1 FROM t", "SELECT (b->'a'->0) FROM t WHERE b ? $1"]
    {
        let shown = with(&mut session, sql, &key);
        assert!(shown == [["1"]] || shown == [["2"]], "{sql}: {shown:?}");
    }
    // The mark of a parameter is an operator between two operands.
    assert_eq!(with(&mut session, "SELECT id FROM t WHERE b ? ? AND id = 1", &key), [["1"]]);
    let alone = with(&mut session, "SELECT $1::text, $2::text", &[typed[0].clone(), list]);
    assert_eq!(alone, [["32 days 03:00:00", "{1,NULL,3}"]]);
}

#[test]
fn values_survive_in_a_folder_and_a_rollback_undoes_them() {
    let medium = CrashMedium::default();
    let options =
        || DatabaseOptions { memory_limit_bytes: Some(64 << 20), ..DatabaseOptions::default() };
    let db = Database::open_on(&medium, options()).unwrap();
    let mut session = SqlSession::on_database(db.clone());
    for sql in [TABLE, ROW, "BEGIN", "UPDATE t SET v = NULL, b = '[]', n = '{9}'", "ROLLBACK"] {
        tag(&mut session, sql);
    }
    assert_eq!(with(&mut session, ALL, &[]), [shown()]);
    db.checkpoint().unwrap();
    tag(&mut session, "UPDATE t SET s = s || 'z'::varchar, n = n || 4");
    drop(session);
    drop(db);
    let db = Database::open_on(&medium, options()).unwrap();
    let mut session = SqlSession::on_database(db);
    let mut wanted = shown();
    wanted[3] = "{1,NULL,3,4}".to_owned();
    wanted[4] = "{a,\"b c\",z}".to_owned();
    assert_eq!(with(&mut session, ALL, &[]), [wanted]);
    assert_eq!(with(&mut session, "SELECT id FROM t WHERE v = '32 days 3 hours'", &[]), [["1"]]);
    assert_eq!(with(&mut session, "SELECT id FROM t WHERE n = '{1,NULL,3,4}'", &[]), [["1"]]);
}

#[test]
fn snapshots_and_results_have_the_arrow_types_of_data_frames() {
    let db = super::database();
    let mut session = SqlSession::on_database(db.clone());
    tag(&mut session, TABLE);
    tag(&mut session, ROW);
    let snapshot = db.snapshot().unwrap();
    let table = snapshot.table("t").unwrap();
    let segment = table.segment(0).unwrap();
    let lasts = segment.array(1).unwrap();
    let value = lasts.as_primitive::<IntervalMonthDayNanoType>().value(0);
    assert_eq!((value.months, value.days, value.nanoseconds), (1, 2, 10_800_000_000_000));
    let list = segment.array(4).unwrap();
    let items = list.as_list::<i32>().value(0);
    let items: Vec<Option<i32>> = items.as_primitive::<Int32Type>().iter().collect();
    assert_eq!(items, [Some(1), None, Some(3)]);
    for sql in ["SELECT * FROM t WHERE id = 1", "SELECT *, count(*) OVER () FROM t"] {
        let Outcome::Rows(result) = session.execute(sql).unwrap() else { panic!("{sql}") };
        let schema = result.schema();
        let types: Vec<String> =
            schema.fields().iter().map(|field| field.data_type().to_string()).collect();
        assert_eq!(types[1], "Interval(MonthDayNano)", "{sql}");
        assert_eq!(types[4], "List(Int32)", "{sql}");
        assert_eq!(schema.field(2).extension_type_name(), Some("arrow.json"), "{sql}");
        assert_eq!(schema.field(3).extension_type_name(), Some("arrow.json"), "{sql}");
        assert!(schema.field(3).metadata().contains_key(atoll::JSONB));
        assert_eq!(result.batches()[0].column(4).as_list::<i32>().value_length(0), 3);
    }
}

#[test]
fn files_are_read_into_columns_of_these_types() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    let line = "1,1 mon 2 days 03:00,\"{\"\"a\"\": 1}\",\"{\"\"b\"\":1,\"\"a\"\":[2]}\",\
                \"{1,NULL,3}\",\"{a,b c}\"\n";
    std::fs::write(&path, line).unwrap();
    let mut session = session(TABLE);
    let copy = format!("COPY t FROM '{}' WITH (FORMAT csv)", path.display());
    assert_eq!(tag(&mut session, &copy), "COPY 1");
    assert_eq!(with(&mut session, ALL, &[]), [shown()]);
    for (field, reason) in [
        ("2,x,,,,", "type interval"),
        ("2,,{,,,", "type json"),
        ("2,,,{\"\"a\"\"},,", "type json"),
        ("2,,,,\"{1,x}\",", "is not an integer"),
        ("2,,,,,\"{abcdef}\"", "too long"),
    ] {
        std::fs::write(&path, format!("{field}\n")).unwrap();
        let error = super::error(&mut session, &copy);
        assert!(error.message().contains(reason), "{field}: {}", error.message());
    }
    tag(&mut session, "CREATE TABLE c AS SELECT id, v, j, b, n FROM t");
    let names = with(&mut session, "SELECT v + v, b->'b', n[3] FROM c LIMIT 0", &[]);
    assert!(names.is_empty());
    assert_eq!(with(&mut session, "SELECT b->'b', n[3] FROM c", &[]), [["1", "3"]]);
}
