//! On which memory node each page lies.

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

/// Where pages lie, and where new ones go.
#[derive(Clone, Debug)]
pub struct Pages {
    rule: Rule,
    /// What a plan says of single pages, by number.
    planned: Arc<FxHashMap<u64, u16>>,
    touched: FxHashMap<u64, u16>,
}

impl Pages {
    /// All pages by a rule.
    pub fn by(rule: Rule) -> Self {
        Self::planned(Arc::default(), rule)
    }

    /// Pages on the nodes that a plan says, by number of the page and index of the node; others by
    /// a rule.
    pub fn planned(planned: Arc<FxHashMap<u64, u16>>, rule: Rule) -> Self {
        Self { rule, planned, touched: FxHashMap::default() }
    }

    /// The node of a page that a thread on node `from` accesses.
    pub fn node(&mut self, page: u64, from: usize) -> usize {
        if let Some(&node) = self.planned.get(&page) {
            return usize::from(node);
        }
        match &self.rule {
            Rule::Turns(nodes) => nodes[(page % nodes.len() as u64) as usize],
            Rule::FirstTouch => usize::from(*self.touched.entry(page).or_insert(from as u16)),
        }
    }

    /// `count` pages from `first` on are new.
    pub fn forget(&mut self, first: u64, count: u64) {
        if count as usize <= self.touched.len() {
            (first..first + count).for_each(|page| {
                self.touched.remove(&page);
            });
        } else {
            self.touched.retain(|page, _| !(first..first + count).contains(page));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_lie_where_the_rule_says() {
        let mut first = Pages::by(Rule::FirstTouch);
        assert_eq!((first.node(7, 2), first.node(7, 0)), (2, 2));
        first.forget(0, u64::MAX);
        assert_eq!(first.node(7, 1), 1);
        let mut turns = Pages::by(Rule::Turns(vec![3, 1]));
        assert_eq!((turns.node(0, 0), turns.node(1, 0), turns.node(2, 0)), (3, 1, 3));
        let planned = Arc::new([(7, 5)].into_iter().collect());
        let mut planned = Pages::planned(planned, Rule::FirstTouch);
        assert_eq!((planned.node(7, 0), planned.node(8, 2)), (5, 2));
    }
}
