//! Table descriptions as logs and checkpoint stores keep them (`atoll_txn::describe`).
//!
//! Any bytes are refused, or decode to a table that encodes and decodes to itself, and that keeps
//! all limits of a table.

use atoll_storage::schema_codec;
use atoll_storage::types::COLUMNS_MAX;
use atoll_txn::describe::{decode, decode_options, encode, encode_options};

/// See the module.
pub fn run(bytes: &[u8]) {
    if let Some((name, schema)) = schema_codec::decode(bytes) {
        assert_eq!(schema_codec::encode(&name, &schema), bytes);
    }
    let Some(found) = decode(bytes) else { return };
    let again = encode(found.serial, &found.name, &found.schema, &found.options);
    assert_eq!(decode(&again).as_ref(), Some(&found));
    let options = encode_options(&found.schema, &found.options);
    assert_eq!(decode_options(&options, &found.schema).as_ref(), Some(&found.options));
    for index in &found.options.indexes {
        assert!(index.columns.len() <= COLUMNS_MAX, "an index of {} columns", index.columns.len());
    }
}
