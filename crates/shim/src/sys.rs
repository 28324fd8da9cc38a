//! Raw system calls, and CPU masks.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wire::launch::MASK_WORDS;

pub use injected::raw::{close, now_ns, open, pid, raw, raw6, read, read_file, tid};

/// A CPU mask as the kernel takes it.
pub type Mask = [u64; MASK_WORDS];

/// The mask of thread `tid` (0: our own); `None` when it has ended.
pub fn affinity(tid: u32) -> Option<Mask> {
    let mut mask = [0u64; MASK_WORDS];
    // SAFETY: the buffer is as long as said.
    let result = unsafe {
        raw(
            libc::SYS_sched_getaffinity,
            tid as usize,
            size_of::<Mask>(),
            mask.as_mut_ptr() as usize,
            0,
        )
    };
    (result > 0).then_some(mask)
}

/// Sets the mask of thread `tid` (0: our own); the error is an errno.
pub fn set_affinity(tid: u32, mask: &Mask) -> Result<(), u32> {
    // SAFETY: the kernel reads as many bytes as said.
    let result = unsafe {
        raw(libc::SYS_sched_setaffinity, tid as usize, size_of::<Mask>(), mask.as_ptr() as usize, 0)
    };
    if result < 0 { Err(-result as u32) } else { Ok(()) }
}

/// The mask with CPU `os` only; `None` beyond the longest mask.
pub fn only(os: u32) -> Option<Mask> {
    let mut mask = [0u64; MASK_WORDS];
    *mask.get_mut(os as usize / 64)? |= 1 << (os % 64);
    Some(mask)
}

/// Whether every CPU of `inner` is in `outer`.
pub fn contains(outer: &Mask, inner: &Mask) -> bool {
    outer.iter().zip(inner).all(|(o, i)| i & !o == 0)
}

/// Copies a mask out of shared memory.
pub fn load(shared: &[AtomicU64; MASK_WORDS]) -> Mask {
    let mut mask = [0u64; MASK_WORDS];
    mask.iter_mut().zip(shared).for_each(|(to, from)| *to = from.load(Relaxed));
    mask
}

/// Copies a mask into shared memory.
pub fn store(shared: &[AtomicU64; MASK_WORDS], mask: &Mask) {
    shared.iter().zip(mask).for_each(|(to, from)| to.store(*from, Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_contains_another_if_it_has_all_of_its_cpus() {
        let last = MASK_WORDS as u32 * 64 - 1;
        let of = |cpus: &[u32]| {
            let mut mask = [0; MASK_WORDS];
            cpus.iter().for_each(|cpu| mask[*cpu as usize / 64] |= 1 << (cpu % 64));
            mask
        };
        assert!(only(0) == Some(of(&[0])) && only(64) == Some(of(&[64])));
        assert!(only(last) == Some(of(&[last])) && only(last + 1).is_none());
        assert!(contains(&of(&[1, 64, last]), &of(&[64, last])));
        assert!(!contains(&of(&[1, 64]), &of(&[64, last])));
        assert!(contains(&of(&[]), &of(&[])) && !contains(&of(&[]), &of(&[0])));
    }
}
