//! On which memory node each page lies, and what was fetched from it.
//!
//! Pages are numbered in the order in which they are accessed first (`Step::page`). What comes to
//! lie at an address after memory was given back is another page. Neighbours: `prepare.rs` and
//! `usage.rs` number in the same way; `system.rs` asks.

use crate::counts::Fetched;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// How pages come to lie where they do.
#[derive(Clone, Debug)]
pub enum Rule {
    /// Where the thread runs that fetches from it first, as Linux does it.
    FirstTouch,
    /// In turns by address, over these nodes.
    Turns(Vec<usize>),
}

/// Instead of a node: not decided yet.
const NOWHERE: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
struct Known {
    number: u64,
    node: u16,
    fetched: Fetched,
}

/// Where pages lie, and where new ones go.
#[derive(Clone, Debug)]
pub struct Pages {
    rule: Rule,
    /// What a plan says of each page.
    planned: Arc<Vec<Option<u16>>>,
    known: Vec<Known>,
    /// Which page lies at an address now, by the address divided by the page size.
    lying: FxHashMap<u64, u32>,
}

impl Pages {
    /// All pages by a rule.
    pub fn by(rule: Rule) -> Self {
        Self::planned(Arc::default(), rule)
    }

    /// Pages on the nodes (indexes) that a plan says, in the order of
    /// [`Usage::pages`](crate::Usage::pages); others by a rule.
    pub fn planned(planned: Arc<Vec<Option<u16>>>, rule: Rule) -> Self {
        Self { rule, planned, known: Vec::new(), lying: FxHashMap::default() }
    }

    /// More pages, by address divided by the page size.
    pub fn add(&mut self, numbers: &[u64]) {
        let new = |&number: &u64| Known { number, node: NOWHERE, fetched: Fetched::default() };
        self.known.extend(numbers.iter().map(new));
    }

    /// The node of a page that a thread on node `from` accesses.
    pub fn node(&mut self, page: u32, from: usize) -> usize {
        let known = &mut self.known[page as usize];
        if known.node == NOWHERE {
            let planned = self.planned.get(page as usize).copied().flatten();
            known.node = planned.unwrap_or_else(|| match &self.rule {
                Rule::Turns(nodes) => nodes[(known.number % nodes.len() as u64) as usize] as u16,
                Rule::FirstTouch => from as u16,
            });
            self.lying.insert(known.number, page);
        }
        usize::from(known.node)
    }

    /// The node of what lies at an address, divided by the page size; `from` if nothing does.
    pub fn node_at(&self, number: u64, from: usize) -> usize {
        let page = self.lying.get(&number);
        page.map_or(from, |page| usize::from(self.known[*page as usize].node))
    }

    /// What was fetched from a page so far.
    pub fn fetched(&mut self, page: u32) -> &mut Fetched {
        &mut self.known[page as usize].fetched
    }

    /// What was fetched from each page since this was last asked.
    pub fn take_fetched(&mut self) -> Vec<Fetched> {
        self.known.iter_mut().map(|known| std::mem::take(&mut known.fetched)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_lie_where_the_rule_says() {
        let mut first = Pages::by(Rule::FirstTouch);
        first.add(&[7, 9, 7]);
        assert_eq!((first.node(0, 2), first.node(0, 0)), (2, 2));
        assert_eq!((first.node_at(7, 0), first.node_at(9, 3)), (2, 3));
        // What lay there has gone.
        assert_eq!(first.node(2, 1), 1);
        assert_eq!(first.node_at(7, 0), 1);
        let mut turns = Pages::by(Rule::Turns(vec![3, 1]));
        turns.add(&[0, 1, 2]);
        assert_eq!((turns.node(0, 0), turns.node(1, 0), turns.node(2, 0)), (3, 1, 3));
        let mut planned = Pages::planned(Arc::new(vec![Some(5), None]), Rule::FirstTouch);
        planned.add(&[7, 8, 9]);
        assert_eq!([0, 1, 2].map(|page| planned.node(page, 2)), [5, 2, 2]);
    }
}
