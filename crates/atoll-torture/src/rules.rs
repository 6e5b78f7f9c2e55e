//! The rules by which a scheme is judged.

/// How a scheme is judged.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Whether a transaction that ended before another began must precede it in the serial order.
    pub strict: bool,
    /// Whether no conflict may roll back a transaction that only reads.
    pub readers_never_abort: bool,
    /// Whether snapshots undo what had not committed; false is a planted fault.
    pub patched: bool,
    /// Number of partitions of the table; only some schemes use them.
    pub partitions: u32,
    /// Whether the index of names refuses a name that another row has; false is a planted fault.
    pub unique: bool,
    /// Whether the history is checked; if not, only the invariants of rows are.
    pub history: bool,
    /// Whether the complete run is kept, for a comparison.
    pub keep: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            strict: true,
            readers_never_abort: false,
            patched: true,
            partitions: 1,
            unique: true,
            history: true,
            keep: false,
        }
    }
}
