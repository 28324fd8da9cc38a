//! Cells and volumes from windows against the whole stream: bias, intervals, correlation.

mod support;

use support::machine::{Machine, Trace};
use support::program::{Pattern, Program};
use support::view::{Tracked, Truth, View, plan};
use support::{MILLISECOND, SECOND, Score, score, score_of};
use types::CommKind;
use windows::{Clock, Lengths, Random, TooShort, missed};

const TWO: Machine = Machine { cpus: 2, slice: 3 * MILLISECOND };

fn run(program: Program) -> (Trace, Truth) {
    let trace = TWO.run(&program, 20 * SECOND, 5);
    let truth = Truth::of(&trace);
    (trace, truth)
}

fn windows(of: &(Trace, Truth), warm_up: u64, duty: f64, kind: CommKind) -> Score {
    let lengths = Lengths::of_warm_up(warm_up * MILLISECOND);
    score_of(&of.0, &of.1, |random| plan(lengths, duty, of.0.end, random), 20, kind)
}

/// Volume and cells of one row of the table; prints it.
fn holds(name: &str, program: Program, warm_up: u64, duty: f64) -> Score {
    let of = run(program);
    let mut score = windows(&of, warm_up, duty, CommKind::Raw);
    let (error, width) = (score.median_error(), score.median_width());
    println!(
        "{name}: warm-up {warm_up} ms, duty {duty}: volume {:.3} ±{:.3}, held {} of 20; cells held {:.3}, \
         correlation {:.3}, median error {error:.3}, half the interval {width:.3}",
        score.volume(),
        score.volume_spread(),
        score.volume_held,
        score.coverage(),
        score.correlation(),
    );
    assert!((score.volume() - 1.0).abs() < 0.03, "{name}: volume {}", score.volume());
    assert!(score.coverage() >= 0.9, "{name}: cells {}", score.coverage());
    assert!(score.volume_held >= 18, "{name}: volumes {}", score.volume_held);
    assert!(error <= 0.15, "{name}: {error}");
    // An interval that always holds because it says nothing is no interval.
    assert!(width <= 0.6, "{name}: {width}");
    score
}

/// Gaps of microseconds to 100 milliseconds, each shorter than the warm-up.
#[test]
fn gaps_shorter_than_the_warm_up_are_seen_alike() {
    let ring = Program { rare: 50, ..Program::default() };
    for (name, program, warm_up, duty) in [
        ("ring, 20 µs", Program { own: 2, work: 20_000, ..ring }, 10, 0.05),
        ("ring, 4 ms", ring, 10, 0.05),
        ("ring, 20 ms", Program { work: 5 * MILLISECOND, ..ring }, 25, 0.05),
        ("ring, 80 ms", Program { work: 20 * MILLISECOND, rare: 0, ..ring }, 100, 0.2),
        (
            "pipeline, 20 ms",
            Program { pattern: Pattern::Pipeline, work: 5 * MILLISECOND, ..ring },
            25,
            0.05,
        ),
        ("phases of 4 s", Program { pattern: Pattern::Phases(4 * SECOND), ..ring }, 25, 0.05),
        ("pool, 1 ms", Program { pattern: Pattern::Pool, ..ring }, 25, 0.05),
    ] {
        let score = holds(name, program, warm_up, duty);
        assert!(score.correlation() >= 0.95, "{name}: {}", score.correlation());
    }
    // All cells alike: nothing to correlate.
    holds("all to all, 4 ms", Program { pattern: Pattern::AllToAll, ..ring }, 10, 0.05);
}

#[test]
fn other_machines_see_the_same() {
    for machine in
        [Machine { cpus: 8, slice: 3 * MILLISECOND }, Machine { cpus: 1, slice: 4 * MILLISECOND }]
    {
        let trace = machine.run(&Program { rare: 50, ..Program::default() }, 20 * SECOND, 6);
        let truth = Truth::of(&trace);
        let lengths = Lengths::of_warm_up(20 * MILLISECOND);
        let score = score(&trace, &truth, |random| plan(lengths, 0.05, trace.end, random), 20);
        assert!((score.volume() - 1.0).abs() < 0.03, "{}: {}", machine.cpus, score.volume());
        assert!(score.coverage() >= 0.9, "{}: {}", machine.cpus, score.coverage());
    }
}

/// Events of one cell that windows see a few times or not at all.
#[test]
fn rare_cells_have_honest_intervals() {
    for rare in [10, 40, 160, 640] {
        let of = run(Program { rare, ..Program::default() });
        let (from, to) = (0, 6);
        let real = of.1.cell(CommKind::Raw, from, to);
        assert!(real > 0, "{rare}");
        let (mut held, mut none) = (0, 0);
        for seed in 0..100 {
            let lengths = Lengths::of_warm_up(10 * MILLISECOND);
            let view = View::of(&of.0, plan(lengths, 0.1, of.0.end, &mut Random::new(seed)));
            let scale = view.scale(Clock::Instructions).unwrap();
            let estimate = scale.estimate(view.cell(CommKind::Raw, from, to), 0);
            none += usize::from(estimate.counted == 0);
            held += usize::from(estimate.low <= real && real <= estimate.high);
        }
        println!("one step in {rare}: {real} events, not seen {none} times, held {held} of 100");
        assert!(held >= 90, "{rare}: {held}");
    }
}

#[test]
fn overwriting_and_invalidating_count_by_their_own_rules() {
    let of = run(Program { pattern: Pattern::Pool, work: 300_000, ..Program::default() });
    for kind in [CommKind::Waw, CommKind::Invalidation] {
        let score = windows(&of, 25, 0.1, kind);
        println!(
            "{}: volume {:.3}, cells held {:.3}",
            kind.name(),
            score.volume(),
            score.coverage()
        );
        assert!((score.volume() - 1.0).abs() < 0.03, "{kind:?} {}", score.volume());
        assert!(score.coverage() >= 0.9, "{kind:?} {}", score.coverage());
    }
}

/// What is missed because gaps are longer than the warm-up is at most what was read without a known
/// writer.
#[test]
fn unwritten_reads_bound_what_is_missed() {
    for (pattern, work) in
        [(Pattern::Ring, 5), (Pattern::Ring, 20), (Pattern::Pool, 5), (Pattern::AllToAll, 20)]
    {
        let of = run(Program { pattern, work: work * MILLISECOND, ..Program::default() });
        let real = of.1.volume(CommKind::Raw);
        let (mut seen, mut bound, mut held) = (0.0, 0.0, 0);
        for seed in 0..200 {
            let lengths = Lengths::of_warm_up(10 * MILLISECOND);
            let view = View::of(&of.0, plan(lengths, 0.1, of.0.end, &mut Random::new(seed)));
            let scale = view.scale(Clock::Instructions).unwrap();
            let volume = scale.estimate(view.volume(CommKind::Raw, 8), 0);
            let unwritten = scale.estimate(view.unwritten.clone(), 0);
            held += usize::from(real <= volume.high + unwritten.high);
            seen += volume.events as f64 / real as f64 / 200.0;
            bound += unwritten.events as f64 / real as f64 / 200.0;
        }
        println!("{work} ms of work: seen {seen:.3}, missed at most {bound:.3}, {held} held");
        assert!(held >= 195, "{held}");
        assert!(seen < 0.9 && seen + bound > 0.97, "{seen} {bound}");
    }
}

/// Lines are read and overwritten long after they were written, and one of sixteen is tracked for
/// some time before each window. Whether that is enough or not, no more is missing than is told.
#[test]
fn accesses_without_a_writer_bound_what_is_missing_of_long_gaps() {
    const OF: u64 = 16;
    for (pattern, work) in [(Pattern::Ring, 60), (Pattern::Pool, 2), (Pattern::Pool, 10)] {
        let work = work * MILLISECOND;
        let of = run(Program { pattern, work, own: 256, ..Program::default() });
        let real = (of.1.volume(CommKind::Raw) + of.1.volume(CommKind::Waw)) as f64;
        for lead in [0, 50, 400] {
            let (mut held, mut bound, mut volume) = (0, 0.0, 0.0);
            for seed in 0..10 {
                let lengths = Lengths::of_warm_up(10 * MILLISECOND);
                let plan = plan(lengths, 0.1, of.0.end, &mut Random::new(seed));
                let view = View::of(&of.0, plan);
                let tracked = Tracked::of(&of.0, &view.windows, OF, lead * MILLISECOND);
                let scale = view.scale(Clock::Instructions).unwrap();
                let mut all = view.volume(CommKind::Raw, 8);
                all.extend(view.volume(CommKind::Waw, 8));
                all.extend(tracked.late);
                let estimate = scale.estimate(all, 0);
                let missed = missed(Some(&scale), &[], &tracked.unwritten, OF);
                held += u32::from(real <= estimate.high as f64 + missed);
                bound += missed / estimate.events.max(1) as f64 / 10.0;
                volume += estimate.events as f64 / real / 10.0;
            }
            println!("{work} ns, {lead} ms before: {volume:.3}, {bound:.3} missed, {held} held");
            assert!(held >= 9, "{pattern:?} {work} {lead}: {held}");
            assert!(volume * (1.0 + bound) >= 0.97, "{pattern:?} {work} {lead}");
        }
    }
}

#[test]
fn false_sharing_has_its_share() {
    for (true_reads, work, warm_up) in
        [(100, 1, 10), (70, 1, 10), (30, 2, 10), (0, 1, 10), (50, 4, 25)]
    {
        let work = work * MILLISECOND / 2;
        let of = run(Program { true_reads, work, spread_words: true, ..Program::default() });
        let (mut undecided, mut worst) = (0.0, 0.0_f64);
        for seed in 0..10 {
            let lengths = Lengths::of_warm_up(warm_up * MILLISECOND);
            let view = View::of(&of.0, plan(lengths, 0.1, of.0.end, &mut Random::new(seed)));
            let share = view.judged.false_share().unwrap();
            let real = of.1.false_share;
            assert!(share.least <= real + 0.02 && real <= share.most + 0.02, "{real} {share:?}");
            worst = worst.max((share.likely.unwrap() - real).abs());
            undecided += (share.most - share.least) / 10.0;
        }
        println!("{} true: worst error {worst:.3}, undecided {undecided:.3}", 100 - true_reads);
        assert!(worst <= 0.05, "{true_reads}: {worst}");
    }
}

/// Windows that see no work are joined with their neighbours; too few that do are too short.
#[test]
fn a_program_that_sleeps_is_estimated_or_too_short() {
    let asleep = Program { sleep: 40 * MILLISECOND, work: MILLISECOND / 4, ..Program::default() };
    let of = run(asleep);
    let score = windows(&of, 10, 0.2, CommKind::Raw);
    println!("asleep: volume {:.3}, cells held {:.3}", score.volume(), score.coverage());
    assert!((score.volume() - 1.0).abs() < 0.1, "{}", score.volume());
    assert!(score.coverage() >= 0.9, "{}", score.coverage());
    let few = plan(Lengths::of_warm_up(10 * MILLISECOND), 0.01, of.0.end, &mut Random::new(1));
    assert!(matches!(
        View::of(&of.0, few).scale(Clock::Instructions),
        Err(TooShort { windows: 0..20 })
    ));
}
