use super::*;
extern crate alloc;
use alloc::alloc::{Layout, alloc_zeroed};
use alloc::boxed::Box;
use core::cell::Cell;
use types::tally::Meaning;

fn page() -> Box<ThreadPage> {
    // SAFETY: zeroed, which is valid for every field, and allocated as a box would be.
    unsafe { Box::from_raw(alloc_zeroed(Layout::new::<ThreadPage>()).cast()) }
}

#[test]
fn whatever_moment_a_thread_that_exits_is_looked_at_its_counts_are_whole() {
    let (page, tally) = (page(), Cell::new(7u64));
    page.loads.store(5, Ordering::Relaxed);
    let meaning = Meaning::new(10, 2, 1).unwrap();
    let tallied = || types::tally::sum([(meaning, tally.get())].into_iter());
    let whole = [70, 19, 7, 0];
    assert_eq!(page.executed(tallied), whole);
    page.fold(tallied, || {
        assert_eq!(page.executed(tallied), whole, "before the tallies are cleared");
        tally.set(3);
        assert_eq!(page.executed(tallied), whole, "in between");
        tally.set(0);
    });
    assert_eq!(page.executed(tallied), whole);
    // A signal's handler may still run.
    tally.set(1);
    assert_eq!(page.executed(tallied), [80, 21, 8, 0]);
}

#[test]
fn a_reader_that_a_fold_overtakes_looks_again() {
    let (page, tally) = (page(), Cell::new(7u64));
    let meaning = Meaning::new(10, 2, 1).unwrap();
    let tallied = || types::tally::sum([(meaning, tally.get())].into_iter());
    let first = Cell::new(true);
    let overtaken = || {
        let read = tallied();
        if first.replace(false) {
            page.fold(tallied, || tally.set(0));
        }
        read
    };
    assert_eq!(page.executed(overtaken), [70, 14, 7, 0]);
}
