//! One thread with all others: initialisation (it gives), reduction (it takes), or both.

use super::net::Net;
use super::{Fit, Pattern};

/// Share of the hub's events in one direction that names it.
const ONE_WAY: f64 = 0.75;

/// The star around the thread that has most.
pub(super) fn fit(net: &Net) -> Option<Fit> {
    let of_each = net.of_each();
    let hub = (0..net.len()).max_by(|&a, &b| of_each[a].total_cmp(&of_each[b]).then(b.cmp(&a)))?;
    let others: Vec<usize> = (0..net.len()).filter(|&other| other != hub).collect();
    let confidence = net.fit(others.iter().map(|&other| (hub, other)), others.len() as f64);
    let given: f64 = others.iter().map(|&other| net.to(hub, other)).sum();
    let pattern = match given / of_each[hub].max(f64::MIN_POSITIVE) {
        _ if !net.directed => Pattern::Hub,
        share if share >= ONE_WAY => Pattern::Initialisation,
        share if share <= 1.0 - ONE_WAY => Pattern::Reduction,
        _ => Pattern::Hub,
    };
    Some(Fit::new(pattern, confidence, vec![vec![hub], others]))
}
