//! Arrays of one dimension as texts: `{1,NULL,"a b"}` (PostgreSQL's manual, 8.15).

use crate::written::quote;

/// Reads an array; `None` is an element that is NULL.
///
/// # Errors
/// One clause that repeats the text and says why it is no array.
pub(crate) fn parse(written: &str) -> Result<Vec<Option<String>>, String> {
    let wrong = |why: &str| format!("{} is not an array: {why}", quote(written));
    let inner = written.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let inner = inner.ok_or_else(|| wrong("it is written as {1,2,3}"))?;
    let mut items = Vec::new();
    if inner.trim().is_empty() {
        return Ok(items);
    }
    let mut chars = inner.chars();
    loop {
        let (item, is_last) = element(&mut chars).map_err(wrong)?;
        items.push(item);
        if is_last {
            return Ok(items);
        }
    }
}

/// Reads an element and the comma behind it; returns whether there was none.
fn element(chars: &mut std::str::Chars<'_>) -> Result<(Option<String>, bool), &'static str> {
    let mut item = String::new();
    // Up to where the element has more than space.
    let (mut kept, mut is_quoted, mut has_ended) = (0, false, false);
    let is_last = loop {
        match chars.next() {
            None => break true,
            Some(',') => break false,
            Some(space) if space.is_ascii_whitespace() => {
                if !item.is_empty() && !is_quoted {
                    item.push(space);
                }
                has_ended |= is_quoted;
            }
            Some(_) if has_ended => return Err("a comma must stand between its elements"),
            Some('"') if is_quoted || !item.is_empty() => {
                return Err("a quoted element has nothing before or behind it");
            }
            Some('"') => {
                is_quoted = true;
                loop {
                    match chars.next() {
                        Some('"') => break,
                        Some('\\') => item.extend(chars.next()),
                        Some(other) => item.push(other),
                        None => return Err("a quoted element has no end"),
                    }
                }
                kept = item.len();
            }
            Some(_) if is_quoted => return Err("a quoted element has nothing before or behind it"),
            Some('{' | '}') => return Err("arrays have one dimension here"),
            Some('\\') => {
                item.extend(chars.next());
                kept = item.len();
            }
            Some(other) => {
                item.push(other);
                kept = item.len();
            }
        }
    };
    item.truncate(kept);
    if item.is_empty() && !is_quoted {
        return Err("an element is missing");
    }
    let is_null = !is_quoted && item.eq_ignore_ascii_case("null");
    Ok(((!is_null).then_some(item), is_last))
}

/// Whether an element would not be read as it is.
fn needs_quotes(item: &str) -> bool {
    let is_other = |c: char| matches!(c, '{' | '}' | ',' | '"' | '\\') || c.is_ascii_whitespace();
    item.is_empty() || item.eq_ignore_ascii_case("null") || item.contains(is_other)
}

/// Writes an array, which [`parse`] reads as it was.
pub(crate) fn write(items: impl Iterator<Item = Option<String>>) -> String {
    let mut written = String::from("{");
    for (at, item) in items.enumerate() {
        if at > 0 {
            written.push(',');
        }
        match item {
            None => written.push_str("NULL"),
            Some(item) if !needs_quotes(&item) => written.push_str(&item),
            Some(item) => {
                written.push('"');
                for one in item.chars() {
                    if matches!(one, '"' | '\\') {
                        written.push('\\');
                    }
                    written.push(one);
                }
                written.push('"');
            }
        }
    }
    written.push('}');
    written
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn arrays_are_read_as_in_postgresql() {
        let some = |items: &[&str]| items.iter().map(|item| Some((*item).to_owned())).collect();
        let cases: [(&str, Vec<Option<String>>); 8] = [
            ("{}", vec![]),
            (" { } ", vec![]),
            ("{1,2, -3 }", some(&["1", "2", "-3"])),
            ("{NULL,null,\"NULL\"}", vec![None, None, Some("NULL".to_owned())]),
            ("{\"\",\" a,} \", a b }", some(&["", " a,} ", "a b"])),
            (r#"{"a\\\"b",a\,b}"#, some(&["a\\\"b", "a,b"])),
            ("{é, 日本 }", some(&["é", "日本"])),
            ("{1e3}", some(&["1e3"])),
        ];
        for (written, wanted) in cases {
            assert_eq!(parse(written).unwrap(), wanted, "{written}");
        }
        for wrong in
            ["", "1", "{", "{1", "{1,}", "{,1}", "{{1},{2}}", "{\"a}", "{\"a\"b}", "{a\"b\"}"]
        {
            assert!(parse(wrong).unwrap_err().contains("is not an array"), "{wrong}");
        }
    }

    #[test]
    fn what_is_written_is_read_as_it_was() {
        for items in [
            vec![],
            vec![None],
            vec![
                Some(String::new()),
                Some("NULL".to_owned()),
                None,
                Some(r#"\x0"{,} "#.to_owned()),
            ],
        ] {
            assert_eq!(parse(&write(items.iter().cloned())).unwrap(), items);
        }
    }
}
