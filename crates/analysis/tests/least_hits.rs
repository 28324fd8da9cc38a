//! How many hits it takes to recognise a pattern: hits drawn from each of them, and from none.
//!
//! The constants of `evidence.rs` are what this finds.

use analysis::{HITS_PER_PAIR, HITS_PER_THREAD, Pattern, recognise};
use types::{CommMatrix, ThreadId};

const RUNS: usize = 200;
const THREADS: [usize; 7] = [3, 4, 6, 8, 12, 16, 32];
/// Of 200 draws each of which succeeds with a probability of 95 %, this many and more are all but
/// sure to.
const MAX: usize = 180;

type Cells = Vec<(usize, usize)>;

/// For this number of threads: columns of a 2D grid, and threads in a group.
fn sizes(threads: usize) -> (usize, usize) {
    match threads {
        32 => (8, 4),
        16 => (4, 4),
        12 => (4, 3),
        8 => (4, 4),
        6 => (3, 3),
        _ => (2, 2),
    }
}

/// Every pattern that is possible with this number of threads, with the cells that have events.
fn patterns(threads: usize) -> Vec<(&'static str, Pattern, Cells)> {
    let (columns, group) = sizes(threads);
    let cells = |has: &dyn Fn(usize, usize) -> bool| -> Cells {
        let all = (0..threads).flat_map(|from| (0..threads).map(move |to| (from, to)));
        all.filter(|&(from, to)| from != to && has(from, to)).collect()
    };
    let beside = |a: usize, b: usize| {
        (a / columns).abs_diff(b / columns) + (a % columns).abs_diff(b % columns) == 1
    };
    let mut list = vec![
        ("initialisation", cells(&|from, _| from == 0)),
        ("reduction", cells(&|_, to| to == 0)),
        ("hub", cells(&|from, to| from == 0 || to == 0)),
        ("all-to-all", cells(&|_, _| true)),
        ("pipeline", cells(&|from, to| to == from + 1)),
    ];
    if threads > 3 {
        list.push(("line", cells(&|from, to| from.abs_diff(to) == 1)));
        list.push(("ring", cells(&|a, b| [1, threads - 1].contains(&a.abs_diff(b)))));
        list.push(("groups", cells(&|from, to| from / group == to / group)));
        list.push(("pairs", cells(&|from, to| from / 2 == to / 2)));
    }
    if threads >= 16 {
        list.push(("matrix", cells(&beside)));
    }
    let exact = |cells: &Cells| {
        let all: Vec<usize> = (0..cells.len()).collect();
        found(threads, cells, all.iter().copied().cycle().take(1000 * cells.len()))
    };
    list.into_iter().map(|(name, cells)| (name, exact(&cells), cells)).collect()
}

/// What is recognised in a matrix with one event in each of these cells.
fn found(threads: usize, cells: &Cells, drawn: impl Iterator<Item = usize>) -> Pattern {
    let mut talk = CommMatrix::new(threads);
    for cell in drawn {
        let (from, to) = cells[cell];
        talk.add(ThreadId(from as u32), ThreadId(to as u32), 1);
    }
    recognise(&talk, true, Some(ThreadId(0))).pattern
}

/// What is recognised in each of [`RUNS`] draws of `hits` hits, each cell as likely as the others.
fn draws(threads: usize, cells: &Cells, hits: u64) -> Vec<Pattern> {
    let mut random = fastrand::Rng::with_seed(hits + 1000 * threads as u64);
    let mut draw = || {
        let drawn: Vec<usize> = (0..hits).map(|_| random.usize(..cells.len())).collect();
        found(threads, cells, drawn.into_iter())
    };
    (0..RUNS).map(|_| draw()).collect()
}

fn count(found: &[Pattern], wanted: impl Fn(Pattern) -> bool) -> usize {
    found.iter().filter(|&&pattern| wanted(pattern)).count()
}

/// Whether something else was seen than what all pairs alike are, or look like.
fn is_seen(pattern: Pattern) -> bool {
    ![Pattern::AllToAll, Pattern::Irregular].contains(&pattern)
}

#[test]
fn with_enough_hits_every_pattern_is_found() {
    for threads in THREADS {
        let enough = HITS_PER_THREAD * threads as u64;
        let for_all_pairs = HITS_PER_PAIR * (threads * (threads - 1) / 2) as u64;
        for (name, pattern, cells) in patterns(threads) {
            let hits = match pattern {
                Pattern::AllToAll => enough.max(for_all_pairs),
                _ => enough,
            };
            let right = count(&draws(threads, &cells, hits), |found| found == pattern);
            assert!(right >= MAX, "{name}, {threads} threads, {hits} hits: {right} of {RUNS}");
        }
    }
}

#[test]
fn with_enough_hits_none_is_found_where_all_pairs_are_alike() {
    for threads in THREADS {
        let (_, pattern, cells) = patterns(threads).swap_remove(3);
        assert_eq!(pattern, Pattern::AllToAll);
        let drawn = draws(threads, &cells, HITS_PER_THREAD * threads as u64);
        let wrong = count(&drawn, is_seen);
        assert!(wrong <= RUNS - MAX, "{threads} threads: {wrong} of {RUNS}");
    }
}

/// With half as many some pattern is missed too often, and with half a hit for each thread one is
/// seen where there is none.
#[test]
fn with_fewer_hits_patterns_are_missed_and_seen_in_noise() {
    for threads in [4, 8, 16, 32] {
        let all = patterns(threads);
        let hits = HITS_PER_THREAD * threads as u64 / 2;
        let structured = all.iter().filter(|(_, pattern, _)| *pattern != Pattern::AllToAll);
        let right = structured.map(|(_, pattern, cells)| {
            count(&draws(threads, cells, hits), |found| found == *pattern)
        });
        let worst = right.min().unwrap();
        assert!(worst < RUNS * 95 / 100, "{threads} threads, {hits} hits: {worst} of {RUNS}");
        let seen = count(&draws(threads, &all[3].2, threads as u64 / 2), is_seen);
        assert!(seen > RUNS / 4, "{threads} threads: {seen} of {RUNS}");
    }
}
