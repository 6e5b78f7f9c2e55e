//! See `atoll_fuzz::redo`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| atoll_fuzz::redo::run(bytes));
