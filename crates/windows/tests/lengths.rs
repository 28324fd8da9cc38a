//! Lengths that adapt to a stream, and what share of a window should count.

mod support;

use support::machine::{Machine, Trace};
use support::program::{Pattern, Program};
use support::view::{Truth, View, plan};
use support::{MILLISECOND, SECOND, score};
use types::CommKind;
use windows::{
    Assumed, Chooser, Clock, Counted, Dial, Lengths, Observation, Phase, RunQueue, Scale,
};
use windows::{Scheduler, Seen, Sums, Window};

const TWO: Machine = Machine { cpus: 2, slice: 3 * MILLISECOND };

/// A recording under a dial that fixes the duty, with lengths that adapt.
struct Recorded {
    windows: Vec<Window>,
    volume: Vec<Counted>,
    chooser: Chooser,
}

fn record(trace: &Trace, duty: f64, queue: RunQueue) -> Recorded {
    let mut scheduler = Scheduler::new(Dial::Duty(duty), Assumed::default(), 4).unwrap();
    let mut of = Recorded { windows: vec![], volume: vec![], chooser: Chooser::default() };
    let spent = Sums::default();
    let (mut now, mut window) = (0, [0; 5]);
    while now < trace.end {
        let lengths = of.chooser.lengths();
        let long_gaps = of.chooser.tracks_long();
        let seen = Observation { now, spent, lengths, long_gaps, alone: false, solo_ns: 0 };
        let step = scheduler.next(&seen).unwrap();
        match step.phase {
            Phase::Off if step.period => {
                window[4] = now;
                if window[3] > 0 {
                    of.add(trace, window, queue);
                }
                window = [now, 0, 0, 0, 0];
            }
            Phase::WarmUp => window[1] = now,
            Phase::Counting => (window[2], window[3]) = (now, step.until),
            Phase::Off | Phase::Late | Phase::Whole => {}
        }
        now = step.until;
    }
    of
}

impl Recorded {
    fn add(&mut self, trace: &Trace, [start, open, count, close, end]: [u64; 5], queue: RunQueue) {
        let window = Window { start, open, count, close, end, work: vec![] };
        let view = View::of(trace, vec![window.clone()]);
        let half = |count, close| {
            let view = View::of(trace, vec![Window { count, close, ..window.clone() }]);
            let events = view.volume(CommKind::Raw, trace.threads);
            let work = view.windows[0].work.iter().map(|work| work.counted).sum();
            (events.iter().map(|counted| counted.count).sum(), work)
        };
        let middle = count + (close - count) / 2;
        let unwritten = view.unwritten.iter().map(|counted| counted.count).sum();
        let (early, late) = (half(count, middle), half(middle, close));
        let transfers = early.0 + late.0;
        let seen = Seen { early, late, transfers, far: 0, unwritten };
        self.chooser.add(&seen, queue);
        let at = self.windows.len();
        let volume = view.volume(CommKind::Raw, trace.threads).into_iter();
        self.volume.extend(volume.map(|counted| Counted { window: at, ..counted }));
        self.windows.extend(view.windows);
    }
}

#[test]
fn windows_lengthen_until_gaps_fit() {
    for (work, least, most) in [(1, 10, 40), (5, 20, 80), (20, 80, 320)] {
        let program = Program { work: work * MILLISECOND, ..Program::default() };
        // Chance may double a length.
        let mut wanted = [8, 9, 10, 11, 12].map(|seed| {
            let trace = TWO.run(&program, 60 * SECOND, seed);
            record(&trace, 0.2, RunQueue::default()).chooser.wanted() / MILLISECOND
        });
        wanted.sort_unstable();
        let wanted = wanted[wanted.len() / 2];
        let trace = TWO.run(&program, 60 * SECOND, 8);
        let truth = Truth::of(&trace);
        let recorded = record(&trace, 0.2, RunQueue::default());
        let of = |windows: &[Window]| {
            let scale = Scale::new(windows, Clock::Instructions).unwrap();
            let volume = scale.estimate(recorded.volume.clone(), 0);
            volume.events as f64 / truth.volume(CommKind::Raw) as f64
        };
        let volume = of(&recorded.windows);
        let mut events = vec![0; recorded.windows.len()];
        recorded.volume.iter().for_each(|counted| events[counted.window] += counted.count);
        let long = windows::long_enough(recorded.windows.clone(), &events);
        println!(
            "{work} ms of work: warm-up {wanted} ms, {} windows, volume {volume:.3}, of long ones {:.3}",
            recorded.windows.len(),
            of(&long)
        );
        assert!((least..=most).contains(&wanted), "{work}: {wanted}");
        assert!((of(&long) - 1.0).abs() < 0.1, "{work}: {}", of(&long));
    }
}

#[test]
fn rotations_of_the_run_queue_are_spanned() {
    let trace = TWO.run(&Program { work: MILLISECOND / 10, ..Program::default() }, 20 * SECOND, 8);
    let queue = RunQueue { runnable: 8, cpus: 2, slice: 3 * MILLISECOND };
    assert_eq!(record(&trace, 0.2, queue).chooser.lengths().warm_up, 24 * MILLISECOND);
}

/// Of 40 ms: a longer warm-up sees more of long gaps, a longer counting part counts more.
#[test]
fn half_of_a_window_counts() {
    let mut errors = [0.0; 3];
    for (pattern, work) in
        [(Pattern::Ring, 1), (Pattern::Ring, 4), (Pattern::Pool, 1), (Pattern::Ring, 6)]
    {
        let trace = TWO.run(
            &Program { pattern, work: work * MILLISECOND, ..Program::default() },
            20 * SECOND,
            9,
        );
        let truth = Truth::of(&trace);
        for (sum, warm_up) in errors.iter_mut().zip([10, 20, 30]) {
            let lengths =
                Lengths { warm_up: warm_up * MILLISECOND, counting: (40 - warm_up) * MILLISECOND };
            let score = score(&trace, &truth, |random| plan(lengths, 0.05, trace.end, random), 40);
            let error = (score.volume() - 1.0).hypot(score.volume_spread());
            println!(
                "{work} ms of work, warm-up {warm_up} of 40 ms: volume {:.3} ±{:.3}",
                score.volume(),
                score.volume_spread()
            );
            *sum += error * error;
        }
    }
    println!("errors {errors:.4?}");
    assert!(errors[1] < errors[0] && errors[1] < errors[2], "{errors:?}");
}
