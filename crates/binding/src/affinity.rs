//! `sched_setaffinity` and `sched_getaffinity` on sets of any size.

use std::io;
use types::CpuSet;

/// Largest mask tried, in bytes: 65,536 CPUs, eight times what Linux can be configured for.
const MAX_MASK_BYTES: usize = 8192;

/// Why an affinity could not be read or set.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum BindError {
    /// No thread has this id (any more).
    #[error("thread {tid} does not exist (any more)")]
    NoSuchThread { tid: i32 },
    /// The thread belongs to another user.
    #[error(
        "not permitted to bind thread {tid}: it belongs to another user; run as that user or with \
         CAP_SYS_NICE"
    )]
    NotPermitted { tid: i32 },
    /// None of the CPUs may be used here.
    #[error(
        "thread {tid} cannot run on CPUs {wanted}: none of them exists, is online and is in this \
         cgroup's cpuset (see Cpus_allowed_list in /proc/self/status)"
    )]
    NotAllowed { tid: i32, wanted: CpuSet },
    /// The empty set was asked for.
    #[error("thread {tid} cannot be bound to an empty set of CPUs")]
    Empty { tid: i32 },
    /// Anything else the kernel said.
    #[error("cannot read or set the affinity of thread {tid}: {error}")]
    Other { tid: i32, error: io::Error },
}

fn explain(tid: i32, error: io::Error, wanted: Option<&CpuSet>) -> BindError {
    match (error.raw_os_error(), wanted) {
        (Some(libc::ESRCH), _) => BindError::NoSuchThread { tid },
        (Some(libc::EPERM), _) => BindError::NotPermitted { tid },
        (Some(libc::EINVAL), Some(set)) => BindError::NotAllowed { tid, wanted: set.clone() },
        _ => BindError::Other { tid, error },
    }
}

/// The CPUs on which thread `tid` may run; 0 is the calling thread.
///
/// # Errors
/// Fails when the thread is gone or the kernel refuses.
pub fn affinity(tid: i32) -> Result<CpuSet, BindError> {
    let mut words = vec![0u64; 16];
    loop {
        // SAFETY: the buffer is as long as said and the kernel writes no more than that.
        let got = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                tid,
                words.len() * size_of::<u64>(),
                words.as_mut_ptr(),
            )
        };
        if got >= 0 {
            words.truncate(got as usize / size_of::<u64>());
            return Ok(from_words(&words));
        }
        let error = io::Error::last_os_error();
        // EINVAL means that the kernel's masks are longer than the buffer.
        let longer = words.len() * 2;
        if error.raw_os_error() != Some(libc::EINVAL) || longer * size_of::<u64>() > MAX_MASK_BYTES
        {
            return Err(explain(tid, error, None));
        }
        words.resize(longer, 0);
    }
}

/// The CPUs on which the calling thread may run.
///
/// # Errors
/// Fails when the kernel refuses.
pub fn own_affinity() -> Result<CpuSet, BindError> {
    affinity(0)
}

/// Lets thread `tid` (0: the calling thread) run on `cpus` only, and returns the set that is in
/// force afterwards: what of `cpus` exists and is in the cpuset.
///
/// # Errors
/// Fails when the thread is gone, or none of `cpus` exists and is in the cpuset.
pub fn bind(tid: i32, cpus: &CpuSet) -> Result<CpuSet, BindError> {
    if cpus.is_empty() {
        return Err(BindError::Empty { tid });
    }
    let words = to_words(cpus);
    // SAFETY: the kernel only reads the buffer, within the length given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_setaffinity,
            tid,
            words.len() * size_of::<u64>(),
            words.as_ptr(),
        )
    };
    if result != 0 {
        return Err(explain(tid, io::Error::last_os_error(), Some(cpus)));
    }
    affinity(tid)
}

fn from_words(words: &[u64]) -> CpuSet {
    (0..words.len() * 64).filter(|&os| words[os / 64] >> (os % 64) & 1 != 0).collect()
}

fn to_words(cpus: &CpuSet) -> Vec<u64> {
    let mut words = vec![0; cpus.iter().last().map_or(1, |last| last / 64 + 1)];
    cpus.iter().for_each(|os| words[os / 64] |= 1 << (os % 64));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_be_bound_and_reads_its_binding_back() {
        std::thread::spawn(|| {
            let before = own_affinity().unwrap();
            let one: CpuSet = before.iter().take(1).collect();
            assert_eq!(bind(0, &one).unwrap(), one);
            assert_eq!(own_affinity().unwrap(), one);
            assert_eq!(bind(0, &before).unwrap(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn cpus_that_do_not_exist_are_dropped_or_refused() {
        std::thread::spawn(|| {
            let before = own_affinity().unwrap();
            let far: CpuSet = [60_000].into_iter().collect();
            assert!(matches!(bind(0, &far), Err(BindError::NotAllowed { tid: 0, .. })));
            let first = before.iter().next().unwrap();
            let mixed: CpuSet = [first, 4000].into_iter().collect();
            assert_eq!(bind(0, &mixed).unwrap(), [first].into_iter().collect());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn errors_say_what_happened() {
        // Above the largest pid_max that Linux allows (2^22).
        let missing = affinity(i32::MAX - 1).unwrap_err();
        assert!(matches!(missing, BindError::NoSuchThread { .. }), "{missing}");
        let empty = bind(0, &CpuSet::new()).unwrap_err();
        assert_eq!(empty.to_string(), "thread 0 cannot be bound to an empty set of CPUs");
    }

    #[test]
    fn words_and_sets_agree() {
        let set: CpuSet = [0, 63, 64, 200].into_iter().collect();
        assert_eq!(to_words(&set), [1 | 1 << 63, 1, 0, 1 << 8]);
        assert_eq!(from_words(&to_words(&set)), set);
    }
}
