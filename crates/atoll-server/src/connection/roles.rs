//! `CREATE`, `ALTER` and `DROP ROLE`: roles are the server's, so they are no part of a transaction.

use atoll_sql::TransactionStatus;

use super::Connection;
use super::report::{of_error, report};
use crate::auth::scram::Verifier;
use crate::auth::{Role, RoleChange};
use crate::link::Fault;
use crate::wire::out::Report;

/// What of a statement about a role stands next to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// A word in lower case.
    Word(String),
    Quoted(String),
    Text(String),
    Other(char),
}

impl Connection {
    /// Carries out a statement about a role, and returns its command tag.
    pub(super) fn change_role(&mut self, sql: &str) -> Result<String, Fault> {
        let statement = parse(sql)?;
        let role = self.shared.roles.get(&self.role).unwrap_or_default();
        let is_own_password = match &statement {
            RoleStatement::Alter(name, change) => *name == self.role && change.is_password(),
            _ => false,
        };
        if !role.is_superuser && !is_own_password {
            let message = "permission denied: only a superuser changes roles";
            return Err(report("42501", message).into());
        }
        // Of an earlier role of the name, where its end was not a part of the transaction.
        if let RoleStatement::Create(name, _) = &statement
            && self.shared.roles.get(name).is_none()
            && let Some(object) =
                self.session.mentions_of_role(name).map_err(|error| of_error(&error, sql, 0))?
        {
            let message = format!("role \"{name}\" cannot be created: {object} names one already");
            let hint = Some(format!("REVOKE ALL ON {object} FROM \"{name}\" first"));
            return Err(Fault::Error(Report { hint, ..report("42710", message) }));
        }
        let roles = &self.shared.roles;
        let unknown = |name: &str| report("42704", format!("role \"{name}\" does not exist"));
        let (done, tag) = match statement {
            RoleStatement::Create(name, role) => match roles.create(&name, role) {
                Ok(false) => {
                    let message = format!("role \"{name}\" already exists");
                    return Err(report("42710", message).into());
                }
                done => (done, "CREATE ROLE"),
            },
            RoleStatement::Alter(name, change) => match roles.alter(&name, change) {
                Ok(false) => return Err(unknown(&name).into()),
                done => (done, "ALTER ROLE"),
            },
            RoleStatement::Drop(name, if_exists) => {
                let status = self.session.transaction_status();
                if status != TransactionStatus::Idle && !self.is_implicit {
                    let message = "DROP ROLE cannot run inside a transaction block";
                    return Err(report("25001", message).into());
                }
                if name == self.role {
                    return Err(report("55006", "current user cannot be dropped").into());
                }
                let mentions = self.session.mentions_of_role(&name);
                if let Some(object) = mentions.map_err(|error| of_error(&error, sql, 0))? {
                    let message = format!(
                        "role \"{name}\" cannot be dropped because some objects depend on it"
                    );
                    let detail = Some(format!("owner of {object}, or privileges for it").into());
                    let hint = Some("REVOKE ALL, and ALTER … OWNER TO, first".to_owned());
                    let report = Report { detail, hint, ..report("2BP01", message) };
                    return Err(report.into());
                }
                match roles.remove(&name) {
                    Ok(false) if !if_exists => return Err(unknown(&name).into()),
                    done => (done, "DROP ROLE"),
                }
            }
        };
        done.map_err(|error| report("58030", error.to_string()))?;
        Ok(tag.to_owned())
    }
}

impl Connection {
    /// Carries out `GRANT role TO role` or `REVOKE role FROM role`, and returns its command tag;
    /// `None` for one of privileges.
    pub(super) fn change_members(&mut self, sql: &str) -> Result<Option<String>, Fault> {
        let tokens = tokens(sql);
        if tokens.contains(&Token::Word("on".to_owned())) {
            return Ok(None);
        }
        let statement = members(&tokens)?;
        if !self.shared.roles.get(&self.role).is_some_and(|role| role.is_superuser) {
            let message = "permission denied: only a superuser changes the members of roles";
            return Err(report("42501", message).into());
        }
        let roles = &self.shared.roles;
        for name in statement.groups.iter().chain(&statement.members) {
            if roles.get(name).is_none() {
                let message = format!("role \"{name}\" does not exist");
                return Err(report("42704", message).into());
            }
        }
        for member in &statement.members {
            for group in &statement.groups {
                let done = roles.set_member(member, group, statement.adds);
                let fits = done.map_err(|error| report("58030", error.to_string()))?;
                if !fits {
                    let message = format!("role \"{group}\" is a member of role \"{member}\"");
                    return Err(report("0LP01", message).into());
                }
            }
        }
        Ok(Some(if statement.adds { "GRANT ROLE" } else { "REVOKE ROLE" }.to_owned()))
    }
}

/// A change of memberships.
#[derive(Debug, PartialEq, Eq)]
struct Members {
    adds: bool,
    groups: Vec<String>,
    members: Vec<String>,
}

/// Reads `GRANT a, b TO c, d` or `REVOKE a, b FROM c, d`.
fn members(tokens: &[Token]) -> Result<Members, Fault> {
    let mut tokens = tokens.iter().peekable();
    let adds = tokens.next() == Some(&Token::Word("grant".to_owned()));
    let mut names = |end: Option<&str>| -> Result<Vec<String>, Fault> {
        let mut names = Vec::new();
        loop {
            match tokens.next() {
                Some(Token::Word(name) | Token::Quoted(name)) => names.push(name.clone()),
                other => return Err(syntax(other)),
            }
            match tokens.next() {
                Some(Token::Other(',')) => {}
                Some(Token::Word(word)) if end == Some(word.as_str()) => return Ok(names),
                None if end.is_none() => return Ok(names),
                Some(Token::Word(word)) if word == "with" => {
                    let message = "WITH ADMIN OPTION is not supported: superusers grant roles";
                    return Err(report("0A000", message).into());
                }
                other => return Err(syntax(other)),
            }
        }
    };
    let groups = names(Some(if adds { "to" } else { "from" }))?;
    let members = names(None)?;
    Ok(Members { adds, groups, members })
}

#[derive(Debug, PartialEq, Eq)]
enum RoleStatement {
    Create(String, Role),
    Alter(String, RoleChange),
    /// Whether it need not exist.
    Drop(String, bool),
}

fn syntax(found: Option<&Token>) -> Fault {
    let near = match found {
        Some(Token::Word(word)) => format!("at or near \"{word}\""),
        Some(Token::Quoted(text) | Token::Text(text)) => format!("at or near \"{text}\""),
        Some(Token::Other(other)) => format!("at or near \"{other}\""),
        None => "at end of input".to_owned(),
    };
    let hint = "CREATE ROLE name [LOGIN | NOLOGIN] [SUPERUSER | NOSUPERUSER] [PASSWORD 'text']; \
                ALTER ROLE and DROP ROLE likewise";
    let message = format!("syntax error {near}");
    Fault::Error(crate::wire::out::Report {
        hint: Some(hint.to_owned()),
        ..report("42601", message)
    })
}

fn parse(sql: &str) -> Result<RoleStatement, Fault> {
    let tokens = tokens(sql);
    let mut tokens = tokens.iter().peekable();
    let verb = tokens.next().cloned();
    let is_user = tokens.next() == Some(&Token::Word("user".to_owned()));
    let mut if_exists = false;
    if verb == Some(Token::Word("drop".to_owned()))
        && tokens.next_if_eq(&&Token::Word("if".to_owned())).is_some()
    {
        tokens.next_if_eq(&&Token::Word("exists".to_owned())).ok_or_else(|| syntax(None))?;
        if_exists = true;
    }
    let name = match tokens.next() {
        Some(Token::Word(name) | Token::Quoted(name)) => name.clone(),
        other => return Err(syntax(other)),
    };
    if name.is_empty() || name.len() > 63 || name.chars().any(char::is_control) {
        return Err(report("42602", "a role has a name of 1 to 63 bytes in one line").into());
    }
    let is_reserved = matches!(name.as_str(), "public" | "none") || name.starts_with("pg_");
    if is_reserved && verb == Some(Token::Word("create".to_owned())) {
        return Err(report("42939", format!("role name \"{name}\" is reserved")).into());
    }
    let mut change = RoleChange::default();
    tokens.next_if_eq(&&Token::Word("with".to_owned()));
    while let Some(token) = tokens.next() {
        let Token::Word(word) = token else { return Err(syntax(Some(token))) };
        match word.as_str() {
            "login" => change.may_login = Some(true),
            "nologin" => change.may_login = Some(false),
            "superuser" => change.is_superuser = Some(true),
            "nosuperuser" => change.is_superuser = Some(false),
            "encrypted" if matches!(tokens.peek(), Some(Token::Word(word)) if word == "password") =>
                {}
            "password" => {
                change.verifier = Some(match tokens.next() {
                    Some(Token::Text(password)) => Some(verifier(password)?),
                    Some(Token::Word(word)) if word == "null" => None,
                    other => return Err(syntax(other)),
                });
            }
            _ => return Err(syntax(Some(token))),
        }
    }
    match verb {
        Some(Token::Word(verb)) if verb == "create" => {
            let role = Role {
                is_superuser: change.is_superuser.unwrap_or(false),
                may_login: change.may_login.unwrap_or(is_user),
                verifier: change.verifier.flatten(),
            };
            Ok(RoleStatement::Create(name, role))
        }
        Some(Token::Word(verb)) if verb == "alter" => Ok(RoleStatement::Alter(name, change)),
        _ if change == RoleChange::default() => Ok(RoleStatement::Drop(name, if_exists)),
        _ => Err(syntax(None)),
    }
}

/// The verifier of a password, or one that the client has made.
fn verifier(password: &str) -> Result<Verifier, Fault> {
    if let Some(made) = Verifier::of_text(password) {
        return Ok(made);
    }
    if password.starts_with("md5") && password.len() == 35 {
        let message = "passwords are kept for SCRAM-SHA-256, and not as MD5";
        return Err(report("0A000", message).into());
    }
    let no_randomness = |_| report("58000", "the system has no randomness for a password");
    Ok(Verifier::of_password(password).map_err(no_randomness)?)
}

fn tokens(sql: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = sql;
    loop {
        rest = super::kind::skip(rest);
        let Some(first) = rest.chars().next() else { return tokens };
        match first {
            '\'' | '"' => {
                let (text, behind) = quoted(&rest[1..], first);
                tokens.push(if first == '"' { Token::Quoted(text) } else { Token::Text(text) });
                rest = behind;
            }
            _ if first.is_alphabetic() || first == '_' => {
                let end = rest
                    .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$')))
                    .unwrap_or(rest.len());
                tokens.push(Token::Word(rest[..end].to_lowercase()));
                rest = &rest[end..];
            }
            ';' => rest = &rest[1..],
            other => {
                tokens.push(Token::Other(other));
                rest = &rest[other.len_utf8()..];
            }
        }
    }
}

/// The text up to a quote, in which doubled quotes are one, and what is behind it.
fn quoted(text: &str, quote: char) -> (String, &str) {
    let (mut read, mut rest) = (String::new(), text);
    while let Some(end) = rest.find(quote) {
        read.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix(quote) {
            Some(behind) => {
                read.push(quote);
                rest = behind;
            }
            None => return (read, rest),
        }
    }
    read.push_str(rest);
    (read, "")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn members_are_named_as_in_postgresql() {
        let read = |sql: &str| members(&tokens(sql)).map_err(|_| ());
        let names = |names: &[&str]| names.iter().map(|one| (*one).to_owned()).collect();
        let wanted = |adds| Members { adds, groups: names(&["a", "B"]), members: names(&["c"]) };
        assert_eq!(read("GRANT a, \"B\" TO c;"), Ok(wanted(true)));
        assert_eq!(read("REVOKE A, \"B\" FROM C"), Ok(wanted(false)));
        for wrong in ["GRANT a", "GRANT a FROM b", "GRANT a TO b WITH ADMIN OPTION", "GRANT a b"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(parse("CREATE ROLE public").is_err() && parse("CREATE ROLE pg_x").is_err());
    }

    #[test]
    fn roles_are_defined_as_in_postgresql() {
        let RoleStatement::Create(name, role) =
            parse("CREATE USER \"An\"\"n\" WITH PASSWORD 'a''b' SUPERUSER;").unwrap()
        else {
            panic!()
        };
        assert_eq!(name, "An\"n");
        assert!(role.is_superuser && role.may_login && role.verifier.is_some());
        assert!(matches!(
            parse("create role bob").unwrap(),
            RoleStatement::Create(name, Role { may_login: false, .. }) if name == "bob"
        ));
        let change = RoleChange { verifier: Some(None), ..RoleChange::default() };
        assert_eq!(
            parse("ALTER ROLE bob PASSWORD NULL").unwrap(),
            RoleStatement::Alter("bob".to_owned(), change)
        );
        assert_eq!(
            parse("DROP ROLE IF EXISTS Bob").unwrap(),
            RoleStatement::Drop("bob".to_owned(), true)
        );
        for wrong in
            ["CREATE ROLE", "CREATE ROLE a PASSWORD x", "DROP ROLE a LOGIN", "DROP USER 'a'"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
