//! A client closes all descriptors that a bad owner sends. This is the only test of its process,
//! because it counts the descriptors of the process.

#![allow(clippy::unwrap_used)]

mod lease_common;

use std::os::fd::AsFd;

use atoll_memory::lease::wire::{self, Message, Tree, WireError};
use atoll_memory::lease::{Client, LeaseError};
use lease_common::{Place, Raw, open_fds};

fn offer(bases: usize) -> Vec<u8> {
    let leaf = Tree { database: "base".to_owned(), ..Tree::default() };
    let tree = Tree { bases: vec![leaf; bases], ..Tree::default() };
    wire::encode(&Message::Offer(tree)).unwrap()
}

fn welcome() -> Vec<u8> {
    wire::encode(&Message::Welcome {
        protocol: wire::PROTOCOL_VERSION,
        product: "x".to_owned(),
        database: "db".to_owned(),
        pid: 1,
    })
    .unwrap()
}

/// The answers of the fake owner, the welcome and the others, each with a number of descriptors.
type Answers = Vec<(Vec<u8>, usize)>;

fn cases() -> Vec<Answers> {
    let refused = wire::encode(&Message::Refused {
        product: "x".to_owned(),
        code: atoll_memory::lease::RefusalCode::Other,
        text: "no".to_owned(),
    })
    .unwrap();
    let mut too_many = offer(0);
    // An impossible count of bases in the last two bytes.
    let end = too_many.len();
    too_many[end - 2..].copy_from_slice(&u16::MAX.to_le_bytes());
    vec![
        vec![(vec![0xab; 50], 0)],
        vec![(vec![0xab; 50], 3)],
        vec![(welcome(), 1)],
        vec![(welcome(), 0), (offer(0), 0)],
        vec![(welcome(), 0), (offer(0), 1)],
        vec![(welcome(), 0), (offer(0), 3)],
        vec![(welcome(), 0), (offer(3), 253)],
        vec![(welcome(), 0), (offer(3), 7)],
        vec![(welcome(), 0), (too_many, 2)],
        vec![(welcome(), 0), (offer(0)[..60].to_vec(), 2)],
        vec![(welcome(), 0), (refused, 2)],
        vec![(welcome(), 0), (welcome(), 2)],
        vec![(welcome(), 0), (vec![1; 100_000], 2)],
    ]
}

#[test]
fn a_bad_owner_gives_typed_errors_and_leaves_no_descriptor_in_the_client() {
    let place = Place::new();
    let null = std::fs::File::open("/dev/null").unwrap();
    // The first descriptor that is kept from forked children brings the file that stands in for
    // all of them.
    Client::connect("nothing", &place.dir).unwrap_err();
    let before = open_fds();
    for (number, answers) in cases().into_iter().enumerate() {
        let name = format!("fake{number}");
        let listener = Raw::listen(&place.socket(&name));
        let file = null.try_clone().unwrap();
        let fake = std::thread::spawn(move || {
            let raw = listener.accept();
            for (bytes, fds) in answers {
                raw.receive();
                assert!(raw.send(&bytes, &vec![file.as_fd(); fds]));
            }
        });
        let error = Client::connect(&name, &place.dir)
            .and_then(|client| client.take().map(drop))
            .unwrap_err();
        fake.join().unwrap();
        assert!(matches!(error, LeaseError::Wire(_)), "case {number}: {error:?}");
        if number == 6 {
            let expected = WireError::Fds { expected: 8, got: 253 };
            assert!(matches!(error, LeaseError::Wire(e) if e == expected));
        }
        assert_eq!(open_fds(), before, "case {number}");
    }
}
