//! The affinity mask this process inherited.

use types::CpuSet;

/// Largest mask asked for, bits. The kernel refuses a buffer smaller than its own mask; Linux is
/// built for at most 8192 CPUs on x86-64.
const MASK_BITS: usize = 1 << 16;

/// The CPUs the calling thread may run on: the affinity mask it inherited, which already lies
/// within the cgroup's cpuset. Empty when the kernel does not say.
pub fn inherited_mask() -> CpuSet {
    let mut words = vec![0u64; MASK_BITS / 64];
    // SAFETY: the buffer is `MASK_BITS / 8` bytes, lives through the call, and the kernel writes at
    // most that many; pid 0 is the calling thread.
    let result = unsafe {
        libc::sched_getaffinity(0, MASK_BITS / 8, words.as_mut_ptr().cast::<libc::cpu_set_t>())
    };
    if result != 0 {
        return CpuSet::new();
    }
    (0..MASK_BITS).filter(|bit| words[bit / 64] >> (bit % 64) & 1 != 0).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_thread_may_run_somewhere() {
        assert!(!super::inherited_mask().is_empty());
    }
}
