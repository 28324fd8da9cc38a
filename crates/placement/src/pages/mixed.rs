//! `mixed`: pages that one node uses almost alone on that node, the others interleaved (Diener,
//! equation 4.16).
//!
//! As the equation says, and contrary to the text below it: with a threshold of 1 every page is
//! interleaved, with 0 every page that is used at all lies where it is used most.

use crate::pages::{Page, PagePolicy, PageUse, interleave};

/// With the exclusivity (0 to 1) above which a page counts as one node's own.
pub struct Mixed {
    pub min_exclusivity: f64,
}

impl PagePolicy for Mixed {
    fn map(&self, usage: &PageUse) -> Vec<usize> {
        let node_of = |page: &Page| match page.exclusivity() > self.min_exclusivity {
            true => page.busiest(),
            false => interleave::node(page.number, usage.nodes()),
        };
        usage.pages().iter().map(node_of).collect()
    }
}
