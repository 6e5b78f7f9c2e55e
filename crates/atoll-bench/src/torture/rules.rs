//! The rules by which a scheme is judged.

/// How a scheme is judged.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Whether what ended before another began must come before it.
    pub strict: bool,
    /// Whether snapshots leave out what had not committed; they must.
    pub patched: bool,
    /// Partitions of the table; only some schemes look at them.
    pub partitions: u32,
    /// Whether the index of names refuses a name that another row has; it must.
    pub unique: bool,
    /// Whether the history is checked; without it, only what is always true of rows is.
    pub history: bool,
    /// Whether the whole run is kept, for a comparison.
    pub keep: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            strict: true,
            patched: true,
            partitions: 1,
            unique: true,
            history: true,
            keep: false,
        }
    }
}
