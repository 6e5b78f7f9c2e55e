//! Which clients are let in, and how connections end.

use std::time::{Duration, Instant};

use crate::Served;
use crate::client::{Client, Message, user};

const CANCEL: u32 = 80_877_102;
const SSL: u32 = 80_877_103;

fn refused(served: &Served, user: &str, database: &str, more: &[(&str, &str)]) -> Message {
    let socket = std::os::unix::net::UnixStream::connect(served.socket()).unwrap();
    let mut client = Client::on(Box::new(socket));
    client.introduce(3 << 16, user, database, more);
    let message = std::iter::from_fn(|| client.receive()).find(|one| one.kind == 'E').unwrap();
    assert_eq!(message.field('S').unwrap(), "FATAL");
    assert!(client.receive().is_none());
    message
}

#[test]
fn what_is_wrong_with_an_introduction_is_told() {
    let served = Served::start();
    let state = |user: &str, database: &str, more: &[(&str, &str)]| {
        refused(&served, user, database, more).field('C').unwrap()
    };
    assert_eq!(state(&user(), "nothing", &[]), "3D000");
    assert_eq!(state("ghost", "bank", &[]), "28000");
    assert_eq!(state(&user(), "bank", &[("nonsense", "1")]), "42704");
    assert_eq!(state(&user(), "bank", &[("TimeZone", "Nowhere")]), "22023");
    assert_eq!(state(&user(), "bank", &[("replication", "database")]), "0A000");
    let more =
        [("application_name", "me"), ("options", "-c search_path=a,b --TimeZone=Asia/Tokyo")];
    let mut client = Client::login_as(&served.socket(), &user(), "bank", &more);
    assert_eq!(client.query("SHOW search_path")[0], "D a,b");
    assert_eq!(client.query("SHOW TimeZone")[0], "D Asia/Tokyo");
    client.query("SET TimeZone = 'UTC'");
    client.query("RESET ALL");
    client.query("DISCARD ALL");
    assert_eq!(client.query("SHOW TimeZone")[0], "D Asia/Tokyo");
}

#[test]
fn later_versions_are_negotiated_and_have_long_keys() {
    let served = Served::start();
    for (minor, key) in [(0, 4), (2, 32)] {
        let socket = std::os::unix::net::UnixStream::connect(served.socket()).unwrap();
        let mut client = Client::on(Box::new(socket));
        client.introduce((3 << 16) | minor, &user(), "bank", &[]);
        client.welcomed();
        assert_eq!(client.key.len(), 4 + key);
    }
    let socket = std::os::unix::net::UnixStream::connect(served.socket()).unwrap();
    let mut client = Client::on(Box::new(socket));
    client.introduce((3 << 16) | 9999, &user(), "bank", &[("_pq_.x", "1")]);
    let first = client.receive().unwrap();
    assert_eq!((first.kind, &first.body[..8]), ('v', &[0, 3, 0, 2, 0, 0, 0, 1][..]));
    let socket = std::os::unix::net::UnixStream::connect(served.socket()).unwrap();
    let mut client = Client::on(Box::new(socket));
    client.introduce(2 << 16, &user(), "bank", &[]);
    assert_eq!(client.receive().unwrap().field('C').unwrap(), "0A000");
}

#[test]
fn encryption_that_is_not_there_is_declined() {
    let served = Served::start();
    let mut client = Client::tcp(served.port);
    client.socket.write_all(&[&8u32.to_be_bytes()[..], &SSL.to_be_bytes()].concat()).unwrap();
    let mut answer = [0];
    client.socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"N");
    // On TCP, the user of the server proves a password as others do.
    client.introduce(3 << 16, &user(), "bank", &[]);
    let asked = client.receive().unwrap();
    assert_eq!((asked.kind, &asked.body[..4]), ('R', &[0, 0, 0, 10][..]));
}

#[test]
fn a_statement_is_cancelled_by_its_key_alone() {
    let served = Served::start();
    let mut client = served.client();
    let mut other = served.client();
    client.query("CREATE TABLE t (id int PRIMARY KEY)");
    client.query("INSERT INTO t VALUES (1)");
    other.query("BEGIN");
    other.query("UPDATE t SET id = 2");
    let cancel = |key: &[u8]| {
        let mut client = Client::tcp(served.port);
        let body = [&CANCEL.to_be_bytes()[..], key].concat();
        let length = (body.len() as u32 + 4).to_be_bytes();
        client.socket.write_all(&[&length[..], &body].concat()).unwrap();
        assert!(client.receive().is_none());
    };
    let (mut wrong, right) = (client.key.clone(), client.key.clone());
    wrong[5] ^= 1;
    // It waits for the other one.
    client.send(b'Q', b"UPDATE t SET id = 3\0");
    std::thread::sleep(Duration::from_millis(100));
    cancel(&wrong);
    cancel(&right[..6]);
    std::thread::sleep(Duration::from_millis(100));
    cancel(&right);
    let answers: Vec<_> = client.until_ready().iter().map(Message::show).collect();
    assert_eq!(answers, ["E 57014", "ZI"]);
    assert_eq!(other.query("COMMIT"), ["COMMIT", "ZI"]);
    assert_eq!(client.query("SELECT id FROM t")[0], "D 2");
}

#[test]
fn the_locks_of_a_client_that_has_gone_are_free() {
    let served = Served::start();
    let mut client = served.client();
    client.query("CREATE TABLE t (id int PRIMARY KEY)");
    client.query("INSERT INTO t VALUES (1)");
    let mut gone = served.client();
    gone.query("BEGIN");
    gone.query("UPDATE t SET id = 2");
    // One that waits goes, too, and does not change anything later.
    let mut waiting = served.client();
    waiting.send(b'Q', b"UPDATE t SET id = 7\0");
    std::thread::sleep(Duration::from_millis(100));
    drop(waiting);
    std::thread::sleep(Duration::from_millis(200));
    drop(gone);
    assert_eq!(client.query("UPDATE t SET id = 3"), ["UPDATE 1", "ZI"]);
    assert_eq!(client.query("SELECT id FROM t")[0], "D 3");
}

#[test]
fn clients_are_told_when_the_server_ends() {
    let mut served = Served::start();
    let mut idle = served.client();
    let mut busy = served.client();
    idle.query("CREATE TABLE t (id int PRIMARY KEY)");
    idle.query("INSERT INTO t VALUES (1)");
    idle.query("BEGIN");
    idle.query("UPDATE t SET id = 2");
    busy.send(b'Q', b"UPDATE t SET id = 3\0");
    std::thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    served.stop();
    assert!(began.elapsed() < Duration::from_secs(9));
    let told = |client: &mut Client| {
        let messages: Vec<_> = std::iter::from_fn(|| client.receive()).collect();
        messages.last().unwrap().field('C').unwrap()
    };
    assert_eq!(told(&mut idle), "57P01");
    assert_eq!(told(&mut busy), "57P01");
}

#[test]
fn there_is_a_limit_of_clients() {
    let served = Served::with(|options| options.connections_max = 5);
    let mut admin = served.client();
    admin.query("CREATE ROLE ann LOGIN");
    let ann = Client::login_as(&served.socket(), "ann", "bank", &[]);
    // The last three places are for superusers.
    assert_eq!(refused(&served, "ann", "bank", &[]).field('C').unwrap(), "53300");
    let more: Vec<_> = (0..3).map(|_| served.client()).collect();
    assert_eq!(refused(&served, &user(), "bank", &[]).field('C').unwrap(), "53300");
    drop((ann, more));
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        let socket = std::os::unix::net::UnixStream::connect(served.socket()).unwrap();
        let mut client = Client::on(Box::new(socket));
        client.introduce(3 << 16, "ann", "bank", &[]);
        if client.receive().is_some_and(|one| one.kind == 'R') {
            return;
        }
    }
    panic!("no place has become free");
}

#[test]
fn roles_are_for_superusers() {
    let served = Served::start();
    let mut admin = served.client();
    assert_eq!(admin.query("CREATE ROLE ann LOGIN PASSWORD 'x'"), ["CREATE ROLE", "ZI"]);
    assert_eq!(admin.query("CREATE USER ann"), ["E 42710", "ZI"]);
    let mut ann = Client::login_as(&served.socket(), "ann", "bank", &[]);
    assert_eq!(ann.query("CREATE ROLE bob"), ["E 42501", "ZI"]);
    assert_eq!(ann.query("ALTER ROLE ann PASSWORD 'y'"), ["ALTER ROLE", "ZI"]);
    assert_eq!(ann.query("ALTER ROLE ann SUPERUSER"), ["E 42501", "ZI"]);
    assert_eq!(ann.query("COPY (SELECT 1) TO '/tmp/x'"), ["E 42501", "ZI"]);
    assert_eq!(admin.query("DROP ROLE ann"), ["DROP ROLE", "ZI"]);
    assert_eq!(admin.query("DROP ROLE ann"), ["E 42704", "ZI"]);
    assert_eq!(refused(&served, "ann", "bank", &[]).field('C').unwrap(), "28000");
}

#[test]
fn a_client_that_says_nothing_is_not_waited_for() {
    let served = Served::with(|options| {
        options.authentication_time = Duration::from_millis(200);
    });
    let mut silent = Client::tcp(served.port);
    assert_eq!(silent.receive().unwrap().field('C').unwrap(), "08006");
    assert!(silent.receive().is_none());
}
