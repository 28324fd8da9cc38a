//! `round-robin`: pages in turns over the nodes, in the order in which they were touched first
//! (Diener, equation 4.12): equally many pages on each node, whatever their addresses.

use crate::pages::{PagePolicy, PageUse};

pub struct RoundRobin;

impl PagePolicy for RoundRobin {
    fn map(&self, usage: &PageUse) -> Vec<usize> {
        (0..usage.pages().len()).map(|count| count % usage.nodes()).collect()
    }
}
