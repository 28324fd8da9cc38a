//! The program's memory as system calls see it: what an argument points to need not be there.
//!
//! Whatever handles a system call reads and writes the program's memory by these functions only.
//! They fail where the kernel would, so that the program gets the kernel's error instead of a
//! crash. `slow/program.h` does the work and says how.

use alloc::vec::Vec;

unsafe extern "C" {
    fn tt_take(to: *mut u8, from: u64, bytes: u64) -> u64;
    fn tt_give(to: u64, from: *const u8, bytes: u64) -> u64;
    /// In `slow/repeat.h`; `signals.rs` leads faults in there to its end.
    pub fn tt_peek(address: u64, bytes: u64) -> Peeked;
}

#[repr(C)]
pub struct Peeked {
    value: u64,
    failed: u64,
}

/// What a system call answers to a bad pointer.
pub const EFAULT: i64 = -14;
/// More arguments or variables than a program can be executed with: their pointers alone fill the 6
/// MiB that the kernel gives them.
pub const MAX_STRINGS: usize = (6 << 20) / 8;
const PAGE: usize = 4096;

/// Fills the buffer with what is at `from`; how many bytes are there.
pub fn bytes(from: u64, buffer: &mut [u8]) -> usize {
    // SAFETY: the buffer is as long as said; the program's memory is reached by the kernel.
    unsafe { tt_take(buffer.as_mut_ptr(), from, buffer.len() as u64) as usize }
}

/// The words at `from`; `None` if they are not there.
pub fn words<const N: usize>(from: u64) -> Option<[u64; N]> {
    let mut words = [0u64; N];
    let bytes = size_of::<[u64; N]>() as u64;
    // SAFETY: as above.
    (unsafe { tt_take(words.as_mut_ptr().cast(), from, bytes) } == bytes).then_some(words)
}

/// Gives the program words at an address of its choice; 0, or the kernel's error if it has no
/// memory there.
pub fn give<const N: usize>(to: u64, words: &[u64; N]) -> i64 {
    let bytes = size_of::<[u64; N]>() as u64;
    // SAFETY: the words are as many as said; where they go the program has said.
    let given = unsafe { tt_give(to, words.as_ptr().cast(), bytes) };
    if given == bytes { 0 } else { EFAULT }
}

/// The string at `from` with its NUL; `None` if it is not there, or has more than `max` bytes.
pub fn string(from: u64, max: usize) -> Option<Vec<u8>> {
    const PIECE: usize = 256;
    let mut all = Vec::new();
    loop {
        let mut piece = [0; PIECE];
        let got = bytes(from.wrapping_add(all.len() as u64), &mut piece);
        let end = piece[..got].iter().position(|byte| *byte == 0);
        all.extend_from_slice(&piece[..end.map_or(got, |end| end + 1)]);
        if all.len() > max || (end.is_none() && got < PIECE) {
            return None;
        }
        if end.is_some() {
            return Some(all);
        }
    }
}

/// The pointers of the NULL-terminated array at `from`, without the NULL; none if there is no
/// array. `None` if it is not there, or has more than `max`.
pub fn pointers(from: u64, max: usize) -> Option<Vec<u64>> {
    const PIECE: usize = PAGE / 8;
    let mut all = Vec::new();
    if from == 0 {
        return Some(all);
    }
    loop {
        let mut piece = [0; 8 * PIECE];
        let got = bytes(from.wrapping_add(8 * all.len() as u64), &mut piece) / 8;
        let words = piece.chunks_exact(8).take(got);
        let words = words.map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
        let before = all.len();
        all.extend(words.take_while(|word| *word != 0));
        let is_whole = all.len() - before < got;
        if all.len() > max || !is_whole && got < PIECE {
            return None;
        }
        if is_whole {
            return Some(all);
        }
    }
}

#[cfg(test)]
#[path = "program_tests.rs"]
pub mod tests;
