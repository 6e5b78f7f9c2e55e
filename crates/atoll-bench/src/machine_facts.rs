//! Facts about the machine, for a report.

use std::fmt;

use serde::Serialize;

/// The properties of the machine that affect the figures.
#[derive(Debug, Clone, Serialize)]
pub struct MachineFacts {
    /// CPUs that this process may use.
    pub cpus_allowed: usize,
    /// Model name of the processor.
    pub cpu_model: String,
    /// Memory of the machine.
    pub memory_total_bytes: u64,
    /// Memory that was available at the start.
    pub memory_available_bytes: u64,
    /// Average number of runnable processes in the minute before the start; more than 0 means that
    /// other processes affect the figures.
    pub load: f64,
    /// Release of the kernel.
    pub kernel: String,
    /// Transparent huge pages for ordinary and for shared memory, as the system shows them.
    pub huge_pages: [String; 2],
}

impl MachineFacts {
    /// Gathers the facts; what cannot be read is left empty.
    pub fn gather() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let huge = |file: &str| read(&format!("/sys/kernel/mm/transparent_hugepage/{file}"));
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split_once(':')).map_or("", |(_, model)| model);
        let memory = atoll::machine::memory_allowed();
        Self {
            cpus_allowed: atoll::machine::allowed_cpus().map_or(0, <[_]>::len),
            cpu_model: model.trim().to_owned(),
            memory_total_bytes: memory.total_bytes,
            memory_available_bytes: memory.available_bytes,
            load: first_number(&read("/proc/loadavg")),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            huge_pages: ["enabled", "shmem_enabled"].map(|file| chosen(&huge(file))),
        }
    }
}

impl fmt::Display for MachineFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gib = self.memory_total_bytes as f64 / (1u64 << 30) as f64;
        let Self { cpu_model, cpus_allowed, kernel, load, .. } = self;
        write!(f, "{cpu_model}, {cpus_allowed} CPUs, {gib:.0} GiB, Linux {kernel}, load {load}")
    }
}

/// The word in brackets of a file such as `always [madvise] never`.
fn chosen(text: &str) -> String {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or("", |(word, _)| word).to_owned()
}

fn first_number(text: &str) -> f64 {
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// Bytes of this process that are in memory, shared ones included; 0 where the system does not
/// report it.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::{chosen, resident_bytes};

    #[test]
    fn the_chosen_word_is_the_one_in_brackets() {
        assert_eq!(chosen("always [madvise] never\n"), "madvise");
        assert_eq!(chosen(""), "");
    }

    #[test]
    fn a_process_has_some_resident_memory() {
        assert!(resident_bytes() > 100 << 10);
    }
}
