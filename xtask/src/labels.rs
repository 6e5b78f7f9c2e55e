//! Labels of invariants (`GATE-1`) are defined once.
//!
//! A definition is an item of a module comment that begins with the label and a colon.

use std::collections::BTreeMap;
use std::path::Path;

use super::{collect, read, shown};

/// Checks the module comments of all crates.
pub fn check(root: &Path, faults: &mut Vec<String>) {
    let mut files = Vec::new();
    ["crates", "python"].iter().for_each(|dir| collect(&root.join(dir), "rs", &mut files));
    let mut defined: BTreeMap<String, String> = BTreeMap::new();
    for path in files {
        let text = read(&path, faults);
        for label in text.lines().filter_map(label_of) {
            let here = shown(root, &path);
            if let Some(before) = defined.insert(label.to_owned(), here.clone()) {
                faults.push(format!("{label} is defined in {before} and in {here}"));
            }
        }
    }
}

/// The label that a line defines.
fn label_of(line: &str) -> Option<&str> {
    let item = line.strip_prefix("//! - ")?;
    let (label, _) = item.split_once(':')?;
    let label = label.trim_matches('`');
    let (name, number) = label.rsplit_once('-')?;
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
    (is_name && number.parse::<u32>().is_ok()).then_some(label)
}

#[cfg(test)]
mod tests {
    use super::label_of;

    #[test]
    fn an_item_that_begins_with_a_label_defines_it() {
        assert_eq!(label_of("//! - `GATE-1`: a worker announces."), Some("GATE-1"));
        assert_eq!(label_of("//! - MACHINE-2: the trait."), Some("MACHINE-2"));
        assert_eq!(label_of("//! - as `GATE-1` says: nothing"), None);
        assert_eq!(label_of("/// - `GATE-1`: not of a module"), None);
    }
}
