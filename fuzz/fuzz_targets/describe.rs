//! See `atoll_fuzz::describe`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| atoll_fuzz::describe::run(bytes));
