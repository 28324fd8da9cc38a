//! A few placements in turn, of which the one stays with which most gets done, after autopin (Klug,
//! Ott, Weidendorfer and Trinitis, 2008), for comparison. It knows nothing of communication.
//!
//! The first turn has no placement. Each one runs for a moment before its work counts. Threads that
//! come or go begin it anew. Neighbours: `decider` binds, `guard` is how the other policies
//! measure.

/// Time before work counts, and time for which it does.
const SETTLE_NS: u64 = 200_000_000;
/// Time after which all are tried again.
const REST_NS: u64 = 60_000_000_000;

/// What is to be done next.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Nothing.
    Wait,
    /// This placement is to be tried; `None`: none.
    Try(Option<Pinning>),
    /// This one was best; with it, the work per time was this multiple of that without a placement.
    Stay(Option<Pinning>, f64),
}

/// A placement: its name, and the processor of each task.
#[derive(Clone, PartialEq, Debug)]
pub struct Pinning {
    /// For messages.
    pub name: &'static str,
    /// By task.
    pub cpus: Vec<u32>,
}

/// Placements of `tasks` tasks that are tried, on processors in the order of the machine's tree;
/// each once.
pub fn pinnings(tasks: usize, cpus: &[u32]) -> Vec<Pinning> {
    let count = cpus.len().max(1);
    let block = |place: usize| if tasks > count { place * count / tasks } else { place };
    let spread = |task: usize| if tasks < count { task * count / tasks } else { task % count };
    // In the order 0, last, 1, last but one, and so on.
    let folded = |task: usize| match task < tasks.div_ceil(2) {
        true => block(2 * task),
        false => block(2 * (tasks - 1 - task) + 1),
    };
    let of = |name, at: &dyn Fn(usize) -> usize| Pinning {
        name,
        cpus: (0..tasks).filter_map(|task| cpus.get(at(task)).copied()).collect(),
    };
    let mut all: Vec<Pinning> = Vec::new();
    for pinning in [of("blocks", &block), of("cyclic", &spread), of("folded", &folded)] {
        let known = all.iter().any(|other| other.cpus == pinning.cpus);
        if !known && pinning.cpus.len() == tasks {
            all.push(pinning);
        }
    }
    all
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Autopin {
    measure_ns: u64,
    /// For whom.
    tasks: Vec<u32>,
    /// What is tried; the first has none.
    tried: Vec<Option<Pinning>>,
    /// Work per ns of each that was tried.
    rates: Vec<f64>,
    /// When the present one began; `None`: nothing is tried now.
    since_ns: Option<u64>,
    next_ns: u64,
    amount: f64,
    ns: u64,
}

impl Autopin {
    /// Measures each placement for so long.
    pub fn new(measure_ms: u64) -> Self {
        Self {
            measure_ns: measure_ms * 1_000_000,
            tasks: Vec::new(),
            tried: Vec::new(),
            rates: Vec::new(),
            since_ns: None,
            next_ns: 0,
            amount: 0.0,
            ns: 0,
        }
    }

    /// Work that was done in so much time, told at some moment.
    pub fn add(&mut self, amount: f64, ns: u64, now_ns: u64) {
        if self.since_ns.is_some_and(|since| now_ns >= since + SETTLE_NS + ns) {
            self.amount += amount;
            self.ns += ns;
        }
    }

    /// What is to be done now for these tasks, ascending, on these processors.
    pub fn turn(&mut self, tasks: &[u32], cpus: &[u32], now_ns: u64) -> Step {
        if tasks != self.tasks {
            self.tasks = tasks.to_vec();
            self.since_ns = None;
            self.next_ns = now_ns;
        }
        if tasks.len() < 2 {
            return Step::Wait;
        }
        if self.since_ns.is_none() {
            return if now_ns >= self.next_ns { self.begin(cpus, now_ns) } else { Step::Wait };
        }
        if self.ns < self.measure_ns {
            return Step::Wait;
        }
        self.rates.push(self.amount / self.ns as f64);
        match self.tried.get(self.rates.len()).cloned() {
            Some(next) => self.try_next(next, now_ns),
            None => self.stay(now_ns),
        }
    }

    fn begin(&mut self, cpus: &[u32], now_ns: u64) -> Step {
        let pinnings = pinnings(self.tasks.len(), cpus).into_iter().map(Some);
        self.tried = std::iter::once(None).chain(pinnings).collect();
        self.rates.clear();
        self.try_next(None, now_ns)
    }

    fn try_next(&mut self, next: Option<Pinning>, now_ns: u64) -> Step {
        (self.since_ns, self.amount, self.ns) = (Some(now_ns), 0.0, 0);
        Step::Try(next)
    }

    fn stay(&mut self, now_ns: u64) -> Step {
        let best =
            (0..self.rates.len()).rev().max_by(|&a, &b| self.rates[a].total_cmp(&self.rates[b]));
        let best = best.unwrap_or(0);
        (self.since_ns, self.next_ns) = (None, now_ns + REST_NS);
        let ratio = if self.rates[0] > 0.0 { self.rates[best] / self.rates[0] } else { 1.0 };
        Step::Stay(self.tried[best].clone(), ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_tasks_on_two_processors_are_paired_in_all_ways() {
        let cpus: Vec<Vec<u32>> = pinnings(4, &[0, 1]).into_iter().map(|p| p.cpus).collect();
        assert_eq!(cpus, [[0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0]]);
        assert_eq!(pinnings(2, &[0, 1, 2, 3])[1].cpus, [0, 2]);
        assert_eq!(pinnings(3, &[5]).len(), 1);
    }

    /// Runs it on a program that gets `rate` done under a placement; what it stays with.
    fn stays(rate: impl Fn(Option<&Pinning>) -> f64) -> (Option<&'static str>, f64) {
        let mut autopin = Autopin::new(1000);
        let mut now: Option<Pinning> = None;
        for look in 0..1000_u64 {
            let now_ns = look * 50_000_000;
            autopin.add(rate(now.as_ref()) * 5e7, 50_000_000, now_ns);
            match autopin.turn(&[1, 2, 3, 4], &[0, 1], now_ns) {
                Step::Wait => {}
                Step::Try(next) => now = next,
                Step::Stay(best, ratio) => return (best.map(|pinning| pinning.name), ratio),
            }
        }
        panic!("it tries for ever")
    }

    #[test]
    fn the_best_placement_stays_and_none_if_that_is_best() {
        let cyclic = |pinning: Option<&Pinning>| match pinning {
            Some(pinning) if pinning.name == "cyclic" => 2.0,
            _ => 1.0,
        };
        assert_eq!(stays(cyclic), (Some("cyclic"), 2.0));
        assert_eq!(stays(|pinning| if pinning.is_none() { 1.0 } else { 0.5 }), (None, 1.0));
    }

    #[test]
    fn without_work_nothing_but_the_first_is_tried() {
        let mut autopin = Autopin::new(1000);
        assert_eq!(autopin.turn(&[1, 2], &[0, 1], 0), Step::Try(None));
        assert!((1..100).all(|s| autopin.turn(&[1, 2], &[0, 1], s << 30) == Step::Wait));
    }
}
