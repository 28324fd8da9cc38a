//! Moving a mapping that has several policies: to the kernel these are several mappings, and
//! `mremap` takes only one at a time (EFAULT).
//!
//! Neighbours: `data` calls this where `mremap` has failed so.

use core::ffi::c_int;
use injected::raw::{raw, raw6};

/// The arguments of a call of mremap.
#[derive(Clone, Copy)]
pub struct Call {
    /// Where the memory is.
    pub old: u64,
    /// How much of it.
    pub old_bytes: u64,
    /// How much it is to be.
    pub bytes: u64,
    /// `MREMAP_…`.
    pub flags: c_int,
    /// Where it is to be, with `MREMAP_FIXED`.
    pub to: u64,
}

const FIXED: c_int = libc::MREMAP_FIXED;

/// What the kernel does; errors are its numbers.
pub trait Kernel {
    /// mremap of one mapping.
    ///
    /// # Errors
    /// As for the call.
    fn remap(&mut self, call: Call) -> Result<u64, i32>;
    /// Reserves address space; returns where it begins.
    ///
    /// # Errors
    /// As for mmap.
    fn reserve(&mut self, bytes: u64) -> Result<u64, i32>;
    /// munmap.
    fn unmap(&mut self, start: u64, bytes: u64);
}

/// Does what the call asks for part by part; `next` tells where the part that holds an address
/// ends.
///
/// # Errors
/// As for the call; everything is as before then.
pub fn in_parts(
    kernel: &mut impl Kernel,
    call: Call,
    next: &dyn Fn(u64) -> u64,
) -> Result<u64, i32> {
    let Call { old, old_bytes, bytes, flags, to } = call;
    let kept = old_bytes.min(bytes);
    let (end, grown) = (old + kept, bytes - kept);
    let parts = Parts { at: old, end, next };
    let last = parts.clone().last().ok_or(libc::EFAULT)?;
    let is_fixed = flags & FIXED != 0;
    if !is_fixed {
        let (old, old_bytes) = (last.0, last.1 - last.0);
        let in_place = Call { old, old_bytes, bytes: old_bytes + grown, flags: 0, to: 0 };
        if kernel.remap(in_place).is_ok() {
            return Ok(call.old);
        }
    }
    if flags & libc::MREMAP_MAYMOVE == 0 {
        return Err(libc::ENOMEM);
    }
    if is_fixed && old < to + bytes && to < old + old_bytes {
        return Err(libc::EINVAL);
    }
    let to = if is_fixed { to } else { kernel.reserve(bytes)? };
    let moved = |(start, stop): (u64, u64)| Call {
        old: start,
        old_bytes: stop - start,
        bytes: stop - start + if stop == end { grown } else { 0 },
        flags: flags | FIXED,
        to: to + (start - old),
    };
    for (number, part) in parts.clone().enumerate() {
        if let Err(error) = kernel.remap(moved(part)) {
            for done in parts.clone().take(number).map(moved) {
                let back = Call { old: done.to, old_bytes: done.bytes, to: done.old, ..done };
                _ = kernel.remap(Call { bytes: done.old_bytes, ..back });
            }
            if !is_fixed {
                kernel.unmap(to, bytes);
            }
            return Err(error);
        }
    }
    if kept < old_bytes {
        kernel.unmap(end, old_bytes - kept);
    }
    Ok(to)
}

/// Parts with one policy each.
#[derive(Clone)]
struct Parts<'a> {
    at: u64,
    end: u64,
    next: &'a dyn Fn(u64) -> u64,
}

impl Iterator for Parts<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let start = self.at;
        self.at = (self.next)(start).clamp(start, self.end);
        (self.at > start).then_some((start, self.at))
    }
}

/// The kernel that runs here.
pub struct Here;

fn result(returned: isize) -> Result<u64, i32> {
    match returned {
        -4095..0 => Err(-returned as i32),
        address => Ok(address as u64),
    }
}

impl Kernel for Here {
    fn remap(&mut self, call: Call) -> Result<u64, i32> {
        let Call { old, old_bytes, bytes, flags, to } = call;
        let [old, old_bytes, bytes, to] = [old, old_bytes, bytes, to].map(|word| word as usize);
        // SAFETY: parts of what the program has asked to move, to where it wants it or nothing is.
        result(unsafe { raw6(libc::SYS_mremap, old, old_bytes, bytes, flags as usize, to, 0) })
    }

    fn reserve(&mut self, bytes: u64) -> Result<u64, i32> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let (bytes, access) = (bytes as usize, libc::PROT_NONE as usize);
        // SAFETY: a new mapping, where the kernel likes.
        result(unsafe { raw6(libc::SYS_mmap, 0, bytes, access, flags as usize, usize::MAX, 0) })
    }

    fn unmap(&mut self, start: u64, bytes: u64) {
        // SAFETY: what was reserved, or what the program gives up.
        unsafe { raw(libc::SYS_munmap, start as usize, bytes as usize, 0, 0) };
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    const PAGE: u64 = 4096;
    const DESTINATION: u64 = 1 << 30;

    /// Mappings by start, with their bytes and policies.
    struct Simulated {
        mappings: BTreeMap<u64, (u64, u32)>,
        room: bool,
        /// Moves that succeed before one fails.
        moves: u32,
    }

    impl Simulated {
        /// Four mappings of two pages each, from 0x10000 on.
        fn new(room: bool, moves: u32) -> Self {
            let mappings = (0..4).map(|k| (0x10000 + u64::from(k) * 2 * PAGE, (2 * PAGE, k)));
            Self { mappings: mappings.collect(), room, moves }
        }

        fn all(&self) -> Vec<(u64, u64, u32)> {
            self.mappings.iter().map(|(start, (bytes, policy))| (*start, *bytes, *policy)).collect()
        }
    }

    impl Kernel for Simulated {
        fn remap(&mut self, call: Call) -> Result<u64, i32> {
            let (bytes, policy) = *self.mappings.get(&call.old).ok_or(libc::EFAULT)?;
            assert_eq!(bytes, call.old_bytes, "one mapping at a time");
            if call.flags & FIXED == 0 {
                if !self.room {
                    return Err(libc::ENOMEM);
                }
                self.mappings.insert(call.old, (call.bytes, policy));
                return Ok(call.old);
            }
            self.moves = self.moves.checked_sub(1).ok_or(libc::ENOMEM)?;
            self.mappings.remove(&call.old);
            self.mappings.insert(call.to, (call.bytes, policy));
            Ok(call.to)
        }

        fn reserve(&mut self, _: u64) -> Result<u64, i32> {
            Ok(DESTINATION)
        }

        fn unmap(&mut self, start: u64, bytes: u64) {
            self.mappings.retain(|at, _| !(start..start + bytes).contains(at));
        }
    }

    fn call(bytes: u64, flags: c_int) -> Call {
        Call { old: 0x10000, old_bytes: 8 * PAGE, bytes, flags, to: 0 }
    }

    /// Where the part of two pages that holds an address ends.
    fn next(at: u64) -> u64 {
        (at / (2 * PAGE) + 1) * 2 * PAGE
    }

    #[test]
    fn growing_in_place_makes_the_last_part_larger() {
        let mut kernel = Simulated::new(true, 0);
        let at = in_parts(&mut kernel, call(12 * PAGE, libc::MREMAP_MAYMOVE), &next);
        assert_eq!(at, Ok(0x10000));
        assert_eq!(kernel.all()[3], (0x16000, 6 * PAGE, 3));
    }

    #[test]
    fn parts_move_one_by_one_with_their_policies() {
        let mut kernel = Simulated::new(false, 9);
        let at = in_parts(&mut kernel, call(12 * PAGE, libc::MREMAP_MAYMOVE), &next);
        assert_eq!(at, Ok(DESTINATION));
        let expected: Vec<(u64, u64, u32)> = (0..4)
            .map(|k| (DESTINATION + u64::from(k) * 0x2000, if k == 3 { 6 } else { 2 } * PAGE, k))
            .collect();
        assert_eq!(kernel.all(), expected);
        let mut kernel = Simulated::new(false, 9);
        assert_eq!(in_parts(&mut kernel, call(12 * PAGE, 0), &next), Err(libc::ENOMEM));
        assert_eq!(kernel.all(), Simulated::new(false, 9).all());
    }

    #[test]
    fn a_move_to_a_place_may_leave_the_end_behind() {
        let mut kernel = Simulated::new(false, 9);
        let flags = libc::MREMAP_MAYMOVE | FIXED;
        let to = Call { to: DESTINATION, ..call(4 * PAGE, flags) };
        assert_eq!(in_parts(&mut kernel, to, &next), Ok(DESTINATION));
        assert_eq!(kernel.all().len(), 2);
        let over = Call { to: 0x12000, ..call(8 * PAGE, flags) };
        assert_eq!(in_parts(&mut Simulated::new(false, 9), over, &next), Err(libc::EINVAL));
    }

    #[test]
    fn where_a_part_cannot_move_everything_is_as_before() {
        let mut kernel = Simulated::new(false, 3);
        // Moves back succeed.
        struct Once(Simulated);
        impl Kernel for Once {
            fn remap(&mut self, call: Call) -> Result<u64, i32> {
                let result = self.0.remap(call);
                if result.is_err() && call.flags & FIXED != 0 {
                    self.0.moves = 100;
                }
                result
            }
            fn reserve(&mut self, bytes: u64) -> Result<u64, i32> {
                self.0.reserve(bytes)
            }
            fn unmap(&mut self, start: u64, bytes: u64) {
                self.0.unmap(start, bytes);
            }
        }
        let before = kernel.all();
        let mut once = Once(std::mem::replace(&mut kernel, Simulated::new(false, 0)));
        let failed = in_parts(&mut once, call(12 * PAGE, libc::MREMAP_MAYMOVE), &next);
        assert_eq!((failed, once.0.all()), (Err(libc::ENOMEM), before));
    }
}
