//! Values of options.

use adbc_core::options::OptionValue;

use crate::errors::{Result, error, unsupported, wrong_argument};
use adbc_core::error::{Error, Status};

/// The option that names the primary key of a table that is created.
pub(crate) const KEY: &str = "atoll.ingest.primary_key";
/// The option that turns views off in results.
const VIEWS: &str = "atoll.views";

/// Options that a statement takes over from its connection, and this from its database.
#[derive(Debug, Clone)]
pub(crate) struct Defaults {
    /// The primary key of tables that are created.
    pub(crate) primary_key: Option<String>,
    /// Whether texts and bytes are views in results.
    pub(crate) views: bool,
}

impl Default for Defaults {
    fn default() -> Self {
        Self { primary_key: None, views: true }
    }
}

impl Defaults {
    /// An option by its name.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        match name {
            KEY => self.primary_key.clone(),
            VIEWS => Some(self.views.to_string()),
            _ => None,
        }
    }

    /// Sets an option.
    ///
    /// # Errors
    /// There is no such option, or it has no such value.
    pub(crate) fn set(&mut self, name: &str, value: OptionValue) -> Result<()> {
        match name {
            KEY => self.primary_key = Some(text(name, value)?),
            VIEWS => self.views = truth(name, value)?,
            _ => return Err(unknown(name)),
        }
        Ok(())
    }
}

/// The text of an option.
pub(crate) fn text(key: &str, value: OptionValue) -> Result<String> {
    match value {
        OptionValue::String(text) => Ok(text),
        other => Err(wrong_argument(format!("{key} is a text, not {other:?}"))),
    }
}

/// The truth of an option.
pub(crate) fn truth(key: &str, value: OptionValue) -> Result<bool> {
    let text = text(key, value)?;
    match text.as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(wrong_argument(format!("{key} is true or false, not \"{text}\""))),
    }
}

/// A whole number, as it is or as text.
pub(crate) fn number(key: &str, value: OptionValue) -> Result<u64> {
    let wrong = |shown: String| wrong_argument(format!("{key} is a number from 0, not {shown}"));
    match value {
        OptionValue::Int(number) => number.try_into().map_err(|_| wrong(number.to_string())),
        OptionValue::String(text) => text.trim().parse().map_err(|_| wrong(format!("\"{text}\""))),
        other => Err(wrong(format!("{other:?}"))),
    }
}

/// The error for an option that cannot be set.
pub(crate) fn unknown(key: &str) -> Error {
    unsupported(format!("there is no option {key}, or it cannot be set here"))
}

/// The error for an option that has no value.
pub(crate) fn not_found(key: &str) -> Error {
    error(Status::NotFound, "42704", format!("the option {key} has no value here"))
}

/// The getters of [`adbc_core::Optionable`] for options that are all texts.
macro_rules! only_texts {
    ($option:ty) => {
        fn get_option_bytes(&self, key: $option) -> adbc_core::error::Result<Vec<u8>> {
            Err($crate::options::not_found(key.as_ref()))
        }

        fn get_option_int(&self, key: $option) -> adbc_core::error::Result<i64> {
            Err($crate::options::not_found(key.as_ref()))
        }

        fn get_option_double(&self, key: $option) -> adbc_core::error::Result<f64> {
            Err($crate::options::not_found(key.as_ref()))
        }
    };
}
pub(crate) use only_texts;
