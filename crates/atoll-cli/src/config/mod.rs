//! The configuration file of `atoll serve`.
//!
//! 1. [`keys`] says which keys there are and what [`values`] they take. [`file`] reads a file: each
//!    key that is wrong is told with its line.
//! 2. [`line`] adds the keys of a file to the arguments of the command line, except those that the
//!    command line has itself. So the command line wins, and what options mean and which of them go
//!    together is said once, in `args`.
//!
//! `CONFIG-1`: a key has the name of its option, with underscores. A test holds both lists against
//! each other.

mod file;
mod keys;
mod line;
mod options;
mod values;

pub use file::read;
pub use keys::{Key, keys};
pub use line::{Line, of_command_line, of_serve};
pub use options::key_of;
