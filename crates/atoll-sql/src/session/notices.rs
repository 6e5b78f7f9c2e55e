//! What a session tells of statements that succeed.

use sqlparser::ast::{AlterTableOperation, ObjectName};

use super::SqlSession;
use crate::notice::{Notice, NoticeLevel};
use crate::scope::Scope;
use crate::{names, schemas};

impl SqlSession {
    /// What is to be told of the statements that have been carried out since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Whether notices of this level are told (`client_min_messages`).
    pub fn tells(&self, level: NoticeLevel) -> bool {
        self.settings.now().messages.lets(level)
    }

    pub(super) fn tell(&mut self, notice: Notice) {
        if self.tells(notice.level()) {
            self.notices.push(notice);
        }
    }

    /// Tells that a domain has no constraint of the name that is to be dropped.
    pub(super) fn tell_no_constraint(&mut self, operation: &AlterTableOperation, domain: &str) {
        if let AlterTableOperation::DropConstraint { name, .. } = operation {
            let name = names::fold(name);
            let message =
                format!("constraint \"{name}\" of domain \"{domain}\" does not exist, skipping");
            self.tell(Notice::new("00000", message));
        }
    }

    /// Tells what has gone with something that was dropped.
    pub(super) fn tell_cascades(&mut self, gone: &[String]) {
        Notice::cascades(gone).into_iter().for_each(|notice| self.tell(notice));
    }

    /// Tells that something that is to be dropped is not there.
    pub(super) fn tell_missing(&mut self, scope: &Scope, what: &str, name: &ObjectName) {
        let schema = match name.0.as_slice() {
            [.., schema, _] => schema.as_ident().map(names::fold),
            _ => None,
        };
        let notice = match schema {
            Some(schema) if !schemas::exists(&schema, &|name| scope.has(name)) => {
                Notice::missing("schema", &schema)
            }
            _ => Notice::missing(what, &names::last(name)),
        };
        self.tell(notice);
    }
}
