//! Whether threads use bytes of their own of a line, or all the same ones.
//!
//! Problem: an event is false sharing if a thread accesses other bytes than the last writer wrote.
//! Where all threads update all bins of a histogram at random, most events are, and yet nothing can
//! be moved apart. Approach: what one instruction of a thread takes over the whole run is compared
//! with all that the other thread wrote. (Not all that the thread takes: it may read one field and
//! update another.) Pure. Neighbour: `group` decides by this what a line is.

use super::One;
use crate::causes::constants::MIN_TRUE;
use std::collections::HashMap;
use types::Sharing;

/// Marks those events of a line and object with false sharing that are between threads of which one
/// wrote, some time, most of what the other takes.
pub(super) fn mark(events: &mut [One<'_>]) {
    let sum = |wanted: &[Sharing]| -> f64 {
        let those = events.iter().filter(|one| wanted.contains(&one.event.sharing));
        those.map(|one| one.event.count as f64).sum()
    };
    let (truly, all) = (sum(&[Sharing::True]), sum(&[Sharing::True, Sharing::False]));
    if truly < all * MIN_TRUE {
        return;
    }
    let mut wrote: HashMap<u32, u64> = HashMap::new();
    for One { event, .. } in events.iter() {
        *wrote.entry(event.from.0).or_default() |= event.from_bytes;
    }
    for one in events.iter_mut().filter(|one| one.event.sharing == Sharing::False && !one.beside) {
        let (written, taken) = (wrote[&one.event.from.0], one.event.to_bytes);
        let common = (written & taken).count_ones();
        one.same_bytes = common > 0 && common * 2 >= taken.count_ones();
    }
}
