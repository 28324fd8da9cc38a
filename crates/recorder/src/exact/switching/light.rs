//! How slow light code is, and how much of it comes before native time.
//!
//! Light code counts its instructions, compares generated code with what was translated, and has to
//! be translated. How often it did, and how long that took, tells how slow that makes it.
//! Neighbour: `switching` asks before native time.

use windows::Spent;

/// Light code takes this part of the time without checks, so that it is known what threads do.
const PART: f64 = 1.0 / 8.0;
/// Where it is slow: the part of what a budget gives that may be spent on it.
const FOR_LIGHT: f64 = 0.2;
/// Light code that takes twice as long for its steps is slow. Without such a limit, lu took 1.5
/// times as long at a budget of 5 %, with it 1.2 times.
const SLOW: f64 = 1.0;
/// Light code takes at least this part of its time for the program.
const LEAST: f64 = 0.05;

/// What was spent in light code while no thread could leave it.
#[derive(Default)]
pub(super) struct Lit {
    spent: Spent,
}

impl Lit {
    pub fn add(&mut self, slice: &Spent) {
        self.spent += *slice;
    }

    /// The part of the time without checks in which code is light before threads may go.
    pub fn part(&self, budget: Option<f64>) -> f64 {
        let given = budget.map_or(1.0, |budget| budget - 1.0);
        (FOR_LIGHT * given / self.slower()).min(PART)
    }

    /// How much longer slow light code takes for its steps, as a part of what it would take
    /// without; 0 if it is not slow.
    pub fn slower(&self) -> f64 {
        let cpu = self.spent.cpu as f64;
        let checking = (self.spent.checking + self.spent.translating) as f64;
        let slower = checking / (cpu - checking).max(LEAST * cpu).max(1.0);
        if slower >= SLOW { slower } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_light_code_is_paid_for_by_the_budget() {
        let lit = |checking| Lit { spent: Spent { cpu: 1000, checking, ..Spent::default() } };
        assert_eq!((lit(0).slower(), lit(0).part(Some(1.05))), (0.0, PART));
        assert_eq!(lit(400).part(Some(1.05)), PART, "not slow");
        let slow = lit(800);
        assert_eq!(slow.slower(), 4.0);
        assert!((slow.part(Some(1.05)) - 0.2 * 0.05 / 4.0).abs() < 1e-12);
        assert!(lit(1000).slower() < 21.0, "never all of it");
    }
}
