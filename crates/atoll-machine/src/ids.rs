//! Numbers of nodes and CPUs, kept apart by type.
//!
//! Both are the kernel's own numbers, which may have gaps. A [`NodeId`] may also be the number of a
//! logical node of a [`Topology`](crate::Topology), which knows the physical node of each.

use std::fmt;

/// The number of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// The number of a CPU, as the kernel numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId(pub u32);

impl fmt::Display for NodeId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// Formats sorted CPU numbers as the kernel does: `0-3,8`.
pub(crate) fn write_cpus(cpus: &[CpuId]) -> String {
    let mut text = String::new();
    let mut rest = cpus;
    while let Some(first) = rest.first() {
        let run = rest.iter().zip(first.0..).take_while(|(cpu, number)| cpu.0 == *number).count();
        if !text.is_empty() {
            text.push(',');
        }
        match run {
            1 => text.push_str(&first.to_string()),
            _ => text.push_str(&format!("{first}-{}", rest[run - 1])),
        }
        rest = &rest[run..];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_written_list_reads_back_as_the_same_cpus(
            numbers in proptest::collection::btree_set(0_u32..200, 1..60)
        ) {
            let cpus: Vec<CpuId> = numbers.iter().copied().map(CpuId).collect();
            let read = crate::sysfs::parse_id_list(&write_cpus(&cpus));
            prop_assert_eq!(read, Ok(numbers.into_iter().collect::<Vec<u32>>()));
        }
    }

    #[test]
    fn neighbours_are_written_as_a_range() {
        assert_eq!(write_cpus(&[0, 1, 2, 5, 8, 9].map(CpuId)), "0-2,5,8-9");
        assert_eq!(write_cpus(&[]), "");
    }
}
