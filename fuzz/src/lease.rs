//! Messages between processes (`atoll_memory::lease::wire`).
//!
//! Any packet is refused, or is a message that encodes to the same packet (`WIRE-1`), except for a
//! refusal with a code of a later version. A tree has no more descriptors than fit into one packet
//! (`WIRE-2`). Texts for people are unchanged.

use atoll_memory::lease::wire::{
    HEADER_LEN, MAGIC, MAX_DESCRIPTORS, MAX_TEXT, Message, PROTOCOL_VERSION, decode, encode,
    printable,
};

use super::input::Input;

/// See the module.
pub fn run(bytes: &[u8]) {
    packet(bytes);
    // The same with a valid header, so that bodies are reached.
    let mut input = Input(bytes);
    let kind = u32::from(input.byte() % 9);
    let mut whole = Vec::with_capacity(HEADER_LEN + bytes.len());
    for word in [MAGIC, PROTOCOL_VERSION, kind, input.0.len() as u32] {
        whole.extend(word.to_le_bytes());
    }
    whole.extend_from_slice(input.0);
    packet(&whole);
    let text = String::from_utf8_lossy(bytes);
    let fit = printable(&text, MAX_TEXT);
    assert!(fit.len() <= MAX_TEXT && printable(&fit, MAX_TEXT) == fit);
}

fn packet(bytes: &[u8]) {
    let Ok(message) = decode(bytes) else { return };
    let again = encode(&message).expect("what was read can be written");
    match &message {
        Message::Refused { .. } => assert_eq!(decode(&again).as_ref(), Ok(&message)),
        _ => assert_eq!(again, bytes),
    }
    if let Message::Offer(tree) = message {
        assert!(tree.descriptors() <= MAX_DESCRIPTORS);
    }
}
