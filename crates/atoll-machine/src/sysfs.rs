//! Parsers of the kernel's small text files; `kernel_files` reads the files.
//!
//! - SYSFS-1: a parser is a pure function of the text and never panics; for garbage it returns a
//!   [`ParseError`], to which the reader adds the path and the content of the file.
//! - SYSFS-2: a number that would make the program allocate without bound ([`MOST_IDS`]) is
//!   garbage, too.

/// Ids of nodes and CPUs are below this, which is far above what any kernel is built for.
pub const MOST_IDS: u32 = 1 << 16;

/// Characters of a malformed file that an error shows.
const SHOWN: usize = 200;

/// An error in a text of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// A word that should be a number.
    #[error("{word:?} is not a number")]
    NotANumber {
        /// The word.
        word: String,
    },
    /// An id beyond [`MOST_IDS`].
    #[error("id {id} is not below {MOST_IDS}")]
    IdTooLarge {
        /// The id.
        id: u32,
    },
    /// A range that ends before it begins.
    #[error("range {first}-{last} runs backwards")]
    Backwards {
        /// Its first id.
        first: u32,
        /// Its last id.
        last: u32,
    },
    /// A line that is missing.
    #[error("it has no line {field:?}")]
    NoField {
        /// The name at the beginning of the line.
        field: &'static str,
    },
    /// A size that is not in kB, or too large to count in bytes.
    #[error("{text:?} is not a size in kB")]
    NotASize {
        /// The rest of the line.
        text: String,
    },
    /// A row of the distance matrix with another length than the number of nodes.
    #[error("it lists {found} distances for {nodes} nodes")]
    DistanceCount {
        /// Distances found.
        found: usize,
        /// Nodes of the machine.
        nodes: usize,
    },
}

/// Total and free memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemorySizes {
    /// All of it.
    pub total_bytes: u64,
    /// The unused part.
    pub free_bytes: u64,
}

fn parse_number<N: std::str::FromStr>(word: &str) -> Result<N, ParseError> {
    // The standard parser accepts a leading plus sign, which the kernel never writes.
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    let number = if digits { word.parse().ok() } else { None };
    number.ok_or_else(|| ParseError::NotANumber { word: shorten(word) })
}

fn parse_id(word: &str) -> Result<u32, ParseError> {
    let id = parse_number(word)?;
    if id < MOST_IDS { Ok(id) } else { Err(ParseError::IdTooLarge { id }) }
}

/// Parses a list of CPUs or nodes such as `0-3,8,10-11`. The empty list is allowed.
///
/// The ids come back sorted, each once.
///
/// # Errors
///
/// [`ParseError`] for anything but numbers and ascending ranges below [`MOST_IDS`].
pub fn parse_id_list(text: &str) -> Result<Vec<u32>, ParseError> {
    let text = text.trim();
    let mut present = std::collections::BTreeSet::new();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    for part in text.split(',') {
        match part.split_once('-') {
            None => {
                present.insert(parse_id(part)?);
            }
            Some((first, last)) => {
                let (first, last) = (parse_id(first)?, parse_id(last)?);
                if last < first {
                    return Err(ParseError::Backwards { first, last });
                }
                present.extend(first..=last);
            }
        }
    }
    Ok(present.into_iter().collect())
}

/// Parses one row of the distance matrix: numbers separated by spaces, one for each of `nodes`
/// nodes.
///
/// # Errors
///
/// [`ParseError`] for a word that is no number and for a row of another length.
pub fn parse_distances(text: &str, nodes: usize) -> Result<Vec<u32>, ParseError> {
    let row: Vec<u32> =
        text.split_ascii_whitespace().map(parse_number).collect::<Result<_, _>>()?;
    if row.len() == nodes {
        Ok(row)
    } else {
        Err(ParseError::DistanceCount { found: row.len(), nodes })
    }
}

/// Parses a node's `meminfo`, with lines that begin with `Node <number>`.
///
/// # Errors
///
/// [`ParseError`] when `MemTotal` or `MemFree` is missing or no size.
pub fn parse_node_meminfo(text: &str) -> Result<MemorySizes, ParseError> {
    let field = |name| node_field(text, name);
    Ok(MemorySizes { total_bytes: field("MemTotal")?, free_bytes: field("MemFree")? })
}

/// Parses the bytes of cached files from a node's `meminfo`, which the kernel frees when memory is
/// needed.
///
/// # Errors
///
/// [`ParseError`] when a line is missing or holds no size.
pub fn parse_node_cache(text: &str) -> Result<u64, ParseError> {
    Ok(node_field(text, "Active(file)")?.saturating_add(node_field(text, "Inactive(file)")?))
}

fn node_field(text: &str, name: &'static str) -> Result<u64, ParseError> {
    text.lines()
        .filter_map(|line| line.trim_start().strip_prefix("Node "))
        .filter_map(|line| line.trim_start().split_once(' '))
        .find_map(|(_, line)| field_of(line, name))
        .ok_or(ParseError::NoField { field: name })
        .and_then(parse_kilobytes)
}

/// Parses the machine's `meminfo`. Free memory is `MemAvailable`, or `MemFree` on kernels that do
/// not estimate the former.
///
/// # Errors
///
/// [`ParseError`] when a line is missing or holds no size.
pub fn parse_meminfo(text: &str) -> Result<MemorySizes, ParseError> {
    let field = |name: &'static str| {
        text.lines()
            .find_map(|line| field_of(line, name))
            .ok_or(ParseError::NoField { field: name })
            .and_then(parse_kilobytes)
    };
    let free_bytes = match field("MemAvailable") {
        Err(ParseError::NoField { .. }) => field("MemFree")?,
        other => other?,
    };
    Ok(MemorySizes { total_bytes: field("MemTotal")?, free_bytes })
}

/// Parses the memory nodes allowed to a process from its `status`.
///
/// # Errors
///
/// [`ParseError`] when the line is missing or no list.
pub fn parse_mems_allowed(text: &str) -> Result<Vec<u32>, ParseError> {
    const FIELD: &str = "Mems_allowed_list";
    let list = text.lines().find_map(|line| field_of(line, FIELD));
    parse_id_list(list.ok_or(ParseError::NoField { field: FIELD })?)
}

/// The text after `name:`, if the line begins with it.
fn field_of<'text>(line: &'text str, name: &str) -> Option<&'text str> {
    line.trim_start().strip_prefix(name)?.strip_prefix(':').map(str::trim)
}

fn parse_kilobytes(text: &str) -> Result<u64, ParseError> {
    let size = text.strip_suffix("kB").map(str::trim_end);
    size.and_then(|word| parse_number::<u64>(word).ok())
        .and_then(|kilobytes| kilobytes.checked_mul(1024))
        .ok_or_else(|| ParseError::NotASize { text: shorten(text) })
}

/// The beginning of a text, for an error.
pub(crate) fn shorten(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_take_single_ids_and_ranges() {
        assert_eq!(parse_id_list("0-3,8,10-11\n"), Ok(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(parse_id_list("7\n"), Ok(vec![7]));
        assert_eq!(parse_id_list("\n"), Ok(vec![]));
        assert_eq!(parse_id_list("3,1-3"), Ok(vec![1, 2, 3]));
    }

    #[test]
    fn lists_refuse_garbage_by_kind() {
        let number = |word: &str| Err(ParseError::NotANumber { word: word.into() });
        assert_eq!(parse_id_list("0-x"), number("x"));
        assert_eq!(parse_id_list("0,,1"), number(""));
        assert_eq!(parse_id_list("-3"), number(""));
        assert_eq!(parse_id_list("+1"), number("+1"));
        assert_eq!(parse_id_list("0-2-4"), number("2-4"));
        assert_eq!(parse_id_list("5-2"), Err(ParseError::Backwards { first: 5, last: 2 }));
        assert_eq!(parse_id_list("0-4294967295"), Err(ParseError::IdTooLarge { id: u32::MAX }));
        assert_eq!(parse_id_list("99999999999"), number("99999999999"));
    }

    #[test]
    fn node_meminfo_is_in_bytes() {
        let text = "Node 12 MemTotal:       65843060 kB\nNode 12 MemFree:  1024 kB\n";
        let sizes = MemorySizes { total_bytes: 65_843_060 * 1024, free_bytes: 1024 * 1024 };
        assert_eq!(parse_node_meminfo(text), Ok(sizes));
    }

    #[test]
    fn node_meminfo_refuses_missing_lines_units_and_overflow() {
        let field = "MemFree";
        assert_eq!(
            parse_node_meminfo("Node 0 MemTotal: 1 kB\n"),
            Err(ParseError::NoField { field })
        );
        for size in ["1 MB", "kB", "-1 kB", "18446744073709551615 kB"] {
            let text = format!("Node 0 MemTotal: {size}\nNode 0 MemFree: 1 kB");
            let wanted = ParseError::NotASize { text: size.into() };
            assert_eq!(parse_node_meminfo(&text), Err(wanted));
        }
    }

    #[test]
    fn machine_meminfo_prefers_available_over_free() {
        let old = "MemTotal: 8 kB\nMemFree: 2 kB\n";
        let new = "MemTotal: 8 kB\nMemFree: 2 kB\nMemAvailable: 5 kB\n";
        assert_eq!(parse_meminfo(old).map(|sizes| sizes.free_bytes), Ok(2048));
        assert_eq!(parse_meminfo(new).map(|sizes| sizes.free_bytes), Ok(5120));
        let broken = "MemTotal: 8 kB\nMemFree: 2 kB\nMemAvailable: much\n";
        assert!(matches!(parse_meminfo(broken), Err(ParseError::NotASize { .. })));
    }

    #[test]
    fn a_row_of_distances_has_one_for_each_node() {
        assert_eq!(parse_distances("10 21\n", 2), Ok(vec![10, 21]));
        let short = ParseError::DistanceCount { found: 1, nodes: 2 };
        assert_eq!(parse_distances("10", 2), Err(short));
        assert!(parse_distances("10 ten", 2).is_err());
    }

    #[test]
    fn allowed_nodes_are_found_beside_the_mask_of_the_same_name() {
        let text = "Name:\tx\nMems_allowed:\t00000003\nMems_allowed_list:\t0-1\n";
        assert_eq!(parse_mems_allowed(text), Ok(vec![0, 1]));
        assert!(parse_mems_allowed("Mems_allowed: 3\n").is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "[0-9,\\- kBNodeMmTtFr:a-z\n]{0,80}") {
            let _ = parse_id_list(&text);
            let _ = parse_distances(&text, 2);
            let _ = parse_node_meminfo(&text);
            let _ = parse_meminfo(&text);
            let _ = parse_mems_allowed(&text);
        }

        #[test]
        fn any_characters_are_survived(text in "\\PC{0,60}") {
            let _ = parse_id_list(&text);
            let _ = parse_node_meminfo(&format!("Node 0 MemTotal: {text}"));
            let _ = parse_mems_allowed(&format!("Mems_allowed_list:{text}"));
        }

        #[test]
        fn ranges_mean_all_ids_between(first in 0_u32..1000, more in 0_u32..200) {
            let text = format!("{first}-{}", first + more);
            let wanted: Vec<u32> = (first..=first + more).collect();
            prop_assert_eq!(parse_id_list(&text), Ok(wanted));
        }
    }
}
