//! Which threads and lines are shown, in which order. Pure.

use crate::snapshot::{Line, Snapshot, Thread};
use crate::state::{Sort, State};
use std::cmp::Ordering;
use std::collections::HashMap;
use types::ThreadId;

/// The threads that the filter lets through, in the order chosen; equal ones in that of their ids.
pub(crate) fn threads<'a>(snapshot: &'a Snapshot, state: &State) -> Vec<&'a Thread> {
    let id = |thread: &Thread| thread.id.0.to_string();
    let tid = |thread: &Thread| thread.os_tid.to_string();
    let mut threads: Vec<_> = snapshot
        .threads
        .iter()
        .filter(|thread| state.wants(&[&thread.name, &id(thread), &tid(thread)]))
        .collect();
    let first = |a: f64, b: f64| b.partial_cmp(&a).unwrap_or(Ordering::Equal);
    threads.sort_by(|a, b| {
        let order = match state.sort {
            Sort::Talk => first(a.gives + a.takes, b.gives + b.takes),
            Sort::Id => Ordering::Equal,
            Sort::Busy => first(a.busy, b.busy),
            Sort::Name => a.name.cmp(&b.name),
        };
        let order = order.then(a.id.cmp(&b.id));
        if state.reversed { order.reverse() } else { order }
    });
    threads
}

/// The lines that the filter lets through, the hottest first.
pub(crate) fn lines<'a>(snapshot: &'a Snapshot, state: &State) -> Vec<&'a Line> {
    let mut lines: Vec<_> = snapshot
        .lines
        .iter()
        .filter(|line| {
            let address = format!("{:#x}", line.address);
            state.wants(&[&line.object, &line.writer, &line.taker, &address])
        })
        .collect();
    lines.sort_by(|a, b| {
        b.rate.partial_cmp(&a.rate).unwrap_or(Ordering::Equal).then(a.address.cmp(&b.address))
    });
    lines
}

/// Rates of pairs by (from, to).
pub(crate) fn rates(snapshot: &Snapshot) -> HashMap<(ThreadId, ThreadId), f64> {
    snapshot.pairs.iter().map(|pair| ((pair.from, pair.to), pair.rate)).collect()
}

/// All events per second.
pub(crate) fn total(snapshot: &Snapshot) -> f64 {
    snapshot.pairs.iter().map(|pair| pair.rate).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::snapshot;

    fn ids(threads: &[&Thread]) -> Vec<u32> {
        threads.iter().map(|thread| thread.id.0).collect()
    }

    #[test]
    fn threads_come_in_the_order_chosen() {
        let snapshot = snapshot(4);
        let mut state = State::default();
        assert_eq!(ids(&threads(&snapshot, &state)), [2, 3, 0, 1]);
        state.reversed = true;
        assert_eq!(ids(&threads(&snapshot, &state)), [1, 0, 3, 2]);
        state.sort = Sort::Id;
        assert_eq!(ids(&threads(&snapshot, &state)), [3, 2, 1, 0]);
        state.filter = "WORKER-2".into();
        assert_eq!(ids(&threads(&snapshot, &state)), [2]);
    }

    #[test]
    fn lines_are_found_by_object_code_and_address() {
        let snapshot = snapshot(4);
        let mut state = State::default();
        let all = lines(&snapshot, &state);
        assert!(all.len() > 1 && all.is_sorted_by(|a, b| a.rate >= b.rate));
        for (filter, found) in [("counters", 1), ("pop", 1), ("0x7f00", 1), ("nothing", 0)] {
            state.filter = filter.into();
            assert_eq!(lines(&snapshot, &state).len(), found, "{filter}");
        }
    }
}
