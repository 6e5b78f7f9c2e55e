//! See `atoll_fuzz::log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| atoll_fuzz::log::bytes(bytes));
