//! The origin of a backup: where in the logs it begins. It is the file `origin` beside the control
//! file of the backup.
//!
//! ```text
//! id | incarnation | epoch | gsn | time | tablespaces | (start | end) × tablespaces
//! ```
//! in a sealed file ([`crate::sealed`]); numbers are as in [`atoll_storage::redo`]. A backup holds
//! the content of one checkpoint of its database; the origin says from where a restore has to read
//! the logs.

use atoll_machine::Medium;
use atoll_storage::redo::{Input, number};

use crate::control::{count, incarnation};
use crate::error::LogError;
use crate::options::TABLESPACES_MAX;
use crate::sealed;

/// Name of the file.
pub const FILE: &str = "origin";
const MAGIC: [u8; 8] = *b"ATOLLORG";

/// The origin of a backup; see the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Id of the database that the backup was taken from.
    pub id: u64,
    /// The incarnation in which the backup was taken.
    pub incarnation: u32,
    /// The backup shows what was committed in this epoch of that incarnation, and earlier.
    pub epoch: u64,
    /// GSN of a time mark right after the backup: no commit that the backup shows has a greater
    /// GSN.
    pub gsn: u64,
    /// Time of that mark: microseconds since 1970, UTC.
    pub time_us: u64,
    /// For each tablespace, the position from which a restore reads its log, and the end of the log
    /// at the time mark.
    pub logs: Vec<(u64, u64)>,
}

impl Origin {
    /// Writes the file; it is durable when this returns.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn write(&self, medium: &dyn Medium) -> Result<(), LogError> {
        let mut body = Vec::new();
        let tablespaces = self.logs.len() as u64;
        let incarnation = self.incarnation.into();
        for value in [self.id, incarnation, self.epoch, self.gsn, self.time_us, tablespaces] {
            number(&mut body, value);
        }
        for (start, end) in &self.logs {
            number(&mut body, *start);
            number(&mut body, *end);
        }
        sealed::write(medium, FILE, MAGIC, &body)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// As [`sealed::read`].
    pub fn read(medium: &dyn Medium) -> Result<Self, LogError> {
        sealed::read(medium, FILE, MAGIC, Self::decode)
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let mut input = Input(body);
        let mut origin = Self {
            id: input.number()?,
            incarnation: incarnation(&mut input)?,
            epoch: count(&mut input)?,
            gsn: count(&mut input)?,
            time_us: input.number()?,
            logs: Vec::new(),
        };
        let tablespaces = input.number()?;
        if !(1..=TABLESPACES_MAX as u64).contains(&tablespaces) {
            return None;
        }
        let mut pair = || Some((count(&mut input)?, count(&mut input)?));
        origin.logs = (0..tablespaces).map(|_| pair()).collect::<Option<_>>()?;
        Some(origin)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use atoll_machine::CrashMedium;

    use super::*;

    #[test]
    fn it_comes_back_as_it_was() {
        let medium = CrashMedium::default();
        let logs = vec![(3, 1 << 40), (0, 0)];
        let origin = Origin { id: 1 << 63, incarnation: 2, epoch: 3, gsn: 4, time_us: 5, logs };
        origin.write(&medium).unwrap();
        assert_eq!(Origin::read(&medium).unwrap(), origin);
    }
}
