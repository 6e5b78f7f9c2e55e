//! The statements of the five transactions.

use crate::sql::{Connection, Failure};
use crate::tpcc::population::DISTRICTS;

/// Declares the statements that are prepared once for each connection.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident: $sql:expr,)*) => {
        /// The prepared statements of a connection.
        pub struct Statements<S> {
            $($(#[$doc])* pub $name: S,)*
            /// Takes an item from the stock for a district, by its number from 0.
            pub take_stock: Vec<S>,
        }

        impl<S> Statements<S> {
            /// Prepares them.
            ///
            /// # Errors
            /// [`Failure`].
            pub fn prepare<C: Connection<Statement = S>>(
                connection: &mut C,
            ) -> Result<Self, Failure> {
                let districts = 1..=DISTRICTS;
                let take_stock = districts.map(|number| connection.prepare(&take_stock(number)));
                Ok(Self {
                    take_stock: take_stock.collect::<Result<_, _>>()?,
                    $($name: connection.prepare($sql)?,)*
                })
            }
        }
    };
}

statements!(
    warehouse_tax: "SELECT w_tax FROM warehouse WHERE w_id = $1",
    next_order: "UPDATE district SET d_next_o_id = d_next_o_id + 1 \
                 WHERE d_w_id = $1 AND d_id = $2 RETURNING d_next_o_id, d_tax",
    terms: "SELECT c_discount, c_last, c_credit FROM customer \
            WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
    item: "SELECT i_price, i_name, i_data FROM item WHERE i_id = $1",
    add_order: "INSERT INTO orders VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    add_new_order: "INSERT INTO new_order VALUES ($1, $2, $3)",
    add_line: "INSERT INTO order_line VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    pay_warehouse: "UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2 \
                    RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip",
    pay_district: "UPDATE district SET d_ytd = d_ytd + $1 WHERE d_w_id = $2 AND d_id = $3 \
                   RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip",
    namesakes: "SELECT c_id FROM customer \
                WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first",
    pay_customer: "UPDATE customer SET c_balance = c_balance - $1, \
                   c_ytd_payment = c_ytd_payment + $1, c_payment_cnt = c_payment_cnt + 1 \
                   WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4 \
                   RETURNING c_credit, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, \
                   c_state, c_zip, c_phone, c_credit_lim, c_discount, c_balance",
    note_bad_credit: "UPDATE customer SET c_data = substr($1 || c_data, 1, 500) \
                      WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4",
    add_history: "INSERT INTO history VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    customer: "SELECT c_balance, c_first, c_middle, c_last FROM customer \
               WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
    last_order: "SELECT o_id, o_entry_d, o_carrier_id FROM orders \
                 WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1",
    lines: "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d \
            FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
    oldest_order: "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 \
                   ORDER BY no_o_id LIMIT 1",
    take_new_order: "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3",
    deliver_order: "UPDATE orders SET o_carrier_id = $1 \
                    WHERE o_w_id = $2 AND o_d_id = $3 AND o_id = $4 RETURNING o_c_id",
    deliver_lines: "UPDATE order_line SET ol_delivery_d = $1 \
                    WHERE ol_w_id = $2 AND ol_d_id = $3 AND ol_o_id = $4 RETURNING ol_amount",
    credit_customer: "UPDATE customer SET c_balance = c_balance + $1, \
                      c_delivery_cnt = c_delivery_cnt + 1 \
                      WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4",
    next_order_number: "SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2",
    low_stock: "SELECT count(DISTINCT s_i_id) FROM order_line \
                JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id \
                WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 AND ol_o_id < $4 \
                AND s_quantity < $5",
);

fn take_stock(district: u16) -> String {
    format!(
        "UPDATE stock SET s_quantity = CASE WHEN s_quantity >= $1 + 10 THEN s_quantity - $1 \
         ELSE s_quantity - $1 + 91 END, s_ytd = s_ytd + $1, s_order_cnt = s_order_cnt + 1, \
         s_remote_cnt = s_remote_cnt + $2 WHERE s_w_id = $3 AND s_i_id = $4 \
         RETURNING s_quantity, s_dist_{district:02}, s_data"
    )
}
