//! Types with a default value of bytes that are all 0.
//!
//! The system gives memory that is 0. So an array of such values can be allocated without writing
//! it, and the parts that no thread accesses take no memory ([`crate::huge_pages`]).
//!
//! - `ZERO-1`: if [`ZeroDefault::IS_ZERO`] is true, bytes of 0 are a valid value, which is equal to
//!   the default value, and values need no drop.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// See the module. [`zero_default!`](crate::zero_default) implements it for structures.
///
/// # Safety
/// `ZERO-1`.
pub unsafe trait ZeroDefault: Default {
    /// Whether the bytes of the default value are all 0. On some machines a word is more than its
    /// value.
    const IS_ZERO: bool;
}

/// Proof that a word of 0 consists of bytes of 0 and needs no drop.
#[derive(Debug)]
pub struct ZeroBytes<W>(PhantomData<fn() -> W>);

impl<W> ZeroBytes<W> {
    /// # Safety
    /// `ZERO-1` holds for the type.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self(PhantomData)
    }
}

// SAFETY: an atomic has the bytes of its value.
unsafe impl ZeroDefault for AtomicU32 {
    const IS_ZERO: bool = true;
}

// SAFETY: as above.
unsafe impl ZeroDefault for AtomicU64 {
    const IS_ZERO: bool = true;
}

/// Whether a field, which the function finds, has a default value of bytes of 0.
#[doc(hidden)]
pub const fn is_zero<S, F: ZeroDefault>(_: fn(&S) -> &F) -> bool {
    F::IS_ZERO
}

/// Implements [`Default`] and [`ZeroDefault`] for a structure, from its fields.
///
/// ```
/// use atoll_machine::{Machine, Native, ZeroDefault, zero_default};
///
/// struct Pair<M: Machine> {
///     one: M::Word,
///     two: M::Word,
/// }
///
/// zero_default!([M: Machine] Pair<M> { one, two });
///
/// const { assert!(Pair::<Native>::IS_ZERO) };
/// ```
#[macro_export]
macro_rules! zero_default {
    ([$($generics:tt)*] $name:ty { $($field:tt),* }) => {
        impl<$($generics)*> Default for $name {
            fn default() -> Self {
                Self { $($field: Default::default()),* }
            }
        }

        // SAFETY: ZERO-1: `default` above names all fields, and the bytes of each are 0. The bytes
        // between the fields have no meaning. The structure itself has no `Drop`, which the
        // constant checks.
        unsafe impl<$($generics)*> $crate::ZeroDefault for $name {
            const IS_ZERO: bool = !std::mem::needs_drop::<Self>()
                $(&& $crate::zero_default::is_zero(|this: &Self| &this.$field))*;
        }
    };
}

#[cfg(test)]
mod tests {
    use super::ZeroDefault;
    use crate::{NativeWord, Ordering, Word, WordLine};

    /// A value that is more than its bytes.
    #[derive(Default)]
    struct Named(String);

    struct Both<A, B>(A, B);

    crate::zero_default!([A: ZeroDefault, B: ZeroDefault] Both<A, B> { 0, 1 });

    struct Dropped(NativeWord);

    impl Drop for Dropped {
        fn drop(&mut self) {
            assert_eq!(self.0.load(Ordering::Relaxed), 0);
        }
    }

    crate::zero_default!([] Dropped { 0 });

    // SAFETY: it does not claim to be 0.
    unsafe impl ZeroDefault for Named {
        const IS_ZERO: bool = false;
    }

    #[test]
    fn a_structure_is_zero_if_all_its_fields_are_and_it_needs_no_drop() {
        let is_zero = [
            Both::<NativeWord, WordLine<NativeWord>>::IS_ZERO,
            Both::<NativeWord, Named>::IS_ZERO,
            Both::<Named, NativeWord>::IS_ZERO,
            Dropped::IS_ZERO,
        ];
        assert_eq!(is_zero, [true, false, false, false]);
        assert_eq!(Named::default().0, "");
    }
}
