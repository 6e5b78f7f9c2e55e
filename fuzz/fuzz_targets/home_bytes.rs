//! See `atoll_fuzz::home`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| atoll_fuzz::home::bytes(bytes));
