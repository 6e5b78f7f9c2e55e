//! The twelve consistency conditions (clause 3.3.2), checked on a snapshot.
//!
//! Each condition is a function that returns where it is violated and what was found there.
//! Condition 11 is stated for the initial tables: a fixed number of a district's orders are
//! delivered. Every later delivery increments the delivery count of its customer, so the check adds
//! those counts.

use atoll::{Database, Snapshot};

use super::facts::{Customer, District, Facts, Order};
use super::population::Size;
use crate::error::BenchError;
use crate::oltp::CheckReport;

/// Whether a condition holds, or where it is violated.
pub type Verdict = Result<(), String>;

/// A consistency condition.
pub struct Condition {
    /// Its number in clause 3.3.2.
    pub number: u8,
    /// The condition in words.
    pub name: &'static str,
    /// The check.
    pub check: fn(&Facts) -> Verdict,
}

const fn condition(number: u8, name: &'static str, check: fn(&Facts) -> Verdict) -> Condition {
    Condition { number, name, check }
}

/// All twelve.
pub const CONDITIONS: [Condition; 12] = [
    condition(1, "w_ytd is the sum of d_ytd", warehouse_is_its_districts),
    condition(2, "d_next_o_id - 1 is the newest o_id and no_o_id", next_order_follows_newest),
    condition(3, "no_o_id has no gaps", new_orders_have_no_gaps),
    condition(4, "the sum of o_ol_cnt is the number of order lines", lines_of_district),
    condition(5, "o_carrier_id is null exactly for new orders", carrier_means_delivered),
    condition(6, "o_ol_cnt is the number of lines of each order", lines_of_order),
    condition(7, "ol_delivery_d is null exactly with o_carrier_id", lines_follow_order),
    condition(8, "w_ytd is the sum of h_amount", warehouse_is_its_history),
    condition(9, "d_ytd is the sum of h_amount", district_is_its_history),
    condition(10, "c_balance is what was delivered less what was paid", balance_is_what_is_owed),
    condition(11, "orders less new orders are what was delivered", delivered_orders_are_counted),
    condition(12, "c_balance + c_ytd_payment is what was delivered", balance_and_payments),
];

/// Conditions that the transactions of `--reduced` break, because they leave out the inserts.
pub const BROKEN_BY_REDUCED: [u8; 4] = [2, 8, 9, 10];

/// Checks all conditions except `left_out`.
///
/// # Errors
/// [`BenchError::Inconsistent`] with every condition that is violated.
pub fn check(db: &Database, size: Size, left_out: &[u8]) -> Result<Vec<CheckReport>, BenchError> {
    let broken = broken(&db.snapshot()?, size)?;
    let counts = |number: &u8| !left_out.contains(number);
    let told: Vec<String> = broken
        .into_iter()
        .filter(|(number, _)| counts(number))
        .map(|(number, message)| format!("condition {number}: {message}"))
        .collect();
    if !told.is_empty() {
        return Err(BenchError::Inconsistent(told.join("; ")));
    }
    let report = |condition: &Condition| CheckReport {
        name: format!("{} {}", condition.number, condition.name),
        left_out: (!counts(&condition.number))
            .then(|| "the reduced transactions leave out the rows it is about".to_owned()),
    };
    Ok(CONDITIONS.iter().map(report).collect())
}

/// The conditions that a snapshot violates, and where.
///
/// # Errors
/// [`BenchError::Database`].
pub fn broken(snapshot: &Snapshot, size: Size) -> Result<Vec<(u8, String)>, BenchError> {
    let facts = Facts::gather(snapshot, size)?;
    let verdicts = CONDITIONS.iter().map(|condition| (condition.number, (condition.check)(&facts)));
    Ok(verdicts.filter_map(|(number, verdict)| Some((number, verdict.err()?))).collect())
}

/// An amount in hundredths as text.
fn money(hundredths: i64) -> String {
    let sign = if hundredths < 0 { "-" } else { "" };
    let digits = hundredths.unsigned_abs();
    format!("{sign}{}.{:02}", digits / 100, digits % 100)
}

fn require(holds: bool, message: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(message()) }
}

fn each_district(facts: &Facts, mut check: impl FnMut(&District) -> Result<(), String>) -> Verdict {
    facts.districts.iter().try_for_each(|((w, d), district)| {
        check(district).map_err(|found| format!("district {d} of warehouse {w}: {found}"))
    })
}

fn each_order(facts: &Facts, check: impl Fn(&Order) -> Result<(), String>) -> Verdict {
    each_district(facts, |district| {
        district.orders.iter().try_for_each(|(number, order)| {
            check(order).map_err(|found| format!("order {number}: {found}"))
        })
    })
}

fn each_customer(facts: &Facts, check: impl Fn(&Customer) -> Result<(), String>) -> Verdict {
    each_district(facts, |district| {
        district.customers.iter().try_for_each(|(number, customer)| {
            check(customer).map_err(|found| format!("customer {number}: {found}"))
        })
    })
}

fn warehouse_is_its_districts(facts: &Facts) -> Verdict {
    facts.warehouses.iter().try_for_each(|(w, warehouse)| {
        let (ytd, sum) = (warehouse.ytd, warehouse.districts_ytd);
        require(ytd == sum, || {
            let (ytd, sum) = (money(ytd), money(sum));
            format!("warehouse {w}: w_ytd is {ytd}, but the d_ytd of its districts make {sum}")
        })
    })
}

fn newest(district: &District, counts: impl Fn(&Order) -> bool) -> Option<i64> {
    let numbers = district.orders.iter().filter(|(_, order)| counts(order));
    numbers.map(|(number, _)| number).max()
}

fn next_order_follows_newest(facts: &Facts) -> Verdict {
    each_district(facts, |district| {
        let expected = district.next_order - 1;
        let order = newest(district, |order| order.rows > 0).unwrap_or(0);
        // A district with all orders delivered has no new order to compare with.
        let new_order = newest(district, |order| order.new_orders > 0).unwrap_or(order);
        require(order == expected && new_order == expected, || {
            format!(
                "d_next_o_id is {}, but the newest order is {order} and the newest new order \
                 {new_order}",
                district.next_order
            )
        })
    })
}

fn new_orders_have_no_gaps(facts: &Facts) -> Verdict {
    each_district(facts, |district| {
        let new = || district.orders.iter().filter(|(_, order)| order.new_orders > 0);
        let count: i64 = new().map(|(_, order)| i64::from(order.new_orders)).sum();
        let (first, last) = (new().map(|new| new.0).min(), new().map(|new| new.0).max());
        let (Some(first), Some(last)) = (first, last) else { return Ok(()) };
        require(last - first + 1 == count, || {
            format!("there are {count} new orders, but their numbers go from {first} to {last}")
        })
    })
}

fn lines_of_district(facts: &Facts) -> Verdict {
    each_district(facts, |district| {
        let expected: i64 = district.orders.iter().map(|(_, order)| order.expected_lines).sum();
        let lines: i64 = district.orders.iter().map(|(_, order)| i64::from(order.lines)).sum();
        require(lines == expected, || {
            format!("the o_ol_cnt make {expected}, but there are {lines} order lines")
        })
    })
}

fn carrier_means_delivered(facts: &Facts) -> Verdict {
    each_order(facts, |order| {
        let is_new = order.new_orders > 0;
        require(order.rows == 0 || order.has_carrier != is_new, || {
            let carrier = if order.has_carrier { "set" } else { "null" };
            let there = if is_new { "a" } else { "no" };
            format!("o_carrier_id is {carrier}, but there is {there} row in new_order")
        })
    })
}

fn lines_of_order(facts: &Facts) -> Verdict {
    each_order(facts, |order| {
        let (expected, lines) = (order.expected_lines, i64::from(order.lines));
        require(lines == expected, || {
            format!("o_ol_cnt is {expected}, but it has {lines} order lines")
        })
    })
}

fn lines_follow_order(facts: &Facts) -> Verdict {
    each_order(facts, |order| {
        let expected = if order.has_carrier { order.lines } else { 0 };
        let (delivered, lines) = (order.delivered_lines, order.lines);
        require(delivered == expected, || {
            let carrier = if order.has_carrier { "set" } else { "null" };
            format!("o_carrier_id is {carrier}, but {delivered} of {lines} lines are delivered")
        })
    })
}

fn warehouse_is_its_history(facts: &Facts) -> Verdict {
    facts.warehouses.iter().try_for_each(|(w, warehouse)| {
        let (ytd, sum) = (warehouse.ytd, warehouse.history);
        require(ytd == sum, || {
            let (ytd, sum) = (money(ytd), money(sum));
            format!("warehouse {w}: w_ytd is {ytd}, but the h_amount of its history make {sum}")
        })
    })
}

fn district_is_its_history(facts: &Facts) -> Verdict {
    each_district(facts, |district| {
        let (ytd, sum) = (district.ytd, district.history);
        require(ytd == sum, || {
            format!("d_ytd is {}, but the h_amount of its history make {}", money(ytd), money(sum))
        })
    })
}

fn balance_is_what_is_owed(facts: &Facts) -> Verdict {
    each_customer(facts, |customer| {
        let expected = customer.delivered - customer.history;
        require(customer.balance == expected, || {
            format!(
                "c_balance is {}, but {} was delivered and {} paid by the history",
                money(customer.balance),
                money(customer.delivered),
                money(customer.history)
            )
        })
    })
}

fn delivered_orders_are_counted(facts: &Facts) -> Verdict {
    each_district(facts, |district| {
        let count = |of: fn(&Order) -> u32| -> i64 {
            district.orders.iter().map(|(_, order)| i64::from(of(order))).sum()
        };
        let (orders, new_orders) = (count(|order| order.rows), count(|order| order.new_orders));
        let (first, since) = (facts.delivered_at_first, district.deliveries);
        require(orders - new_orders == first + since, || {
            format!(
                "of {orders} orders {new_orders} are new, but {first} were delivered at first and \
                 {since} since"
            )
        })
    })
}

fn balance_and_payments(facts: &Facts) -> Verdict {
    each_customer(facts, |customer| {
        let sum = customer.balance + customer.paid;
        require(sum == customer.delivered, || {
            format!(
                "c_balance is {} and c_ytd_payment {}, but {} was delivered",
                money(customer.balance),
                money(customer.paid),
                money(customer.delivered)
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::money;

    #[test]
    fn money_has_two_digits_behind_the_point() {
        assert_eq!([money(-5), money(1234), money(-100)], ["-0.05", "12.34", "-1.00"]);
    }
}
