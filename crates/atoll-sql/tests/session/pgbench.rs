//! The statements of pgbench's TPC-B with one branch, from many sessions at once: at the default
//! isolation level no transaction fails, so a client need not try one again.

use atoll::Database;
use atoll_sql::SqlSession;

use super::tag;

const SESSIONS: i32 = 64;
const TRANSACTIONS: i32 = 25;
const TELLERS: i32 = 10;
const ACCOUNTS: i32 = 1000;

#[test]
fn no_transaction_of_64_sessions_on_one_branch_fails() {
    let db = Database::create(atoll_sql::database_options()).unwrap();
    let mut session = SqlSession::on_database(db.clone());
    for table in ["branch", "teller", "account"] {
        let columns = "id int PRIMARY KEY, balance bigint NOT NULL";
        tag(&mut session, &format!("CREATE TABLE {table} ({columns})"));
    }
    tag(
        &mut session,
        "CREATE TABLE history (client int, number int, teller int, branch int, account int, \
         delta int, at timestamp, PRIMARY KEY (client, number))",
    );
    for (table, rows) in [("branch", 1), ("teller", TELLERS), ("account", ACCOUNTS)] {
        for id in 1..=rows {
            session.execute_with(&format!("INSERT INTO {table} VALUES ($1, 0)"), (id,)).unwrap();
        }
    }
    std::thread::scope(|scope| {
        for client in 0..SESSIONS {
            let db = db.clone();
            scope.spawn(move || {
                let mut session = SqlSession::on_database(db);
                for number in 0..TRANSACTIONS {
                    transfer(&mut session, client, number);
                }
            });
        }
    });
    let count: Option<(i64, i64)> = session
        .query_first("SELECT count(*), sum(delta) FROM history", ())
        .map(|row: Option<(i64, Option<i64>)>| row.map(|(n, sum)| (n, sum.unwrap_or(0))))
        .unwrap();
    let (count, sum) = count.unwrap();
    assert_eq!(count, i64::from(SESSIONS * TRANSACTIONS));
    for table in ["branch", "teller", "account"] {
        let sql = format!("SELECT sum(balance)::bigint FROM {table}");
        let found: Option<(i64,)> = session.query_first(&sql, ()).unwrap();
        assert_eq!(found, Some((sum,)), "{table}");
    }
}

fn transfer(session: &mut SqlSession, client: i32, number: i32) {
    let mixed = (client * 7919 + number * 104_729) % 1_000_003;
    let (account, teller) = (mixed % ACCOUNTS + 1, mixed % TELLERS + 1);
    let delta = mixed % 10_001 - 5000;
    let add = |table: &str| format!("UPDATE {table} SET balance = balance + $1 WHERE id = $2");
    session.execute("BEGIN").unwrap();
    session.execute_with(&add("account"), (delta, account)).unwrap();
    let read: Option<(i64,)> =
        session.query_first("SELECT balance FROM account WHERE id = $1", (account,)).unwrap();
    assert!(read.is_some());
    session.execute_with(&add("teller"), (delta, teller)).unwrap();
    session.execute_with(&add("branch"), (delta, 1)).unwrap();
    session
        .execute_with(
            "INSERT INTO history VALUES ($1, $2, $3, 1, $4, $5, CURRENT_TIMESTAMP)",
            (client, number, teller, account, delta),
        )
        .unwrap();
    session.execute("COMMIT").unwrap();
}
