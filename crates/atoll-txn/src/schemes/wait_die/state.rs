//! A row has a lock that knows how old its oldest holder is.

pub use crate::common::lock::Lock as State;
