//! The CPUs that the process may use, and pinning a thread to some of them.
//!
//! - AFFINITY-1: the CPUs allowed to the process are those of its main thread at the first call.
//!   The kernel cannot answer later, since it has masks of threads only: once a thread is pinned,
//!   its mask no longer shows what was allowed before.
//! - AFFINITY-2: a failed call does not change where the thread may run.
//!
//! The calls go through `libc`. The masks of `rustix` end at 1,024 CPUs, and the kernel refuses to
//! fill a mask that is shorter than its own; its `sched_getcpu` does not report a call that fails.

use crate::error::MachineError;
use crate::ids::CpuId;
use std::io;
use std::sync::OnceLock;

/// Words of the largest mask tried: 65,536 CPUs.
const MOST_WORDS: usize = 1024;

static ALLOWED: OnceLock<Vec<CpuId>> = OnceLock::new();

/// The CPUs allowed to this process, sorted. Read once, so the answer does not change when threads
/// are pinned, nor when the process's CPU set is changed from outside.
///
/// # Errors
///
/// [`MachineError::SystemCall`] where the kernel does not say.
pub fn allowed_cpus() -> Result<&'static [CpuId], MachineError> {
    if let Some(cpus) = ALLOWED.get() {
        return Ok(cpus);
    }
    let cpus = mask_of(std::process::id().cast_signed()).or_else(|_| mask_of(0))?;
    Ok(ALLOWED.get_or_init(|| cpus))
}

/// The CPU on which the calling thread runs; unless the thread is pinned, the answer may be
/// outdated already.
///
/// # Errors
///
/// [`MachineError::SystemCall`] where the kernel does not say.
pub fn current_cpu() -> Result<CpuId, MachineError> {
    // SAFETY: the call takes no argument and touches no memory of ours.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).map(CpuId).map_err(|_| MachineError::last("sched_getcpu"))
}

/// Restricts the calling thread to `cpus`. Threads that it starts afterwards inherit the
/// restriction.
///
/// # Errors
///
/// [`MachineError::NoCpusNamed`] for an empty list, [`MachineError::CpusForbidden`] when one of
/// them is not allowed to this process, [`MachineError::SystemCall`] where the kernel refuses.
pub fn pin_current_thread(cpus: &[CpuId]) -> Result<(), MachineError> {
    let mut wanted = cpus.to_vec();
    wanted.sort_unstable();
    wanted.dedup();
    if wanted.is_empty() {
        return Err(MachineError::NoCpusNamed);
    }
    let allowed = allowed_cpus()?;
    refuse_missing(&wanted, allowed)?;
    let before = mask_of(0)?;
    match set_mask(&wanted) {
        Ok(()) => {}
        // None of the CPUs is in the CPU set any more.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            return Err(MachineError::CpusForbidden { cpus: wanted, allowed: before });
        }
        Err(source) => {
            return Err(MachineError::SystemCall { call: "sched_setaffinity", source });
        }
    }
    // The kernel silently drops CPUs that have left the process's CPU set since the first call.
    let granted = mask_of(0)?;
    refuse_missing(&wanted, &granted).inspect_err(|_| {
        // AFFINITY-2; if even this fails, the thread still runs on some of the requested CPUs.
        let _ = set_mask(&before);
    })
}

fn refuse_missing(wanted: &[CpuId], allowed: &[CpuId]) -> Result<(), MachineError> {
    let missing: Vec<CpuId> =
        wanted.iter().copied().filter(|cpu| allowed.binary_search(cpu).is_err()).collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(MachineError::CpusForbidden { cpus: missing, allowed: allowed.to_vec() })
    }
}

/// The mask of a thread (0: the calling one), as sorted CPUs.
fn mask_of(thread: libc::pid_t) -> Result<Vec<CpuId>, MachineError> {
    let mut words = 16;
    loop {
        let mut mask = vec![0_u64; words];
        // SAFETY: `mask` is writable for the number of bytes named, and aligned like the kernel's
        // words; the call writes no more than that.
        let rc = unsafe {
            libc::sched_getaffinity(thread, size_of_val(&mask[..]), mask.as_mut_ptr().cast())
        };
        if rc == 0 {
            return Ok(cpus_of_mask(&mask));
        }
        let error = MachineError::last("sched_getaffinity");
        let too_small = matches!(&error, MachineError::SystemCall { source, .. }
            if source.raw_os_error() == Some(libc::EINVAL));
        if !too_small || words >= MOST_WORDS {
            return Err(error);
        }
        words *= 2;
    }
}

/// `cpus` must be sorted.
fn set_mask(cpus: &[CpuId]) -> io::Result<()> {
    let mask = mask_of_cpus(cpus);
    // SAFETY: `mask` is readable for the number of bytes named; the call reads no more than that.
    let rc = unsafe { libc::sched_setaffinity(0, size_of_val(&mask[..]), mask.as_ptr().cast()) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn cpus_of_mask(mask: &[u64]) -> Vec<CpuId> {
    let bits = (0_u32..).zip(mask).flat_map(|(index, word)| {
        (0..64_u32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index * 64 + bit)
    });
    bits.map(CpuId).collect()
}

fn mask_of_cpus(cpus: &[CpuId]) -> Vec<u64> {
    let words = cpus.last().map_or(1, |cpu| cpu.0 as usize / 64 + 1);
    let mut mask = vec![0_u64; words];
    for cpu in cpus {
        mask[cpu.0 as usize / 64] |= 1 << (cpu.0 % 64);
    }
    mask
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_thread_is_on_the_cpu_that_it_was_pinned_to_and_can_move_on() {
        for &cpu in allowed_cpus().unwrap() {
            std::thread::spawn(move || {
                pin_current_thread(&[cpu]).unwrap();
                assert_eq!(current_cpu().unwrap(), cpu);
                // The thread can still move to any other CPU of the process.
                pin_current_thread(allowed_cpus().unwrap()).unwrap();
                assert_eq!(mask_of(0).unwrap(), allowed_cpus().unwrap());
            })
            .join()
            .unwrap();
        }
    }

    #[test]
    fn pinning_outside_the_allowed_cpus_is_an_error_and_changes_nothing() {
        let allowed = allowed_cpus().unwrap();
        let outside = CpuId(allowed.last().unwrap().0 + 1);
        let before = mask_of(0).unwrap();
        match pin_current_thread(&[allowed[0], outside, CpuId(u32::MAX)]) {
            Err(MachineError::CpusForbidden { cpus, .. }) => {
                assert_eq!(cpus, [outside, CpuId(u32::MAX)]);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(mask_of(0).unwrap(), before);
    }

    #[test]
    fn pinning_to_no_cpu_is_an_error() {
        assert!(matches!(pin_current_thread(&[]), Err(MachineError::NoCpusNamed)));
    }

    proptest! {
        #[test]
        fn a_mask_holds_exactly_the_cpus_put_in(
            numbers in proptest::collection::btree_set(0_u32..2000, 1..50)
        ) {
            let cpus: Vec<CpuId> = numbers.into_iter().map(CpuId).collect();
            prop_assert_eq!(cpus_of_mask(&mask_of_cpus(&cpus)), cpus);
        }
    }
}
