//! `os`: nothing is bound, the operating system places threads and moves them about. The baseline
//! of every comparison; its cost is what a random placement is expected to cost that leaves no core
//! idle while another has two threads, as schedulers do not.

use crate::policies::{Input, Policy};

pub struct Os;

impl Policy for Os {
    fn place(&self, _: &Input<'_>) -> Vec<usize> {
        Vec::new()
    }
}
