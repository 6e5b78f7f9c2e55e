//! The fuzz target of statements (`fuzz/src/sql`) with pseudo-random inputs, the same in every run.
//! `make fuzz TARGETS=sql` searches further.

#[path = "../../../../fuzz/src/sql/mod.rs"]
#[allow(missing_docs)]
mod sql;

const INPUTS: u64 = 1600;

/// A word from a seed (splitmix64).
fn mix(seed: u64) -> u64 {
    let word = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Two threads share the inputs; `ATOLL_FUZZ_SEED` chooses others.
#[test]
fn statements_of_a_fuzzer() {
    let first: u64 = std::env::var("ATOLL_FUZZ_SEED").map_or(0, |seed| seed.parse().unwrap());
    std::thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || {
                for number in (0..INPUTS).filter(|number| number % 2 == thread) {
                    let seed = mix(first) ^ mix(number);
                    let bytes: Vec<u8> =
                        (0..40 + seed % 200).map(|at| mix(seed ^ mix(at)) as u8).collect();
                    sql::run(&bytes);
                }
            });
        }
    });
}
