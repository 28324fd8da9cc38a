//! `interleave`: by the lowest bits of the page number (Diener, equation 4.13): neighbouring pages
//! on different nodes.

use crate::pages::{PagePolicy, PageUse};

pub struct Interleave;

impl PagePolicy for Interleave {
    fn map(&self, usage: &PageUse) -> Vec<usize> {
        usage.pages().iter().map(|page| node(page.number, usage.nodes())).collect()
    }
}

/// The node of a page number among `nodes`.
pub fn node(number: u64, nodes: usize) -> usize {
    (number % nodes as u64) as usize
}
