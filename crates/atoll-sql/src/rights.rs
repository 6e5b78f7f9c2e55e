//! The owner of something, and what other roles may do with it, as it is kept (`privileges`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{BitOr, BitOrAssign};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{SqlError, SqlErrorKind};

/// The role that stands for all of them.
pub(crate) const PUBLIC: &str = "public";

/// A set of privileges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Privileges(u16);

/// All privileges: with the letters by which PostgreSQL keeps them, and their names.
const ALL: [(Privileges, char, &str); 9] = [
    (Privileges::SELECT, 'r', "SELECT"),
    (Privileges::INSERT, 'a', "INSERT"),
    (Privileges::UPDATE, 'w', "UPDATE"),
    (Privileges::DELETE, 'd', "DELETE"),
    (Privileges::TRUNCATE, 'D', "TRUNCATE"),
    (Privileges::REFERENCES, 'x', "REFERENCES"),
    (Privileges::TRIGGER, 't', "TRIGGER"),
    (Privileges::USAGE, 'U', "USAGE"),
    (Privileges::CREATE, 'C', "CREATE"),
];

impl Privileges {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const SELECT: Self = Self(1);
    pub(crate) const INSERT: Self = Self(2);
    pub(crate) const UPDATE: Self = Self(4);
    pub(crate) const DELETE: Self = Self(8);
    pub(crate) const TRUNCATE: Self = Self(16);
    pub(crate) const REFERENCES: Self = Self(32);
    pub(crate) const TRIGGER: Self = Self(64);
    pub(crate) const USAGE: Self = Self(128);
    pub(crate) const CREATE: Self = Self(256);
    /// Those of tables and views, of sequences and of schemas.
    pub(crate) const OF_TABLES: Self = Self(1 | 2 | 4 | 8 | 16 | 32 | 64);
    pub(crate) const OF_SEQUENCES: Self = Self(1 | 4 | 128);
    pub(crate) const OF_SCHEMAS: Self = Self(128 | 256);

    /// Whether it has all of these.
    pub(crate) fn has(self, all: Self) -> bool {
        self.0 & all.0 == all.0
    }

    /// Whether it has one of these.
    pub(crate) fn has_any(self, some: Self) -> bool {
        self.0 & some.0 != 0
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The name of the first of them.
    pub(crate) fn name(self) -> &'static str {
        ALL.iter().find(|(one, ..)| self.has(*one)).map_or("", |(.., name)| *name)
    }

    /// The privilege of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        ALL.iter().find(|(_, _, one)| one.eq_ignore_ascii_case(name)).map(|(one, ..)| *one)
    }
}

impl BitOr for Privileges {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Privileges {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl Serialize for Privileges {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let letters = ALL.iter().filter(|(one, ..)| self.has(*one)).map(|(_, letter, _)| *letter);
        letters.collect::<String>().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Privileges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let letters = String::deserialize(deserializer)?;
        let mut privileges = Self::NONE;
        for letter in letters.chars() {
            match ALL.iter().find(|(_, known, _)| *known == letter) {
                Some((one, ..)) => privileges |= *one,
                None => {
                    let message = format!("there is no privilege {letter}");
                    return Err(serde::de::Error::custom(message));
                }
            }
        }
        Ok(privileges)
    }
}

/// The rights of something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Rights {
    /// None for what a superuser or a program has made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    /// By role.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) grants: BTreeMap<String, Privileges>,
}

impl Rights {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What a role may do that is a member of these; `all` is what an owner may.
    pub(crate) fn of(&self, roles: &BTreeSet<String>, all: Privileges) -> Privileges {
        if self.is_owned_by(roles) {
            return all;
        }
        let public = self.grants.get(PUBLIC).copied().unwrap_or_default();
        let own = roles.iter().filter_map(|role| self.grants.get(role));
        own.fold(public, |sum, one| sum | *one)
    }

    /// Gives it to another owner, with what was granted to the old one.
    pub(crate) fn give(&mut self, owner: Option<&str>) {
        if let Some(old) = self.owner.take().filter(|old| Some(old.as_str()) != owner) {
            self.grants.remove(&old);
        }
        self.owner = owner.map(str::to_owned);
    }

    pub(crate) fn is_owned_by(&self, roles: &BTreeSet<String>) -> bool {
        self.owner.as_ref().is_some_and(|owner| roles.contains(owner))
    }

    pub(crate) fn grant(&mut self, role: &str, privileges: Privileges) {
        *self.grants.entry(role.to_owned()).or_default() |= privileges;
    }

    pub(crate) fn revoke(&mut self, role: &str, privileges: Privileges) {
        if let Some(left) = self.grants.get_mut(role) {
            *left = left.without(privileges);
            if *left == Privileges::NONE {
                self.grants.remove(role);
            }
        }
    }

    /// Whether a role owns it, or may do something with it.
    pub(crate) fn mentions(&self, role: &str) -> bool {
        self.owner.as_deref() == Some(role) || self.grants.contains_key(role)
    }
}

/// The error of a role that may not do something: `what` is `table t`.
pub(crate) fn denied(what: &str) -> SqlError {
    let message = format!("permission denied for {what}");
    SqlError::new(SqlErrorKind::Schema, message).with_state("42501")
}

/// The error of a role that does not own something.
pub(crate) fn not_owner(what: &str) -> SqlError {
    let message = format!("must be owner of {what}");
    SqlError::new(SqlErrorKind::Schema, message).with_state("42501")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn rights_are_kept_as_letters_and_summed_over_roles() {
        let mut rights = Rights { owner: Some("eve".to_owned()), ..Rights::default() };
        rights.grant("ann", Privileges::SELECT | Privileges::INSERT);
        rights.grant(PUBLIC, Privileges::REFERENCES);
        let text = serde_json::to_string(&rights).unwrap();
        assert_eq!(text, r#"{"owner":"eve","grants":{"ann":"ra","public":"x"}}"#);
        assert_eq!(serde_json::from_str::<Rights>(&text).unwrap(), rights);
        assert!(serde_json::from_str::<Rights>(r#"{"grants":{"a":"?"}}"#).is_err());
        let of = |roles: &[&str]| {
            let roles = roles.iter().map(|role| (*role).to_owned()).collect();
            rights.of(&roles, Privileges::OF_TABLES)
        };
        assert_eq!(of(&["bob"]), Privileges::REFERENCES);
        assert!(of(&["bob", "ann"]).has(Privileges::SELECT | Privileges::REFERENCES));
        assert!(!of(&["ann"]).has_any(Privileges::DELETE | Privileges::USAGE));
        assert_eq!(of(&["eve"]), Privileges::OF_TABLES);
        rights.revoke("ann", Privileges::OF_TABLES);
        assert!(!rights.mentions("ann") && rights.mentions("eve"));
    }
}
