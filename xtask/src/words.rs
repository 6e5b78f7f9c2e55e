//! Words of a dialect that comments, messages and documents do not use, with the standard terms.
//!
//! The check reads comments and string literals of Rust files, and the lines of Markdown files, but
//! never identifiers or code.

use std::path::Path;

use super::{collect, read, shown};

/// Words with the standard term for them.
const WORDS: [(&[&str], &str); 9] = [
    (
        &["who", "whoever", "whom", "whose", "nobody", "somebody"],
        "name the subject: the caller, a thread, a transaction, a reader, the user",
    ),
    (&["lie", "lies", "lay"], "\"is\", \"is stored\", \"is at\""),
    (&["grave", "graves"], "\"garbage queue\""),
    (&["bury", "buries", "buried"], "\"retire\""),
    (&["surely"], "\"exact\", of a prediction that was verified"),
    (&["unsettle", "unsettles", "unsettled"], "\"invalidate\""),
    (&["unlearn", "unlearns"], "\"forget\" a prediction"),
    (&["disturb", "disturbs", "disturbed", "disturbing"], "\"gap insert\", \"conflict\""),
    (&["want of"], "\"without\", \"out of\" memory, space"),
];

/// Reports each occurrence of a word with its standard term.
pub fn check(root: &Path, faults: &mut Vec<String>) {
    let mut files = Vec::new();
    ["crates", "python", "xtask"].iter().for_each(|dir| collect(&root.join(dir), "rs", &mut files));
    for path in files.iter().filter(|path| !path.ends_with("xtask/src/words.rs")) {
        let text = read(path, faults);
        for (line, prose) in prose_of(&text) {
            report(&shown(root, path), line, &prose, faults);
        }
    }
    let mut pages = Vec::new();
    collect(root, "md", &mut pages);
    for path in pages {
        let text = read(&path, faults);
        for (at, line) in text.lines().enumerate() {
            report(&shown(root, &path), at + 1, line, faults);
        }
    }
}

fn report(file: &str, line: usize, prose: &str, faults: &mut Vec<String>) {
    for (words, standard) in WORDS {
        for word in words.iter().filter(|word| has_word(prose, word)) {
            faults.push(format!("{file}:{line} says \"{word}\"; better {standard}"));
        }
    }
}

/// Whether the word occurs as a whole word, outside of `code`.
fn has_word(prose: &str, word: &str) -> bool {
    let outside = prose.split('`').step_by(2).collect::<Vec<_>>().join("`").to_lowercase();
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    outside.match_indices(word).any(|(at, _)| {
        let before = outside[..at].chars().next_back();
        let after = outside[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// The comments and string literals of a Rust file, line by line, with line numbers.
fn prose_of(text: &str) -> Vec<(usize, String)> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let rest = &text[at..];
        let end = match bytes[at] {
            b'/' if rest.starts_with("//") => Some(rest.find('\n').unwrap_or(rest.len())),
            b'/' if rest.starts_with("/*") => Some(rest.find("*/").map_or(rest.len(), |to| to + 2)),
            b'"' => Some(end_of_text(rest)),
            b'r' if !is_name(text, at) => end_of_raw(rest),
            b'\'' => {
                at += end_of_character(rest);
                continue;
            }
            _ => None,
        };
        let Some(end) = end else {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        };
        let first = text[..at].matches('\n').count() + 1;
        let lines = rest[..end].lines().enumerate();
        found.extend(lines.map(|(further, line)| (first + further, line.to_owned())));
        at += end;
    }
    found
}

/// Whether the character at a position continues an identifier.
fn is_name(text: &str, at: usize) -> bool {
    text[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_')
}

fn end_of_text(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

fn end_of_raw(rest: &str) -> Option<usize> {
    let hashes = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
    let body = rest[1 + hashes..].strip_prefix('"')?;
    let end = body.find(&format!("\"{}", "#".repeat(hashes)))?;
    Some(1 + hashes + 1 + end + 1 + hashes)
}

/// Length of a character literal; 1 for a quote that begins a lifetime.
fn end_of_character(rest: &str) -> usize {
    let mut inside = rest[1..].chars();
    let escaped = inside.next() == Some('\\');
    let close = rest[1..].char_indices().skip(if escaped { 2 } else { 1 });
    match if escaped { rest[3..].find('\'').map(|at| at + 3) } else { None } {
        Some(end) => end + 1,
        None => match close.into_iter().next() {
            Some((at, '\'')) => at + 2,
            _ => 1,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_texts_are_prose_and_code_is_not() {
        let source = "let who = 'w'; // nobody\nf::<'a>(\"lies\\\" here\", r#\"who\"#, '\\'');\n";
        let lines: Vec<_> = prose_of(source).into_iter().map(|(_, prose)| prose).collect();
        assert_eq!(lines, ["// nobody", "\"lies\\\" here\"", "r#\"who\"#"]);
    }

    #[test]
    fn a_word_is_told_with_its_standard_term() {
        let mut faults = Vec::new();
        report("a.rs", 3, "// Nobody sees `who` or whose wholesale", &mut faults);
        let told: Vec<_> = faults.iter().filter_map(|fault| fault.split('"').nth(1)).collect();
        assert_eq!(told, ["whose", "nobody"]);
        assert!(faults[0].starts_with("a.rs:3 says"));
    }
}
