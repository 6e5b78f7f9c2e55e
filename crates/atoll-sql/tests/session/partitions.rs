//! Statements under a scheme that divides a database into partitions, each for one transaction at a
//! time.

use std::sync::mpsc::channel;
use std::time::Duration;

use atoll::{Database, DatabaseOptions, TransactionOptions, Value};
use atoll_sql::{Literal, SqlSession};

use super::{error, rows, tag};

const PARTITIONS: u32 = 4;

/// For a test that would otherwise hang: long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn database() -> Database {
    let scheme = "HSTORE".parse().unwrap();
    let options =
        DatabaseOptions { scheme, partitions: Some(PARTITIONS), ..DatabaseOptions::default() };
    let db = Database::create(options).unwrap();
    let mut session = SqlSession::on_database(db.clone());
    for sql in [
        "CREATE TABLE account (id bigint PRIMARY KEY, owner text, amount bigint, INDEX by_owner \
         (owner))",
        "CREATE TABLE line (account bigint, n int, amount int, PRIMARY KEY (account, n))",
        "CREATE TABLE name (id bigint PRIMARY KEY, name text, UNIQUE (name))",
        "INSERT INTO account SELECT generate_series, 'o', 100 FROM generate_series(0, 39)",
    ] {
        tag(&mut session, sql);
    }
    db
}

/// Runs statements while a transaction holds the partition of a key.
fn beside(db: &Database, key: i64, run: impl FnOnce(&mut SqlSession) + Send + 'static) {
    let table = db.table("account").unwrap();
    let partitions = vec![table.partition(&[Value::Int64(key)])];
    let options = TransactionOptions { partitions, ..TransactionOptions::default() };
    let mut holder = db.begin_with(&options).unwrap();
    holder.update(&table, &[Value::Int64(key)], &[(2, Value::Int64(7))]).unwrap();
    let (done, is_done) = channel();
    let other = db.clone();
    let thread = std::thread::spawn(move || {
        run(&mut SqlSession::on_database(other));
        done.send(()).unwrap();
    });
    let waited = is_done.recv_timeout(PATIENCE);
    holder.commit().unwrap();
    thread.join().unwrap();
    waited.expect("the statements waited for a partition that they do not need");
}

#[test]
fn statements_with_keys_take_only_the_partitions_of_these_keys() {
    let db = database();
    // The partition of 0 has 4, 8, …
    beside(&db, 0, |session| {
        assert_eq!(tag(session, "UPDATE account SET amount = amount + 1 WHERE id = 1"), "UPDATE 1");
        assert_eq!(tag(session, "UPDATE account SET amount = 5 WHERE id IN (2, 3, 5)"), "UPDATE 3");
        assert_eq!(tag(session, "INSERT INTO line VALUES (1, 1, 10), (3, 1, 30)"), "INSERT 0 2");
        assert_eq!(tag(session, "UPDATE line SET amount = 0 WHERE account = 3"), "UPDATE 1");
        assert_eq!(tag(session, "DELETE FROM line WHERE account = 3 AND n = 1"), "DELETE 1");
        assert_eq!(tag(session, "DELETE FROM account WHERE id = 1000000001"), "DELETE 0");
        let locked = "SELECT amount FROM account WHERE id = $1 FOR UPDATE";
        assert_eq!(session.query::<(i64,)>(locked, (1,)).unwrap(), [(101,)]);
        let listed = "UPDATE account SET amount = 6 WHERE id = ANY($1)";
        assert_eq!(session.execute_with(listed, (vec![1, 2, 3],)).unwrap().row_count(), 3);
        let insert = "INSERT INTO line VALUES ($1, $2, $3) ON CONFLICT (account, n) DO UPDATE \
                      SET amount = excluded.amount RETURNING amount";
        let values = [Literal::from(1), 1.into(), 77.into()];
        assert_eq!(session.query::<(i32,)>(insert, &values).unwrap(), [(77,)]);
    });
    let mut session = SqlSession::on_database(db);
    let found = rows(&mut session, "SELECT id, amount FROM account WHERE id < 4 ORDER BY id");
    assert_eq!(found, ["0|7", "1|6", "2|6", "3|6"]);
}

#[test]
fn a_statement_that_comes_to_other_partitions_is_right_too() {
    let db = database();
    let mut session = SqlSession::on_database(db);
    let session = &mut session;
    // The new key is in another partition than the old one, and an index is over all of them.
    assert_eq!(tag(session, "UPDATE account SET id = 1001 WHERE id = 2"), "UPDATE 1");
    assert_eq!(rows(session, "SELECT id FROM account WHERE id IN (2, 1001)"), ["1001"]);
    for id in 0..40 {
        assert_eq!(tag(session, &format!("INSERT INTO name VALUES ({id}, 'n{id}')")), "INSERT 0 1");
    }
    assert_eq!(error(session, "INSERT INTO name VALUES (40, 'n7')").sqlstate(), "23505");
    assert_eq!(
        tag(session, "UPDATE account SET owner = 'p' WHERE owner = 'o' AND id IN (38, 39)"),
        "UPDATE 2"
    );
    assert_eq!(tag(session, "UPDATE account SET amount = 0 WHERE owner = 'p'"), "UPDATE 2");
    let from = "UPDATE account AS a SET amount = b.amount + 1 FROM account b WHERE a.id = 1 AND \
                b.id = 3";
    assert_eq!(tag(session, from), "UPDATE 1");
    let sub = "UPDATE account SET amount = (SELECT amount FROM account WHERE id = 3) WHERE id = 4";
    assert_eq!(tag(session, sub), "UPDATE 1");
    assert_eq!(tag(session, "DELETE FROM account"), "DELETE 40");
    assert_eq!(rows(session, "SELECT count(*) FROM account"), ["0"]);
}

#[test]
fn threads_on_all_partitions_lose_nothing() {
    let db = database();
    let threads = 4u64;
    let rounds = 300u64;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let db = db.clone();
            scope.spawn(move || {
                let mut session = SqlSession::on_database(db);
                let mut random = 0x9e37_79b9 ^ thread;
                for round in 0..rounds {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let from = (random >> 33) % 40;
                    let to = (random >> 43) % 40;
                    // One partition, then two by a list, then all.
                    let add = "UPDATE account SET amount = amount + 1 WHERE id = $1";
                    session.execute_with(add, (from as i64,)).unwrap();
                    let pair = "UPDATE account SET amount = amount + 1 WHERE id = ANY($1)";
                    let done = session.execute_with(pair, (vec![from as i64, to as i64],)).unwrap();
                    assert_eq!(done.row_count(), if from == to { 1 } else { 2 });
                    if from == to {
                        session.execute_with(add, (to as i64,)).unwrap();
                    }
                    if round % 50 == 0 {
                        tag(&mut session, "UPDATE account SET amount = amount + 1 WHERE id >= 0");
                    }
                    if round % 7 == 0 {
                        tag(&mut session, "BEGIN");
                        session.execute_with(add, (to as i64,)).unwrap();
                        tag(&mut session, "ROLLBACK");
                    }
                }
            });
        }
    });
    let mut session = SqlSession::on_database(db);
    let wanted = 40 * 100 + threads * (rounds * 3 + rounds.div_ceil(50) * 40);
    assert_eq!(rows(&mut session, "SELECT sum(amount) FROM account"), [wanted.to_string()]);
}
