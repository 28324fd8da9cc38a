//! `random`: each page on any node, all equally likely (Diener, equation 4.11), by a seed.

use crate::pages::{PagePolicy, PageUse};
use crate::rng::Rng;

/// With the seed of its choices.
pub struct Random {
    pub seed: u64,
}

impl PagePolicy for Random {
    fn map(&self, usage: &PageUse) -> Vec<usize> {
        let mut rng = Rng::new(self.seed, 0);
        usage.pages().iter().map(|_| rng.below(usage.nodes())).collect()
    }
}
