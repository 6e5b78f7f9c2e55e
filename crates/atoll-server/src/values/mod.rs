//! Values on the wire: the numbers of types, and the text and binary forms of values.

mod binary;
mod cell;
mod columns;
pub(crate) mod oids;
mod parameters;
mod text;

pub(crate) use cell::{Cell, Reader};
pub(crate) use columns::{
    Column, columns_of, format_of, put_description, put_row, put_value, tell,
};
pub(crate) use parameters::parameter;
pub(crate) use text::{put as put_text, put_vector};
