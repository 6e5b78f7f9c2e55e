//! Durability: which crashes an acknowledged commit survives.

use std::time::Duration;

/// Which crashes an acknowledged commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// If the process is killed, or the power or the operating system fails, every commit survives.
    /// `commit` returns when the transaction, and every commit that it has seen, is on the medium.
    #[default]
    Strict,
    /// If the process is killed or the power fails, every commit survives except about those of the
    /// last interval of this length. `commit` returns at once, and one flush within this bound
    /// makes the commits of the interval durable. Only the end of the history is lost: if a
    /// transaction is lost, every later one that depends on it is lost too.
    Group(Duration),
    /// If the process is killed or the power fails, every commit up to some earlier moment
    /// survives, because the logs are flushed now and then. A database that was closed keeps all
    /// commits.
    None,
}

/// Time between two flushes for commits with [`Durability::None`], and when [`Durability::Strict`]
/// leaves something that no transaction waits for.
const LAZY: Duration = Duration::from_secs(1);
/// Shortest time between two flushes that no transaction waits for, however short a bound is.
pub(crate) const PERIOD_MIN: Duration = Duration::from_millis(1);

impl Durability {
    /// [`Durability::Group`] with the default bound: 10 milliseconds.
    pub const GROUP: Self = Self::Group(Duration::from_millis(10));

    /// Time between two flushes that no transaction waits for.
    pub(crate) fn period(self) -> Duration {
        match self {
            Self::Group(bound) => bound,
            Self::Strict | Self::None => LAZY,
        }
    }
}

impl std::str::FromStr for Durability {
    type Err = UnknownDurability;

    fn from_str(text: &str) -> std::result::Result<Self, UnknownDurability> {
        let unknown = || UnknownDurability(text.to_owned());
        match text.split_once([':', ' ']) {
            None => match text {
                "strict" => Ok(Self::Strict),
                "group" => Ok(Self::GROUP),
                "none" => Ok(Self::None),
                _ => Err(unknown()),
            },
            Some(("group", bound)) => {
                let number = bound.strip_suffix("ms").unwrap_or(bound).trim();
                let millis: u64 = number.parse().map_err(|_| unknown())?;
                let fits = (1..=60_000).contains(&millis);
                fits.then(|| Self::Group(Duration::from_millis(millis))).ok_or_else(unknown)
            }
            Some(_) => Err(unknown()),
        }
    }
}

/// A text that is not the name of a [`Durability`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no durability; use strict, group (at most 10 ms are lost), group:N with N from 1 \
     to 60000 milliseconds, or none"
)]
pub struct UnknownDurability(String);

impl std::fmt::Display for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Strict => f.write_str("strict"),
            Self::Group(bound) => write!(f, "group:{}", bound.as_millis()),
            Self::None => f.write_str("none"),
        }
    }
}
