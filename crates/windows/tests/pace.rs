//! Windows slow threads, and not all alike: only work tells what their counts stand for.

mod support;

use support::machine::Machine;
use support::program::{Pattern, Program};
use support::view::{Plan, Truth, View, plan};
use support::{MILLISECOND, SECOND};
use types::{CommKind, ThreadId};
use windows::{Clock, Lengths, Random};

const TWO: Machine = Machine { cpus: 8, slice: 3 * MILLISECOND };
const THREADS: usize = 8;

/// How many times longer a thread takes in a window.
fn slower(thread: usize) -> f64 {
    1.5 + 0.25 * thread as f64
}

fn slowed(program: Program, plan: &Plan) -> (View, View, Truth) {
    let slow = |thread: usize, at: u64| {
        let next = plan.partition_point(|window| window.close <= at);
        let inside = plan.get(next).is_some_and(|window| window.open <= at);
        if inside { slower(thread) } else { 1.0 }
    };
    let trace = TWO.run_slowed(&program, 20 * SECOND, 3, &slow);
    let truth = Truth::of(&trace);
    (View::of(&trace, plan.clone()), View::by_cpu_time(&trace, plan.clone()), truth)
}

/// Errors of volume and, in the median, of cells: by work, and by one factor for all.
#[derive(Debug, Default)]
struct Errors {
    volume: f64,
    cells: Vec<f64>,
    held: usize,
    by_factor: Vec<f64>,
    factor_volume: f64,
}

fn errors(view: &View, truth: &Truth) -> Errors {
    let scale = view.scale(Clock::Instructions).unwrap();
    let real = truth.volume(CommKind::Raw) as f64;
    let volume = scale.estimate(view.volume(CommKind::Raw, THREADS), 0).events as f64;
    let mut errors = Errors { volume: volume / real - 1.0, ..Errors::default() };
    // The time of the periods over that of the counting parts, and the mean slowdown.
    let mean = (0..THREADS).map(slower).sum::<f64>() / THREADS as f64;
    let window = &view.windows[0];
    let factor = (window.end - window.start) as f64 / (window.close - window.count) as f64 * mean;
    let mut all = 0.0;
    for (from, to) in (0..THREADS).flat_map(|from| (0..THREADS).map(move |to| (from, to))) {
        let real = truth.cell(CommKind::Raw, from, to);
        if real < 200 {
            continue;
        }
        let counted = view.cell(CommKind::Raw, from, to);
        let by_factor = counted.iter().map(|counted| counted.count as f64).sum::<f64>() * factor;
        let estimate = scale.estimate(counted, 0);
        errors.cells.push((estimate.events as f64 / real as f64 - 1.0).abs());
        errors.by_factor.push((by_factor / real as f64 - 1.0).abs());
        errors.held += usize::from(estimate.low <= real && real <= estimate.high);
        all += by_factor;
    }
    errors.factor_volume = all / real - 1.0;
    errors
}

fn median(mut of: Vec<f64>) -> f64 {
    statistics::median(&mut of).unwrap()
}

#[test]
fn work_is_right_where_a_factor_for_all_is_wrong() {
    for (name, pattern) in [("ring", Pattern::Ring), ("pool", Pattern::Pool)] {
        let lengths = Lengths::of_warm_up(25 * MILLISECOND);
        let plan = plan(lengths, 0.1, 20 * SECOND, &mut Random::new(2));
        let work = MILLISECOND / 4;
        let (view, by_time, truth) = slowed(Program { pattern, work, ..Program::default() }, &plan);
        let errors = errors(&view, &truth);
        let cells = errors.cells.len();
        assert!(errors.volume.abs() < 0.06, "{name}: {}", errors.volume);
        assert!(errors.held * 10 >= cells * 9, "{name}: {} of {cells}", errors.held);
        let (work, factor) = (median(errors.cells), median(errors.by_factor));
        println!("{name}: by work {work:.3}, by a factor {factor:.3}");
        assert!(work < 0.15 && factor > 2.0 * work, "{name}: {work} {factor}");

        // Processor time is stretched: low, and the interval says how much.
        let scale = by_time.scale(Clock::CpuTime { slower: slower(THREADS - 1) }).unwrap();
        let volume = scale.estimate(by_time.volume(CommKind::Raw, THREADS), 0);
        let real = truth.volume(CommKind::Raw);
        println!("{name}: by processor time {:.3}", volume.events as f64 / real as f64);
        assert!(volume.events < real * 7 / 10 && real <= volume.high && volume.low <= real);
    }
}

#[test]
fn threads_without_a_common_pace_have_their_own() {
    let plan = plan(Lengths::of_warm_up(25 * MILLISECOND), 0.1, 20 * SECOND, &mut Random::new(2));
    let program = Program { pattern: Pattern::Pool, work: MILLISECOND / 4, ..Program::default() };
    let scale = slowed(program, &plan).0.scale(Clock::Instructions).unwrap();
    let pace = |thread: usize| scale.pace(ThreadId(thread as u32)).unwrap();
    for thread in 1..THREADS {
        let (found, real) = (pace(thread) / pace(0), slower(thread) / slower(0));
        assert!((found / real - 1.0).abs() < 0.1, "{thread}: {found} {real}");
    }
}
