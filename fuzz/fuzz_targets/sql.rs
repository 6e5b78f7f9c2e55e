//! See `atoll_fuzz::sql`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| atoll_fuzz::sql::run(bytes));
