//! Whether bound tasks wait for their processors while others are idle.
//!
//! Then the placement takes from them what the scheduler would have given them, whatever it saves
//! in communication. The kernel tells both: for each thread the time that it was ready to run and
//! did not, and for each processor the time that it was idle. *Wasted* is the smaller one of the
//! two. What other programs do does not count as waste: they leave no processor idle. Each process
//! is judged by itself, for as long as it is bound, against what it wasted before.

use std::collections::BTreeMap;

/// Length of a window over which waste is judged.
const WINDOW_NS: u64 = 1_500_000_000;
/// Most waste beyond that of before, as a part of the time that tasks run or waste.
const MAX_WASTE: f64 = 0.1;
/// A placement was right if it did not waste for this time.
const RIGHT_NS: u64 = 2_000_000_000;
/// Length of a short window, which shows that it has become wrong.
const SHORT_NS: u64 = 300_000_000;
/// Most waste in a short window beyond that of before, as for [`MAX_WASTE`].
const MAX_SHORT_WASTE: f64 = 0.2;
/// Half-life of the waste of before.
const HALF_LIFE_NS: f64 = 1e9;

/// What a process has got and wasted since the last look, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Share {
    /// Processor time of its tasks.
    pub ran_ns: u64,
    /// Time that its tasks were ready to run and did not.
    pub waited_ns: u64,
    /// Whether any of them is bound.
    pub bound: bool,
}

#[derive(Debug, Default)]
struct Process {
    /// Without a placement, decayed: wasted time, and the time that tasks ran or wasted.
    before: (f64, f64),
    /// The same of the present window, and when it began.
    window: (f64, f64),
    since_ns: Option<u64>,
    /// The same of a short window, and since when the placement does not waste.
    short: (f64, f64),
    short_since_ns: u64,
    right_since_ns: u64,
    /// The last short window wasted.
    seems: bool,
    /// Time without a placement after the next one that wastes.
    next_pause_ns: u64,
}

impl Process {
    /// It is bound from now on.
    fn bind(&mut self, now_ns: u64) {
        (self.since_ns, self.window) = (Some(now_ns), (0.0, 0.0));
        (self.short_since_ns, self.short) = (now_ns, (0.0, 0.0));
        (self.right_since_ns, self.seems) = (now_ns, false);
    }

    /// Takes in what was wasted of what; its part before and in a short window, if that shows that
    /// the placement was right and has become wrong.
    fn look_shortly(&mut self, (wasted, sum): (f64, f64), now_ns: u64) -> Option<(f64, f64)> {
        self.short = (self.short.0 + wasted, self.short.1 + sum);
        if now_ns.saturating_sub(self.short_since_ns) < SHORT_NS {
            return None;
        }
        let began_ns = std::mem::replace(&mut self.short_since_ns, now_ns);
        let (before, after) = (part(self.before), part(std::mem::take(&mut self.short)));
        self.seems = after > before + MAX_SHORT_WASTE;
        if !self.seems {
            return None;
        }
        let was_right = began_ns.saturating_sub(self.right_since_ns) >= RIGHT_NS;
        self.right_since_ns = now_ns;
        was_right.then_some((before, after))
    }
}

/// Waste of a process under a placement that is undone.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wasted {
    /// The process.
    pub process: u32,
    /// Part of the time that was wasted before.
    pub before: f64,
    /// And with the placement.
    pub after: f64,
    /// For how long the process is left alone now.
    pub pause_ns: u64,
    /// Whether it did not waste for some time: the program has changed, and may be placed anew at
    /// once.
    pub was_right: bool,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Waste {
    processes: BTreeMap<u32, Process>,
    pause_ns: u64,
    max_pause_ns: u64,
}

fn part((wasted, all): (f64, f64)) -> f64 {
    if all > 0.0 { wasted / all } else { 0.0 }
}

impl Waste {
    /// After a waste, a process is left alone for `pause_ns`, which doubles up to `max_pause_ns`.
    pub fn new(pause_ns: u64, max_pause_ns: u64) -> Self {
        Self { processes: BTreeMap::new(), pause_ns, max_pause_ns }
    }

    /// Takes in what all processes have got, and how long processors were idle in all; returns
    /// those whose placement wastes.
    pub fn look(
        &mut self,
        shares: &BTreeMap<u32, Share>,
        idle_ns: u64,
        elapsed_ns: u64,
        now_ns: u64,
    ) -> Vec<Wasted> {
        self.processes.retain(|process, _| shares.contains_key(process));
        let (pause_ns, max_pause_ns) = (self.pause_ns, self.max_pause_ns);
        let kept = (-(elapsed_ns as f64) / HALF_LIFE_NS).exp2();
        let mut all = Vec::new();
        for (&number, share) in shares {
            let process = self.processes.entry(number).or_default();
            let wasted = share.waited_ns.min(idle_ns) as f64;
            let sum = wasted + share.ran_ns as f64;
            if !share.bound {
                let before = process.before;
                process.before = (before.0 * kept + wasted, before.1 * kept + sum);
                process.since_ns = None;
                continue;
            }
            let Some(since_ns) = process.since_ns else {
                process.bind(now_ns);
                continue;
            };
            process.window = (process.window.0 + wasted, process.window.1 + sum);
            if let Some((before, after)) = process.look_shortly((wasted, sum), now_ns) {
                process.since_ns = None;
                let (process, pause_ns, was_right) = (number, 0, true);
                all.push(Wasted { process, before, after, pause_ns, was_right });
                continue;
            }
            if now_ns.saturating_sub(since_ns) < WINDOW_NS {
                continue;
            }
            process.since_ns = Some(now_ns);
            let (before, after) = (part(process.before), part(std::mem::take(&mut process.window)));
            if after > before + MAX_WASTE {
                let pause_ns = process.next_pause_ns.max(pause_ns);
                process.next_pause_ns = (pause_ns * 2).min(max_pause_ns);
                let (process, was_right) = (number, false);
                all.push(Wasted { process, before, after, pause_ns, was_right });
            }
        }
        all
    }

    /// Whether some process seems to waste now.
    pub fn seems(&self) -> bool {
        self.processes.values().any(|process| process.since_ns.is_some() && process.seems)
    }

    /// Waste up to now is part of a placement that was proved to help.
    pub fn accept(&mut self) {
        for process in self.processes.values_mut() {
            if part(process.window) > part(process.before) {
                process.before = process.window;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: u64 = 50_000_000;

    /// Looks at one process for `looks`; `waited` and `idle` are parts of the time.
    fn run(waste: &mut Waste, from: u64, looks: u64, bound: bool, waited: f64, idle: f64) -> usize {
        let ns = |part: f64| (LOOK as f64 * part) as u64;
        let share = Share { ran_ns: ns(1.0 - waited), waited_ns: ns(waited), bound };
        let shares = BTreeMap::from([(7, share)]);
        (from..from + looks)
            .map(|look| waste.look(&shares, ns(idle), LOOK, look * LOOK).len())
            .sum()
    }

    #[test]
    fn waiting_beside_idle_processors_is_waste() {
        let mut waste = Waste::new(5, 20);
        assert_eq!(run(&mut waste, 0, 40, false, 0.0, 0.0), 0);
        assert_eq!(run(&mut waste, 40, 31, true, 0.5, 0.5), 1);
    }

    #[test]
    fn the_load_of_others_is_no_waste_and_neither_is_idleness_alone() {
        for (waited, idle) in [(0.5, 0.0), (0.0, 0.9), (0.05, 0.5)] {
            let mut waste = Waste::new(5, 20);
            run(&mut waste, 0, 40, false, 0.0, 0.0);
            assert_eq!(run(&mut waste, 40, 200, true, waited, idle), 0, "{waited} {idle}");
        }
    }

    #[test]
    fn what_was_so_before_is_not_the_placements_fault() {
        let mut waste = Waste::new(5, 20);
        run(&mut waste, 0, 40, false, 0.4, 0.4);
        assert_eq!(run(&mut waste, 40, 200, true, 0.45, 0.5), 0);
    }

    #[test]
    fn a_placement_that_becomes_wrong_is_given_up_soon_and_without_a_pause() {
        let mut waste = Waste::new(5, 20);
        run(&mut waste, 0, 40, false, 0.0, 0.0);
        assert_eq!(run(&mut waste, 40, 60, true, 0.05, 0.5), 0, "it is right for 3 s");
        assert!(!waste.seems());
        let bad = Share { ran_ns: LOOK, waited_ns: LOOK, bound: true };
        let mut look = |look| waste.look(&BTreeMap::from([(7, bad)]), LOOK, LOOK, look * LOOK);
        let (at, wasted) = (100..130).find_map(|k| Some((k, *look(k).first()?))).unwrap();
        assert!(at <= 112 && wasted.was_right && wasted.pause_ns == 0, "{at}: {wasted:?}");
        let first = (200..300).find_map(|k| look(k).first().copied()).unwrap();
        assert!(!first.was_right && first.pause_ns == 5, "wrong from the beginning: {first:?}");
    }

    #[test]
    fn pauses_double_and_processes_that_are_gone_are_forgotten() {
        let mut waste = Waste::new(5, 20);
        let mut pauses = Vec::new();
        let bad = Share { ran_ns: LOOK, waited_ns: LOOK, bound: true };
        for look in 0..200 {
            let wasted = waste.look(&BTreeMap::from([(7, bad)]), LOOK, LOOK, look * LOOK);
            pauses.extend(wasted.iter().map(|wasted| wasted.pause_ns));
        }
        assert_eq!(pauses[..4], [5, 10, 20, 20]);
        waste.look(&BTreeMap::new(), 0, LOOK, 0);
        assert!(waste.processes.is_empty());
    }
}
