//! The fuzz targets (`fuzz/`) with pseudo-random inputs, the same in every run, so that the targets
//! stay up to date, and simple findings are made here. `make fuzz` searches further.
#![allow(clippy::unwrap_used, missing_docs)]

use atoll_storage::key::mix;

#[path = "../../../fuzz/src/lib.rs"]
mod fuzz;

/// Runs a target with inputs of at most `bytes_max` bytes. Small bytes are more frequent, because
/// more bytes are choices than values.
fn feed(target: fn(&[u8]), inputs: u64, bytes_max: u64) {
    for input in 0..inputs {
        let word = |at: u64| mix(mix(input + 1) ^ at);
        let len = word(u64::MAX) % (bytes_max + 1);
        let byte = |at: u64| match word(at) {
            word if word >> 62 == 0 => (word & 7) as u8,
            word => word as u8,
        };
        let bytes: Vec<u8> = (0..len).map(byte).collect();
        target(&bytes);
    }
}

macro_rules! targets {
    ($($name:ident: $target:path, $inputs:expr, $bytes:expr;)*) => {$(
        #[test]
        fn $name() {
            feed($target, $inputs, $bytes);
        }
    )*};
}

targets! {
    any_bytes_as_a_log: fuzz::log::bytes, 3000, 600;
    damaged_logs: fuzz::log::damage, 400, 300;
    damaged_archives: fuzz::archive::run, 300, 300;
    sealed_files: fuzz::control::run, 3000, 600;
    any_bytes_as_maps_and_steps: fuzz::checkpoint_store::bytes, 10_000, 300;
    damaged_homes: fuzz::checkpoint_store::damage, 1000, 300;
    changes_of_rows: fuzz::redo::run, 300, 300;
    definitions_of_tables: fuzz::describe::run, 20_000, 100;
    keys: fuzz::keys::run, 50_000, 100;
    messages: fuzz::lease::run, 20_000, 300;
    damaged_databases: fuzz::database::damage, 500, 60;
    hostile_databases: fuzz::database::hostile, 400, 60;
}
