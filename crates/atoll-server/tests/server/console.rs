//! The web console, request by request.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use atoll::Database;
use atoll_server::{Server, ServerError, ServerOptions};

use crate::Served;

/// A server with a console, and a role `ann` with a password and a table.
fn served() -> Served {
    let served = Served::with(|options| options.console = Some(([127, 0, 0, 1], 0).into()));
    let mut client = served.client();
    client.query("CREATE ROLE ann LOGIN PASSWORD 'geheim'");
    client.query("CREATE TABLE account (id int PRIMARY KEY, balance numeric(12,2))");
    client.query("INSERT INTO account VALUES (1, 10.50), (2, NULL)");
    client.query("GRANT SELECT, INSERT ON account TO ann");
    client.query("CREATE TABLE secret (id int PRIMARY KEY)");
    served
}

fn host(served: &Served) -> String {
    let url = served.console.as_deref().unwrap();
    url.strip_prefix("http://").unwrap().trim_end_matches('/').to_owned()
}

/// The status, the head and the body of an answer.
type Answer = (u16, String, String);

/// Sends a head as it is, and a body; the connection ends behind the answer.
fn send(served: &Served, head: &str, body: &str) -> Answer {
    let mut socket = TcpStream::connect(host(served)).unwrap();
    let length = body.len();
    let text = format!("{head}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    socket.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), body.to_owned())
}

/// A browser, with the cookie that it was given.
struct Browser<'s> {
    served: &'s Served,
    cookie: String,
}

impl<'s> Browser<'s> {
    fn new(served: &'s Served) -> Self {
        Self { served, cookie: String::new() }
    }

    fn login(served: &'s Served) -> Self {
        let mut browser = Self::new(served);
        let (status, head, body) = browser.enter("ann", "geheim");
        assert_eq!(status, 200, "{head} {body}");
        let line = head.lines().find(|line| line.starts_with("set-cookie: ")).unwrap();
        assert!(line.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{line}");
        let pair = line.strip_prefix("set-cookie: ").unwrap().split(';').next().unwrap();
        assert_eq!(pair.split_once('=').unwrap().1.len(), 43, "{pair}");
        browser.cookie = pair.to_owned();
        browser
    }

    fn enter(&self, role: &str, password: &str) -> Answer {
        let body = format!("{{\"role\": \"{role}\", \"password\": \"{password}\"}}");
        self.post("/api/login", &body)
    }

    fn get(&self, path: &str) -> Answer {
        let (host, cookie) = (host(self.served), &self.cookie);
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n");
        send(self.served, &head, "")
    }

    fn post(&self, path: &str, body: &str) -> Answer {
        send(self.served, &self.head(path), body)
    }

    fn head(&self, path: &str) -> String {
        let (host, cookie) = (host(self.served), &self.cookie);
        format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n\
             Content-Type: application/json\r\nCookie: {cookie}\r\n"
        )
    }

    fn query(&self, sql: &str, more: &str) -> String {
        let body = format!("{{\"run\": 1, \"sql\": \"{sql}\"{more}}}");
        let (status, _, body) = self.post("/api/query", &body);
        assert_eq!(status, 200, "{body}");
        body
    }
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn the_page_comes_with_a_strict_policy_and_its_files() {
    let served = served();
    let browser = Browser::new(&served);
    let (status, head, page) = browser.get("/");
    assert_eq!(status, 200);
    has(
        &head,
        &[
            "content-type: text/html; charset=utf-8",
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; ",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
        ],
    );
    // Nothing in it would need a weaker policy.
    for inline in ["<style", "style=", "onclick=", "javascript:"] {
        assert!(!page.contains(inline), "{inline}");
    }
    for part in page.split('"').filter(|part| part.ends_with(".css") || part.ends_with(".js")) {
        assert_eq!(browser.get(part).0, 200, "{part}");
    }
    let (status, head, _) = browser.get("/nothing");
    assert_eq!(status, 404);
    has(&head, &["content-security-policy: "]);
    let (status, _, body) =
        send(&served, &format!("HEAD / HTTP/1.1\r\nHost: {}\r\n", host(&served)), "");
    assert_eq!((status, body.as_str()), (200, ""));
}

#[test]
fn nothing_is_told_without_a_login() {
    let served = served();
    let browser = Browser::new(&served);
    for path in ["/api/me", "/api/overview", "/api/details", "/api/table/1"] {
        assert_eq!(browser.get(path).0, 401, "{path}");
    }
    for (path, body) in [
        ("/api/query", "{\"run\": 1, \"sql\": \"SELECT 1\"}"),
        ("/api/cancel", "{\"run\": 1}"),
        ("/api/end", "{\"pid\": 1, \"connection\": true}"),
    ] {
        assert_eq!(browser.post(path, body).0, 401, "{path}");
    }
    let owner = std::env::var("USER").unwrap_or_else(|_| "root".to_owned());
    for (role, password) in [("ann", "wrong"), ("ghost", "geheim"), (&*owner, "")] {
        let (status, head, _) = browser.enter(role, password);
        assert_eq!(status, 401, "{role}");
        assert!(!head.contains("set-cookie"), "{head}");
    }
    let mut known = Browser::login(&served);
    let (status, _, me) = known.get("/api/me");
    assert_eq!(status, 200);
    has(&me, &["\"role\":\"ann\"", "\"is_superuser\":false", "\"database\":\"bank\""]);
    let token = known.cookie.clone();
    known.cookie.pop();
    assert_eq!(known.get("/api/me").0, 401);
    known.cookie = format!("other=1; {token}");
    let (status, head, _) = known.post("/api/logout", "{}");
    assert_eq!(status, 200);
    has(&head, &["Max-Age=0"]);
    assert_eq!(known.get("/api/me").0, 401);
}

#[test]
fn attempts_to_log_in_are_limited() {
    let served = served();
    let browser = Browser::new(&served);
    let began = Instant::now();
    let wrong = std::thread::scope(|scope| {
        let attempt = |_| scope.spawn(|| browser.enter("ann", "wrong"));
        let all: Vec<_> = (0..20).map(attempt).collect();
        all.into_iter().map(|one| one.join().unwrap()).filter(|one| one.0 == 401).count()
    });
    // Five at once, and one more for each second.
    let most = 5 + began.elapsed().as_secs() as usize + 1;
    assert!((5..=most).contains(&wrong), "{wrong} of {most}");
    let (status, head, _) = browser.enter("ann", "geheim");
    if status != 200 {
        assert_eq!(status, 429);
        has(&head, &["retry-after: 1"]);
    }
}

#[test]
fn requests_for_other_hosts_and_from_other_pages_are_refused() {
    let served = served();
    let browser = Browser::login(&served);
    let (own, cookie) = (host(&served), &browser.cookie);
    let get = |headers: &str| {
        send(&served, &format!("GET /api/me HTTP/1.1\r\n{headers}Cookie: {cookie}\r\n"), "").0
    };
    let port = own.rsplit(':').next().unwrap();
    assert_eq!(get(&format!("Host: localhost:{port}\r\n")), 200);
    assert_eq!(get(&format!("Host: {own}\r\nSec-Fetch-Site: same-origin\r\n")), 200);
    assert_eq!(get(&format!("Host: {own}\r\nSec-Fetch-Site: cross-site\r\n")), 403);
    assert_eq!(get(&format!("Host: evil.example:{port}\r\n")), 403);
    assert_eq!(get(&format!("Host: {own}\r\nHost: {own}\r\n")), 403);
    assert_eq!(get(""), 403);
    let post = |headers: &str| {
        let head =
            format!("POST /api/query HTTP/1.1\r\nHost: {own}\r\n{headers}Cookie: {cookie}\r\n");
        send(&served, &head, "{\"run\": 1, \"sql\": \"SELECT 1\"}").0
    };
    let json = "Content-Type: application/json\r\n";
    assert_eq!(post(&format!("Origin: http://{own}\r\n{json}")), 200);
    assert_eq!(post(json), 403);
    assert_eq!(post(&format!("Origin: null\r\n{json}")), 403);
    assert_eq!(post(&format!("Origin: http://evil.example\r\n{json}")), 403);
    assert_eq!(post(&format!("Origin: http://{own}\r\nContent-Type: text/plain\r\n")), 403);
    assert_eq!(post(&format!("Origin: http://{own}\r\n")), 403);
}

#[test]
fn a_name_that_the_server_was_given_is_its_own() {
    let served = Served::with(|options| {
        options.console = Some(([127, 0, 0, 1], 0).into());
        options.console_hosts = vec!["db.example.org".to_owned()];
    });
    let get = |host: &str| send(&served, &format!("GET / HTTP/1.1\r\nHost: {host}\r\n"), "").0;
    assert_eq!((get("db.example.org"), get("www.example.org")), (200, 403));
}

#[test]
fn requests_have_limits() {
    let served = served();
    let browser = Browser::new(&served);
    let mut socket = TcpStream::connect(host(&served)).unwrap();
    let head = browser.head("/api/login");
    write!(socket, "{head}Content-Length: 1000000\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    has(&answer, &["HTTP/1.1 413 ", "connection: close"]);
    let mut socket = TcpStream::connect(host(&served)).unwrap();
    write!(socket, "GET / HTTP/1.1\r\nX: {}", "a".repeat(16 << 10)).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    has(&answer, &["HTTP/1.1 431 "]);
    assert_eq!(browser.post("/api/login", "{\"role\": 1}").0, 400);
    assert_eq!(browser.post("/api/me", "{}").0, 405);
    // Two requests of one connection, the second of which came with the first.
    let mut socket = TcpStream::connect(host(&served)).unwrap();
    let get = format!("GET /console.css HTTP/1.1\r\nHost: {}\r\n", host(&served));
    write!(socket, "{get}\r\n{get}Connection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 2);
}

#[test]
fn a_query_returns_texts_and_changes_nothing_unless_it_may() {
    let served = served();
    let browser = Browser::login(&served);
    let rows = browser.query("SELECT id, balance FROM account ORDER BY id", "");
    has(
        &rows,
        &[
            "\"tag\":\"SELECT 2\"",
            "{\"name\":\"id\",\"kind\":\"integer\",\"is_number\":true}",
            "\"rows\":[[\"1\",\"10.50\"],[\"2\",null]]",
            "\"error\":null",
        ],
    );
    let both = browser.query("SELECT 1 AS a; SELECT 'x' AS b", "");
    has(&both, &["[[\"1\"]]", "[[\"x\"]]"]);
    let write = "INSERT INTO account VALUES (3, 1)";
    has(&browser.query(write, ""), &["\"state\":\"25006\""]);
    for way in ["COMMIT", "SELECT 1; COMMIT", "ROLLBACK", "BEGIN READ WRITE"] {
        let refused = browser.query(&format!("{way}; {write}"), "");
        has(&refused, &["\"state\":\"25001\"", "Allow changes", "\"results\":[]"]);
    }
    for way in [
        "SET TRANSACTION READ WRITE",
        "SET transaction_read_only = off",
        "SELECT set_config('transaction_read_only', 'off', true)",
        "SET default_transaction_read_only = off",
    ] {
        has(&browser.query(&format!("{way}; {write}"), ""), &["\"state\":\""]);
    }
    has(&browser.query("SELECT count(*) FROM account", ""), &["[[\"2\"]]"]);
    has(&browser.query(write, ", \"may_change\": true"), &["\"tag\":\"INSERT 0 1\""]);
    let open = browser.query("BEGIN; DELETE FROM secret", ", \"may_change\": true");
    has(&open, &["\"state\":\"42501\"", "left open"]);
    has(&browser.query("SELECT count(*) FROM account", ""), &["[[\"3\"]]"]);
    let roles = browser.query("CREATE ROLE bob", ", \"may_change\": true");
    has(&roles, &["\"state\":\"0A000\"", "psql"]);
    let wrong = browser.query("SELECT 1;\\nSELECT nonsense", "");
    has(&wrong, &["\"state\":\"42703\"", "\"position\":18", "[[\"1\"]]"]);
}

#[test]
fn a_long_result_is_cut_and_says_so() {
    let served = served();
    let browser = Browser::login(&served);
    let long = browser.query("SELECT * FROM generate_series(1, 5000)", "");
    has(&long, &["\"cut\":\"Cut at 1,000 rows\"", "[\"1000\"]", "\"tag\":\"SELECT 1000\""]);
    assert!(!long.contains("[\"1001\"]"));
    let exact = browser.query("SELECT * FROM generate_series(1, 1000)", "");
    has(&exact, &["\"cut\":null", "[\"1000\"]"]);
    let wide = "SELECT repeat('\\\"', 16000) FROM generate_series(1, 900)";
    let wide = browser.query(wide, "");
    has(&wide, &["Cut at 4 MiB"]);
    assert!(wide.len() < (4 << 20) + 1000 && wide.len() > 3 << 20, "{}", wide.len());
    let value = browser.query("SELECT repeat('ä', 20000)", "");
    has(&value, &["Long values are cut"]);
    assert!(value.len() < 20_000, "{}", value.len());
}

const LONG: &str = "SELECT count(*) FROM generate_series(1, 100000) a(x), \
                    generate_series(1, 100000) b(y) WHERE x % 7 > y % 11";

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_run_is_a_client_that_is_cancelled_or_ends_with_its_browser() {
    let served = served();
    let browser = Browser::login(&served);
    has(&browser.query(LONG, ", \"seconds\": 1"), &["\"state\":\"57014\""]);
    let is_running = || {
        let (_, _, overview) = browser.get("/api/overview");
        overview.contains("\"application_name\":\"atoll console\"")
    };
    std::thread::scope(|scope| {
        let running = scope.spawn(|| browser.query(LONG, ""));
        until("it runs", is_running);
        let (_, _, other) = browser.post("/api/cancel", "{\"run\": 2}");
        has(&other, &["false"]);
        let (_, _, ended) = browser.post("/api/cancel", "{\"run\": 1}");
        has(&ended, &["true"]);
        has(&running.join().unwrap(), &["\"state\":\"57014\""]);
    });
    let mut socket = TcpStream::connect(host(&served)).unwrap();
    let body = format!("{{\"run\": 3, \"sql\": \"{LONG}\"}}");
    let head = browser.head("/api/query");
    write!(socket, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    until("it runs", is_running);
    drop(socket);
    until("it ends", || !is_running());
}

#[test]
fn so_many_texts_run_at_a_time() {
    let served = served();
    let browser = Browser::login(&served);
    std::thread::scope(|scope| {
        let run = |number: u64| {
            let browser = &browser;
            scope.spawn(move || {
                let body = format!("{{\"run\": {number}, \"sql\": \"{LONG}\"}}");
                browser.post("/api/query", &body).2
            })
        };
        let all: Vec<_> = (1..=8).map(run).collect();
        let count = || browser.get("/api/overview").2.matches("\"atoll console\"").count();
        until("all run", || count() == 8);
        has(&browser.query("SELECT 1", ""), &["\"state\":\"53300\""]);
        for number in 1..=8 {
            browser.post("/api/cancel", &format!("{{\"run\": {number}}}"));
        }
        for one in all {
            has(&one.join().unwrap(), &["\"state\":\"57014\""]);
        }
    });
    has(&browser.query("SELECT 1", ""), &["[[\"1\"]]"]);
}

#[test]
fn a_role_sees_what_it_may_see() {
    let served = served();
    let browser = Browser::login(&served);
    let mut client = served.client();
    client.query("SELECT 4711 AS of_another");
    let (status, _, overview) = browser.get("/api/overview");
    assert_eq!(status, 200);
    has(
        &overview,
        &["\"xact_commit\":", "\"component\":", "\"durations\":", "\"failing\":false", "\"pid\":"],
    );
    assert!(!overview.contains("\"error\""), "{overview}");
    has(&overview, &["<insufficient privilege>"]);
    assert!(!overview.contains("of_another"));
    let (status, _, details) = browser.get("/api/details");
    assert_eq!(status, 200);
    has(&details, &["\"part\":\"tables\"", "\"relname\":\"account\"", "\"memory_bytes\":"]);
    assert!(!details.contains("\"error\":\"") && !details.contains("of_another"), "{details}");
    let oid = details.split("\"relname\":\"account\"").next().unwrap();
    let oid = oid.rsplit("\"oid\":").next().unwrap().split([',', '.']).next().unwrap();
    let (_, _, table) = browser.get(&format!("/api/table/{oid}"));
    has(&table, &["\"name\":\"balance\"", "\"type\":\"numeric(12,2)\"", "\"is_primary\":true"]);
    has(&browser.query("SELECT * FROM secret", ""), &["\"state\":\"42501\""]);
    let pid = overview.split("\"pid\":").nth(1).unwrap().split(['.', ',']).next().unwrap();
    let (status, _, ended) =
        browser.post("/api/end", &format!("{{\"pid\": {pid}, \"connection\": true}}"));
    assert_eq!(status, 403, "{ended}");
    client.query("ALTER ROLE ann SUPERUSER");
    has(&browser.get("/api/me").2, &["\"is_superuser\":true"]);
    has(&browser.get("/api/overview").2, &["ALTER ROLE ann SUPERUSER"]);
    let (status, _, ended) =
        browser.post("/api/end", &format!("{{\"pid\": {pid}, \"connection\": true}}"));
    assert_eq!((status, ended.as_str()), (200, "{\"ended\":true}"));
}

#[test]
fn a_console_for_other_machines_needs_a_certificate() {
    let db = Database::create(atoll_sql::database_options()).unwrap();
    let options = ServerOptions {
        console: Some(([0, 0, 0, 0], 0).into()),
        addresses: vec![[127, 0, 0, 1].into()],
        port: 0,
        allows_plaintext: true,
        ..ServerOptions::default()
    };
    let error = Server::start(db, "bank", None, options).err().unwrap();
    assert!(matches!(error, ServerError::ConsolePlaintext(_)), "{error}");
    assert!(error.hint().unwrap().contains("--tls-cert"));
}

#[test]
fn a_server_ends_while_a_text_runs_and_a_browser_waits() {
    let mut served = served();
    let idle = TcpStream::connect(host(&served)).unwrap();
    let browser = Browser::login(&served);
    let (head, cookie) = (browser.head("/api/query"), browser.cookie.clone());
    let mut socket = TcpStream::connect(host(&served)).unwrap();
    let body = format!("{{\"run\": 1, \"sql\": \"{LONG}\"}}");
    write!(socket, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let is_running = || Browser { served: &served, cookie: cookie.clone() }.get("/api/overview").2;
    until("it runs", || is_running().contains("\"atoll console\""));
    let began = Instant::now();
    served.stop();
    assert!(began.elapsed() < Duration::from_secs(9));
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    has(&answer, &["connection: close", "\"state\":\"57014\""]);
    drop(idle);
}
