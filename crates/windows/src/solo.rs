//! How much longer threads take because others run at once.
//!
//! Problem: the number of transfers does not tell what they cost. A store waits in its buffer, and
//! loads that do not depend on each other wait together. Approach: *solo time*. Now and then one
//! thread runs alone for a moment, while the others wait; then no line moves but at the beginning.
//! Its time for an instruction, against that of all threads just before, tells how much longer
//! threads take because others run at once. That is all that transfers cost, and what threads take
//! from each other of shared caches and of the memory's bandwidth. So it is the most that fewer
//! transfers can gain. For 11 of 16 programs of `tests/programs/findings/`, processor time on one
//! processor was within 4 % of that of their mended forms; mending the others also changes other
//! work.
//!
//! Threads are chosen at random, in proportion to what they execute, so the mean over all looks is
//! that of all instructions. A thread that waits for those that are held tells nothing: if it
//! sleeps, it takes no time, and if it spins, its instructions take much longer.
//!
//! Pure. Neighbours: the recorder's `switching` makes solo time, the report's `price` uses this.

use crate::constants::{
    FIRST_SOLO, LEAST_ALONE, LEAST_TOGETHER, MAX_LOOKS, MAX_SPINNING, MIN_AT_ONCE, MIN_LOOKS,
    SOLO_REST, SPINS,
};
use crate::cost::{Spent, Sums};
use crate::dial::Observation;
use statistics::student;

/// When there is to be light time for solo time, if threads run at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SoloDue {
    next: Option<u64>,
    rest: u64,
}

impl Default for SoloDue {
    fn default() -> Self {
        Self { next: None, rest: FIRST_SOLO }
    }
}

impl SoloDue {
    /// Whether it is to begin now.
    pub fn looks(&mut self, seen: &Observation) -> bool {
        let next = *self.next.get_or_insert(seen.now + self.rest);
        let Sums { whole, off, on, again, .. } = &seen.spent;
        let all =
            |time: fn(&Spent) -> u64| [whole, off, on, again].into_iter().map(time).sum::<u64>();
        let at_once = all(|spent| spent.cpu) as f64 >= MIN_AT_ONCE * all(|spent| spent.wall) as f64;
        // Light code forgets tracked lines, which long gaps need.
        if seen.now < next || !at_once || seen.long_gaps {
            return false;
        }
        self.rest = (2 * self.rest).min(SOLO_REST);
        self.next = Some(seen.now + self.rest);
        true
    }
}

/// The part of the processor time that threads take longer because others run at once, 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Slowed {
    /// What is likely.
    pub share: f64,
    /// Ends of its interval (95 %).
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// What solo time has told so far.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SoloTime {
    /// Time for an instruction, alone and together, ns.
    looks: Vec<[f64; 2]>,
    spinning: usize,
}

impl SoloTime {
    /// What a thread has spent `alone`, and all threads `together` just before.
    pub fn add(&mut self, alone: &Spent, together: &Spent) {
        let own = |spent: &Spent| spent.cpu.saturating_sub(spent.translating);
        let each = |spent: &Spent| own(spent) as f64 / spent.work as f64;
        // A thread that did not come to wait in time has run, too.
        let tells = own(alone) >= LEAST_ALONE
            && own(together) >= LEAST_TOGETHER
            && alone.cpu as f64 <= MIN_AT_ONCE * alone.wall as f64;
        if !tells || alone.work == 0 || together.work == 0 || self.looks.len() >= MAX_LOOKS {
            return;
        }
        let look = [each(alone), each(together)];
        match look[0] > SPINS * look[1] {
            true => self.spinning += 1,
            false => self.looks.push(look),
        }
    }

    /// How many looks there were, with those that told nothing.
    pub fn len(&self) -> usize {
        self.looks.len() + self.spinning
    }

    /// Whether there was none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What they tell; `None`: not enough.
    pub fn slowed(&self) -> Option<Slowed> {
        let number = self.looks.len();
        if number < MIN_LOOKS || self.spinning as f64 > MAX_SPINNING * self.len() as f64 {
            return None;
        }
        let sums = self.looks.iter().fold([0.0; 2], |[a, t], look| [a + look[0], t + look[1]]);
        let share = |[alone, together]: [f64; 2]| 1.0 - alone / together;
        // The jackknife: how much each look matters.
        let without = |look: &[f64; 2]| share([sums[0] - look[0], sums[1] - look[1]]);
        let (n, mid) = (number as f64, share(sums));
        let squares: f64 = self.looks.iter().map(|look| (without(look) - mid).powi(2)).sum();
        let error = ((n - 1.0) / n * squares).sqrt();
        let wide = student(n - 1.0) * error;
        // Threads are not faster together: where they seem to be, that much is error.
        let most = (mid + wide).max(-mid);
        let [share, low, high] = [mid, mid - wide, most].map(|part| part.clamp(0.0, 1.0));
        Some(Slowed { share, low, high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    fn spent(cpu: u64, each: f64) -> Spent {
        Spent { wall: cpu, cpu, work: (cpu as f64 / each) as u64, ..Spent::default() }
    }

    /// Looks at threads that take `slow` times as long together as alone, of two kinds, each of
    /// which varies by a tenth.
    fn looks(number: usize, slow: f64) -> SoloTime {
        let (mut random, mut looks) = (Random::new(7), SoloTime::default());
        for _ in 0..number {
            let kind = if random.up_to(1) == 0 { 0.2 } else { 0.4 };
            let varies = 0.9 + 0.2 * random.up_to(1000) as f64 / 1000.0;
            looks.add(&spent(2_500_000, kind * varies), &spent(20_000_000, 0.3 * slow));
        }
        looks
    }

    #[test]
    fn the_mean_of_all_looks_tells_how_much_longer_instructions_take() {
        for slow in [1.0, 1.4, 3.0] {
            let Slowed { share, low, high } = looks(200, slow).slowed().unwrap();
            let truth = 1.0 - 1.0 / slow;
            assert!((share - truth).abs() < 0.06, "{slow}: {share}");
            assert!(low <= truth && truth <= high && high - low < 0.2, "{slow}: {low} to {high}");
        }
    }

    #[test]
    fn few_looks_tell_nothing_and_some_tell_less_than_many() {
        assert_eq!(looks(MIN_LOOKS - 1, 2.0).slowed(), None);
        let wide = |number| looks(number, 2.0).slowed().map(|s| s.high - s.low).unwrap();
        assert!(wide(8) > 2.0 * wide(200), "{} {}", wide(8), wide(200));
        let mut short = SoloTime::default();
        (0..20).for_each(|_| short.add(&spent(100_000, 0.2), &spent(20_000_000, 0.4)));
        assert!(short.is_empty(), "a thread that has slept");
    }

    #[test]
    fn threads_that_spin_tell_nothing() {
        let mut waits = looks(20, 1.0);
        (0..5).for_each(|_| waits.add(&spent(2_500_000, 3.0), &spent(20_000_000, 0.3)));
        assert!(waits.slowed().is_some_and(|slowed| slowed.low < 0.1));
        (0..5).for_each(|_| waits.add(&spent(2_500_000, 3.0), &spent(20_000_000, 0.3)));
        assert_eq!((waits.slowed(), waits.len()), (None, 30));
    }

    #[test]
    fn translating_is_not_the_programs_time() {
        let mut looks = SoloTime::default();
        for _ in 0..10 {
            let alone = Spent { wall: 5_000_000, ..spent(2_000_000, 0.25) };
            looks.add(
                &Spent { cpu: 5_000_000, translating: 3_000_000, ..alone },
                &spent(20_000_000, 0.5),
            );
        }
        assert!((looks.slowed().unwrap().share - 0.5).abs() < 1e-3);
    }

    #[test]
    fn threads_that_seem_faster_together_show_how_far_it_may_be_off() {
        let mut looks = SoloTime::default();
        for k in 0..20 {
            looks.add(&spent(2_500_000, 0.3 + 0.001 * f64::from(k)), &spent(20_000_000, 0.28));
        }
        let slowed = looks.slowed().unwrap();
        assert_eq!((slowed.share, slowed.low), (0.0, 0.0));
        assert!((0.1..0.12).contains(&slowed.high), "{slowed:?}");
    }
}
