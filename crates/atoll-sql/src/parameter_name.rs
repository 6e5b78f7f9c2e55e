//! The names of parameters in statements and plans: `$1`, `$2`, ….

/// The number of a parameter from 0, by its name.
pub(crate) fn number(name: &str) -> Option<usize> {
    name.strip_prefix('$')?.parse::<usize>().ok().filter(|number| *number > 0).map(|one| one - 1)
}
