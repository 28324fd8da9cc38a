//! Every pattern, clean, noisy, with shuffled ids, with helpers and with setting up.

use super::*;

/// Numbers from 0 to 1 that only look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        let (factor, step) = (6_364_136_223_846_793_005, 1_442_695_040_888_963_407);
        self.0 = self.0.wrapping_mul(factor).wrapping_add(step);
        (self.0 >> 33) as f64 / (1_u64 << 31) as f64
    }

    fn shuffled(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        (1..n).rev().for_each(|i| order.swap(i, (self.next() * (i + 1) as f64) as usize));
        order
    }
}

/// A matrix whose cells `cell(from, to)` gives.
fn matrix(threads: usize, mut cell: impl FnMut(usize, usize) -> f64) -> CommMatrix {
    let mut matrix = CommMatrix::new(threads);
    for from in 0..threads {
        for to in 0..threads {
            matrix.add(ThreadId(from as u32), ThreadId(to as u32), cell(from, to) as u64);
        }
    }
    matrix
}

/// What 16 threads (4 × 4, four groups of four) have in each pattern: 1000 events or none.
fn cell(pattern: Pattern, from: usize, to: usize) -> f64 {
    let (rows, columns) = ((from / 4).abs_diff(to / 4), (from % 4).abs_diff(to % 4));
    let has = match pattern {
        Pattern::Initialisation => from == 0,
        Pattern::Reduction => to == 0,
        Pattern::Hub => from == 0 || to == 0,
        Pattern::AllToAll => true,
        Pattern::NearestNeighbour => from.abs_diff(to) == 1,
        Pattern::Matrix => rows + columns == 1,
        Pattern::Pipeline => to == from + 1,
        Pattern::Groups => from / 4 == to / 4,
        other => unreachable!("{other:?}"),
    };
    if has && from != to { 1000.0 } else { 0.0 }
}

const NAMED: [Pattern; 8] = [
    Pattern::Initialisation,
    Pattern::Reduction,
    Pattern::Hub,
    Pattern::AllToAll,
    Pattern::NearestNeighbour,
    Pattern::Matrix,
    Pattern::Pipeline,
    Pattern::Groups,
];

fn directed(talk: &CommMatrix) -> Recognised {
    recognise(talk, true, Some(ThreadId(0)))
}

#[test]
fn clean_patterns_are_certain() {
    for pattern in NAMED {
        let found = directed(&matrix(16, |from, to| cell(pattern, from, to)));
        assert_eq!(found.pattern, pattern, "{found:?}");
        assert!(found.confidence > 0.999, "{found:?}");
        assert_eq!((found.quiet.len(), found.set_up, found.closed), (0, 0.0, false), "{found:?}");
    }
}

#[test]
fn the_order_of_ids_does_not_matter() {
    let mut random = Random(1);
    for pattern in NAMED {
        for _ in 0..20 {
            let place = random.shuffled(16);
            let talk = matrix(16, |from, to| cell(pattern, place[from], place[to]));
            let found = directed(&talk);
            assert_eq!(found.pattern, pattern, "{found:?}");
            assert!(found.confidence > 0.999, "{found:?}");
        }
    }
}

#[test]
fn noise_costs_confidence_only() {
    let mut random = Random(2);
    for pattern in NAMED {
        for _ in 0..50 {
            let place = random.shuffled(16);
            // Each cell between half and one and a half times its amount, and up to 5 % of
            // one where there is none.
            let talk = matrix(16, |from, to| {
                let amount = cell(pattern, place[from], place[to]);
                amount * (0.5 + random.next()) + 50.0 * random.next()
            });
            let found = directed(&talk);
            assert_eq!(found.pattern, pattern, "{found:?}");
            assert!(found.confidence > 0.5, "{found:?}");
        }
    }
}

#[test]
fn without_directions_the_shape_is_left() {
    for pattern in NAMED {
        let talk = matrix(16, |from, to| {
            if from < to { cell(pattern, from, to) + cell(pattern, to, from) } else { 0.0 }
        });
        let expected = match pattern {
            Pattern::Initialisation | Pattern::Reduction => Pattern::Hub,
            Pattern::Pipeline => Pattern::NearestNeighbour,
            other => other,
        };
        assert_eq!(recognise(&talk, false, Some(ThreadId(0))).pattern, expected);
    }
}

#[test]
fn helpers_are_left_out() {
    for pattern in NAMED {
        // Threads 0 and 5 hardly communicate, with any thread.
        let worker = |thread: usize| match thread {
            0 | 5 => None,
            1..5 => Some(thread - 1),
            _ => Some(thread - 2),
        };
        let talk = matrix(18, |from, to| match (worker(from), worker(to)) {
            (Some(from), Some(to)) => cell(pattern, from, to),
            _ => 3.0,
        });
        let found = directed(&talk);
        assert_eq!((found.pattern, &found.quiet[..]), (pattern, &[0, 5][..]), "{found:?}");
        assert!(found.confidence > 0.9, "{found:?}");
    }
}

#[test]
fn setting_up_does_not_hide_what_follows() {
    let patterns = [Pattern::NearestNeighbour, Pattern::Matrix, Pattern::Groups];
    for pattern in patterns {
        // The initial thread takes part, and has written every thread's data before.
        let talk =
            matrix(16, |from, to| cell(pattern, from, to) + if from == 0 { 700.0 } else { 0.0 });
        let found = directed(&talk);
        assert_eq!(found.pattern, pattern, "{found:?}");
        assert!(found.set_up > 0.1 && found.confidence > 0.7, "{found:?}");
        // The initial thread only sets up.
        let talk = matrix(17, |from, to| match (from, to) {
            (0, _) => 500.0,
            (_, 0) => 0.0,
            _ => cell(pattern, from - 1, to - 1),
        });
        let found = directed(&talk);
        assert_eq!((found.pattern, found.quiet.len()), (pattern, 0), "{found:?}");
        assert!(found.set_up > 0.05 && !found.parts.concat().contains(&0), "{found:?}");
    }
}

#[test]
fn where_setting_up_is_most_of_it_the_rest_is_told_beneath() {
    let talk = matrix(17, |from, to| match (from, to) {
        (0, _) => 20_000.0,
        (_, 0) => 0.0,
        _ => cell(Pattern::NearestNeighbour, from - 1, to - 1),
    });
    let found = directed(&talk);
    assert_eq!(found.pattern, Pattern::Initialisation);
    let beneath = found.beneath.expect("the others have a pattern");
    assert_eq!(beneath.pattern, Pattern::NearestNeighbour);
    assert!(beneath.confidence > 0.9);
}

#[test]
fn rings_and_toruses_are_closed() {
    let ring = matrix(12, |from, to| if (from + 1) % 12 == to { 50.0 } else { 0.0 });
    let found = directed(&ring);
    assert_eq!((found.pattern, found.closed), (Pattern::NearestNeighbour, true));
    let ring_distance = |a: usize, b: usize, n| a.abs_diff(b).min(n - a.abs_diff(b));
    let torus = matrix(30, |from, to| {
        let rows = ring_distance(from / 6, to / 6, 5);
        if rows + ring_distance(from % 6, to % 6, 6) == 1 { 50.0 } else { 0.0 }
    });
    let found = directed(&torus);
    assert_eq!((found.pattern, found.closed, found.parts.len()), (Pattern::Matrix, true, 5));
}

#[test]
fn a_matrix_tells_its_rows() {
    let talk = matrix(15, |from, to| {
        let (rows, columns) = ((from / 5).abs_diff(to / 5), (from % 5).abs_diff(to % 5));
        if rows + columns == 1 { 50.0 } else { 0.0 }
    });
    let found = directed(&talk);
    assert_eq!(found.pattern, Pattern::Matrix);
    assert_eq!(found.parts, [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11, 12, 13, 14]]);
}

#[test]
fn stages_may_have_several_threads() {
    // One reads, four work, two write.
    let stage = |thread: usize| [0, 1, 1, 1, 1, 2, 2][thread];
    let talk = matrix(7, |from, to| if stage(to) == stage(from) + 1 { 100.0 } else { 0.0 });
    let found = directed(&talk);
    assert_eq!(found.pattern, Pattern::Pipeline, "{found:?}");
    assert_eq!(found.parts, [vec![0], vec![1, 2, 3, 4], vec![5, 6]]);
    // As in figure 3.5f: most within the two stages, something from one to the other.
    let talk = matrix(8, |from, to| match (from / 4, to / 4) {
        (a, b) if a == b => 100.0,
        (0, 1) => 8.0,
        _ => 0.0,
    });
    let found = directed(&talk);
    assert_eq!((found.pattern, found.parts.len()), (Pattern::Pipeline, 2), "{found:?}");
}

#[test]
fn what_has_no_pattern_is_irregular() {
    let mut random = Random(7);
    let mut sure = 0;
    for threads in [12, 16, 40] {
        for _ in 0..20 {
            // Few pairs, anywhere, of very different strength: a pattern only by chance.
            let talk = matrix(threads, |_, _| {
                let rare = random.next() < 0.2;
                (random.next() * 6.0).exp() * if rare { 1.0 } else { 0.0 }
            });
            let found = directed(&talk);
            sure += usize::from(found.pattern != Pattern::Irregular && found.confidence > 0.7);
        }
    }
    assert!(sure <= 2, "{sure} of 60");
}

#[test]
fn few_threads() {
    assert_eq!(directed(&CommMatrix::new(0)).pattern, Pattern::Silent);
    assert_eq!(directed(&CommMatrix::new(1)).pattern, Pattern::Silent);
    let silent = directed(&CommMatrix::new(3));
    assert_eq!((silent.pattern, &silent.quiet[..]), (Pattern::Silent, &[0, 1, 2][..]));
    let pair = directed(&matrix(5, |from, to| if (from, to) == (3, 1) { 9.0 } else { 0.0 }));
    assert_eq!((pair.pattern, pair.parts), (Pattern::Pair, vec![vec![3, 1]]));
    assert_eq!(pair.quiet, [0, 2, 4]);
    let three = |cells: &[(usize, usize)]| {
        directed(&matrix(3, |from, to| if cells.contains(&(from, to)) { 9.0 } else { 0.0 })).pattern
    };
    assert_eq!(three(&[(0, 1), (1, 2)]), Pattern::Pipeline);
    assert_eq!(three(&[(1, 0), (1, 2)]), Pattern::Initialisation);
    assert_eq!(three(&[(0, 1), (2, 1)]), Pattern::Reduction);
    let all = [(0, 1), (1, 2), (2, 0), (1, 0), (2, 1), (0, 2)];
    assert_eq!(three(&all), Pattern::AllToAll);
}

#[test]
fn huge_counts_and_many_threads() {
    let talk = matrix(3, |_, _| 1.8e19);
    assert_eq!(directed(&talk).pattern, Pattern::AllToAll);
    let mut random = Random(3);
    let place = random.shuffled(1024);
    let mut talk = CommMatrix::new(1024);
    for (from, &of) in place.iter().enumerate() {
        for (to, &at) in place.iter().enumerate() {
            let (rows, columns) = ((of / 32).abs_diff(at / 32), (of % 32).abs_diff(at % 32));
            if rows + columns == 1 {
                talk.add(ThreadId(from as u32), ThreadId(to as u32), 100);
            }
        }
    }
    let found = directed(&talk);
    assert_eq!((found.pattern, found.parts.len()), (Pattern::Matrix, 32));
}
