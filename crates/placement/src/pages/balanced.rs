//! `balanced`: all nodes serve about the same number of accesses. Within that, pages lie where they
//! are used (Diener, Algorithm 4.1).
//!
//! Pages come by their accesses, most first. Each goes to the node with the most accesses to it
//! that does not already serve more than its Nth of all accesses; one such there always is. Of
//! nodes with equally many accesses (often none), the one that serves least: the algorithm leaves
//! that open, and its text wants pages spread fairly.

use crate::pages::{Page, PagePolicy, PageUse};

pub struct Balanced;

impl PagePolicy for Balanced {
    fn map(&self, usage: &PageUse) -> Vec<usize> {
        let (pages, nodes) = (usage.pages(), usage.nodes());
        let all: u128 = pages.iter().map(Page::total).sum();
        let mut order: Vec<usize> = (0..pages.len()).collect();
        order.sort_by_key(|&page| std::cmp::Reverse(pages[page].total()));
        let mut served = vec![0u128; nodes];
        let mut node_of = vec![0; pages.len()];
        for page in order {
            let overloaded = |node: usize| served[node] * nodes as u128 > all;
            let open = (0..nodes).filter(|&node| !overloaded(node));
            let wish = |&node: &usize| {
                let most = std::cmp::Reverse(pages[page].accesses[node]);
                (most, served[node], node != pages[page].first_touch, node)
            };
            let node = open.min_by_key(wish).unwrap_or(pages[page].first_touch);
            node_of[page] = node;
            served[node] += pages[page].total();
        }
        node_of
    }
}
