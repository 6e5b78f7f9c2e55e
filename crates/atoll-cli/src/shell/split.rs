//! Where a statement ends in a text that holds several.

use atoll_sql::statement_is_complete;

/// The end of the first statement of a text, behind its semicolon; `None` when none is complete.
/// Nothing ended before `from`, as an earlier call has found: a long statement that comes line by
/// line is not searched from its start for each of them.
pub fn first_end(text: &str, from: usize) -> Option<usize> {
    // A semicolon in a string, a name or a comment ends nothing, which the parser's own rule knows.
    let mut semicolons = text[from..].match_indices(';').map(|(at, _)| from + at + 1);
    semicolons.find(|end| statement_is_complete(&text[..*end]))
}

/// Whether a text holds nothing but space and comments.
pub fn is_blank(text: &str) -> bool {
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if rest.starts_with("--") {
            rest = rest.split_once('\n').map_or("", |(_, after)| after).trim_start();
        } else if rest.starts_with("/*") {
            let Some(after) = after_comment(rest) else { return false };
            rest = after.trim_start();
        } else {
            return false;
        }
    }
    true
}

/// What follows the comment that a text starts with; comments nest.
fn after_comment(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0usize, 0);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" if depth == 1 => return Some(&text[at + 2..]),
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<&str> {
        let mut rest = text;
        let mut parts = Vec::new();
        while let Some(end) = first_end(rest, 0) {
            parts.push(&rest[..end]);
            rest = &rest[end..];
        }
        parts.push(rest);
        parts
    }

    #[test]
    fn statements_end_at_semicolons_that_are_not_quoted() {
        assert_eq!(all("SELECT ';' ; SELECT 2;"), ["SELECT ';' ;", " SELECT 2;", ""]);
        assert_eq!(all("SELECT 1 -- a; b\n;x"), ["SELECT 1 -- a; b\n;", "x"]);
        assert_eq!(all("SELECT 1"), ["SELECT 1"]);
    }

    #[test]
    fn what_was_searched_before_is_not_searched_again() {
        let text = "SELECT ';', 1;";
        assert_eq!(first_end(text, 9), Some(14));
        assert_eq!(first_end(text, text.len()), None);
    }

    #[test]
    fn comments_alone_are_blank() {
        for text in ["", " \n", "-- x", "/* a /* b */ c */ -- d\n "] {
            assert!(is_blank(text), "{text:?}");
        }
        for text in ["x", "-- x\ny", "/* open", "/* a */ b"] {
            assert!(!is_blank(text), "{text:?}");
        }
    }
}
