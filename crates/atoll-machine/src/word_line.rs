//! A cache line of shared words.

use crate::zero_default::ZeroDefault;

/// A cache line of shared words.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct WordLine<W>(pub [W; 8]);

// SAFETY: the default value is eight default words, and no other bytes.
unsafe impl<W: ZeroDefault> ZeroDefault for WordLine<W> {
    const IS_ZERO: bool = W::IS_ZERO;
}
