//! The amount of memory that this process may use, and that a node has left.
//!
//! Two authorities limit memory: the machine, with its total and its available memory, and the
//! control groups of the process, each of which may set a lower limit. The smallest limit holds.
//! Memory that a group uses for cached files does not count as used, because the kernel frees it on
//! demand. A limit of the address space (`ulimit -v`) also limits memory.
//!
//! - LIMIT-1: every group from the process's own up to the root is read; a limit set far above
//!   holds as well.
//! - LIMIT-2: a container may see its groups under a path that differs from the one in the
//!   process's list. Folders that do not exist set no limit; the group that is mounted at the root
//!   is always read.

use crate::error::MachineError;
use crate::ids::NodeId;
use crate::kernel_files::{in_file, read_if_present, read_parsed};
use crate::sysfs::{self, MemorySizes, ParseError};
use std::path::Path;

/// Memory that this process may use, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryAllowed {
    /// The most that it may ever use: the machine's memory or the limit, whichever is less.
    pub total_bytes: u64,
    /// The amount that it could allocate now without swapping.
    pub available_bytes: u64,
    /// The smallest limit of its control groups, if one is set.
    pub cgroup_limit_bytes: Option<u64>,
}

/// The memory that a node keeps for the kernel: at most this share of it, and
const KEPT_SHARE: u64 = 16;
/// this amount plus a smaller share.
const KEPT_BYTES: u64 = 256 << 20;
const KEPT_SHARE_LARGE: u64 = 256;

/// Bytes that can be allocated on a node (as the kernel numbers it) before the kernel has to
/// reclaim memory there, which takes long if nothing can be freed. An estimate: no short file says
/// how much of a node the kernel keeps free.
///
/// # Errors
///
/// [`MachineError::Unreadable`] and [`MachineError::Malformed`] name the file.
pub fn room_on(node: NodeId) -> Result<u64, MachineError> {
    let path = format!("/sys/devices/system/node/node{node}/meminfo");
    read_parsed(Path::new(&path), parse_room)
}

fn parse_room(text: &str) -> Result<u64, ParseError> {
    let sizes = sysfs::parse_node_meminfo(text)?;
    let total = sizes.total_bytes;
    let kept = (total / KEPT_SHARE).min(KEPT_BYTES + total / KEPT_SHARE_LARGE);
    Ok(sizes.free_bytes.saturating_add(sysfs::parse_node_cache(text)?).saturating_sub(kept))
}

/// Memory that this process may use now. If the kernel's files cannot be parsed, the result is the
/// physical memory of the machine and no limit.
#[must_use]
pub fn memory_allowed() -> MemoryAllowed {
    let allowed = memory_allowed_in(Path::new("/")).unwrap_or_else(|_| {
        let sizes = rustix::system::sysinfo();
        let [total_bytes, available_bytes] =
            [sizes.totalram, sizes.freeram].map(|units| units * u64::from(sizes.mem_unit));
        MemoryAllowed { total_bytes, available_bytes, cgroup_limit_bytes: None }
    });
    // Memory that cannot be mapped cannot be used.
    let most = crate::process::address_limit().unwrap_or(u64::MAX);
    MemoryAllowed {
        total_bytes: allowed.total_bytes.min(most),
        available_bytes: allowed.available_bytes.min(most),
        ..allowed
    }
}

/// As [`memory_allowed`], for a machine that a folder describes: reads `proc/meminfo`,
/// `proc/self/cgroup` and `sys/fs/cgroup` in it. The latter two may be missing.
///
/// # Errors
///
/// [`MachineError::Unreadable`] and [`MachineError::Malformed`] name the file.
pub fn memory_allowed_in(root: &Path) -> Result<MemoryAllowed, MachineError> {
    let machine = read_parsed(&root.join("proc/meminfo"), sysfs::parse_meminfo)?;
    let groups = root.join("proc/self/cgroup");
    let list = read_if_present(&groups)?.unwrap_or_default();
    let mut least = Limit::default();
    for (version, group) in memory_groups(&list) {
        for mount in version.mounts {
            least = least.and(limit_of(&root.join(mount), &group, version)?);
        }
    }
    Ok(least.applied_to(machine))
}

/// The differences between the two versions of control groups.
#[derive(Debug, PartialEq)]
struct Version {
    /// The folders at which it may be mounted.
    mounts: &'static [&'static str],
    limit: &'static str,
    used: &'static str,
    cached_line: &'static str,
}

static FIRST: Version = Version {
    mounts: &["sys/fs/cgroup/memory"],
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cached_line: "total_inactive_file",
};

static SECOND: Version = Version {
    mounts: &["sys/fs/cgroup", "sys/fs/cgroup/unified"],
    limit: "memory.max",
    used: "memory.current",
    cached_line: "inactive_file",
};

/// The groups that account for this process's memory, from its list of groups.
fn memory_groups(list: &str) -> Vec<(&'static Version, String)> {
    list.lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (number, kinds, path) = (parts.next()?, parts.next()?, parts.next()?);
            let version = match kinds {
                "" if number == "0" => &SECOND,
                kinds if kinds.split(',').any(|kind| kind == "memory") => &FIRST,
                _ => return None,
            };
            Some((version, path.to_owned()))
        })
        .collect()
}

/// The limit and the headroom of a chain of groups; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Limit {
    bytes: Option<u64>,
    left_bytes: Option<u64>,
}

impl Limit {
    fn and(self, other: Self) -> Self {
        Self {
            bytes: smaller(self.bytes, other.bytes),
            left_bytes: smaller(self.left_bytes, other.left_bytes),
        }
    }

    fn applied_to(self, machine: MemorySizes) -> MemoryAllowed {
        let total_bytes = self.bytes.map_or(machine.total_bytes, |b| b.min(machine.total_bytes));
        let available = self.left_bytes.map_or(machine.free_bytes, |b| b.min(machine.free_bytes));
        MemoryAllowed {
            total_bytes,
            available_bytes: available.min(total_bytes),
            cgroup_limit_bytes: self.bytes,
        }
    }
}

fn smaller(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

/// The limit of a group and of all groups above it (LIMIT-1).
fn limit_of(mount: &Path, group: &str, version: &Version) -> Result<Limit, MachineError> {
    let mut least = Limit::default();
    // A path that leaves the mount (a group outside of this container's view) is ignored.
    let inside = group.trim_start_matches('/');
    let inside = if inside.split('/').any(|part| part == "..") { "" } else { inside };
    for folder in mount.join(inside).ancestors().take_while(|path| path.starts_with(mount)) {
        let path = folder.join(version.limit);
        let Some(text) = read_if_present(&path)? else {
            continue;
        };
        let Some(bytes) = in_file(&path, &text, parse_limit(&text))? else {
            continue;
        };
        let used = read_number(&folder.join(version.used))?;
        let stat = read_if_present(&folder.join("memory.stat"))?.unwrap_or_default();
        let used = used.saturating_sub(cached_bytes(&stat, version.cached_line));
        least =
            least.and(Limit { bytes: Some(bytes), left_bytes: Some(bytes.saturating_sub(used)) });
    }
    Ok(least)
}

fn read_number(path: &Path) -> Result<u64, MachineError> {
    let Some(text) = read_if_present(path)? else {
        return Ok(0);
    };
    // The usage of a group has the same form as a limit; it is never "max".
    Ok(in_file(path, &text, parse_limit(&text))?.unwrap_or(0))
}

/// Parses a limit: bytes, or `max`. Version 1 writes "no limit" as a number near the largest signed
/// one, rounded down to whole pages.
fn parse_limit(text: &str) -> Result<Option<u64>, ParseError> {
    const NO_LIMIT: u64 = i64::MAX as u64 - (1 << 20);
    let word = text.trim();
    if word == "max" {
        return Ok(None);
    }
    match word.parse::<u64>() {
        Ok(bytes) => Ok((bytes < NO_LIMIT).then_some(bytes)),
        Err(_) => Err(ParseError::NotANumber { word: word.chars().take(80).collect() }),
    }
}

/// Bytes on a line `<name> <bytes>`; an estimate, so a missing line counts as 0.
fn cached_bytes(stat: &str, name: &str) -> u64 {
    let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
    lines
        .find(|(key, _)| *key == name)
        .and_then(|(_, bytes)| bytes.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_limit_is_a_number_or_none() {
        assert_eq!(parse_limit("1073741824\n"), Ok(Some(1 << 30)));
        assert_eq!(parse_limit("max\n"), Ok(None));
        assert_eq!(parse_limit("9223372036854771712\n"), Ok(None));
        assert_eq!(parse_limit("18446744073709551615"), Ok(None));
        for garbage in ["", "-1", "1 GiB", "maximum", "1e9"] {
            assert!(parse_limit(garbage).is_err(), "{garbage}");
        }
    }

    #[test]
    fn the_groups_of_memory_are_found_in_both_generations() {
        let list = "4:cpu,memory:/a:b\n3:cpuset:/x\n0::/user.slice\nnonsense\n";
        let wanted = [(&FIRST, "/a:b".to_owned()), (&SECOND, "/user.slice".to_owned())];
        assert_eq!(memory_groups(list), wanted);
        assert_eq!(memory_groups("7:memoryless:/x"), []);
    }

    #[test]
    fn this_process_may_use_some_memory() {
        let allowed = memory_allowed();
        assert!(allowed.available_bytes > 0);
        assert!(allowed.available_bytes <= allowed.total_bytes);
        assert!(allowed.cgroup_limit_bytes.is_none_or(|limit| limit >= allowed.total_bytes));
    }

    #[test]
    fn a_node_has_room_for_what_is_free_or_cached_but_for_what_is_kept() {
        let text = |total: u64, free: u64| {
            format!(
                "Node 2 MemTotal: {total} kB\nNode 2 MemFree: {free} kB\n\
                 Node 2 Active(file): 30 kB\nNode 2 Inactive(file): 50 kB\n"
            )
        };
        assert_eq!(parse_room(&text(1600, 500)), Ok(480 << 10));
        assert_eq!(parse_room(&text(1600, 10)), Ok(0));
        let (tib, mib) = (1_u64 << 30, 1_u64 << 10);
        let expected = (tib - (256 + 4096) * mib + 80) << 10;
        assert_eq!(parse_room(&text(tib, tib)), Ok(expected));
        assert!(parse_room("Node 2 MemTotal: 16 kB\nNode 2 MemFree: 1 kB\n").is_err());
        for node in crate::Topology::discover().unwrap().nodes {
            // A machine without a folder for nodes has no such file.
            let room = room_on(node.physical).unwrap_or(0);
            assert!(room <= node.memory_bytes, "{room} bytes on {node:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "[0-9a-z:/,. \n\\-]{0,80}") {
            let _ = parse_limit(&text);
            let _ = memory_groups(&text);
            let _ = cached_bytes(&text, "inactive_file");
        }

        #[test]
        fn what_is_allowed_never_exceeds_any_authority(
            total in 1_u64..1 << 40, free in 0_u64..1 << 40,
            limit in proptest::option::of(0_u64..1 << 41), used in 0_u64..1 << 41
        ) {
            let left_bytes = limit.map(|limit| limit.saturating_sub(used));
            let allowed = Limit { bytes: limit, left_bytes }
                .applied_to(MemorySizes { total_bytes: total, free_bytes: free });
            prop_assert!(allowed.total_bytes <= total);
            prop_assert!(allowed.total_bytes <= limit.unwrap_or(u64::MAX));
            prop_assert!(allowed.available_bytes <= free.min(left_bytes.unwrap_or(u64::MAX)));
            prop_assert_eq!(allowed.cgroup_limit_bytes, limit);
        }
    }
}
