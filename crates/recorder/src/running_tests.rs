//! Looks at threads of this process, and what becomes of them.

use super::*;

const MS: u64 = 1_000_000;

fn times_of(cpu_ns: u64, waited_ns: u64) -> Times {
    Times { cpu_ns, waited_ns }
}

/// Rows as (slice, thread, PU, processor time, waiting time).
fn rows(running: &Running, slice_at: impl Fn(u64) -> u32) -> Vec<(u32, u32, u32, u64, u64)> {
    let rows = running.rows(8, slice_at).into_iter();
    rows.map(|row| (row.slice, row.thread.0, row.pu, row.cpu_ns, row.waited_ns)).collect()
}

#[test]
fn the_processor_is_found_behind_any_name() {
    let rest = "0 ".repeat(PROCESSOR - 1);
    let stat = |name: &[u8], pu: &str| {
        [b"7 (", name, b") R ", rest.as_bytes(), pu.as_bytes(), b" 0 0\n"].concat()
    };
    assert_eq!(processor_in(&stat(b"app", "3")), Some(3));
    assert_eq!(processor_in(&stat(b"a) R 9 9 (\xff 1", "12")), Some(12));
    assert_eq!(processor_in(b"7 (app) R 0 0"), None);
    assert_eq!(processor_in(b""), None);
}

#[test]
fn looks_of_a_slice_are_added_up_by_thread_and_pu() {
    let mut running = Running::default();
    running.add(2 * MS, 1, 0, times_of(5, 1));
    running.add(4 * MS, 1, 0, times_of(7, 0));
    running.add(4 * MS, 0, 1, times_of(3, 2));
    running.add(6 * MS, 1, 1, times_of(4, 0));
    running.add(25 * MS, 1, 1, times_of(9, 0));
    // Of a thread that the profile does not know.
    running.add(25 * MS, 9, 1, times_of(9, 0));
    let slice = |ns| (ns / (10 * MS)) as u32;
    let expected = [(0, 0, 1, 3, 2), (0, 1, 0, 12, 1), (0, 1, 1, 4, 0), (2, 1, 1, 9, 0)];
    assert_eq!(rows(&running, slice), expected);
}

#[test]
fn too_many_looks_are_joined_and_none_is_lost() {
    let mut running = Running { most: 64, ..Running::default() };
    for at in 0..10_000 {
        running.add(at * MS, (at % 2) as u32, 0, times_of(10, 1));
    }
    // At most a second in a span.
    assert!(running.looks.len() <= 64 && running.span <= 30, "{}", running.span);
    let all = rows(&running, |_| 0);
    assert_eq!(all, [(0, 0, 0, 50_000, 5_000), (0, 1, 0, 50_000, 5_000)]);
    // Half of it in either half, but for one span of them.
    let halves = rows(&running, |ns| u32::from(ns > 5_000 * MS));
    assert!((halves[0].3 as f64 / 25_000.0 - 1.0).abs() < 0.25, "{halves:?}");
}

#[test]
fn a_thread_of_ours_is_seen_where_it_runs() {
    // SAFETY: no arguments, cannot fail.
    let (pid, tid) = (std::process::id(), unsafe { libc::gettid() } as u32);
    if times(pid, tid).is_none_or(|times| times.cpu_ns == 0) {
        eprintln!("skipped: this kernel has no schedstat");
        return;
    }
    let mut running = Running::default();
    running.look(pid, tid, 0, 0);
    let start = cpu_time();
    while cpu_time() - start < Duration::from_millis(20) {
        std::hint::black_box(0);
    }
    running.look(pid, tid, 0, 50 * MS);
    // Nobody has this number.
    running.look(pid, u32::MAX >> 1, 1, 50 * MS);
    let rows = rows(&running, |ns| u32::from(ns > 20 * MS));
    let later: u64 = rows.iter().filter(|row| row.0 == 1).map(|row| row.3).sum();
    assert!((10 * MS..500 * MS).contains(&later), "{rows:?}");
    assert!(rows.iter().all(|row| row.1 == 0), "{rows:?}");
}

#[test]
fn looks_are_no_oftener_than_they_may_cost() {
    let start = Instant::now();
    let mut looks = Looks::new(start);
    let mut seen = Vec::new();
    looks.turn(start, 8 * MS, |at| seen.push(at));
    looks.turn(start + FIRST_REST / 2, 9 * MS, |at| seen.push(at));
    assert_eq!(seen, [4 * MS], "the second comes too soon");
    let now = looks.due();
    assert!(now > start && now <= start + LONGEST_REST);
    looks.turn(now, 20 * MS, |at| {
        seen.push(at);
        let start = cpu_time();
        while cpu_time() - start < Duration::from_millis(23) {
            std::hint::black_box(0);
        }
    });
    assert_eq!(seen, [4 * MS, 14 * MS]);
    assert!(looks.due() - now > Duration::from_millis(300));
}
