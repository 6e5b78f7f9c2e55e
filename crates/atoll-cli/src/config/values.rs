//! Values of the configuration file: checked as those of the command line are, and kept as they
//! were written.

use std::fmt;
use std::marker::PhantomData;

use clap::ValueEnum;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::args;
use crate::size;

/// What a text has to be.
pub trait Check {
    /// # Errors
    /// It is not; a sentence that says how one looks.
    fn check(text: &str) -> Result<(), String>;
}

/// A text, or a number as its text, that was checked.
pub struct Checked<C>(String, PhantomData<C>);

impl<C> fmt::Debug for Checked<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<C> Serialize for Checked<C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, C: Check> Deserialize<'de> for Checked<C> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Texts(PhantomData))
    }
}

struct Texts<C>(PhantomData<C>);

impl<C: Check> Visitor<'_> for Texts<C> {
    type Value = Checked<C>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a whole number")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        C::check(text).map_err(E::custom)?;
        Ok(Checked(text.to_owned(), PhantomData))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        self.visit_str(&number.to_string())
    }
}

macro_rules! checks {
    ($($(#[$doc:meta])* $name:ident = $check:expr;)*) => {
        $($(#[$doc])*
        #[derive(Debug)]
        pub struct $name;

        impl Check for $name {
            fn check(text: &str) -> Result<(), String> {
                $check(text).map(drop)
            }
        })*
    };
}

checks! {
    /// A number of bytes.
    Bytes = size::parse_bytes;
    /// A time.
    Time = size::parse_time;
    /// A time that is not zero.
    Interval = args::parse_interval;
    /// Where a server listens on TCP.
    Address = args::parse_listen;
    /// Most clients.
    Connections = connections;
    /// What is logged.
    Level = |text: &str| args::LogLevel::from_str(text, false);
    /// A scheme.
    Scheme = |text: &str| text.parse::<atoll::SchemeKind>().map_err(|error| error.to_string());
    /// What a commit survives.
    Survival = |text: &str| text.parse::<atoll::Durability>().map_err(|error| error.to_string());
}

fn connections(text: &str) -> Result<(), String> {
    let range = args::CONNECTIONS;
    match text.parse() {
        Ok(number) if range.contains(&number) => Ok(()),
        _ => Err(format!("\"{text}\" is no number from {} to {}", range.start(), range.end())),
    }
}
