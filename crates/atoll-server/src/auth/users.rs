//! The users of the system.

use std::fs;

/// The number of the user of this process.
pub(crate) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The name of a user, from the system's list.
pub(crate) fn name_of(user: u32) -> Option<String> {
    let list = fs::read_to_string("/etc/passwd").ok()?;
    list.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(user)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_user_is_root() {
        assert_eq!(name_of(0).as_deref(), Some("root"));
        assert_eq!(name_of(u32::MAX - 7), None);
    }
}
