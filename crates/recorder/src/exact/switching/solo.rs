//! Solo time: moments in which one thread runs alone, so that it is known how much threads slow
//! each other (`windows::SoloTime`).
//!
//! Threads are asked to come to the dispatcher, where they wait; then one runs alone; then all go
//! on. What is compared begins and ends while all wait: the kernel tells a process's time exactly
//! only of threads that do not run. They run natively where words in memory tell what they do, else
//! light code: that may be slow in just those loops in which threads slow each other, and its own
//! stores come between those that threads wait for.
//! Neighbours: `switching` goes from one part of a step to the next, the agent's `solo` has the
//! threads wait.

use super::Code;
use super::stretches::Stretch;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use windows::constants::{MIN_AT_ONCE, MIN_LOOKS};
use windows::{Ran, Random, Slowed, SoloTime, Spent};
use wire::session::Header;

/// How long threads are asked to come, and how long the one runs alone, ns.
const ASK_NS: u64 = 400_000;
const ALONE_NS: u64 = 2_500_000;
/// How long light time is not compared with it at first, ns: caches hold other things behind a
/// window, and code may be new.
const WARM_NS: u64 = 4_000_000;
/// Least light time that is, ns.
const MIN_TOGETHER_NS: u64 = 6_000_000;
/// One such time, with both moments at which all wait.
const EACH_NS: u64 = MIN_TOGETHER_NS + ASK_NS + ALONE_NS + ASK_NS;
/// Most moments of solo time in one stretch of native time: the fewest that give a result.
const AT_A_TIME: u64 = MIN_LOOKS as u64;
/// What solo time may take: so much at the beginning, ns, and this part of what a budget gives, or
/// of the run at the most.
const AT_FIRST_NS: u64 = 30_000_000;
const FOR_SOLO: f64 = 0.05;
const MOST: f64 = 0.02;

/// No thread has this id.
const NOBODY: u32 = 0;

/// Who runs in a part of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Solo {
    #[default]
    No,
    /// Threads are asked to wait, and nobody runs.
    Asked,
    /// One of them runs.
    Alone,
}

/// The solo time of a recording.
pub(super) struct Solos {
    pub now: Solo,
    /// In light code, and natively.
    looks: SoloTime,
    native_looks: SoloTime,
    /// What threads run when they are not asked.
    code: Code,
    /// What has been spent since all waited last, and whether one ran alone.
    since: Option<(Spent, bool)>,
    /// What threads have spent together before that.
    together: Option<Spent>,
    /// Wall-clock time that it has taken, and when the run began, ns.
    taken_ns: u64,
    began_ns: Option<u64>,
    random: Random,
    /// Which thread is to run.
    chosen: u32,
    /// What threads find in the header, and what that says.
    word: u32,
    shown: Solo,
}

impl Solos {
    pub fn new(seed: u64) -> Self {
        Self {
            now: Solo::No,
            looks: SoloTime::default(),
            native_looks: SoloTime::default(),
            code: Code::Light,
            since: None,
            together: None,
            taken_ns: 0,
            began_ns: None,
            random: Random::new(seed),
            chosen: NOBODY,
            word: 0,
            shown: Solo::No,
        }
    }

    /// A part of a step that had these processes spend `slice` is over; `grown`: what they did by
    /// the words that grow with that.
    pub fn settle(&mut self, slice: &Spent, code: Code, grown: u64) {
        let other = self.now != Solo::Asked && code != self.code;
        if other || code == Code::Checked {
            (self.since, self.together) = (None, None);
        }
        if self.now != Solo::Asked {
            self.code = code;
        }
        if self.now != Solo::No {
            self.taken_ns += slice.wall;
        }
        let mut slice = *slice;
        if self.code == Code::Native {
            (slice.work, slice.translating) = (grown, 0);
        }
        if let Some((since, alone)) = &mut self.since {
            *since += slice;
            *alone |= self.now == Solo::Alone;
        }
        if self.now == Solo::Asked {
            self.all_wait();
        }
    }

    /// What threads run, or have just run while they were asked to wait, if that is to be known by
    /// the words that grow.
    pub fn ran(&self, code: Code) -> Option<Ran> {
        let alone = self.since.is_some_and(|(_, alone)| alone);
        match (self.now, code) {
            (Solo::No, Code::Checked) => Some(Ran::Checked),
            (Solo::No, Code::Light) => Some(Ran::Light),
            (Solo::No, Code::Native) => Some(Ran::Native),
            (Solo::Alone, Code::Native) => Some(Ran::Alone),
            (Solo::Asked, _) if self.code == Code::Native => {
                Some(if alone { Ran::Alone } else { Ran::Native })
            }
            (Solo::Alone | Solo::Asked, _) => None,
        }
    }

    /// What has been spent since all waited last is known now.
    fn all_wait(&mut self) {
        match self.since.replace((Spent::default(), false)) {
            Some((spent, true)) => {
                let looks = match self.code {
                    Code::Native => &mut self.native_looks,
                    _ => &mut self.looks,
                };
                if let Some(together) = self.together.take() {
                    looks.add(&spent, &together);
                }
            }
            Some((spent, false)) => self.together = Some(spent).filter(runs_at_once),
            None => {}
        }
    }

    /// Time from `from_ns` to `until_ns` in which threads run light code or natively, with as much
    /// solo time as there is room for and the budget gives, the first part last.
    pub fn within(
        &mut self,
        [from_ns, until_ns]: [u64; 2],
        code: Code,
        off: &Spent,
        budget: Option<f64>,
    ) -> Vec<Stretch> {
        self.began_ns.get_or_insert(from_ns);
        let left = self.left(from_ns, budget);
        let room = (until_ns - from_ns).saturating_sub(WARM_NS + ASK_NS) / EACH_NS;
        match left.min(room) {
            number if number > 0 && runs_at_once(off) => {
                let end_ns = (from_ns + WARM_NS + ASK_NS + number * EACH_NS).min(until_ns);
                let end_ns = if code == Code::Native { end_ns } else { until_ns };
                let parts = repeated(from_ns + WARM_NS, end_ns, number, [ASK_NS, ALONE_NS], code);
                let rest = (end_ns < until_ns).then(|| Stretch::new(until_ns, code));
                rest.into_iter().chain(parts).collect()
            }
            _ => vec![Stretch::new(until_ns, code)],
        }
    }

    /// Words tell what threads do natively: what was taken for light code is not counted.
    pub fn begin_native(&mut self) {
        if self.native_looks.is_empty() && !self.looks.is_empty() {
            self.taken_ns = 0;
        }
    }

    /// How much native time is wanted at `now_ns` in which one thread runs alone now and then, ns.
    pub fn native_ns(&self, now_ns: u64, budget: Option<f64>) -> u64 {
        match self.left(now_ns, budget).min(AT_A_TIME) {
            0 => 0,
            number => WARM_NS + ASK_NS + number * EACH_NS,
        }
    }

    /// How many times the budget still lets one thread run alone.
    fn left(&self, now_ns: u64, budget: Option<f64>) -> u64 {
        let given = budget.map_or(MOST, |budget| (FOR_SOLO * (budget - 1.0)).min(MOST));
        let passed_ns = now_ns.saturating_sub(self.began_ns.unwrap_or(now_ns));
        let given_ns = AT_FIRST_NS + (given * passed_ns as f64) as u64;
        given_ns.saturating_sub(self.taken_ns) / (ALONE_NS + 2 * ASK_NS)
    }

    /// Tells threads. All wait when they are asked to, so that those come, too, that had no
    /// processor; then one goes on that is chosen at random, in proportion to what threads have
    /// just executed: their kernel thread ids, and instructions.
    pub fn show(&mut self, header: &Header, executed: impl FnOnce() -> Vec<(u32, u64)>) {
        if std::mem::replace(&mut self.shown, self.now) == self.now {
            return;
        }
        let waits = self.word % 2 == 1;
        let runs = match self.now {
            Solo::Asked => {
                self.chosen = choose(&executed(), &mut self.random).unwrap_or(NOBODY);
                NOBODY
            }
            Solo::Alone => self.chosen,
            Solo::No => NOBODY,
        };
        header.solo_thread.store(runs, Relaxed);
        // Odd while threads wait; another odd word has them look again.
        let same = waits == (self.now != Solo::No);
        self.word = self.word.wrapping_add(if same { 2 } else { 1 });
        header.solo.store(self.word, SeqCst);
        wake(&header.solo);
    }

    /// What it has told, and whether natively.
    pub fn slowed(&self) -> Option<(Slowed, bool)> {
        let natively = self.native_looks.slowed().map(|slowed| (slowed, true));
        natively.or_else(|| Some((self.looks.slowed()?, false)))
    }
}

/// Time up to `warm_ns` in which threads run this code. Then, `number` times, such time that ends
/// with solo time; all wait for `ask_ns` before and after one runs alone for `alone_ns`. The first
/// part comes last.
pub(super) fn repeated(
    warm_ns: u64,
    until_ns: u64,
    number: u64,
    [ask_ns, alone_ns]: [u64; 2],
    code: Code,
) -> Vec<Stretch> {
    let each_ns = (until_ns - warm_ns).saturating_sub(ask_ns) / number;
    let part = |until_ns, solo| {
        let code = if solo == Solo::Asked { Code::Light } else { code };
        Stretch { solo, ..Stretch::new(until_ns, code) }
    };
    let parts = |nth: u64| {
        let end_ns = until_ns - nth * each_ns;
        let alone_end_ns = end_ns - ask_ns;
        let asked_ns = alone_end_ns - alone_ns;
        [
            part(end_ns, Solo::Asked),
            part(alone_end_ns, Solo::Alone),
            part(asked_ns, Solo::Asked),
            part(asked_ns - ask_ns, Solo::No),
        ]
    };
    let first = [part(warm_ns + ask_ns, Solo::Asked), part(warm_ns, Solo::No)];
    (0..number).flat_map(parts).chain(first).collect()
}

/// One of these, in proportion to their weights.
fn choose(weighted: &[(u32, u64)], random: &mut Random) -> Option<u32> {
    let all: u64 = weighted.iter().map(|(_, weight)| weight).sum();
    let mut at = random.up_to(all.checked_sub(1)?);
    let found = weighted.iter().find(|(_, weight)| {
        let found = at < *weight;
        at = at.saturating_sub(*weight);
        found
    });
    found.map(|(one, _)| *one)
}

fn runs_at_once(spent: &Spent) -> bool {
    spent.cpu as f64 >= MIN_AT_ONCE * spent.wall as f64
}

/// Wakes threads of other processes that wait at a word of shared memory.
fn wake(word: &AtomicU32) {
    // SAFETY: the word lives as long as the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_chosen_in_proportion_to_what_they_execute() {
        let (mut random, mut times) = (Random::new(1), [0; 3]);
        for _ in 0..1000 {
            let weighted = [(0, 100), (1, 0), (2, 300)];
            times[choose(&weighted, &mut random).unwrap() as usize] += 1;
        }
        assert!((200..300).contains(&times[0]) && times[1] == 0, "{times:?}");
        assert_eq!(choose(&[], &mut random), None);
        assert_eq!(choose(&[(7, 0)], &mut random), None);
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn solo_time_lies_within_other_time() {
        let parts = repeated(3 * MS, 24 * MS, 2, [MS, 2 * MS], Code::Native);
        let asked = |part: &Stretch| (part.solo == Solo::Asked) == (part.code == Code::Light);
        assert!(parts.iter().all(asked), "threads come home when they are asked");
        let in_order: Vec<_> = parts.iter().rev().map(|p| (p.until_ns / MS, p.solo)).collect();
        let look = |end| {
            let until = [end - 4, end - 3, end - 1, end];
            let solo = [Solo::No, Solo::Asked, Solo::Alone, Solo::Asked];
            until.into_iter().zip(solo)
        };
        let first = [(3, Solo::No), (4, Solo::Asked)].into_iter();
        let wanted: Vec<_> = first.chain(look(14)).chain(look(24)).collect();
        assert_eq!(in_order, wanted);
    }

    #[test]
    fn what_is_compared_begins_and_ends_while_all_wait() {
        let mut solos = Solos::new(1);
        let light = |solos: &mut Solos, solo, cpu, work| {
            solos.now = solo;
            let spent = Spent { wall: 10 * MS, cpu: cpu * MS, work, ..Spent::default() };
            solos.settle(&spent, Code::Light, 0);
        };
        for _ in 0..8 {
            light(&mut solos, Solo::No, 50, 1);
            light(&mut solos, Solo::Asked, 0, 0);
            light(&mut solos, Solo::No, 36, 9_000_000);
            // The kernel tells late what threads have used.
            light(&mut solos, Solo::Asked, 4, 1_000_000);
            light(&mut solos, Solo::Alone, 1, 5_000_000);
            light(&mut solos, Solo::Asked, 9, 0);
            solos.settle(&Spent::default(), Code::Native, 0);
        }
        assert_eq!(solos.looks.len(), 8);
        let (slowed, natively) = solos.slowed().unwrap();
        assert!((slowed.share - 0.5).abs() < 1e-6 && !natively);
    }

    #[test]
    fn natively_words_tell_what_is_done() {
        let mut solos = Solos::new(1);
        let mut part = |solo, code, cpu, grown| {
            solos.now = solo;
            let ran = solos.ran(code);
            // What is counted while threads come home is no measure.
            let spent = Spent { wall: 10 * MS, cpu: cpu * MS, work: 77, ..Spent::default() };
            solos.settle(&spent, code, grown);
            ran
        };
        for _ in 0..8 {
            assert_eq!(part(Solo::No, Code::Light, 50, 1), Some(Ran::Light));
            assert_eq!(part(Solo::No, Code::Native, 50, 1), Some(Ran::Native));
            assert_eq!(part(Solo::Asked, Code::Light, 0, 0), Some(Ran::Native));
            assert_eq!(part(Solo::No, Code::Native, 36, 9_000_000), Some(Ran::Native));
            assert_eq!(part(Solo::Asked, Code::Light, 4, 1_000_000), Some(Ran::Native));
            assert_eq!(part(Solo::Alone, Code::Native, 8, 3_900_000), Some(Ran::Alone));
            assert_eq!(part(Solo::Asked, Code::Light, 2, 100_000), Some(Ran::Alone));
        }
        assert_eq!((solos.looks.len(), solos.native_looks.len()), (0, 8));
        let (slowed, natively) = solos.slowed().unwrap();
        assert!((slowed.share - 0.375).abs() < 1e-6 && natively);
    }

    #[test]
    fn solo_time_stays_a_small_part_of_the_run() {
        let busy = Spent { wall: 10 * MS, cpu: 20 * MS, work: 1, ..Spent::default() };
        let idle = Spent { cpu: 10 * MS, ..busy };
        let mut solos = Solos::new(1);
        let none = |parts: Vec<Stretch>| parts.iter().all(|part| part.solo == Solo::No);
        assert!(none(solos.within([0, 10 * MS], Code::Light, &idle, None)), "one thread at once");
        assert!(
            none(solos.within([0, MS], Code::Light, &busy, None)),
            "nothing to compare it with"
        );
        let mut now = 0;
        while now < 10_000 * MS {
            let mut from = now;
            let parts = solos.within([now, now + 20 * MS], Code::Light, &busy, Some(1.2));
            for part in parts.iter().rev() {
                solos.now = part.solo;
                solos.settle(&Spent { wall: part.until_ns - from, ..busy }, part.code, 0);
                from = part.until_ns;
            }
            now += 20 * MS;
        }
        let given = AT_FIRST_NS + (FOR_SOLO * 0.2 * 10_000.0) as u64 * MS;
        let taken = solos.taken_ns;
        assert!((given - 10 * MS..=given + MS).contains(&taken), "{taken} of {given}");
    }
}
