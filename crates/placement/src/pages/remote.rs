//! `remote`: each page on the node that accesses it least (Diener, equation 4.15): the worst case,
//! to see how much pages matter at all. Of several the lowest number, which piles pages up, too.

use crate::pages::{Page, PagePolicy, PageUse};

pub struct Remote;

impl PagePolicy for Remote {
    fn map(&self, usage: &PageUse) -> Vec<usize> {
        let idlest = |page: &Page| {
            let least = page.accesses.iter().min();
            page.accesses.iter().position(|count| Some(count) == least).unwrap_or(0)
        };
        usage.pages().iter().map(idlest).collect()
    }
}
