//! How slow light code is, and how much of it comes before native time.
//!
//! Light code counts its instructions, compares generated code with what was translated, and has to
//! be translated. How often it did, and how long that took, tells how slow that makes it. It may be
//! slower than that, as processors foresee its jumps less well and its counters fill their store
//! buffers. If the program makes many system calls, or words in memory grow with its work, the
//! native time right behind it tells how slow it really is.
//!
//! Neighbour: `switching` asks before native time.

use super::Code;
use windows::{Compared, Comparison, Did, Spent};

/// Light code takes this part of the time without checks, so that it is known what threads do.
const PART: f64 = 1.0 / 8.0;
/// Where it is slow: the part of what a budget gives that may be spent on it.
const FOR_LIGHT: f64 = 0.2;
/// Light code that takes twice as long for its steps is slow. Without such a limit, lu took 1.5
/// times as long at a budget of 5 %, with it 1.2 times.
const SLOW: f64 = 1.0;
/// Light code takes at least this part of its time for the program.
const LEAST: f64 = 0.05;

/// As many calls as this, and one in so much processor time (ns), make it worth a look at native
/// time how slow light code is.
const MANY_CALLS: u64 = 400;
const OFTEN_NS: u64 = 200_000;

/// How long native time is at least, ns, and light time before it.
const MIN_NATIVE_NS: u64 = 50_000_000;
pub(super) const MIN_LIGHT_NS: u64 = 10_000_000;

/// Shortest light time, in processor time (ns), that shows whether words tell what is done.
const MIN_TOLD_NS: u64 = 2_000_000;

/// Code without checks takes longer at first than in the end. For the same work, `is` of the
/// benchmark takes 1.8 times as long in the first 10 ms, 1.4 times after 20 ms, 1.3 times after
/// 50 ms, and 1.2 times after 100 ms.
pub(super) const SETTLING_NS: u64 = 50_000_000;

/// Since when threads have run code without checks.
#[derive(Default)]
pub(super) struct Settling {
    began_ns: u64,
}

impl Settling {
    /// A time slice is over in which threads ran this code; whether that was settled all the time.
    pub fn add(&mut self, code: Code, [from_ns, until_ns]: [u64; 2]) -> bool {
        if code == Code::Checked {
            self.began_ns = until_ns;
            return false;
        }
        from_ns >= self.began_ns + SETTLING_NS
    }
}

/// What was spent in light code while no thread could leave it.
#[derive(Default)]
pub(super) struct Lit {
    spent: Spent,
    /// What was done in all code.
    did: Did,
    comparison: Comparison,
    words_tell: bool,
}

impl Lit {
    /// Adds a time slice: the code that threads ran, what was spent, and what the program did.
    pub fn add(&mut self, code: Code, slice: &Spent, did: &Did) {
        match code {
            Code::Native => self.comparison.native(did),
            Code::Light => {
                self.comparison.light(did);
                self.spent += *slice;
                if did.cpu_ns >= MIN_TOLD_NS {
                    self.words_tell = did.grown > 0;
                }
            }
            Code::Checked => self.comparison.end(),
        }
        self.did += *did;
    }

    /// Whether words that grow told lately what the program did.
    pub fn words_tell(&self) -> bool {
        self.words_tell
    }

    /// What native time tells of light code.
    pub fn compared(&self) -> Compared {
        self.comparison.told()
    }

    /// Of so much time without checks, ns, how much of it is light, and whether the rest is native,
    /// because it must be, to learn how slow light code is, or for solo time, which needs
    /// `for_solo` ns of it.
    pub fn split(
        &self,
        length: u64,
        budget: Option<f64>,
        needs_native: bool,
        for_solo: u64,
    ) -> (u64, bool) {
        if needs_native {
            let light = ((length as f64 * self.part(budget)) as u64).max(MIN_LIGHT_NS);
            return (light, length >= light + MIN_NATIVE_NS);
        }
        if for_solo > 0 {
            let light = length.saturating_sub(for_solo).max(length / 8).max(MIN_LIGHT_NS);
            return (light, length >= 2 * MIN_LIGHT_NS);
        }
        (length / 2, length / 2 >= MIN_LIGHT_NS && self.wants_native())
    }

    /// Whether native time would tell how slow light code is, which is not known.
    fn wants_native(&self) -> bool {
        let Did { cpu_ns, calls, grown, .. } = self.did;
        let many = calls >= MANY_CALLS && cpu_ns / calls <= OFTEN_NS;
        let compared = self.compared();
        many && compared.slower().is_none() || grown > 0 && compared.wants_more(cpu_ns)
    }

    /// The part of the time without checks in which code is light before threads may go.
    fn part(&self, budget: Option<f64>) -> f64 {
        let given = budget.map_or(1.0, |budget| budget - 1.0);
        (FOR_LIGHT * given / self.slower()).min(PART)
    }

    /// How much longer slow light code takes, as a part of what the program's own would take; 0 if
    /// it is not slow.
    pub fn slower(&self) -> f64 {
        let cpu = self.spent.cpu as f64;
        let checking = (self.spent.checking + self.spent.translating) as f64;
        let by_steps = checking / (cpu - checking).max(LEAST * cpu).max(1.0);
        let slower = by_steps.max(self.compared().slower().map_or(0.0, |times| times - 1.0));
        if slower >= SLOW { slower } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_light_code_is_paid_for_by_the_budget() {
        let lit = |checking| Lit {
            spent: Spent { cpu: 1000, checking, ..Spent::default() },
            ..Lit::default()
        };
        assert_eq!((lit(0).slower(), lit(0).part(Some(1.05))), (0.0, PART));
        assert_eq!(lit(400).part(Some(1.05)), PART, "not slow");
        let slow = lit(800);
        assert_eq!(slow.slower(), 4.0);
        assert!((slow.part(Some(1.05)) - 0.2 * 0.05 / 4.0).abs() < 1e-12);
        assert!(lit(1000).slower() < 21.0, "never all of it");
    }

    #[test]
    fn code_has_settled_some_time_after_the_last_checks() {
        let mut settling = Settling::default();
        assert!(!settling.add(Code::Checked, [0, 1000]));
        assert!(!settling.add(Code::Light, [1000, 1000 + SETTLING_NS]));
        assert!(settling.add(Code::Light, [1000 + SETTLING_NS, 2 * SETTLING_NS]));
        assert!(!settling.add(Code::Checked, [2 * SETTLING_NS, 3 * SETTLING_NS]));
        assert!(!settling.add(Code::Native, [3 * SETTLING_NS, 9 * SETTLING_NS]), "not all of it");
    }

    #[test]
    fn many_calls_make_native_time_worth_a_look() {
        let light = |calls| {
            let mut lit = Lit::default();
            let did = Did { cpu_ns: 50_000_000, calls, ..Did::default() };
            lit.add(Code::Light, &Spent { cpu: did.cpu_ns, ..Spent::default() }, &did);
            lit
        };
        let look = 30 * 1_000_000;
        assert_eq!(light(1000).split(look, Some(2.0), false, 0), (look / 2, true));
        assert!(!light(1000).split(look / 2, Some(2.0), false, 0).1, "too short");
        assert!(!light(100).split(look, Some(2.0), false, 0).1, "few");
        assert_eq!(light(100).split(20 * look, Some(1.2), true, 0), (20 * look / 8, true));
        assert_eq!(light(0).split(3 * look, Some(2.0), false, look), (2 * look, true), "solo time");
        assert_eq!(light(0).split(look, Some(2.0), false, 9 * look), (MIN_LIGHT_NS, true));
        assert!(!light(0).split(MIN_LIGHT_NS, Some(2.0), false, look).1, "too short");
    }
}
