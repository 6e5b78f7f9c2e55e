//! Peers that violate the protocol, or do nothing at all.

#![allow(clippy::unwrap_used)]

mod lease_common;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use atoll_memory::lease::wire::{self, Message};
use atoll_memory::lease::{Client, LeaseError, Server};
use lease_common::{Child, Diary, Place, Raw, eventually, numbers};

#[test]
fn child_process() {
    lease_common::child_main();
}

/// A hello written without the code under test.
fn hello(version: u32, product: &str) -> Vec<u8> {
    let mut body = version.to_le_bytes().to_vec();
    body.extend((product.len() as u16).to_le_bytes());
    body.extend(product.as_bytes());
    body.extend(4711u32.to_le_bytes());
    body.extend(3u16.to_le_bytes());
    body.extend(b"cmd");
    packet(version, 1, &body)
}

fn packet(version: u32, kind: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = b"ATLL".to_vec();
    for word in [version, kind, body.len() as u32] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(body);
    bytes
}

fn take() -> Vec<u8> {
    packet(wire::PROTOCOL_VERSION, 4, &[])
}

#[test]
fn a_client_of_another_version_and_its_owner_both_learn_both_versions() {
    let place = Place::new();
    let diary = Arc::new(Diary::new("text", Vec::new()));
    let _server = Server::start("db", &place.dir, diary.clone()).unwrap();
    let raw = Raw::connect(&place.socket("db"));
    // A later version may have more fields; only the front is fixed.
    let mut later = hello(99, "9.9.9");
    later.extend([1, 2, 3]);
    later[12] += 3;
    assert!(raw.send(&later, &[]));
    match wire::decode(&raw.receive()).unwrap() {
        Message::Refused { text, .. } => {
            let ours = format!("protocol {}", wire::PROTOCOL_VERSION);
            for part in ["protocol 99", &ours, "9.9.9", wire::PRODUCT_VERSION] {
                assert!(text.contains(part), "{text}");
            }
        }
        other => panic!("{other:?}"),
    }
    raw.drain();
    let failures = diary.failures.lock().unwrap().clone();
    assert!(failures[0].contains("theirs: 99, theirs_product: \"9.9.9\""), "{failures:?}");
}

#[test]
fn an_owner_of_another_version_is_named_to_the_client() {
    let place = Place::new();
    let listener = Raw::listen(&place.socket("db"));
    let fake = std::thread::spawn(move || {
        let raw = listener.accept();
        raw.receive();
        let mut body = 7u32.to_le_bytes().to_vec();
        body.extend(5u16.to_le_bytes());
        body.extend(b"7.0.1 and things of the future");
        raw.send(&packet(7, 2, &body), &[]);
    });
    let error = Client::connect("db", &place.dir).unwrap_err();
    fake.join().unwrap();
    match &error {
        LeaseError::VersionMismatch {
            ours: wire::PROTOCOL_VERSION,
            theirs: 7,
            theirs_product,
            ..
        } => {
            assert_eq!(theirs_product, "7.0.1");
        }
        other => panic!("{other:?}"),
    }
    assert!(error.to_string().contains("protocol 7"), "{error}");
}

/// Pseudo-random bytes, the same in every run.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

fn garbage() -> Vec<Vec<u8>> {
    let good = hello(wire::PROTOCOL_VERSION, "0.1.0");
    let mut list: Vec<Vec<u8>> = (1..good.len()).map(|end| good[..end].to_vec()).collect();
    list.extend((0..100).map(|seed| noise(seed, 1 + (seed as usize * 37) % 3000)));
    let mut wrong_magic = good.clone();
    wrong_magic[0] ^= 1;
    let mut too_long_told = good.clone();
    too_long_told[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut trailing = good.clone();
    trailing.push(0);
    list.extend([wrong_magic, too_long_told, trailing]);
    list.push(packet(wire::PROTOCOL_VERSION, 1, &[0xff; 200]));
    list.push(packet(wire::PROTOCOL_VERSION, 77, &[]));
    list.push(packet(wire::PROTOCOL_VERSION, 1, &vec![7; 70_000]));
    list.push(vec![0; 100_000]);
    // Good messages at the wrong moment.
    list.push(take());
    list.push(packet(wire::PROTOCOL_VERSION, 6, &0u64.to_le_bytes()));
    list
}

#[test]
fn garbage_ends_its_own_connection_only_and_leaves_no_descriptor() {
    let place = Place::new();
    let _owner = Child::serve("db", &place, &[]);
    let client = Client::connect("db", &place.dir).unwrap();
    let before = numbers(&client.status().unwrap(), "fds ");
    let list = garbage();
    for bytes in &list {
        let raw = Raw::connect(&place.socket("db"));
        assert!(raw.send(bytes, &[]));
        raw.drain();
        // Also after valid messages.
        let raw = Raw::connect(&place.socket("db"));
        assert!(raw.send(&hello(wire::PROTOCOL_VERSION, "0.1.0"), &[]));
        raw.receive();
        if *bytes != take() && bytes.get(8) != Some(&6) {
            assert!(raw.send(bytes, &[]));
            raw.drain();
        }
    }
    let status = client.status().unwrap();
    assert!(status.matches('|').count() > list.len(), "the owner heard of too few: {status}");
    client.take().unwrap();
    eventually("the descriptors are as before", || {
        numbers(&client.status().unwrap(), "fds ") == before
    });
}

#[test]
fn descriptors_sent_to_an_owner_are_never_installed() {
    let place = Place::new();
    let _owner = Child::serve("db", &place, &[]);
    let client = Client::connect("db", &place.dir).unwrap();
    let before = numbers(&client.status().unwrap(), "fds ");
    let file = std::fs::File::open("/dev/null").unwrap();
    for round in 0..20 {
        let raw = Raw::connect(&place.socket("db"));
        if round % 2 == 0 {
            assert!(raw.send(&hello(wire::PROTOCOL_VERSION, "0.1.0"), &[]));
            raw.receive();
        }
        assert!(raw.send(&take(), &vec![file.as_fd(); 250]));
        raw.drain();
    }
    let status = client.status().unwrap();
    assert_eq!(status.matches("UnexpectedFds").count(), 20);
    assert_eq!(numbers(&status, "given "), Vec::<u64>::new());
    eventually("the descriptors are as before", || {
        numbers(&client.status().unwrap(), "fds ") == before
    });
}

#[test]
fn a_client_that_never_reads_is_dropped_and_blocks_nobody() {
    let place = Place::new();
    let diary = Arc::new(Diary::new("text", Vec::new()));
    let _server = Server::start("db", &place.dir, diary.clone()).unwrap();
    let raw = Raw::connect(&place.socket("db"));
    assert!(raw.send(&hello(wire::PROTOCOL_VERSION, "0.1.0"), &[]));
    raw.receive();
    while raw.send(&take(), &[]) {}
    let client = Client::connect("db", &place.dir).unwrap();
    let _held = client.take().unwrap();
    assert!(diary.failures.lock().unwrap()[0].contains("NotReading"));
    // The one answer that the peer got is unread in its socket; closing the socket ends the lease.
    assert_eq!((diary.given().len(), diary.ended().len()), (2, 0));
    drop(raw);
    eventually("the unread lease ends", || diary.ended().len() == 1);
}

#[test]
fn silent_clients_hinder_nobody() {
    let place = Place::new();
    let _owner = Child::serve("db", &place, &[]);
    let silent: Vec<_> = (0..100).map(|_| Raw::connect(&place.socket("db"))).collect();
    Client::connect("db", &place.dir).unwrap().take().unwrap();
    drop(silent);
}

#[test]
fn an_owner_out_of_descriptors_neither_spins_nor_ends() {
    let place = Place::new();
    let _owner = Child::serve("db", &place, &[("LEASE_NOFILE", "24".to_owned())]);
    let client = Client::connect("db", &place.dir).unwrap();
    // Leaves room for the files that the status opens.
    let base = numbers(&client.status().unwrap(), "fds ")[0] as usize;
    let raw: Vec<_> = (base..40).map(|_| Raw::connect(&place.socket("db"))).collect();
    eventually("the owner has none left", || match client.take() {
        Err(LeaseError::Refused { text, .. }) => text.contains("ulimit"),
        other => other.map(drop).is_err(),
    });
    let cpu = || -> u64 {
        let pid = client.owner().pid;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    // In clock ticks of 10 ms: one that spins uses up to 50.
    let before = cpu();
    std::thread::sleep(Duration::from_millis(500));
    assert!(cpu() - before < 10);
    drop(raw);
    eventually("clients are served again", || client.take().is_ok());
    Client::connect("db", &place.dir).unwrap().take().unwrap();
}

#[test]
fn a_stopped_owner_gives_an_error_and_no_hang() {
    let place = Place::new();
    let owner = Child::serve("db", &place, &[]);
    let wait = Duration::from_millis(100);
    let client = Client::connect_with_timeout("db", &place.dir, wait).unwrap();
    owner.stop();
    let error = client.take().unwrap_err();
    let pid = owner.pid();
    assert!(matches!(error, LeaseError::Timeout { pid: p, .. } if p == pid), "{error:?}");
    // A late answer must not be taken for another request's.
    assert!(matches!(client.status().unwrap_err(), LeaseError::Closed { .. }));
    let error = Client::connect_with_timeout("db", &place.dir, wait).unwrap_err();
    assert!(matches!(error, LeaseError::Timeout { pid: p, .. } if p == pid), "{error:?}");

    owner.signal(rustix::process::Signal::CONT);
    drop(client);
    let client = Client::connect("db", &place.dir).unwrap();
    eventually("the lost answer's lease ends", || {
        let status = client.status().unwrap();
        numbers(&status, "given ") == numbers(&status, "ended ")
    });
}

#[test]
fn a_full_queue_of_a_stopped_owner_gives_a_timeout_too() {
    let place = Place::new();
    let owner = Child::serve("db", &place, &[]);
    owner.stop();
    let wait = Duration::from_millis(1);
    for _ in 0..200 {
        let error = Client::connect_with_timeout("db", &place.dir, wait).unwrap_err();
        assert!(matches!(error, LeaseError::Timeout { .. }), "{error:?}");
    }
    assert_eq!(place.dir.list().unwrap().len(), 1);
    owner.signal(rustix::process::Signal::CONT);
    Client::connect("db", &place.dir).unwrap().take().unwrap();
}
