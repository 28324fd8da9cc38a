//! Memory on one NUMA node, to be read from others.

use binding::where_pages_are;
use std::io;

/// Bytes between two reads of a chain: processors fetch lines in pairs of 64 bytes.
const STEP: usize = 128;
const PAGE: usize = 4096;
/// Huge pages, so that reads wait for memory and not for page tables.
const ALIGNED: usize = 2 << 20;
/// `MPOL_BIND` of `linux/mempolicy.h`.
const BIND: i32 = 2;
/// Nodes that Linux can have.
const MAX_NODES: usize = 1024;

/// Memory all of which lies on one node, with a chain through all its steps in random order.
pub struct Buffer {
    base: *mut u8,
    mapped: usize,
    start: usize,
    bytes: usize,
}

// SAFETY: nothing is written after it was made, and it lives as long as this.
unsafe impl Sync for Buffer {}
// SAFETY: the mapping belongs to no thread.
unsafe impl Send for Buffer {}

impl Buffer {
    /// About `bytes` bytes on the node with the kernel's number `node`. Errors say the reason.
    pub fn on(node: u32, bytes: u64) -> Result<Self, String> {
        let bytes = (bytes as usize / ALIGNED).max(1) * ALIGNED;
        let mapped = bytes + ALIGNED;
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping wherever the kernel likes.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), mapped, access, kind, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(format!("no memory to be had: {}", io::Error::last_os_error()));
        }
        let start = (base as usize).next_multiple_of(ALIGNED) - base as usize;
        let mut buffer = Self { base: base.cast(), mapped, start, bytes };
        buffer.bind(node)?;
        buffer.chain();
        buffer.check(node)?;
        Ok(buffer)
    }

    /// Bytes that are read.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn bind(&self, node: u32) -> Result<(), String> {
        let mut mask = [0_u64; MAX_NODES / 64];
        let word = mask.get_mut(node as usize / 64).ok_or("its number is too large")?;
        *word |= 1 << (node % 64);
        let start = self.words().as_ptr() as usize;
        // SAFETY: the range is in our mapping; advice changes nothing of what is there.
        unsafe { libc::madvise(start as *mut libc::c_void, self.bytes, libc::MADV_HUGEPAGE) };
        // SAFETY: the range is in our mapping, and the mask is as long as said.
        let result = unsafe {
            libc::syscall(libc::SYS_mbind, start, self.bytes, BIND, mask.as_ptr(), MAX_NODES + 1, 0)
        };
        match result {
            0 => Ok(()),
            _ => Err(format!("no memory can be bound to it: {}", io::Error::last_os_error())),
        }
    }

    /// Writes one random cycle through all steps (Sattolo, 1986): each holds the place of the next.
    fn chain(&mut self) {
        let steps = self.bytes / STEP;
        // SAFETY: within the mapping, aligned, zeroed by the kernel, and nobody else's as yet.
        let words = unsafe {
            std::slice::from_raw_parts_mut(self.base.add(self.start).cast::<u64>(), self.bytes / 8)
        };
        let place = |step: usize| step * (STEP / 8);
        (0..steps).for_each(|step| words[place(step)] = step as u64);
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for step in (1..steps).rev() {
            // xorshift (Marsaglia, 2003).
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            words.swap(place(step), place(random as usize % step));
        }
    }

    /// Asks where its pages are.
    fn check(&self, node: u32) -> Result<(), String> {
        let start = self.words().as_ptr() as u64;
        let pages: Vec<u64> =
            (0..self.bytes / PAGE).map(|page| start + (page * PAGE) as u64).collect();
        let found = where_pages_are(0, &pages).map_err(|error| error.to_string())?;
        let there = found.iter().filter(|status| status.node() == Some(node)).count();
        match there == pages.len() {
            true => Ok(()),
            false => Err(format!("only {there} of {} pages came to lie on it", pages.len())),
        }
    }

    fn words(&self) -> &[u64] {
        // SAFETY: within the mapping, aligned, initialised by the kernel.
        unsafe { std::slice::from_raw_parts(self.base.add(self.start).cast(), self.bytes / 8) }
    }

    /// Follows the chain from a step, and returns the one at which it ends.
    pub fn follow(&self, from: u64, reads: usize) -> u64 {
        let words = self.words();
        (0..reads).fold(from, |at, _| words[at as usize * (STEP / 8)])
    }

    /// Reads part number `part` of `parts` equal ones and returns the sum of its words.
    pub fn read(&self, part: usize, parts: usize) -> u64 {
        let words = self.words();
        let each = words.len() / parts;
        let end = if part + 1 == parts { words.len() } else { (part + 1) * each };
        words[part * each..end].iter().fold(0, |sum, word| sum.wrapping_add(*word))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: our own mapping, to which nothing refers any more.
        unsafe { libc::munmap(self.base.cast(), self.mapped) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_goes_once_through_all_steps() {
        let node = std::fs::read_to_string("/sys/devices/system/node/has_memory");
        let first: Option<u32> =
            node.ok().and_then(|text| text.trim().split(['-', ',']).next()?.parse::<u32>().ok());
        let buffer = match Buffer::on(first.unwrap_or(0), 3 << 20) {
            Ok(buffer) => buffer,
            Err(why) => return test_support::probe::skip("memory on a node", &why),
        };
        assert_eq!(buffer.bytes(), 2 << 20);
        let steps = buffer.bytes() / STEP;
        let mut seen = vec![false; steps];
        let mut at = 0;
        for _ in 0..steps {
            assert!(!std::mem::replace(&mut seen[at as usize], true));
            at = buffer.follow(at, 1);
        }
        assert_eq!(at, 0);
        let whole = buffer.read(0, 1);
        assert_eq!((0..3).map(|part| buffer.read(part, 3)).sum::<u64>(), whole);
        assert_eq!(whole, (0..steps as u64).sum::<u64>());
    }

    #[test]
    fn a_node_that_is_not_there_is_refused() {
        let Err(why) = Buffer::on(1000, 2 << 20) else { panic!("node 1000") };
        assert!(why.starts_with("no memory can be bound to it"), "{why}");
    }
}
