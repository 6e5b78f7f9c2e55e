//! Buffers that transactions use again.
//!
//! A transaction over a whole table must not leave its state with the memory of a whole table. So a
//! buffer that has become long frees its memory when the transaction ends.

/// A list with room for more elements than this frees its memory.
pub(crate) const KEPT_MAX: usize = 4096;
/// A buffer with room for more bytes than this frees its memory.
pub(crate) const KEPT_BYTES_MAX: usize = 128 * KEPT_MAX;

/// Empties a list, and frees its memory if the list was long.
#[inline]
pub(crate) fn clear<T>(list: &mut Vec<T>) {
    if list.capacity() > KEPT_MAX {
        *list = Vec::new();
    }
    list.clear();
}

#[cfg(test)]
mod tests {
    use super::{KEPT_MAX, clear};

    #[test]
    fn short_lists_keep_their_memory_and_long_ones_free_it() {
        for (len, is_kept) in [(10, true), (KEPT_MAX, true), (KEPT_MAX + 1, false)] {
            let mut list = Vec::with_capacity(len);
            list.push(1u8);
            clear(&mut list);
            assert!(list.is_empty());
            assert_eq!(list.capacity() >= len, is_kept, "{len}");
        }
    }
}
