//! The mark that no name of SQL has.

/// Stands in the names that statements, and objects, get inside (`NAME-1`). No name that is written
/// has it.
pub(crate) const MARK: char = '\u{1}';
