//! What is logged: errors, clients and slow statements, and nothing that must not be.

use std::io::Write;
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use atoll_server::LogOptions;

use crate::Served;
use crate::client::{Client, bind, execute, parse, sync, user};

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Lines;

impl Write for &Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LINES.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A server of which all events are kept, with those of the other servers of this process.
fn logging(log: LogOptions) -> Served {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        let lines = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG);
        let lines = lines.with_target(false).with_ansi(false).with_writer(Arc::new(Lines));
        tracing::subscriber::set_global_default(lines.finish()).unwrap();
    });
    Served::with(|options| options.log = log)
}

fn all() -> String {
    String::from_utf8(LINES.lock().unwrap().clone()).unwrap()
}

/// The first line with all of these words, when it has come.
fn line(words: &[&str]) -> String {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let all = all();
        let found = all.lines().find(|line| words.iter().all(|word| line.contains(word)));
        if let Some(found) = found {
            return found.to_owned();
        }
        assert!(Instant::now() < until, "no line has {words:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn statements_that_fail_are_logged_without_their_data() {
    let served = logging(LogOptions::default());
    let mut client = served.client();
    client.query("CREATE TABLE logged (id int PRIMARY KEY, a text)");
    assert_eq!(
        client.query("SELECT 'geheim1', nonsense FROM logged -- geheim1"),
        ["E 42703", "ZI"]
    );
    let found = line(&["WARN", "42703", "nonsense FROM logged"]);
    assert!(found.contains("SELECT ?, nonsense FROM logged"), "{found}");
    assert!(found.contains(&format!("role=\"{}\"", user())), "{found}");
    client.query("INSERT INTO logged VALUES (314159, 'geheim1')");
    client.query("INSERT INTO logged VALUES (314159, 'geheim1')");
    line(&["WARN", "23505", "INSERT INTO logged VALUES (?, ?)"]);
    client.answers(&[
        parse("", "SELECT a FROM logged WHERE id = $1 AND 1 / id = 0", &[25]),
        bind("", "", &[Some("geheim1")], &[]),
        execute("", 0),
        sync(),
    ]);
    line(&["WARN", "22P02", "SELECT a FROM logged WHERE id = $1"]);
    client.answers(&[
        parse("", "SELECT set_config($1, 'x', false)", &[25]),
        bind("", "", &[Some("geheim1")], &[]),
        execute("", 0),
        sync(),
    ]);
    let found = line(&["WARN", "42704", "SELECT set_config($1, ?, false)"]);
    assert!(found.contains("***"), "{found}");
    client.query("SELECT * FROM missing_here; SELECT 'geheim1'");
    line(&["WARN", "42P01", "SELECT * FROM missing_here"]);
    assert!(!all().contains("geheim1") && !all().contains("314159"));
}

#[test]
fn a_password_is_in_no_line_whatever_is_logged() {
    let values = LogOptions { min_duration: Some(Duration::ZERO), values: true };
    let served = logging(values);
    let mut client = served.client();
    for sql in [
        "CREATE ROLE secretive LOGIN PASSWORD 'geheim2'",
        "ALTER ROLE secretive PASSWORD E'geheim2'",
        "ALTER ROLE secretive PASSWORD $$geheim2$$",
        "CREATE ROLE secretive2 PASSWORD 'geheim2' 'geheim2'",
        "CREATE ROLE secretive3 PASSWORD 'geheim2",
        "EXPLAIN CREATE ROLE secretive4 PASSWORD 'geheim2'",
        "SELECT 1; ALTER USER secretive PASSWORD 'geheim2'; SELECT nonsense",
        "SELECT 'kept in view', 1 FROM secretive_table",
    ] {
        client.query(sql);
    }
    client.answers(&[
        parse("", "ALTER ROLE secretive PASSWORD 'geheim2'", &[]),
        bind("", "", &[], &[]),
        execute("", 0),
        sync(),
    ]);
    line(&["42P01", "kept in view"]);
    line(&["CREATE ROLE secretive LOGIN PASSWORD '***'"]);
    assert!(!all().contains("geheim2"));
}

#[test]
fn slow_statements_are_logged_with_their_plans() {
    let served = logging(LogOptions { min_duration: Some(Duration::ZERO), values: false });
    let mut client = served.client();
    client.query("CREATE TABLE slow_one (id int PRIMARY KEY, a text)");
    client.query("BEGIN");
    client.query("INSERT INTO slow_one VALUES (271828, 'geheim3')");
    client.query("SELECT a FROM slow_one WHERE id = 271828");
    assert_eq!(client.query("COMMIT"), ["COMMIT", "ZI"]);
    let found = line(&["WARN", "slow statement", "SELECT a FROM slow_one WHERE id = ?"]);
    assert!(found.contains("duration_ms=") && found.contains("slow_one"), "{found}");
    let (_, plan) = found.split_once("plan=\"").unwrap();
    assert!(plan.contains("slow_one"), "{plan}");
    client.query("SELECT count(*) OVER () FROM slow_one WHERE a <> 'geheim3'");
    let found = line(&["slow statement", "SELECT count(*) OVER () FROM slow_one"]);
    assert!(found.split_once("plan=\"").unwrap().1.contains("Window"), "{found}");
    assert!(!all().contains("geheim3") && !all().contains("271828"));
    // The limit of the server above this one, and values.
    let served = logging(LogOptions { min_duration: Some(Duration::ZERO), values: true });
    let mut client = served.client();
    client.query("CREATE TABLE slow_two (id int PRIMARY KEY, a text)");
    client.answers(&[
        parse("", "SELECT a FROM slow_two WHERE id = $1 AND a = 'shown'", &[23]),
        bind("", "", &[Some("161803")], &[]),
        execute("", 0),
        sync(),
    ]);
    line(&["slow statement", "a = 'shown'", "$1 = 161803"]);
    let served = logging(LogOptions { min_duration: Some(Duration::MAX), values: false });
    served.client().query("SELECT 1 AS quick_one");
    line(&["DEBUG", "SELECT ? AS quick_one"]);
    let is_slow = |line: &str| line.contains("quick_one") && line.contains("slow statement");
    assert!(!all().lines().any(is_slow));
}

#[test]
fn clients_that_come_and_go_are_logged() {
    let served = logging(LogOptions::default());
    served.client().query("CREATE ROLE passing LOGIN");
    let client = Client::login_as(&served.socket(), "passing", "bank", &[]);
    line(&["INFO", "connected", "role=\"passing\"", "address=\"local\""]);
    drop(client);
    line(&["INFO", "disconnected", "role=\"passing\"", "session_s="]);
    let socket = std::os::unix::net::UnixStream::connect(served.socket()).unwrap();
    let mut client = Client::on(Box::new(socket));
    client.introduce(3 << 16, "stranger\nwith a line", "bank", &[]);
    client.until_ready();
    // A name cannot begin another line.
    line(&["WARN", "client refused", "28000", "stranger\\nwith a line"]);
}
