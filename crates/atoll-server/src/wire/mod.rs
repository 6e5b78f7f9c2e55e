//! Messages of the protocol as bytes: frames that a client sends, the fields in them, and the
//! messages of the server.
//!
//! Nothing here knows a session. A field is read where it is in the buffer, without a copy.

pub(crate) mod fields;
pub(crate) mod frames;
pub(crate) mod out;
