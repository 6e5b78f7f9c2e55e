//! See `atoll_fuzz::database`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| atoll_fuzz::database::hostile(bytes));
