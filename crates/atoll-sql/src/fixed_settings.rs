//! Settings of PostgreSQL that have one value here, or none that would change anything. Dumps and
//! drivers set them.
//!
//! `FIXED-1`: a value that would change what statements do in PostgreSQL, and does not here, is
//! refused.

use crate::error::{Cause, SqlError, SqlErrorKind};

/// A setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fixed {
    pub(crate) name: &'static str,
    /// As `SHOW` writes it.
    pub(crate) shown: &'static str,
    /// The values that it may be given, in lower case.
    allowed: &'static [&'static str],
}

const SWITCH: &[&str] = &["on", "off", "true", "false", "yes", "no", "1", "0"];
const ON: &[&str] = &["on", "true", "yes", "1"];
const OFF: &[&str] = &["off", "false", "no", "0"];

const ISO: &[&str] = &["iso", "iso, mdy", "iso,mdy", "iso, dmy", "iso,dmy", "iso, ymd", "iso,ymd"];

const ALL: [Fixed; 30] = [
    // What clients ask for, and nothing can set.
    Fixed { name: "server_version", shown: "15.0", allowed: &[] },
    Fixed { name: "server_version_num", shown: "150000", allowed: &[] },
    Fixed { name: "server_encoding", shown: "UTF8", allowed: &[] },
    Fixed { name: "integer_datetimes", shown: "on", allowed: &[] },
    Fixed { name: "in_hot_standby", shown: "off", allowed: &[] },
    Fixed { name: "max_identifier_length", shown: "63", allowed: &[] },
    Fixed { name: "max_index_keys", shown: "32", allowed: &[] },
    Fixed { name: "lc_collate", shown: "C", allowed: &[] },
    Fixed { name: "lc_ctype", shown: "C.UTF-8", allowed: &[] },
    Fixed { name: "lc_messages", shown: "C", allowed: &["c", "c.utf-8", "en_us.utf-8"] },
    // All formats that are written are those of ISO, and so are those that are read.
    Fixed { name: "DateStyle", shown: "ISO, MDY", allowed: ISO },
    // No statement is compiled to machine code, and none is planned by a genetic algorithm.
    Fixed { name: "jit", shown: "off", allowed: SWITCH },
    Fixed { name: "geqo", shown: "off", allowed: SWITCH },
    Fixed { name: "array_nulls", shown: "on", allowed: ON },
    // Every transaction is as if it were: no reader waits or is aborted.
    Fixed { name: "default_transaction_deferrable", shown: "off", allowed: OFF },
    Fixed { name: "transaction_deferrable", shown: "off", allowed: OFF },
    Fixed { name: "client_encoding", shown: "UTF8", allowed: &["utf8", "utf-8", "unicode"] },
    Fixed { name: "standard_conforming_strings", shown: "on", allowed: ON },
    // There are no functions with bodies, no policies of rows, no XML and no messages of this kind.
    Fixed { name: "check_function_bodies", shown: "on", allowed: SWITCH },
    Fixed { name: "row_security", shown: "on", allowed: SWITCH },
    Fixed { name: "xmloption", shown: "content", allowed: &["content", "document"] },
    Fixed { name: "default_tablespace", shown: "", allowed: &[""] },
    Fixed { name: "default_table_access_method", shown: "heap", allowed: &["heap"] },
    Fixed { name: "default_with_oids", shown: "off", allowed: OFF },
    Fixed { name: "default_toast_compression", shown: "pglz", allowed: &["pglz", "lz4"] },
    Fixed { name: "transaction_timeout", shown: "0", allowed: &["0"] },
    Fixed { name: "bytea_output", shown: "hex", allowed: &["hex"] },
    Fixed { name: "IntervalStyle", shown: "postgres", allowed: &["postgres"] },
    Fixed { name: "extra_float_digits", shown: "1", allowed: &["1", "2", "3"] },
    Fixed { name: "synchronize_seqscans", shown: "on", allowed: SWITCH },
];

impl Fixed {
    /// The names of all.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        ALL.into_iter().map(|one| one.name)
    }

    /// The setting of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|one| one.name.eq_ignore_ascii_case(name))
    }

    /// Checks a value.
    ///
    /// # Errors
    /// It would have to change something.
    pub(crate) fn check(self, value: &str) -> Result<(), SqlError> {
        if self.allowed.contains(&value) {
            return Ok(());
        }
        let Self { name, allowed, .. } = self;
        if allowed.is_empty() {
            let message = format!("parameter \"{name}\" cannot be changed");
            return Err(SqlError::new(SqlErrorKind::Unsupported, message).with_state("55P02"));
        }
        let message = format!("{name} cannot be \"{value}\" here");
        let allowed: Vec<String> = allowed.iter().map(|value| format!("'{value}'")).collect();
        Err(SqlError::new(SqlErrorKind::Unsupported, message)
            .with_cause(Cause::InvalidParameter)
            .with_hint(Some(format!("it may be set to {}", allowed.join(", ")))))
    }
}
