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
