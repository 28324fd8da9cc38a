//! `first-touch`: a page stays on the node that touched it first (Diener, 4.3.1.8; the default of
//! Linux).

use crate::pages::{PagePolicy, PageUse};

pub struct FirstTouch;

impl PagePolicy for FirstTouch {
    fn map(&self, usage: &PageUse) -> Vec<usize> {
        usage.pages().iter().map(|page| page.first_touch).collect()
    }
}
