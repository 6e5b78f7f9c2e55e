//! Leases: how long a snapshot lives, in any process and however the holder ends.

#![allow(clippy::unwrap_used)]

mod lease_common;

use std::sync::Arc;

use atoll_memory::lease::{Client, Descriptor, LeaseError, Refusal, RefusalCode, Server, dup_tree};
use lease_common::{Child, Diary, Place, eventually, numbers, text_of};

#[test]
fn child_process() {
    lease_common::child_main();
}

/// An owner in this process.
fn owner(place: &Place, name: &str) -> (Arc<Diary>, Server) {
    let diary = Arc::new(Diary::new(&format!("store of {name}"), Vec::new()));
    let server = Server::start(name, &place.dir, diary.clone()).unwrap();
    (diary, server)
}

/// Waits until the diary contains every end of a lease that happened before this call: the server
/// handles its events in order.
fn settle(place: &Place, name: &str) {
    Client::connect(name, &place.dir).unwrap().status().unwrap();
}

#[test]
fn an_offer_arrives_as_it_was_made() {
    let place = Place::new();
    let (diary, _server) = owner(&place, "db");
    let client = Client::connect("db", &place.dir).unwrap();
    let got = client.take().unwrap();
    assert_eq!(got.database, "db");
    assert_eq!(got.store_id, u128::MAX - 5);
    assert_eq!((got.root, got.epoch, got.patch, got.take_ns), (4096, 7, (8192, 64), 1234));
    assert_eq!(text_of(&got), "store of db");
    let (lease, peer) = diary.given.lock().unwrap()[0].clone();
    assert_eq!(got.lease_word, lease.0 * 8);
    assert_eq!(peer.pid, std::process::id());
    assert!(!peer.command.is_empty());
}

#[test]
fn a_lease_outlives_its_connection_and_ends_with_its_last_duplicate() {
    let place = Place::new();
    let (diary, _server) = owner(&place, "db");
    let snapshot = Client::connect("db", &place.dir).unwrap().take().unwrap();
    let copy = dup_tree(&snapshot).unwrap();
    drop(snapshot);
    settle(&place, "db");
    assert_eq!(diary.ended(), []);
    drop(copy);
    eventually("the lease ends", || diary.ended() == diary.given());
}

#[test]
fn killing_a_holder_ends_its_leases_once_and_no_others() {
    let place = Place::new();
    let (diary, _server) = owner(&place, "db");
    let mut victim = Child::hold("db", &place);
    let mut survivor = Child::hold("db", &place);
    for _ in 0..3 {
        assert_eq!(victim.ask("take"), "taken");
        assert_eq!(survivor.ask("take"), "taken");
    }
    let of = |pid: u32| -> Vec<u64> {
        let given = diary.given.lock().unwrap();
        given.iter().filter(|(_, p)| p.pid == pid).map(|(l, _)| l.0).collect()
    };
    victim.kill();
    eventually("the leases end", || diary.ended().len() >= 3);
    settle(&place, "db");
    let mut ended = diary.ended();
    ended.sort_unstable();
    assert_eq!(ended, of(victim.pid()));
    assert_eq!(survivor.ask("read"), "store of db");
    assert_eq!(survivor.ask("drop"), "dropped");
    eventually("the others end", || diary.ended().len() == 6);
}

#[test]
fn a_third_process_keeps_the_base_when_the_middle_is_killed() {
    let place = Place::new();
    let (diary, _server) = owner(&place, "base");
    let mut middle = Child::serve("derived", &place, &[("LEASE_BASE", "base".to_owned())]);
    let mut third = Child::hold("derived", &place);
    assert_eq!(third.ask("take"), "taken");
    assert_eq!(diary.given().len(), 1);

    middle.kill();
    settle(&place, "base");
    assert_eq!(diary.ended(), []);
    assert_eq!(third.ask("read"), "store of base");

    third.kill();
    eventually("the base's lease ends", || diary.ended() == diary.given());
    settle(&place, "base");
    assert_eq!(diary.ended().len(), 1);
}

#[test]
fn a_chain_of_derived_databases_hands_over_the_whole_tree() {
    let place = Place::new();
    let mut bases = Vec::new();
    let mut servers = Vec::new();
    for level in 0..5 {
        let name = format!("level{level}");
        let diary = Arc::new(Diary::new(&name, bases));
        servers.push(Server::start(&name, &place.dir, diary).unwrap());
        bases = vec![Client::connect(&name, &place.dir).unwrap().take().unwrap()];
    }
    drop(servers);
    let mut at = bases.first();
    for level in (0..5).rev() {
        let descriptor = at.unwrap();
        assert_eq!(descriptor.database, format!("level{level}"));
        assert_eq!(text_of(descriptor), format!("level{level}"));
        at = descriptor.bases.first();
    }
    assert!(at.is_none());
}

fn many_bases(place: &Place, count: usize) -> Vec<Descriptor> {
    let (_diary, _server) = owner(place, "many");
    let base = Client::connect("many", &place.dir).unwrap().take().unwrap();
    (0..count).map(|_| dup_tree(&base).unwrap()).collect()
}

#[test]
fn the_largest_tree_fits_and_a_larger_one_is_refused_without_losing_its_lease() {
    let place = Place::new();
    let fits = Arc::new(Diary::new("fits", many_bases(&place, 125)));
    let _a = Server::start("fits", &place.dir, fits).unwrap();
    let tree = Client::connect("fits", &place.dir).unwrap().take().unwrap();
    assert_eq!(tree.bases.len(), 125);
    assert_eq!(text_of(&tree.bases[124]), "store of many");

    let large = Arc::new(Diary::new("large", many_bases(&place, 126)));
    let _b = Server::start("large", &place.dir, large.clone()).unwrap();
    let client = Client::connect("large", &place.dir).unwrap();
    for round in 1..=2 {
        let error = client.take().unwrap_err();
        let code = RefusalCode::TooLarge;
        assert!(matches!(error, LeaseError::Refused { code: c, .. } if c == code), "{error:?}");
        eventually("the lease ends", || large.ended().len() == round);
    }
    assert_eq!(large.ended(), large.given());
}

#[test]
fn a_refusal_is_passed_on_and_the_connection_stays_good() {
    let place = Place::new();
    let (diary, _server) = owner(&place, "db");
    let client = Client::connect("db", &place.dir).unwrap();
    let reason = "64 snapshots are held; drop one\u{1b}[31m";
    let refusal = Refusal { code: RefusalCode::SnapshotLimit, text: reason.to_owned() };
    *diary.refusal.lock().unwrap() = Some(refusal);
    match client.take().unwrap_err() {
        LeaseError::Refused { code: RefusalCode::SnapshotLimit, text, .. } => {
            assert_eq!(text, "64 snapshots are held; drop one [31m");
        }
        other => panic!("{other:?}"),
    }
    *diary.refusal.lock().unwrap() = None;
    client.take().unwrap();
    eventually("the lease ends", || diary.ended() == diary.given());
    assert_eq!(diary.given().len(), 1);
}

#[test]
fn taking_and_dropping_leaves_no_descriptor_behind_in_the_owner() {
    let place = Place::new();
    let _owner = Child::serve("db", &place, &[]);
    let client = Client::connect("db", &place.dir).unwrap();
    let before = numbers(&client.status().unwrap(), "fds ");
    for _ in 0..200 {
        client.take().unwrap();
    }
    let held: Vec<_> = (0..200).map(|_| client.take().unwrap()).collect();
    drop(held);
    for _ in 0..20 {
        Client::connect("db", &place.dir).unwrap();
    }
    eventually("all leases end", || numbers(&client.status().unwrap(), "ended ").len() == 400);
    eventually("the descriptors are as before", || {
        numbers(&client.status().unwrap(), "fds ") == before
    });
}

#[test]
fn a_dropped_server_leaves_its_leases_with_their_holders() {
    let place = Place::new();
    let (diary, server) = owner(&place, "db");
    let client = Client::connect("db", &place.dir).unwrap();
    let held = client.take().unwrap();
    drop(server);
    assert_eq!(text_of(&held), "store of db");
    assert!(matches!(client.take().unwrap_err(), LeaseError::Closed { .. }));
    assert!(matches!(client.take().unwrap_err(), LeaseError::Closed { .. }));
    drop(held);
    assert_eq!(diary.ended(), []);
    let error = Client::connect("db", &place.dir).unwrap_err();
    assert!(matches!(error, LeaseError::UnknownName { .. }), "{error:?}");
    // The server keeps no reference to the publisher.
    assert_eq!(Arc::strong_count(&diary), 1);
}

#[test]
fn a_status_longer_than_a_message_arrives_whole() {
    let place = Place::new();
    let mut diary = Diary::new("text", Vec::new());
    diary.padding = 300_000;
    let _server = Server::start("db", &place.dir, Arc::new(diary)).unwrap();
    let client = Client::connect("db", &place.dir).unwrap();
    for _ in 0..2 {
        let status = client.status().unwrap();
        assert!(status.ends_with(&"é".repeat(150_000)));
        assert!(status.starts_with("fds "));
    }
    client.take().unwrap();
}

#[test]
fn clients_of_many_threads_share_one_connection() {
    let place = Place::new();
    let (diary, _server) = owner(&place, "db");
    let client = Client::connect("db", &place.dir).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let snapshot = client.take().unwrap();
                    assert_eq!(snapshot.database, "db");
                }
            });
        }
    });
    eventually("all leases end", || diary.ended().len() == 200);
    let mut ended = diary.ended();
    ended.sort_unstable();
    ended.dedup();
    assert_eq!(ended, diary.given());
}
