//! `atoll torture crash`, in the release profile so that it tries many crashes in little time.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::World;

#[test]
fn ten_thousand_crashes_at_random_moments_leave_nothing_wrong() {
    let world = World::new();
    let report = world.run(&["torture", "crash", "--seeds", "10", "--json"]).json().remove(0);
    let count = |what: &str| report[what].as_u64().unwrap();
    assert_eq!((count("crashes_tried"), count("violations")), (10_000, 0), "{report}");
    assert_eq!(count("in_recovery"), 5000, "{report}");
    // How many depends on how the threads of the runs meet.
    assert!(count("in_checkpoint") > 500, "{report}");
}
