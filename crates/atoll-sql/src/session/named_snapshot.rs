//! Sessions of a server that read one snapshot: `SET atoll.snapshot = 'name'`.
//!
//! `READING-1`: while the setting has a value, queries of tables read the snapshot of that name,
//! and nothing is changed or locked. What a role may read is what it may read now.

use atoll::Snapshot;

use super::{SqlSession, Target};
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::settings::{Assignment, Changed};

/// The name of the setting.
const SETTING: &str = "atoll.snapshot";

impl SqlSession {
    /// The name of the snapshot that the session reads, if it reads one.
    #[inline]
    pub(super) fn reads_snapshot(&self) -> Option<&str> {
        self.settings.now().customs.get(SETTING).filter(|name| !name.is_empty())
    }

    /// The snapshot of a name.
    ///
    /// # Errors
    /// There is none, perhaps no longer.
    pub(super) fn named_snapshot(&self, name: &str) -> Result<Snapshot, SqlError> {
        let server = self.surroundings.as_ref().map(|one| one.server());
        let found = server.and_then(|server| server.snapshot(name));
        let found = found.filter(|snapshot| snapshot.check().is_ok());
        found.ok_or_else(|| {
            let message = format!("snapshot \"{name}\" does not exist");
            let hint = "SELECT atoll_snapshot() takes one, atoll_snapshots lists them, and \
                        RESET atoll.snapshot reads the database again";
            SqlError::new(SqlErrorKind::Schema, message)
                .with_cause(Cause::UnknownObject)
                .with_hint(Some(hint.to_owned()))
        })
    }

    /// Checks that the session changes the database: it reads no snapshot.
    pub(super) fn check_not_reading(&self, what: &str) -> Result<(), SqlError> {
        self.reads_snapshot().map_or(Ok(()), |_| Err(reading(what)))
    }

    /// Checks, of a change of the setting, that there is the snapshot, and that the open
    /// transaction has changed nothing, which its queries would not see.
    ///
    /// # Errors
    /// One of these does not hold.
    pub(super) fn check_read(&self, assignment: &Assignment) -> Result<(), SqlError> {
        let name = match &assignment.changed {
            Changed::Custom(setting, Some(name)) if &**setting == SETTING => name,
            _ => return Ok(()),
        };
        if name.is_empty() {
            return Ok(());
        }
        if let Target::Database { open: Some(open), .. } = &self.target
            && open.has_written()
        {
            let message = format!("{SETTING} cannot be set in a transaction that has changed rows");
            return Err(SqlError::new(SqlErrorKind::Syntax, message)
                .with_state("25001")
                .with_hint(Some("COMMIT or ROLLBACK first".to_owned())));
        }
        self.named_snapshot(name).map(drop)
    }
}

/// The error of a session that reads a snapshot.
pub(super) fn reading(what: &str) -> SqlError {
    let message = format!("{what} is refused: this session reads a snapshot, which never changes");
    SqlError::new(SqlErrorKind::ReadOnly, message)
        .with_hint(Some(format!("RESET {SETTING} reads and changes the database again")))
}
