//! `locality`: each page on the node that accesses it most (Diener, equation 4.14), however crowded
//! that gets.

use crate::pages::{Page, PagePolicy, PageUse};

pub struct Locality;

impl PagePolicy for Locality {
    fn map(&self, usage: &PageUse) -> Vec<usize> {
        usage.pages().iter().map(Page::busiest).collect()
    }
}
