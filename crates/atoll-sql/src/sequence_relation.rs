//! A sequence as a relation: `SELECT last_value, is_called FROM s`, which is read as a view of
//! functions that tell its state.

use atoll::Schema;

use crate::error::SqlError;
use crate::sequence::context::as_text;
use crate::sequence_names;
use crate::view::{View, ViewColumn};

/// The view that an object is, or the sequence of this name as a view.
///
/// # Errors
/// As [`View::of`].
pub(crate) fn view(schema: &Schema, name: &str) -> Result<Option<View>, SqlError> {
    if !sequence_names::is_of_sequence(schema) {
        return View::of(schema);
    }
    let name = format!("'{}'", as_text(name));
    let columns = [
        ("last_value", "bigint", format!("pg_sequence_state_value({name})")),
        // Numbers are not logged ahead of those that were given.
        ("log_cnt", "bigint", "0::bigint".to_owned()),
        ("is_called", "boolean", format!("pg_sequence_state_called({name})")),
    ];
    let items = columns.iter().map(|(name, _, value)| format!("{value} AS {name}"));
    let query = format!("SELECT {}", items.collect::<Vec<_>>().join(", "));
    let column = |(name, data_type, _): &(&str, &str, String)| ViewColumn {
        name: (*name).to_owned(),
        data_type: (*data_type).to_owned(),
    };
    Ok(Some(View::without_sources(query, columns.iter().map(column).collect())))
}
