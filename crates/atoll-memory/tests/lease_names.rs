//! Names: which process may own one, how clients find it, what a killed owner leaves behind.

#![allow(clippy::unwrap_used)]

mod lease_common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use atoll_memory::lease::{Client, LeaseError, Name, NameState, RuntimeDir, Server};
use lease_common::{Child, Diary, NOBODY_UID, Place, SOMEBODY_UID, eventually, is_root};

#[test]
fn child_process() {
    lease_common::child_main();
}

fn diary() -> Arc<Diary> {
    Arc::new(Diary::new("text", Vec::new()))
}

#[test]
fn a_database_is_found_by_its_name_in_another_process() {
    let place = Place::new();
    let owner = Child::serve("sales", &place, &[]);
    let client = Client::connect("sales", &place.dir).unwrap();
    assert_eq!(client.owner().pid, owner.pid());
    assert_eq!(client.owner().database, "sales");
    assert_eq!(client.owner().product, env!("CARGO_PKG_VERSION"));
    let snapshot = client.take().unwrap();
    assert_eq!(lease_common::text_of(&snapshot), "store of sales");
}

#[test]
fn an_unknown_name_tells_the_known_ones() {
    let place = Place::new();
    let _a = Server::start("a", &place.dir, diary()).unwrap();
    let _b = Server::start("b", &place.dir, diary()).unwrap();
    match Client::connect("c", &place.dir).unwrap_err() {
        LeaseError::UnknownName { name, known, .. } => {
            assert_eq!((name.as_str(), known), ("c", vec!["a".to_owned(), "b".to_owned()]));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_second_owner_of_a_name_is_told_who_has_it() {
    let place = Place::new();
    let owner = Child::serve("db", &place, &[]);
    match Server::start("db", &place.dir, diary()).unwrap_err() {
        LeaseError::NameTaken { name, pid } => {
            assert_eq!((name.as_str(), pid), ("db", owner.pid()))
        }
        other => panic!("{other:?}"),
    }
    // The attempt did not change the owner's files.
    Client::connect("db", &place.dir).unwrap().take().unwrap();
}

#[test]
fn what_a_killed_owner_left_is_stale_and_replaced() {
    let place = Place::new();
    let mut owner = Child::serve("db", &place, &[]);
    let listed = place.dir.list().unwrap();
    assert_eq!((listed[0].state, listed[0].pid), (NameState::Alive, Some(owner.pid())));
    owner.kill();
    assert!(place.socket("db").exists());
    let listed = place.dir.list().unwrap();
    assert_eq!(
        (listed.len(), listed[0].name.as_str(), listed[0].state),
        (1, "db", NameState::Stale)
    );
    let gone = Client::connect("db", &place.dir).unwrap_err();
    assert!(matches!(gone, LeaseError::OwnerGone { .. }), "{gone:?}");
    match Client::connect("other", &place.dir).unwrap_err() {
        LeaseError::UnknownName { known, .. } => assert_eq!(known, Vec::<String>::new()),
        other => panic!("{other:?}"),
    }

    let _server = Server::start("db", &place.dir, diary()).unwrap();
    assert_eq!(place.dir.list().unwrap()[0].state, NameState::Alive);
    assert_eq!(Client::connect("db", &place.dir).unwrap().owner().pid, std::process::id());
}

#[test]
fn a_closed_server_leaves_an_empty_directory_and_a_free_name() {
    let place = Place::new();
    for _ in 0..3 {
        let server = Server::start("db", &place.dir, diary()).unwrap();
        let mode = |file: &str| {
            fs::metadata(place.dir.path().join(file)).unwrap().permissions().mode() & 0o777
        };
        assert_eq!((mode("db.sock"), mode("db.lock")), (0o600, 0o600));
        drop(server);
        assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 0);
    }
}

#[test]
fn of_many_that_want_a_name_at_once_exactly_one_gets_it() {
    let place = Place::new();
    for _ in 0..50 {
        let won: Vec<_> = std::thread::scope(|scope| {
            let tries: Vec<_> =
                (0..4).map(|_| scope.spawn(|| Server::start("db", &place.dir, diary()))).collect();
            tries.into_iter().filter_map(|t| t.join().unwrap().ok()).collect()
        });
        assert_eq!(won.len(), 1);
        Client::connect("db", &place.dir).unwrap();
    }
}

#[test]
fn names_are_checked() {
    let longest = "x".repeat(64);
    for good in ["a", "A.b_c-9", "0", "_", longest.as_str()] {
        assert_eq!(Name::new(good).unwrap().as_str(), good);
    }
    let too_long = "x".repeat(65);
    for bad in ["", ".a", "-a", "a/b", "a b", "a\0", "ä", "..", too_long.as_str()] {
        assert!(matches!(Name::new(bad), Err(LeaseError::BadName { .. })), "{bad:?}");
    }
    let place = Place::new();
    assert!(matches!(Client::connect("../x", &place.dir).unwrap_err(), LeaseError::BadName { .. }));
}

#[test]
fn a_path_too_long_for_a_socket_is_refused_with_its_length() {
    let temp = tempfile::tempdir().unwrap();
    let dir = RuntimeDir::open(Some(&temp.path().join("d".repeat(100)))).unwrap();
    for error in
        [Server::start("db", &dir, diary()).unwrap_err(), Client::connect("db", &dir).unwrap_err()]
    {
        match error {
            LeaseError::PathTooLong { length, limit, .. } => assert!(length > limit),
            other => panic!("{other:?}"),
        }
    }
    // The longest possible path works, also while its socket is being created.
    let used = temp.path().as_os_str().len() + 1 + 1 + "db.sock".len();
    let dir = RuntimeDir::open(Some(&temp.path().join("e".repeat(107 - used)))).unwrap();
    let _server = Server::start("db", &dir, diary()).unwrap();
    Client::connect("db", &dir).unwrap();
}

#[test]
fn a_directory_that_others_may_write_to_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("run");
    RuntimeDir::open(Some(&path)).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    for mode in [0o777, 0o720, 0o1777] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = RuntimeDir::open(Some(&path)).unwrap_err();
        assert!(matches!(error, LeaseError::DirWritable { mode: m, .. } if m == mode), "{error:?}");
    }
    let file = temp.path().join("file");
    fs::write(&file, "").unwrap();
    let error = RuntimeDir::open(Some(&file)).unwrap_err();
    assert!(matches!(error, LeaseError::DirUnusable { .. }), "{error:?}");
}

#[test]
fn nobody_owns_a_name_in_a_directory_of_another_user() {
    if !is_root() {
        let error = RuntimeDir::open(Some("/".as_ref())).unwrap_err();
        assert!(matches!(error, LeaseError::DirForeign { uid: 0, .. }), "{error:?}");
        return;
    }
    let place = Place::new();
    place.open_for_all(NOBODY_UID);
    let error = Server::start("db", &place.dir, diary()).unwrap_err();
    assert!(matches!(error, LeaseError::DirForeign { uid: NOBODY_UID, .. }), "{error:?}");
}

#[test]
fn a_process_of_another_user_is_refused_even_if_it_can_reach_the_socket() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    place.open_for_all(0);
    let diary = diary();
    let _server = Server::start("db", &place.dir, diary.clone()).unwrap();
    fs::set_permissions(place.socket("db"), fs::Permissions::from_mode(0o666)).unwrap();
    let uid = [("LEASE_UID", NOBODY_UID.to_string())];
    let (_child, answer) = Child::start("connect", "db", &place, &uid);
    // This server belongs to root, so the client accepts it, and the server has to refuse.
    assert_eq!(answer, "ForeignUser { uid: 0 }");
    let told = [format!("ForeignUser {{ uid: {NOBODY_UID} }}")];
    eventually("the owner hears of it", || *diary.failures.lock().unwrap() == told);
}

#[test]
fn a_client_refuses_a_server_of_another_user_and_root_may_attach_to_any() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    place.open_for_all(NOBODY_UID);
    let _server = Child::serve("db", &place, &[("LEASE_UID", NOBODY_UID.to_string())]);
    fs::set_permissions(place.socket("db"), fs::Permissions::from_mode(0o666)).unwrap();
    let uid = [("LEASE_UID", SOMEBODY_UID.to_string())];
    let (_child, answer) = Child::start("connect", "db", &place, &uid);
    assert_eq!(answer, format!("ForeignUser {{ uid: {NOBODY_UID} }}"));
    let client = Client::connect("db", &place.dir).unwrap();
    client.take().unwrap();
    // The client closed the connection before the server could.
    let status = client.status().unwrap();
    assert!(status.contains("failures \n"), "{status}");
}
