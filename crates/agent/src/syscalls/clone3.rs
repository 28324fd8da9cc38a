//! The argument of clone3: `struct clone_args`, as long as the program says.

use crate::program;

/// Words of the first version, and of the longest that any kernel takes.
const MIN_WORDS: usize = 8;
const MAX_WORDS: usize = 512;
const FLAGS: usize = 0;
const STACK: usize = 5;
const STACK_BYTES: usize = 6;
const THREAD_POINTER: usize = 7;

/// A copy of it. Words that the program has not given are 0.
pub struct Clone3 {
    words: [u64; MAX_WORDS],
    bytes: u64,
}

impl Clone3 {
    /// Reads it; `None` if the kernel refuses it: too short, too long, not there, or a stack
    /// without a size.
    pub fn read(from: u64, bytes: u64) -> Option<Self> {
        let mut copy = [0u8; 8 * MAX_WORDS];
        let wanted = copy.get_mut(..usize::try_from(bytes).ok()?)?;
        if wanted.len() < 8 * MIN_WORDS || program::bytes(from, wanted) < wanted.len() {
            return None;
        }
        let mut words = [0; MAX_WORDS];
        for (word, bytes) in words.iter_mut().zip(copy.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        }
        let whole_stack = (words[STACK] == 0) == (words[STACK_BYTES] == 0);
        whole_stack.then_some(Clone3 { words, bytes })
    }

    pub fn flags(&self) -> u64 {
        self.words[FLAGS]
    }

    /// Where the new stack begins, at its upper end; 0 = the same as the caller's.
    pub fn stack_top(&self) -> u64 {
        self.words[STACK] + self.words[STACK_BYTES]
    }

    pub fn stack_bytes(&self) -> u64 {
        self.words[STACK_BYTES]
    }

    pub fn thread_pointer(&self) -> u64 {
        self.words[THREAD_POINTER]
    }

    /// As it is, but on the caller's stack.
    pub fn without_stack(mut self) -> Self {
        (self.words[STACK], self.words[STACK_BYTES]) = (0, 0);
        self
    }

    /// The first two arguments of the call.
    pub fn arguments(&self) -> [u64; 2] {
        [self.words.as_ptr() as u64, self.bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::tests::{at_end, words_at_end};

    /// flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls.
    const FIRST_VERSION: [u64; 8] = [0x3d0f00, 1, 2, 3, 17, 0x7000_0000, 0x2000, 0x6000_0040];

    fn read(words: &[u64], bytes: u64) -> Option<Clone3> {
        Clone3::read(words_at_end(words), bytes)
    }

    #[test]
    fn the_first_version_is_read_without_what_came_later() {
        let read = read(&FIRST_VERSION, 64).unwrap();
        assert_eq!((read.flags(), read.thread_pointer()), (0x3d0f00, 0x6000_0040));
        assert_eq!((read.stack_top(), read.stack_bytes()), (0x7000_2000, 0x2000));
        assert_eq!(read.words[..8], FIRST_VERSION);
        assert!(read.words[8..].iter().all(|word| *word == 0));
    }

    #[test]
    fn the_kernel_gets_a_copy_of_the_length_that_the_program_said() {
        let words: Vec<u64> = FIRST_VERSION.iter().copied().chain([8, 9, 10]).collect();
        let read = read(&words, 88).unwrap().without_stack();
        let [at, bytes] = read.arguments();
        let copy: [u64; 11] = program::words(at).unwrap();
        assert_eq!((copy[STACK], copy[STACK_BYTES], bytes), (0, 0, 88));
        assert_eq!(
            (copy[..5].to_vec(), copy[7..].to_vec()),
            (words[..5].to_vec(), words[7..].to_vec())
        );
        assert_eq!(read.stack_top(), 0);
    }

    #[test]
    fn a_length_need_not_be_of_whole_words() {
        let mut bytes: Vec<u8> = FIRST_VERSION.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend([1, 2, 3]);
        let read = Clone3::read(at_end(&bytes), 67).unwrap();
        assert_eq!(read.words[8], 0x0003_0201);
    }

    #[test]
    fn what_the_kernel_refuses_is_none() {
        let long = |bytes: usize| {
            let mut words = FIRST_VERSION.to_vec();
            words.resize(bytes.div_ceil(8), 0);
            read(&words, bytes as u64).is_some()
        };
        // From the first version up to a page.
        assert_eq!([63, 64, 4096, 4097].map(long), [false, true, true, false]);
        for bytes in [0, 65, u64::MAX] {
            assert!(read(&FIRST_VERSION, bytes).is_none(), "{bytes} bytes of 64");
        }
        assert!(Clone3::read(0, 64).is_none());
    }

    #[test]
    fn a_stack_has_a_size_and_a_size_a_stack() {
        let with = |stack, bytes| {
            let mut words = FIRST_VERSION;
            (words[STACK], words[STACK_BYTES]) = (stack, bytes);
            read(&words, 64).map(|read| read.stack_top())
        };
        assert_eq!((with(0x1000, 0), with(0, 0x1000)), (None, None));
        assert_eq!((with(0, 0), with(0x1000, 0x1000)), (Some(0), Some(0x2000)));
    }
}
