//! The roles of a server, in memory and in a file.
//!
//! `ROLE-1`: verifiers of passwords are in the file alone, which only its owner may read: in no
//! table, no snapshot and no log. `ROLE-2`: the file is replaced as a whole, so a crash leaves the
//! old one or the new one. `ROLE-3`: the user of the server is a superuser, in the file or not.
//! `ROLE-4`: no role is a member of itself, by way of others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_sql::{RoleInfo, SystemRole};
use ring::rand::{SecureRandom, SystemRandom};

use super::scram::Verifier;
use super::users::{name_of, own_user};

/// The number of the role that owns the database.
const OWNER: u32 = 10;
/// The first line of the file: of one without memberships, which earlier versions read, and of one
/// with them.
const HEAD: &str = "atoll roles 1";
const HEAD_WITH_MEMBERS: &str = "atoll roles 2";
/// What a line with a membership begins with.
const MEMBER: &str = "member\t";

/// A role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Role {
    pub(crate) is_superuser: bool,
    pub(crate) may_login: bool,
    pub(crate) verifier: Option<Verifier>,
}

/// A change of a role; `None` leaves a property as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RoleChange {
    pub(crate) is_superuser: Option<bool>,
    pub(crate) may_login: Option<bool>,
    /// `Some(None)` takes the password away.
    pub(crate) verifier: Option<Option<Verifier>>,
}

impl RoleChange {
    /// Whether it changes the password alone.
    pub(crate) fn is_password(&self) -> bool {
        self.verifier.is_some() && self.is_superuser.is_none() && self.may_login.is_none()
    }
}

/// The file of the roles in the folder of a database.
pub const ROLES_FILE: &str = "roles";

/// Why roles cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RolesError {
    /// The file cannot be read or written.
    #[error("the file of roles {path}: {source}")]
    File {
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Others than its owner may read the file.
    #[error("others may read the file of roles {path}, which has verifiers of passwords")]
    Permissions {
        /// Its path.
        path: PathBuf,
    },
    /// The file is damaged.
    #[error("the file of roles {path} is damaged at line {line}")]
    Damaged {
        /// Its path.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

impl RolesError {
    /// What to do about it.
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::File { .. } => "it must be a file of the user of the server".to_owned(),
            Self::Permissions { path } => format!("chmod 600 {}", path.display()),
            Self::Damaged { path, .. } => {
                format!("restore it, or remove {} and make the roles anew", path.display())
            }
        }
    }
}

/// The roles and their memberships.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Book {
    by_name: BTreeMap<String, Role>,
    /// Members, each with a role that it is a member of.
    members: BTreeSet<(String, String)>,
}

impl Book {
    /// The roles of which one is a member, directly or not, and itself.
    fn all_of(&self, name: &str) -> BTreeSet<String> {
        let mut all = BTreeSet::from([name.to_owned()]);
        let mut next = vec![name.to_owned()];
        while let Some(member) = next.pop() {
            let groups = self.members.iter().filter(|(one, _)| *one == member);
            for (_, group) in groups {
                if all.insert(group.clone()) {
                    next.push(group.clone());
                }
            }
        }
        all
    }
}

/// All roles.
#[derive(Debug)]
pub(crate) struct Roles {
    file: Option<PathBuf>,
    book: Mutex<Book>,
    /// Raised by each change.
    version: AtomicU64,
    /// For answers to those that do not exist.
    secret: [u8; 32],
}

impl Roles {
    /// Reads the roles of a file, which need not exist; without one they end with the server.
    ///
    /// # Errors
    /// [`RolesError`].
    pub(crate) fn open(file: Option<&Path>) -> Result<Self, RolesError> {
        let mut book = match file {
            Some(path) => read(path)?,
            None => Book::default(),
        };
        let own = name_of(own_user()).unwrap_or_else(|| own_user().to_string());
        let own = book.by_name.entry(own).or_default();
        (own.is_superuser, own.may_login) = (true, true);
        let mut secret = [0; 32];
        if SystemRandom::new().fill(&mut secret).is_err() {
            let path = PathBuf::from("/dev/urandom");
            let source = io::Error::other("the system has no randomness");
            return Err(RolesError::File { path, source });
        }
        let (file, version) = (file.map(Path::to_owned), AtomicU64::new(1));
        Ok(Self { file, book: Mutex::new(book), version, secret })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // A change that panics has changed nothing.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn secret(&self) -> &[u8] {
        &self.secret
    }

    pub(crate) fn get(&self, name: &str) -> Option<Role> {
        self.book().by_name.get(name).cloned()
    }

    /// All roles, as `pg_roles` shows them.
    pub(crate) fn listed(&self) -> Vec<SystemRole> {
        let own = name_of(own_user());
        let listed = |(name, role): (&String, &Role)| SystemRole {
            number: if own.as_ref() == Some(name) { OWNER } else { number_of(name) },
            name: name.clone(),
            is_superuser: role.is_superuser,
            can_log_in: role.may_login,
        };
        self.book().by_name.iter().map(listed).collect()
    }

    /// Adds a role; false if there is one of the name.
    ///
    /// # Errors
    /// The file cannot be written; nothing is added then.
    pub(crate) fn create(&self, name: &str, role: Role) -> Result<bool, RolesError> {
        self.change(|book| {
            let is_new = !book.by_name.contains_key(name);
            if is_new {
                book.by_name.insert(name.to_owned(), role);
            }
            is_new
        })
    }

    /// Changes a role; false if there is none of the name.
    ///
    /// # Errors
    /// The file cannot be written; nothing is changed then.
    pub(crate) fn alter(&self, name: &str, change: RoleChange) -> Result<bool, RolesError> {
        self.change(|book| {
            let Some(role) = book.by_name.get_mut(name) else { return false };
            role.is_superuser = change.is_superuser.unwrap_or(role.is_superuser);
            role.may_login = change.may_login.unwrap_or(role.may_login);
            if let Some(verifier) = change.verifier {
                role.verifier = verifier;
            }
            true
        })
    }

    /// Removes a role; false if there is none of the name.
    ///
    /// # Errors
    /// The file cannot be written; nothing is removed then.
    pub(crate) fn remove(&self, name: &str) -> Result<bool, RolesError> {
        self.change(|book| {
            book.members.retain(|(member, group)| member != name && group != name);
            book.by_name.remove(name).is_some()
        })
    }

    /// Makes a role a member of another, or no longer; false if the other is a member of it.
    ///
    /// # Errors
    /// The file cannot be written; nothing is changed then.
    pub(crate) fn set_member(
        &self,
        member: &str,
        group: &str,
        is_member: bool,
    ) -> Result<bool, RolesError> {
        let mut makes_circle = false;
        self.change(|book| {
            let pair = (member.to_owned(), group.to_owned());
            if !is_member {
                return book.members.remove(&pair);
            }
            makes_circle = book.all_of(group).contains(member);
            !makes_circle && book.members.insert(pair)
        })?;
        Ok(!makes_circle)
    }

    /// Writes the roles into a backup.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn back_up(&self, backup: &Path) -> Result<(), RolesError> {
        let path = backup.join(ROLES_FILE);
        write(&path, &self.book()).map_err(|source| RolesError::File { path, source })
    }

    fn change(&self, change: impl FnOnce(&mut Book) -> bool) -> Result<bool, RolesError> {
        let mut roles = self.book();
        let mut changed = roles.clone();
        if !change(&mut changed) {
            return Ok(false);
        }
        if let Some(path) = &self.file {
            write(path, &changed)
                .map_err(|source| RolesError::File { path: path.clone(), source })?;
        }
        *roles = changed;
        self.version.fetch_add(1, Ordering::Release);
        Ok(true)
    }
}

/// Gives a restored database in the folder `new` the roles of its backup, if that has any.
///
/// # Errors
/// The file of the backup is damaged, or open for others; that of the new database cannot be
/// written.
pub fn restore_roles(backup: &Path, new: &Path) -> Result<(), RolesError> {
    let (from, path) = (backup.join(ROLES_FILE), new.join(ROLES_FILE));
    if !from.exists() {
        return Ok(());
    }
    write(&path, &read(&from)?).map_err(|source| RolesError::File { path, source })
}

/// The number of a role, which it has as long as its name: one of a range that no relation has.
fn number_of(name: &str) -> u32 {
    // FNV-1a, 32 bits.
    let hash = name
        .bytes()
        .fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash | 0xC000_0000
}

impl atoll_sql::Roles for Roles {
    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn role(&self, name: &str) -> Option<RoleInfo> {
        let book = self.book();
        let role = book.by_name.get(name)?;
        Some(RoleInfo { is_superuser: role.is_superuser, roles: book.all_of(name) })
    }
}

fn read(path: &Path) -> Result<Book, RolesError> {
    let fault = |source| RolesError::File { path: path.to_owned(), source };
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Book::default()),
        Err(error) => return Err(fault(error)),
    };
    let mode = fs::metadata(path).map_err(fault)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(RolesError::Permissions { path: path.to_owned() });
    }
    let damaged = |line| RolesError::Damaged { path: path.to_owned(), line };
    let mut lines = text.lines().enumerate();
    if lines.next().is_none_or(|(_, head)| head != HEAD && head != HEAD_WITH_MEMBERS) {
        return Err(damaged(1));
    }
    let mut book = Book::default();
    for (at, line) in lines {
        if let Some(pair) = line.strip_prefix(MEMBER) {
            let (member, group) = pair.split_once('\t').ok_or_else(|| damaged(at + 1))?;
            book.members.insert((member.to_owned(), group.to_owned()));
        } else {
            let (name, role) = role_of(line).ok_or_else(|| damaged(at + 1))?;
            book.by_name.insert(name, role);
        }
    }
    Ok(book)
}

/// A role in a line: what it may, its verifier, and its name, which may have blanks.
fn role_of(line: &str) -> Option<(String, Role)> {
    let mut fields = line.splitn(4, ' ');
    let is_superuser = match fields.next()? {
        "superuser" => true,
        "user" => false,
        _ => return None,
    };
    let may_login = match fields.next()? {
        "login" => true,
        "nologin" => false,
        _ => return None,
    };
    let verifier = match fields.next()? {
        "-" => None,
        text => Some(Verifier::of_text(text)?),
    };
    let name = fields.next()?;
    Some((name.to_owned(), Role { is_superuser, may_login, verifier }))
}

fn line_of(name: &str, role: &Role) -> String {
    let kind = if role.is_superuser { "superuser" } else { "user" };
    let login = if role.may_login { "login" } else { "nologin" };
    let verifier = role.verifier.as_ref().map_or("-".to_owned(), Verifier::to_text);
    format!("{kind} {login} {verifier} {name}\n")
}

fn write(path: &Path, book: &Book) -> io::Result<()> {
    let head = if book.members.is_empty() { HEAD } else { HEAD_WITH_MEMBERS };
    let mut text = format!("{head}\n");
    text.extend(book.by_name.iter().map(|(name, role)| line_of(name, role)));
    // Names have no control characters.
    text.extend(book.members.iter().map(|(one, group)| format!("{MEMBER}{one}\t{group}\n")));
    let new = path.with_extension("new");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    // It may have been there, with other permissions.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn roles_are_there_again_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("roles");
        let roles = Roles::open(Some(&path)).unwrap();
        let verifier = Some(Verifier::of_password("x").unwrap());
        let ann = Role { is_superuser: false, may_login: true, verifier };
        assert!(roles.create("ann b", ann.clone()).unwrap());
        assert!(!roles.create("ann b", Role::default()).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let again = Roles::open(Some(&path)).unwrap();
        assert_eq!(again.get("ann b"), Some(ann));
        let change = RoleChange { verifier: Some(None), ..RoleChange::default() };
        assert!(again.alter("ann b", change).unwrap());
        assert_eq!(Roles::open(Some(&path)).unwrap().get("ann b").unwrap().verifier, None);
        assert!(again.remove("ann b").unwrap() && !again.remove("ann b").unwrap());
        let own = name_of(own_user()).unwrap();
        assert!(again.get(&own).unwrap().is_superuser);
    }

    #[test]
    fn memberships_reach_through_others_and_make_no_circle() {
        use atoll_sql::Roles as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("roles");
        let roles = Roles::open(Some(&path)).unwrap();
        for name in ["ann", "readers", "all of them"] {
            assert!(roles.create(name, Role::default()).unwrap());
        }
        let before = roles.version();
        assert!(roles.set_member("ann", "readers", true).unwrap());
        assert!(roles.set_member("readers", "all of them", true).unwrap());
        assert!(!roles.set_member("all of them", "ann", true).unwrap());
        assert!(!roles.set_member("ann", "ann", true).unwrap());
        assert!(roles.version() > before);
        let again = Roles::open(Some(&path)).unwrap();
        let names: Vec<String> = again.role("ann").unwrap().roles.into_iter().collect();
        assert_eq!(names, ["all of them", "ann", "readers"]);
        assert!(again.remove("readers").unwrap());
        assert_eq!(again.role("ann").unwrap().roles.len(), 1);
        assert!(fs::read_to_string(&path).unwrap().starts_with(HEAD));
    }

    #[test]
    fn a_file_that_others_may_read_or_that_is_damaged_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("roles");
        fs::write(&path, format!("{HEAD}\nuser login - ann\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Roles::open(Some(&path)), Err(RolesError::Permissions { .. })));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(Roles::open(Some(&path)).is_ok());
        fs::write(&path, format!("{HEAD}\nuser login SCRAM ann\n")).unwrap();
        let error = Roles::open(Some(&path)).unwrap_err();
        assert!(matches!(error, RolesError::Damaged { line: 2, .. }), "{error}");
    }
}
