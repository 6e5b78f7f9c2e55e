//! See `atoll_fuzz::lease`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| atoll_fuzz::lease::run(bytes));
