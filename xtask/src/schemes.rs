//! The schemes have the same layout and are named in one place.
//!
//! - Each scheme is a folder of `atoll-txn/src/schemes` with the same files; further files in it
//!   are modules that only the scheme uses and that have tests of their own.
//! - The folder has the scheme's name in lower case, and is in the list of all schemes.
//! - No other source file contains the name. Tests may: some are about one scheme.

use std::path::Path;

use super::{collect, read};

/// Files that every scheme has.
const FILES: [&str; 3] = ["local.rs", "mod.rs", "state.rs"];
/// A scheme's name that has another meaning in SQL.
const ALSO_OF_SQL: &str = "TIMESTAMP";
/// Everything behind this in a file is tests.
const TESTS: &str = "#[cfg(test)]";

/// Checks all schemes.
pub fn check(root: &Path, faults: &mut Vec<String>) {
    let folder = root.join("crates/atoll-txn/src/schemes");
    let list = read(&folder.join("mod.rs"), faults);
    let Ok(entries) = std::fs::read_dir(&folder) else { return };
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let mut names = Vec::new();
    for scheme in paths.filter(|path| path.is_dir()) {
        let name = scheme.file_name().unwrap_or_default().to_string_lossy().into_owned();
        check_scheme(&scheme, &name, faults);
        if !list.contains(&format!("=> {name}::")) {
            faults.push(format!("the scheme {name} is not in the list in schemes/mod.rs"));
        }
        names.push(name.to_uppercase());
    }
    if names.is_empty() {
        faults.push(format!("{}: there are no schemes", folder.display()));
    }
    check_names(root, &folder, &names, faults);
}

fn check_scheme(folder: &Path, name: &str, faults: &mut Vec<String>) {
    let main = read(&folder.join("mod.rs"), faults);
    let named = format!("const NAME: &'static str = \"{}\";", name.to_uppercase());
    if !main.contains(&named) {
        faults.push(format!("schemes/{name} is not the folder of the scheme's name: {named}"));
    }
    let mut files = Vec::new();
    collect(folder, "rs", &mut files);
    let file_name =
        |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for wanted in FILES {
        if !files.iter().any(|path| path.parent() == Some(folder) && file_name(path) == wanted) {
            faults.push(format!("schemes/{name} has no {wanted}, as every scheme has"));
        }
    }
    for path in files.iter().filter(|path| !FILES.contains(&file_name(path).as_str())) {
        let own = file_name(path);
        let is_private =
            main.lines().any(|line| line == format!("mod {};", own.replace(".rs", "")));
        if !is_private || !read(path, faults).contains(TESTS) {
            faults.push(format!(
                "schemes/{name}/{own}: what a scheme adds is private to it and has tests of its own"
            ));
        }
    }
}

fn check_names(root: &Path, schemes: &Path, names: &[String], faults: &mut Vec<String>) {
    let mut files = Vec::new();
    ["crates", "python"].iter().for_each(|dir| collect(&root.join(dir), "rs", &mut files));
    for path in files {
        let is_test = path.components().any(|part| part.as_os_str() == "tests");
        if path.starts_with(schemes) || is_test {
            continue;
        }
        let text = read(&path, faults);
        let source = text.split(TESTS).next().unwrap_or_default();
        for (at, line) in source.lines().enumerate() {
            let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            let found = words.find(|word| *word != ALSO_OF_SQL && names.iter().any(|n| n == word));
            if let Some(name) = found {
                let shown = path.strip_prefix(root).unwrap_or(&path).display();
                faults.push(format!("{shown}:{} says {name}, which schemes/ alone knows", at + 1));
            }
        }
    }
}
