//! What an acknowledged commit survives.

use std::time::Duration;

/// What a commit that was acknowledged survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Process killed: all. Power lost, or the operating system stopped: all. `commit` returns when
    /// the transaction, and everything that it has seen, is on the medium.
    #[default]
    Strict,
    /// Process killed, or power lost: all but about the last so much time. `commit` returns at
    /// once, and what was committed is flushed together within this bound. What is lost is the end
    /// of the history: never one transaction without a later one that depends on it.
    Group(Duration),
    /// Process killed, or power lost: all up to some earlier moment, since it is flushed once in a
    /// while. A database that was closed is whole.
    None,
}

/// How long at most what was committed waits for a flush without [`Durability`].
const LAZY: Duration = Duration::from_secs(1);
/// The shortest time between two flushes that nobody waits for, however short a bound is.
pub(crate) const PERIOD_MIN: Duration = Duration::from_millis(1);

impl Durability {
    /// [`Durability::Group`] without a bound of its own: 10 milliseconds.
    pub const GROUP: Self = Self::Group(Duration::from_millis(10));

    /// How often everything is flushed that nobody waits for.
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

/// A text that names no [`Durability`].
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
