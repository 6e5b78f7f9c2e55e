//! Results as text: aligned tables and expanded rows for people, JSON for programs.

pub mod json;
pub mod memory;
pub mod rows;
pub mod snapshots;
pub mod table;
