//! The invariants of the rows of a torture run, and their encoding in the rows.

use std::collections::BTreeMap;

use atoll_txn::history::{Item, Left};

use super::hands::{AMOUNT, ID, MARK, NAME, NAMED, PLACE, Row, STAMP, VERSION};
use super::workload::{
    ACCOUNTS, AMOUNT_AT_FIRST, Cast, NAMES, PAIRS_END, PLACES, TWINS_END, Walk, own_name, pair_of,
};

/// Added to an amount when it is stored in the low bits of its column.
pub(super) const AMOUNT_ZERO: i64 = 64;
const AMOUNT_BITS: u32 = 8;
/// Names are stored in this many low bits, beside the version in which they were set.
const NAME_BITS: u32 = 16;

/// A violated invariant or another finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Its kind.
    pub kind: String,
    /// A description.
    pub text: String,
}

/// The mark of a row with this version and place.
pub(super) fn mark(version: i64, place: i64) -> i64 {
    (version.wrapping_mul(0x9e37_79b9) ^ place.wrapping_mul(0x85eb_ca6b)) & 0xffff_ffff
}

/// The stored form of an amount, with a version of its own.
pub(super) fn amount_word(version: u64, amount: i64) -> i64 {
    (version << AMOUNT_BITS) as i64 | (amount + AMOUNT_ZERO)
}

/// The amount of a row.
pub(super) fn amount(row: &Row) -> i64 {
    (row[AMOUNT] & ((1 << AMOUNT_BITS) - 1)) - AMOUNT_ZERO
}

/// The item of histories for the amount of a row.
pub(super) fn amount_of(key: i64) -> Item {
    Item { key, part: 1 }
}

/// The stored form of a name, with the version in which it was set.
pub(super) fn name_word(version: u64, name: i64) -> i64 {
    (version << NAME_BITS) as i64 | name
}

/// The item of histories for a name that moves from row to row: a row has the name in the version
/// in which it got it, or no row has it. A row's own name is like its key and has no item.
pub(super) fn name_item(name: i64) -> Option<Item> {
    (0..NAMES).contains(&name).then_some(Item { key: name, part: 2 })
}

/// The initial row of a key.
pub(super) fn first_row(key: i64) -> Row {
    let (version, place) = (100 + key, key % PLACES);
    let amount = if key < PAIRS_END { AMOUNT_AT_FIRST } else { 0 };
    let amount = amount_word(version as u64, amount);
    let name = own_name(key);
    [key, version, place, mark(version, place), amount, 0, name, name_word(version as u64, name)]
}

/// A row of the crowd: no walk reaches its key, its place or its name.
pub(super) fn row_of_crowd(key: i64) -> Row {
    let mut row = first_row(0);
    (row[ID], row[PLACE], row[NAME]) = (key, -1, key);
    row
}

/// The initial value of every item.
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

/// Checks the invariants over all rows.
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
    let stamps = [PAIRS_END, PAIRS_END + 1].map(|key| Some(rows[&key][STAMP]));
    let unequal = check_twins(stamps);
    if unequal.is_some() {
        return unequal;
    }
    let mut names = BTreeMap::new();
    for (key, row) in rows {
        if let Some(other) = names.insert(row[NAME], key) {
            let text = format!("rows {other} and {key} are both named {}", row[NAME]);
            return fault("duplicate name", text);
        }
    }
    None
}

/// Checks the invariants of one row.
pub(super) fn check_row(row: &Row) -> Option<Fault> {
    let wanted = mark(row[VERSION], row[PLACE]);
    let name = row[NAMED] & ((1 << NAME_BITS) - 1);
    (row[MARK] != wanted || row[NAME] != name).then(|| Fault {
        kind: "torn row".to_owned(),
        text: format!("a row was read as {row:?}; its mark should be {wanted}, its name {name}"),
    })
}

/// Checks that twins have the same stamp.
pub(super) fn check_twins(stamps: [Option<i64>; 2]) -> Option<Fault> {
    (stamps[0] != stamps[1]).then(|| Fault {
        kind: "unequal twins".to_owned(),
        text: format!("their stamps are {stamps:?}"),
    })
}

/// Checks that the row found for a key has this key.
pub(super) fn check_key(key: i64, row: &Row) -> Option<Fault> {
    (row[ID] != key).then(|| Fault {
        kind: "another row".to_owned(),
        text: format!("row {key} was asked for, row {} was read", row[ID]),
    })
}

/// Checks that rows are in the order of a walk over a column, and not more than its limit.
pub(super) fn check_order(column: usize, walk: &Walk, rows: &[Row]) -> Option<Fault> {
    let at = |row: &Row| if walk.descending { -row[column] } else { row[column] };
    (!rows.is_sorted_by_key(at) || rows.len() > walk.limit).then(|| Fault {
        kind: "scan out of order".to_owned(),
        text: format!("{walk:?} over column {column} gave {rows:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_rows() -> BTreeMap<i64, Row> {
        let cast =
            Cast { keys_end: 22, guests_from: 17, named: true, crowded: false, rows_in_section: 2 };
        cast.at_first().map(|key| (key, first_row(key))).collect()
    }

    /// The fault of the initial rows after `harm`.
    fn after(harm: impl FnOnce(&mut BTreeMap<i64, Row>)) -> Option<String> {
        let mut rows = first_rows();
        harm(&mut rows);
        check_rows(&rows).map(|fault| fault.kind)
    }

    fn take(rows: &mut BTreeMap<i64, Row>, key: i64, less: i64) {
        let row = rows.get_mut(&key).expect("it is always there");
        row[AMOUNT] = amount_word(7, amount(row) - less);
    }

    #[test]
    fn each_thing_that_is_always_true_of_all_rows_is_looked_at() {
        assert_eq!(after(|_| ()), None);
        for key in 0..TWINS_END {
            let missing = after(|rows| rows.retain(|other, _| *other != key));
            assert_eq!(missing.as_deref(), Some("missing row"), "{key}");
        }
        assert_eq!(after(|rows| rows.retain(|key, _| *key < TWINS_END)), None, "no guests");
        for (account, less) in [(0, 1), (ACCOUNTS - 1, -1)] {
            let sum = after(|rows| take(rows, account, less));
            assert_eq!(sum.as_deref(), Some("sum of accounts"));
        }
        let transfer = |rows: &mut _| {
            take(rows, 0, 1);
            take(rows, 3, -1);
        };
        assert_eq!(after(transfer), None);
        for key in ACCOUNTS..PAIRS_END {
            assert_eq!(after(|rows| take(rows, key, 2 * AMOUNT_AT_FIRST)), None, "all there was");
            let overdrawn = after(|rows| take(rows, key, 2 * AMOUNT_AT_FIRST + 1));
            assert_eq!(overdrawn.as_deref(), Some("overdrawn pair"), "{key}");
        }
        for key in PAIRS_END..TWINS_END {
            let stamped = after(|rows| rows.get_mut(&key).expect("it is always there")[STAMP] = 9);
            assert_eq!(stamped.as_deref(), Some("unequal twins"), "{key}");
        }
        let named = after(|rows| rows.get_mut(&3).expect("it is always there")[NAME] = own_name(5));
        assert_eq!(named.as_deref(), Some("duplicate name"));
    }

    #[test]
    fn a_row_of_two_versions_is_torn() {
        let row = first_row(3);
        assert_eq!(check_row(&row), None);
        for column in [VERSION, PLACE, MARK, NAME, NAMED] {
            let mut torn = row;
            torn[column] += 1;
            assert_eq!(check_row(&torn).map(|fault| fault.kind).as_deref(), Some("torn row"));
        }
    }

    #[test]
    fn a_row_that_was_not_asked_for_is_told() {
        assert_eq!(check_key(3, &first_row(3)), None);
        let other = check_key(3, &first_row(4)).map(|fault| fault.kind);
        assert_eq!(other.as_deref(), Some("another row"));
    }

    #[test]
    fn twins_that_differ_or_of_which_one_is_missing_are_told() {
        assert_eq!(check_twins([Some(4), Some(4)]), None);
        for stamps in [[Some(4), Some(5)], [Some(4), None], [None, Some(4)]] {
            let kind = check_twins(stamps).map(|fault| fault.kind);
            assert_eq!(kind.as_deref(), Some("unequal twins"), "{stamps:?}");
        }
    }

    #[test]
    fn a_walk_is_in_order_and_as_long_as_asked_for() {
        let rows = [2, 3, 7].map(first_row);
        let back = [7, 3, 2].map(first_row);
        let kind = |descending, limit, rows: &[Row]| {
            let walk = Walk { from: 0, to: 9, descending, limit };
            check_order(ID, &walk, rows).map(|fault| fault.kind)
        };
        assert_eq!(kind(false, 3, &rows), None);
        assert_eq!(kind(true, 3, &back), None);
        let wrong = Some("scan out of order".to_owned());
        assert_eq!(kind(true, 3, &rows), wrong);
        assert_eq!(kind(false, 3, &back), wrong);
        assert_eq!(kind(false, 2, &rows), wrong, "too many");
    }
}
