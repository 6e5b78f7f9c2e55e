//! A cache line of shared words.

/// A cache line of shared words.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct WordLine<W>(pub [W; 8]);
