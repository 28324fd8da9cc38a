//! Pages after Carrefour (Dashti et al., ASPLOS 2013), for comparison: what is done with a page
//! depends on what the machine suffers from.
//!
//! If too many accesses are remote, pages that one node alone has used move there. If the nodes'
//! memory is used unevenly, pages that several nodes have used are interleaved. The original also
//! replicates pages that are only read, which needs a kernel of its own: here these are
//! interleaved, too. Loads are those of sampled accesses, where the original has counters.
//! Neighbours: `pages` keeps the vectors and moves the pages.

use crate::settings::Settings;
use placement::KmafPolicy;

/// Time after which it is decided anew what the machine suffers from, ms.
const TURN_MS: u32 = 1000;
/// Accesses that must be known for that.
const MIN_ACCESSES: f64 = 64.0;

/// What accesses say of the machine, and what follows for its pages.
#[derive(Clone, Debug)]
pub struct Carrefour {
    min_local: f64,
    max_imbalance: f64,
    /// Accesses to the memory of each node since the last turn, and how many of all were local.
    loads: Vec<f64>,
    local: f64,
    last_ms: u32,
    migrates: bool,
    interleaves: bool,
}

impl Carrefour {
    /// For a machine with `nodes` nodes that is not known to suffer from anything.
    pub fn new(settings: &Settings, nodes: usize) -> Self {
        Self {
            min_local: settings.carrefour_min_local,
            max_imbalance: settings.carrefour_max_imbalance,
            loads: vec![0.0; nodes],
            local: 0.0,
            last_ms: 0,
            migrates: false,
            interleaves: false,
        }
    }

    /// An access from one node to memory of another, or of the same.
    pub fn access(&mut self, from: usize, home: usize, now_ms: u32) {
        if let Some(load) = self.loads.get_mut(home) {
            *load += 1.0;
            self.local += f64::from(u8::from(from == home));
        }
        if now_ms.wrapping_sub(self.last_ms) >= TURN_MS {
            self.last_ms = now_ms;
            self.turn();
        }
    }

    fn turn(&mut self) {
        let all: f64 = self.loads.iter().sum();
        if all < MIN_ACCESSES {
            return;
        }
        self.migrates = self.local / all < self.min_local;
        self.interleaves = imbalance(&self.loads) > self.max_imbalance;
        self.loads.fill(0.0);
        self.local = 0.0;
    }

    /// What becomes of a page with this number and these accesses of each node.
    pub fn judge(&self, page: u64, vector: &[u64]) -> (KmafPolicy, Option<usize>) {
        let mut users = (0..vector.len()).filter(|&node| vector[node] > 0);
        match (users.next(), users.next()) {
            (Some(only), None) if self.migrates => (KmafPolicy::Locality, Some(only)),
            (Some(_), Some(_)) if self.interleaves => {
                (KmafPolicy::Balance, Some((page % vector.len() as u64) as usize))
            }
            _ => (KmafPolicy::None, None),
        }
    }
}

/// Standard deviation of the nodes' loads over their mean.
fn imbalance(loads: &[f64]) -> f64 {
    let mean = loads.iter().sum::<f64>() / loads.len().max(1) as f64;
    let squares = loads.iter().map(|load| (load - mean).powi(2)).sum::<f64>();
    if mean > 0.0 { (squares / loads.len() as f64).sqrt() / mean } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Policy;

    fn after(accesses: impl Fn(usize) -> (usize, usize)) -> Carrefour {
        let mut carrefour = Carrefour::new(&Settings::of(Policy::Carrefour), 2);
        for number in 0..200 {
            let (from, home) = accesses(number);
            carrefour.access(from, home, number as u32 * 10);
        }
        carrefour
    }

    #[test]
    fn an_even_and_local_machine_is_left_alone() {
        let carrefour = after(|number| (number % 2, number % 2));
        assert_eq!(carrefour.judge(3, &[5, 0]).1, None);
        assert_eq!(carrefour.judge(3, &[5, 5]).1, None);
    }

    #[test]
    fn remote_accesses_bring_pages_to_their_only_user() {
        let carrefour = after(|number| (number % 2, 1 - number % 2));
        assert_eq!(carrefour.judge(2, &[0, 5]), (KmafPolicy::Locality, Some(1)));
        // Evenly used nodes are no reason to interleave.
        assert_eq!(carrefour.judge(2, &[1, 5]).1, None);
    }

    #[test]
    fn uneven_nodes_have_shared_pages_interleaved() {
        let carrefour = after(|number| (number % 2, 0));
        assert_eq!(carrefour.judge(3, &[5, 5]), (KmafPolicy::Balance, Some(1)));
        assert_eq!(carrefour.judge(4, &[5, 5]).1, Some(0));
    }
}
