//! What all readers of texts need: digits, and the form of a bad value in a message.

/// Longest piece of a bad value that a message repeats, in characters.
const QUOTED_MAX: usize = 60;

/// A value as a message shows it: in quotes, shortened, without control characters.
pub(crate) fn quote(text: &str) -> String {
    let mut shown: String = text.chars().take(QUOTED_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("\"{}\"", shown.replace(char::is_control, "?"))
}

/// Digits only, unlike `parse`, which takes a sign as well.
pub(crate) fn digits(text: &str) -> Option<u32> {
    let all = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if all { text.parse().ok() } else { None }
}
