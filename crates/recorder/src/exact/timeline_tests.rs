use super::*;

fn timeline(moments: &[u64]) -> Timeline {
    let mut timeline = Timeline::new(1000, Duration::from_nanos(10));
    for &moment in moments {
        timeline.advance(moment);
    }
    timeline
}

fn slice(start_ns: u64, end_ns: u64) -> SliceRow {
    SliceRow { start_ns, end_ns }
}

#[test]
fn slices_begin_when_the_machine_comes_to_it() {
    // The second wake is late, the third far too late: slices 3 and 4 have no time.
    let timeline = timeline(&[5, 10, 12, 23, 51]);
    assert_eq!((timeline.current(), timeline.next_ns()), (5, Some(60)));
    let (first, slices) = timeline.between(0, 58);
    assert_eq!(first, 0);
    assert_eq!(
        slices,
        [slice(0, 10), slice(10, 23), slice(23, 51), slice(51, 51), slice(51, 51), slice(51, 58)]
    );
    assert_eq!([0, 9, 10, 22, 23, 50, 51, 999].map(|ns| timeline.at(ns)), [0, 0, 1, 1, 2, 2, 5, 5]);
    assert_eq!((timeline.since_start(1007), timeline.since_start(3)), (7, 0));
}

#[test]
fn a_process_has_the_slices_of_its_life() {
    let timeline = timeline(&[10, 20, 30, 40]);
    assert_eq!(timeline.between(25, 34), (2, vec![slice(20, 30), slice(30, 34)]));
    assert_eq!(timeline.between(25, 3), (2, vec![slice(20, 20)]));
}

#[test]
fn slices_are_joined_two_by_two() {
    let mut timeline = timeline(&[10, 20, 30, 40]);
    timeline.join();
    assert_eq!((timeline.current(), timeline.current_unjoined()), (2, 4));
    assert_eq!((timeline.length_ns(), timeline.next_ns()), (20, Some(60)));
    let (_, slices) = timeline.between(0, 45);
    assert_eq!(slices, [slice(0, 20), slice(20, 40), slice(40, 45)]);
    assert!(!timeline.advance(59));
    assert!(timeline.advance(61));
    timeline.join();
    assert_eq!((timeline.current(), timeline.current_unjoined()), (1, 4));
    assert_eq!(timeline.joined(), 2);
}

#[test]
fn without_a_length_there_is_one_slice() {
    let mut timeline = Timeline::new(0, Duration::ZERO);
    assert!(!timeline.advance(1 << 60));
    assert_eq!((timeline.next_ns(), timeline.len()), (None, 1));
    assert_eq!(timeline.between(3, 8), (0, vec![slice(0, 8)]));
}

fn thread(ended_ns: u64, [instructions, loads, stores]: [u64; 3]) -> ThreadRow {
    ThreadRow { ended_ns, instructions, loads, stores, ..profile::sample::thread(0) }
}

fn sample(slice: u32, thread: u32, [instructions, loads, stores]: [u64; 3]) -> Sample {
    // Half of the instructions waited, which the table does not tell.
    Sample { slice, thread, executed: [instructions, loads, stores, instructions / 2] }
}

#[test]
fn what_came_after_the_last_sample_is_in_the_slice_of_the_end() {
    let timeline = timeline(&[10, 20, 30]);
    let threads = [
        thread(35, [100, 10, 5]),
        thread(25, [50, 5, 5]),
        // Its counters began anew.
        thread(15, [3, 3, 3]),
        thread(5, [0, 0, 0]),
        // Read a little too high when it stopped.
        thread(35, [40, 4, 4]),
    ];
    let samples = [
        sample(0, 0, [60, 6, 1]),
        sample(0, 2, [9, 1, 1]),
        sample(0, 4, [30, 3, 3]),
        sample(1, 0, [10, 1, 1]),
        sample(1, 2, [1, 1, 1]),
        sample(2, 1, [20, 0, 0]),
        sample(2, 4, [12, 1, 2]),
        sample(2, 9, [1, 1, 1]),
    ];
    let rows = activity_rows(&samples, &threads, |ns| timeline.at(ns), |slice| slice);
    let row =
        |row: &ActivityRow| (row.slice, row.thread.0, [row.instructions, row.loads, row.stores]);
    assert_eq!(
        rows.iter().map(row).collect::<Vec<_>>(),
        [
            (0, 0, [60, 6, 1]),
            (0, 4, [30, 3, 3]),
            (1, 0, [10, 1, 1]),
            (1, 2, [3, 3, 3]),
            (2, 1, [50, 5, 5]),
            (2, 4, [10, 1, 1]),
            (3, 0, [30, 3, 3]),
        ]
    );
}

#[test]
fn joined_samples_add_up() {
    let mut samples = vec![
        sample(0, 0, [1, 0, 0]),
        sample(0, 1, [2, 0, 0]),
        sample(1, 0, [4, 0, 0]),
        sample(2, 0, [8, 0, 1]),
    ];
    let joined = [sample(0, 0, [5, 0, 0]), sample(0, 1, [2, 0, 0]), sample(1, 0, [8, 0, 1])];
    join_samples(&mut samples, 0);
    assert_eq!(samples.len(), 4);
    join_samples(&mut samples, 1);
    assert_eq!(samples, joined);
}
