//! What is always true of the rows of a torture run, and how it is written into them.

use std::collections::BTreeMap;

use atoll_txn::history::{Item, Left};

use super::hands::{AMOUNT, MARK, PLACE, Row, STAMP, VERSION};
use super::workload::{ACCOUNTS, AMOUNT_AT_FIRST, Cast, PAIRS_END, PLACES, TWINS_END, pair_of};

/// Amounts are stored with this added, in the low bits of their column.
pub(super) const AMOUNT_ZERO: i64 = 64;
const AMOUNT_BITS: u32 = 8;

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Its name.
    pub kind: String,
    /// What happened.
    pub text: String,
}

/// What the mark of a row with this version and place is.
pub(super) fn mark(version: i64, place: i64) -> i64 {
    (version.wrapping_mul(0x9e37_79b9) ^ place.wrapping_mul(0x85eb_ca6b)) & 0xffff_ffff
}

/// What is stored for an amount: with a version of its own.
pub(super) fn amount_word(version: u64, amount: i64) -> i64 {
    (version << AMOUNT_BITS) as i64 | (amount + AMOUNT_ZERO)
}

/// The amount of a row.
pub(super) fn amount(row: &Row) -> i64 {
    (row[AMOUNT] & ((1 << AMOUNT_BITS) - 1)) - AMOUNT_ZERO
}

/// The part of a row that its amount is in histories.
pub(super) fn amount_of(key: i64) -> Item {
    Item { key, part: 1 }
}

/// The row of a key that is there at first.
pub(super) fn first_row(key: i64) -> Row {
    let (version, place) = (100 + key, key % PLACES);
    let amount = if key < PAIRS_END { AMOUNT_AT_FIRST } else { 0 };
    [key, version, place, mark(version, place), amount_word(version as u64, amount), 0]
}

/// All that is there at first.
pub(super) fn initial(cast: &Cast) -> BTreeMap<Item, Left> {
    let mut initial = BTreeMap::new();
    for key in cast.at_first() {
        let row = first_row(key);
        let place = row[PLACE];
        initial.insert(Item::row(key), Left { version: row[VERSION] as u64, place });
        initial.insert(amount_of(key), Left { version: row[AMOUNT] as u64, place: 0 });
    }
    initial
}

/// What is always true of all rows together.
pub(super) fn check_rows(rows: &BTreeMap<i64, Row>) -> Option<Fault> {
    let fault = |kind: &str, text: String| Some(Fault { kind: kind.to_owned(), text });
    let missing = (0..TWINS_END).find(|key| !rows.contains_key(key));
    if let Some(key) = missing {
        return fault("missing row", format!("row {key} is always there, but was not found"));
    }
    let sum: i64 = (0..ACCOUNTS).map(|key| amount(&rows[&key])).sum();
    if sum != ACCOUNTS * AMOUNT_AT_FIRST {
        return fault("sum of accounts", format!("the accounts have {sum} together"));
    }
    for key in (ACCOUNTS..PAIRS_END).step_by(2) {
        let sum = amount(&rows[&key]) + amount(&rows[&pair_of(key)]);
        if sum < 0 {
            return fault("overdrawn pair", format!("rows {key} and {} have {sum}", key + 1));
        }
    }
    let stamps = [PAIRS_END, PAIRS_END + 1].map(|key| rows[&key][STAMP]);
    if stamps[0] != stamps[1] {
        return fault("unequal twins", format!("their stamps are {stamps:?}"));
    }
    None
}

/// What is always true of a row.
pub(super) fn check_row(row: &Row) -> Option<Fault> {
    let wanted = mark(row[VERSION], row[PLACE]);
    (row[MARK] != wanted).then(|| Fault {
        kind: "torn row".to_owned(),
        text: format!("a row was read as {row:?}, whose mark should be {wanted}"),
    })
}
