//! `compact`: thread i on the i-th PU in logical order, SMT siblings included, starting over when
//! the PUs are used up (Diener, 3.3.1.2; Intel's KMP_AFFINITY=compact does the same). The only
//! policy by which threads share cores while others are free.

use crate::policies::{Input, Policy};

pub struct Compact;

impl Policy for Compact {
    fn place(&self, input: &Input<'_>) -> Vec<usize> {
        (0..input.tasks.len()).map(|thread| thread % input.hierarchy.pus.len()).collect()
    }
}
