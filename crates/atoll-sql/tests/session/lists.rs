//! Comparisons with lists, `= ANY ($1)`, as drivers send them in place of IN.

use atoll_sql::{Literal, Outcome, SqlError, SqlErrorKind, SqlSession};

use super::{error, lines, rows, session, tag};

const THINGS: &str = "CREATE TABLE thing (id int PRIMARY KEY, big bigint, d double precision, \
    n decimal(6,2), t text, day date);
    INSERT INTO thing VALUES (1, 10, 0.5, 1.50, 'a', '2024-01-01'), \
    (2, 20, 'NaN', 2.50, 'b, \"c\"', '2024-01-02'), (3, NULL, -0.0, NULL, NULL, NULL), \
    (4, 40, 4, 4.00, 'NULL', '2024-01-04')";

/// The rows of a query with values, on the live table, in a transaction, and on a snapshot.
fn found(session: &mut SqlSession, sql: &str, values: &[Literal]) -> Vec<String> {
    let mut read = |sql: &str| match session.execute_with(sql, values) {
        Ok(Outcome::Rows(result)) => lines(&result),
        Ok(other) => panic!("{sql}: {other:?}"),
        Err(error) => panic!("{}", error.render(sql)),
    };
    let live = read(sql);
    let all = "SELECT * FROM";
    let wide = format!("{all} ({sql}) AS q UNION ALL {all} ({sql}) AS q WHERE false ORDER BY 1");
    assert_eq!(read(&wide), live, "{sql}");
    live
}

#[test]
fn a_list_of_keys_takes_the_place_of_in() {
    let mut session = session(THINGS);
    let sql = "SELECT id FROM thing WHERE id = ANY($1) ORDER BY id";
    for (list, wanted) in [
        (vec![3, 1, 1, 9], vec!["1", "3"]),
        (vec![], vec![]),
        (vec![4], vec!["4"]),
        ((2..500).collect(), vec!["2", "3", "4"]),
    ] {
        let values = [Literal::from(list)];
        assert_eq!(found(&mut session, sql, &values), wanted, "{values:?}");
        let plan = session.execute_with(&format!("EXPLAIN {sql}"), &values);
        let Ok(Outcome::Rows(plan)) = plan else { panic!("{plan:?}") };
        let plan = lines(&plan).join("\n");
        assert!(plan.contains("Primary Key Lookup of a list of keys on thing (id)"), "{plan}");
    }
    // Elements that are NULL, or that no key can be, find nothing.
    let list: Literal = vec![Some(2i64), None, Some(i64::MAX)].into();
    assert_eq!(found(&mut session, sql, &[list]), ["2"]);
    assert!(found(&mut session, sql, &[Literal::Null]).is_empty());
    // The same statement with texts, with a text that is an array, and with other numbers.
    assert_eq!(found(&mut session, sql, &[vec!["4", "1"].into()]), ["1", "4"]);
    assert_eq!(found(&mut session, sql, &["{4, 1,NULL}".into()]), ["1", "4"]);
    assert_eq!(found(&mut session, sql, &[vec![1.0, 2.5].into()]), ["1"]);
    let decimals = Literal::List(vec![Literal::Decimal(20, 1), Literal::Decimal(25, 1)]);
    assert_eq!(found(&mut session, sql, &[decimals]), ["2"]);
    tag(&mut session, "BEGIN");
    tag(&mut session, "UPDATE thing SET t = 'x' WHERE id = 1");
    let ids: Vec<(i32,)> = session.query(sql, (&[1, 2][..],)).unwrap();
    assert_eq!(ids, [(1,), (2,)]);
    tag(&mut session, "ROLLBACK");
}

#[test]
fn every_operator_and_type_follows_the_logic_of_three_values() {
    let mut session = session(THINGS);
    let list = |items: &[Option<i64>]| Literal::from(items.to_vec());
    for (op, items, wanted) in [
        ("= ANY", vec![Some(10), None], "1:true 2:NULL 3:NULL 4:NULL"),
        ("= ANY", vec![Some(10), Some(40)], "1:true 2:false 3:NULL 4:true"),
        ("= ANY", vec![], "1:false 2:false 3:false 4:false"),
        ("<> ALL", vec![Some(10), None], "1:false 2:NULL 3:NULL 4:NULL"),
        ("<> ALL", vec![Some(10)], "1:false 2:true 3:NULL 4:true"),
        ("<> ALL", vec![], "1:true 2:true 3:true 4:true"),
        ("<> ANY", vec![Some(10), Some(10)], "1:false 2:true 3:NULL 4:true"),
        ("= ALL", vec![Some(20), None], "1:false 2:NULL 3:NULL 4:false"),
        ("< ANY", vec![Some(20), None], "1:true 2:NULL 3:NULL 4:NULL"),
        (">= ALL", vec![Some(20), Some(40)], "1:false 2:false 3:NULL 4:true"),
        ("> SOME", vec![Some(15)], "1:false 2:true 3:NULL 4:true"),
        ("<= ALL", vec![None], "1:NULL 2:NULL 3:NULL 4:NULL"),
    ] {
        let written: Vec<String> =
            items.iter().map(|one| one.map_or("NULL".to_owned(), |one| one.to_string())).collect();
        let written = written.join(",");
        let values = [list(&items)];
        let of = |array: &str| {
            format!("SELECT id, big {op} ({array}) FROM thing ORDER BY id").replace("((", "(")
        };
        let wanted: Vec<String> = wanted.split(' ').map(|one| one.replace(':', "|")).collect();
        assert_eq!(found(&mut session, &of("$1"), &values), wanted, "{op} {items:?}");
        assert_eq!(found(&mut session, &of("$1::int[]"), &values), wanted, "{op} {items:?}");
        let quoted = of(&format!("'{{{written}}}'"));
        assert_eq!(found(&mut session, &quoted, &[]), wanted, "{quoted}");
        let array = of(&format!("ARRAY[{written}]::bigint[]"));
        assert_eq!(found(&mut session, &array, &[]), wanted, "{array}");
        // An array that is computed for each row.
        let mut with_id = written.clone() + ",id + 1000";
        with_id = with_id.trim_start_matches(',').to_owned();
        let computed = of(&format!("array_remove(ARRAY[{with_id}], id + 1000)"));
        assert_eq!(found(&mut session, &computed, &[]), wanted, "{computed}");
    }
    assert_eq!(rows(&mut session, "SELECT 1 = ANY(NULL), 1 <> ALL(NULL::int[])"), ["NULL|NULL"]);
}

#[test]
fn elements_are_compared_in_the_types_of_postgresql() {
    let mut session = session(THINGS);
    let mut ids = |condition: &str, value: Literal| {
        let sql = format!("SELECT id FROM thing WHERE {condition} ORDER BY id");
        found(&mut session, &sql, &[value]).join(" ")
    };
    assert_eq!(ids("d = ANY($1)", vec![f64::NAN, 0.0].into()), "2 3");
    assert_eq!(ids("d = ANY($1)", vec![4i64].into()), "4");
    assert_eq!(ids("n = ANY($1)", vec!["1.5", "4"].into()), "1 4");
    assert_eq!(ids("n = ANY($1)", vec![2.5f64].into()), "2");
    assert_eq!(ids("big = ANY($1)", vec![10.0f64, 20.5].into()), "1");
    assert_eq!(ids("t = ANY($1)", vec!["b, \"c\"", "NULL", ""].into()), "2 4");
    assert_eq!(ids("t = ANY($1::text[])", "{a,NULL}".into()), "1");
    assert_eq!(ids("day = ANY($1)", vec!["2024-01-01"].into()), "1");
    assert_eq!(ids("day = ANY($1)", Literal::List(vec![Literal::Date(19_724)])), "2");
    assert_eq!(ids("day < ALL($1::date[])", "{2024-01-02}".into()), "1");
    assert_eq!(ids("n = ANY(ARRAY[$1, 2.5])", "1.50".into()), "1 2");
    assert_eq!(ids("2 = ANY(ARRAY[id, $1])", 7.into()), "2");
    assert_eq!(ids("NOT id = ANY($1)", vec![1, 2].into()), "3 4");
    assert_eq!(ids("id = ANY($1) AND id <> ALL($1)", vec![1, 2].into()), "");
    assert_eq!(ids("id = ANY($1) OR t = 'a'", vec![2].into()), "1 2");
    let changed =
        session.execute_with("UPDATE thing SET big = 0 WHERE id = ANY($1)", (vec![1, 3],));
    assert_eq!(changed.unwrap().row_count(), 2);
    let deleted = session.execute_with("DELETE FROM thing WHERE id <> ALL($1)", (vec![1, 3],));
    assert_eq!(deleted.unwrap().row_count(), 2);
    assert_eq!(rows(&mut session, "SELECT id, big FROM thing ORDER BY id"), ["1|0", "3|0"]);
}

#[test]
fn what_is_no_array_is_refused() {
    let mut session = session(THINGS);
    for (sql, state) in [
        ("SELECT 1 = ANY(2)", "42883"),
        ("SELECT id FROM thing WHERE id = ANY(id)", "42883"),
        ("SELECT 1 = ANY('2')", "22P02"),
        ("SELECT 1 = ANY('{a}')", "22P02"),
        ("SELECT id FROM thing WHERE id = ANY('{{1}}')", "22P02"),
        ("SELECT id FROM thing WHERE id = ANY(ARRAY['1'])", "42883"),
        ("SELECT id FROM thing WHERE id = ANY('{1}'::text[])", "42883"),
    ] {
        let told = error(&mut session, sql);
        assert_eq!(told.sqlstate(), state, "{sql}: {told}");
    }
    let refused = |session: &mut SqlSession, sql: &str, value: Literal| -> SqlError {
        session.execute_with(sql, &[value]).map(|_| panic!("{sql}")).unwrap_err()
    };
    let any = "SELECT id FROM thing WHERE id = ANY($1)";
    assert_eq!(refused(&mut session, any, 1.into()).kind(), SqlErrorKind::Type);
    assert_eq!(refused(&mut session, any, vec!["x"].into()).sqlstate(), "22P02");
    assert_eq!(refused(&mut session, any, vec![true].into()).kind(), SqlErrorKind::Type);
    let one = "SELECT id FROM thing WHERE id = $1";
    assert_eq!(refused(&mut session, one, vec![1].into()).kind(), SqlErrorKind::Type);
    let insert = "INSERT INTO thing (id) VALUES ($1)";
    assert_eq!(refused(&mut session, insert, vec![1].into()).kind(), SqlErrorKind::Type);
}

#[test]
fn prepared_statements_take_lists() {
    let mut session = session(THINGS);
    let any = session.prepare("SELECT id FROM thing WHERE id = ANY(?) ORDER BY id").unwrap();
    assert_eq!(any.parameter_types(), [atoll::DataType::Int32.array()]);
    let ids: Vec<(i32,)> = session.query(&any, (vec![4, 2],)).unwrap();
    assert_eq!(ids, [(2,), (4,)]);
    tag(&mut session, "PREPARE p (int[]) AS SELECT id FROM thing WHERE id = ANY($1) ORDER BY id");
    for argument in ["'{4,2}'", "ARRAY[4, 2]", "ARRAY['4', 1 + 1]"] {
        assert_eq!(
            rows(&mut session, &format!("EXECUTE p ({argument})")),
            ["2", "4"],
            "{argument}"
        );
    }
}
