//! Solo time: moments in which one thread runs alone, so that it is known how much threads slow
//! each other (`windows::Looks`).
//!
//! In light code, threads are asked to come to the dispatcher, where all but one wait; then it runs
//! alone; then all go on. Neighbours: `switching` goes from one part of a step to the next, the
//! agent's `solo` has the threads wait.

use super::Code;
use super::stretches::Stretch;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use windows::constants::MIN_AT_ONCE;
use windows::{Looks, Random, Slowed, Spent};
use wire::session::Header;

/// How long threads are asked to come, and how long the one runs alone then, ns.
const ASK_NS: u64 = 500_000;
const ALONE_NS: u64 = 2_500_000;
/// Least light time before it, ns.
const MIN_TOGETHER_NS: u64 = 6_000_000;
/// What solo time may take: so much at the beginning, ns, and this part of what a budget gives, or
/// of the run at the most.
const AT_FIRST_NS: u64 = 30_000_000;
const FOR_SOLO: f64 = 0.05;
const MOST: f64 = 0.02;

/// Who runs in a part of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Solo {
    #[default]
    No,
    /// Threads are asked to wait.
    Asked,
    /// One of them runs.
    Alone,
}

/// The solo time of a recording.
pub(super) struct Solos {
    pub now: Solo,
    looks: Looks,
    /// What the light time just before has spent.
    together: Option<Spent>,
    /// Wall-clock time that it has taken, and when the run began, ns.
    taken_ns: u64,
    began_ns: Option<u64>,
    random: Random,
    /// What threads find in the header.
    word: u32,
}

impl Solos {
    pub fn new(seed: u64) -> Self {
        Self {
            now: Solo::No,
            looks: Looks::default(),
            together: None,
            taken_ns: 0,
            began_ns: None,
            random: Random::new(seed),
            word: 0,
        }
    }

    /// A part of a step that had these processes spend `slice` is over.
    pub fn settle(&mut self, slice: &Spent, code: Code) {
        if self.now != Solo::No {
            self.taken_ns += slice.wall;
        }
        match (self.now, code) {
            (Solo::No, Code::Light) => self.together = Some(*slice),
            (Solo::Asked, Code::Light) => {}
            (Solo::Alone, Code::Light) => {
                if let Some(together) = self.together.take().filter(runs_at_once) {
                    self.looks.add(slice, &together);
                }
            }
            _ => self.together = None,
        }
    }

    /// Light time from `now_ns` to `until_ns` with as much solo time as there is room for and the
    /// budget gives, the first part last.
    pub fn within_light(
        &mut self,
        now_ns: u64,
        until_ns: u64,
        off: &Spent,
        budget: Option<f64>,
    ) -> Vec<Stretch> {
        let began_ns = *self.began_ns.get_or_insert(now_ns);
        let given = budget.map_or(MOST, |budget| (FOR_SOLO * (budget - 1.0)).min(MOST));
        let given_ns = AT_FIRST_NS + (given * now_ns.saturating_sub(began_ns) as f64) as u64;
        let left = given_ns.saturating_sub(self.taken_ns) / (ASK_NS + ALONE_NS);
        let room = (until_ns - now_ns) / (MIN_TOGETHER_NS + ASK_NS + ALONE_NS);
        let number = if runs_at_once(off) { left.min(room) } else { 0 };
        repeated(now_ns, until_ns, number, [ASK_NS, ALONE_NS])
    }

    /// Tells threads. One that runs alone is chosen at random, in proportion to what threads have
    /// just executed: their kernel thread ids, and instructions.
    pub fn show(&mut self, header: &Header, executed: impl FnOnce() -> Vec<(u32, u64)>) {
        let waits = self.word % 2 == 1;
        match (self.now, waits) {
            (Solo::Asked, false) => {
                let Some(thread) = choose(&executed(), &mut self.random) else {
                    self.now = Solo::No;
                    return;
                };
                header.solo_thread.store(thread, Relaxed);
                self.word = self.word.wrapping_add(1);
                header.solo.store(self.word, SeqCst);
            }
            (Solo::No, true) => {
                self.word = self.word.wrapping_add(1);
                header.solo.store(self.word, SeqCst);
                wake(&header.solo);
            }
            _ => {}
        }
    }

    /// What it has told.
    pub fn slowed(&self) -> Option<Slowed> {
        self.looks.slowed()
    }
}

/// Light time that ends, so many times, with solo time of these lengths; the first part last.
pub(super) fn repeated(
    now_ns: u64,
    until_ns: u64,
    number: u64,
    [ask_ns, alone_ns]: [u64; 2],
) -> Vec<Stretch> {
    let each_ns = (until_ns - now_ns) / number.max(1);
    let part = |until_ns, solo| Stretch { solo, ..Stretch::new(until_ns, Code::Light) };
    let parts = |nth: u64| {
        let end_ns = until_ns - nth * each_ns;
        let (asked_ns, lit_ns) = (end_ns - alone_ns, end_ns - alone_ns - ask_ns);
        [part(end_ns, Solo::Alone), part(asked_ns, Solo::Asked), part(lit_ns, Solo::No)]
    };
    match number {
        0 => vec![part(until_ns, Solo::No)],
        _ => (0..number).flat_map(parts).collect(),
    }
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
    fn solo_time_lies_within_light_time() {
        assert_eq!(repeated(0, 10 * MS, 0, [MS; 2]), [Stretch::new(10 * MS, Code::Light)]);
        let parts = repeated(MS, 21 * MS, 2, [MS, 2 * MS]);
        let in_order: Vec<_> = parts.iter().rev().map(|p| (p.until_ns / MS, p.solo)).collect();
        let wanted = [
            (8, Solo::No),
            (9, Solo::Asked),
            (11, Solo::Alone),
            (18, Solo::No),
            (19, Solo::Asked),
            (21, Solo::Alone),
        ];
        assert_eq!(in_order, wanted);
    }

    #[test]
    fn solo_time_stays_a_small_part_of_the_run() {
        let busy = Spent { wall: 10 * MS, cpu: 20 * MS, work: 1, ..Spent::default() };
        let idle = Spent { cpu: 10 * MS, ..busy };
        let mut solos = Solos::new(1);
        let none = |parts: Vec<Stretch>| parts.iter().all(|part| part.solo == Solo::No);
        assert!(none(solos.within_light(0, 10 * MS, &idle, None)), "one thread at once");
        assert!(none(solos.within_light(0, MS, &busy, None)), "nothing to compare it with");
        let mut now = 0;
        while now < 10_000 * MS {
            let mut from = now;
            let parts = solos.within_light(now, now + 20 * MS, &busy, Some(1.2));
            for part in parts.iter().rev() {
                solos.now = part.solo;
                solos.settle(&Spent { wall: part.until_ns - from, ..busy }, part.code);
                from = part.until_ns;
            }
            now += 20 * MS;
        }
        let given = AT_FIRST_NS + (FOR_SOLO * 0.2 * 10_000.0) as u64 * MS;
        assert!((given - 10 * MS..=given).contains(&solos.taken_ns), "{}", solos.taken_ns);
    }
}
