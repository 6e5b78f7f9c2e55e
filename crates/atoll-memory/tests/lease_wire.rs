//! The encoded messages: their layout must not change unnoticed, and the decoder must survive any
//! input.

#![allow(clippy::unwrap_used)]

use atoll_memory::lease::RefusalCode;
use atoll_memory::lease::wire::{self, MAX_DESCRIPTORS, Message, Tree, WireError, decode, encode};
use proptest::prelude::*;

fn word(max: usize) -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<char>(), 0..max)
        .prop_map(move |chars| wire::printable(&chars.into_iter().collect::<String>(), max))
}

fn leaf() -> impl Strategy<Value = Tree> {
    (word(64), any::<u128>(), any::<[u64; 6]>()).prop_map(|(database, store_id, n)| Tree {
        database,
        store_id,
        root: n[0],
        epoch: n[1],
        patch: (n[2], n[3]),
        lease_word: n[4],
        take_ns: n[5],
        bases: Vec::new(),
    })
}

fn tree() -> impl Strategy<Value = Tree> {
    leaf().prop_recursive(5, 60, 4, |inner| {
        (leaf(), proptest::collection::vec(inner, 0..4))
            .prop_map(|(top, bases)| Tree { bases, ..top })
    })
}

fn code() -> impl Strategy<Value = RefusalCode> {
    prop::sample::select(vec![
        RefusalCode::SnapshotLimit,
        RefusalCode::Expired,
        RefusalCode::OutOfMemory,
        RefusalCode::Closing,
        RefusalCode::Other,
        RefusalCode::Version,
        RefusalCode::ForeignUser,
        RefusalCode::Malformed,
        RefusalCode::TooLarge,
    ])
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        (any::<u32>(), word(64), any::<u32>(), word(64)).prop_map(|(protocol, product, pid, c)| {
            Message::Hello { protocol, product, pid, command: c }
        }),
        (any::<u32>(), word(64), word(64), any::<u32>()).prop_map(|(protocol, product, d, pid)| {
            Message::Welcome { protocol, product, database: d, pid }
        }),
        (word(64), code(), word(1024)).prop_map(|(product, code, text)| Message::Refused {
            product,
            code,
            text
        }),
        Just(Message::Take),
        tree().prop_map(Message::Offer),
        any::<u64>().prop_map(|offset| Message::Status { offset }),
        (any::<u64>(), proptest::collection::vec(any::<u8>(), 0..2000))
            .prop_map(|(total, bytes)| Message::StatusPart { total, bytes }),
    ]
}

proptest! {
    #[test]
    fn every_message_comes_back_as_it_was(message in message()) {
        let bytes = encode(&message).unwrap();
        prop_assert_eq!(decode(&bytes).unwrap(), message);
    }

    #[test]
    fn a_message_cut_short_or_made_longer_is_an_error(message in message(), at in any::<u16>()) {
        let mut bytes = encode(&message).unwrap();
        let at = usize::from(at) % bytes.len();
        prop_assert!(decode(&bytes[..at]).is_err());
        bytes.push(0);
        prop_assert!(decode(&bytes).is_err());
        // Also with a header that states the actual length.
        let body = (bytes.len() - wire::HEADER_LEN) as u32;
        bytes[12..16].copy_from_slice(&body.to_le_bytes());
        prop_assert!(decode(&bytes).is_err());
    }

    #[test]
    fn reading_any_bytes_ends_with_a_message_or_an_error(
        bytes in proptest::collection::vec(any::<u8>(), 0..3000),
        kind in 0u32..9,
        framed in any::<bool>(),
    ) {
        let mut bytes = bytes;
        if framed && bytes.len() >= wire::HEADER_LEN {
            let body = (bytes.len() - wire::HEADER_LEN) as u32;
            let header = [wire::MAGIC, wire::PROTOCOL_VERSION, kind, body];
            for (at, word) in header.into_iter().enumerate() {
                bytes[at * 4..at * 4 + 4].copy_from_slice(&word.to_le_bytes());
            }
        }
        if let Ok(message) = decode(&bytes) {
            prop_assert!(encode(&message).is_ok());
        }
    }

    #[test]
    fn a_changed_byte_never_breaks_the_reader(
        message in message(),
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = encode(&message).unwrap();
        for (at, value) in changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] = value;
        }
        if let Ok(message) = decode(&bytes) {
            prop_assert!(encode(&message).is_ok());
        }
    }
}

#[test]
fn the_layout_of_version_2_stays() {
    let tree = Tree {
        database: "d".to_owned(),
        store_id: 2,
        root: 3,
        epoch: 4,
        patch: (5, 6),
        lease_word: 7,
        take_ns: 8,
        bases: Vec::new(),
    };
    let mut expected = b"ATLL\x02\0\0\0\x05\0\0\0".to_vec();
    expected.extend([69, 0, 0, 0, 1, 0, b'd']);
    expected.extend(2u128.to_le_bytes());
    (3..=8u64).for_each(|n| expected.extend(n.to_le_bytes()));
    expected.extend([0, 0]);
    assert_eq!(encode(&Message::Offer(tree)).unwrap(), expected);
    let codes = [(RefusalCode::Other, 0u32), (RefusalCode::SnapshotLimit, 1)];
    for (code, number) in codes {
        let refused = Message::Refused { product: String::new(), code, text: String::new() };
        assert_eq!(encode(&refused).unwrap()[18..22], number.to_le_bytes());
    }
}

fn deep(levels: usize) -> Tree {
    let mut tree = Tree::default();
    for _ in 1..levels {
        tree = Tree { bases: vec![tree], ..Tree::default() };
    }
    tree
}

#[test]
fn the_largest_tree_passes_and_one_more_descriptor_does_not() {
    let largest = Message::Offer(deep(MAX_DESCRIPTORS));
    let bytes = encode(&largest).unwrap();
    assert_eq!(decode(&bytes).unwrap(), largest);
    let larger = Message::Offer(deep(MAX_DESCRIPTORS + 1));
    assert_eq!(encode(&larger).unwrap_err(), WireError::TooManyDescriptors);

    // The same tree from an encoder without the limit: the decoder counts the descriptors itself.
    let level = &bytes[wire::HEADER_LEN..wire::HEADER_LEN + 68];
    let mut bytes = bytes[..wire::HEADER_LEN].to_vec();
    (0..700).for_each(|_| bytes.extend(level));
    let body = (bytes.len() - wire::HEADER_LEN) as u32;
    bytes[12..16].copy_from_slice(&body.to_le_bytes());
    assert_eq!(decode(&bytes).unwrap_err(), WireError::TooManyDescriptors);
}

#[test]
fn fields_that_are_too_long_or_not_printable_are_refused_by_both_ends() {
    let hello = |command: &str| Message::Hello {
        protocol: 1,
        product: String::new(),
        pid: 1,
        command: command.to_owned(),
    };
    assert!(encode(&hello(&"x".repeat(64))).is_ok());
    for bad in [&"x".repeat(65), "a\nb", "\u{1b}[2J"] {
        assert!(matches!(encode(&hello(bad)), Err(WireError::Field { field: "command", .. })));
    }
    let mut bytes = encode(&hello("abc")).unwrap();
    let end = bytes.len();
    bytes[end - 1] = 0x1b;
    assert!(matches!(decode(&bytes), Err(WireError::Field { field: "command", .. })));
    bytes[end - 1] = 0xff;
    assert!(matches!(decode(&bytes), Err(WireError::Field { field: "command", .. })));
}
