//! See `atoll_fuzz::checkpoint_store`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| atoll_fuzz::checkpoint_store::bytes(bytes));
