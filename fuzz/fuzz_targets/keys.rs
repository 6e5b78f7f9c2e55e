//! See `atoll_fuzz::keys`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| atoll_fuzz::keys::run(bytes));
