//! The document of the file format agrees with the code.

use atoll_log::block::{self, Header, Kind};
use atoll_log::{archive, checkpoint_store, control, logs};

const DOCUMENT: &str = include_str!("../../../../docs/format/files.md");

fn rows() -> impl Iterator<Item = Vec<&'static str>> {
    let rows = DOCUMENT.lines().filter(|line| line.starts_with('|'));
    rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

#[test]
fn constants_are_those_of_the_code() {
    let constants = [
        ("format", u64::from(control::FORMAT)),
        ("control slot bytes", control::SLOT_BYTES as u64),
        ("checkpoints kept", control::CHECKPOINTS_KEPT as u64),
        ("block header bytes", block::HEADER_BYTES as u64),
        ("block alignment", block::ALIGN),
        ("block payload bytes, at most", block::PAYLOAD_BYTES_MAX as u64),
        ("home block bytes", checkpoint_store::BLOCK_BYTES as u64),
        ("copies of a map", checkpoint_store::MAP_COPIES),
        ("home line bytes", checkpoint_store::LINE_BYTES as u64),
        ("tablespaces, at most", logs::TABLESPACES_MAX as u64),
        ("archive footer bytes", archive::FOOTER_BYTES),
    ];
    for (name, value) in constants {
        let row = rows().find(|row| row[0] == name).unwrap_or_else(|| panic!("no row {name}"));
        assert_eq!(row[1], value.to_string(), "{name}");
    }
    assert_eq!(
        rows().filter(|row| row.len() == 3 && row[1].parse::<u64>().is_ok()).count(),
        11 + 12
    );
}

#[test]
fn fields_of_a_header_have_the_offsets_of_the_document() {
    let header = Header {
        kind: Kind::Time,
        tablespace: 0x61,
        incarnation: 0x56,
        lsn: 0x08,
        gsn: 0x16,
        epoch: 0x24,
        durable: 0x32,
        horizon: 0x40,
        transaction: 0x48,
        payload_bytes: 0x04,
    };
    let bytes = header.encode(&[0; 4]);
    for row in rows().filter(|row| row[0].parse::<usize>().is_ok()) {
        let offset: usize = row[0].parse().unwrap();
        // Each field holds the digits of its offset, except the checksums and the kind.
        let expected = match offset {
            0 | 62 => continue,
            60 => 6,
            other => u8::from_str_radix(&format!("{other:02}"), 16).unwrap(),
        };
        assert_eq!(bytes[offset], expected, "{row:?}");
    }
}
