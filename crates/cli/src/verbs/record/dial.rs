//! `record --budget` and `--duty`: how much recording may cost, and how much it sees.

use super::sampled;
use windows::{Assumed, Dial, Promise, Scheduler};

/// A bound of what recording costs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Budget {
    /// Times as long as without recording.
    Times(f64),
    /// Processor time, in percent of the program's.
    Percent(f64),
}

impl Budget {
    /// As the dial of windows.
    pub fn dial(budget: Option<Self>) -> Dial {
        match budget {
            None => Dial::Usual,
            Some(Self::Times(times)) => Dial::Budget(times),
            Some(Self::Percent(percent)) => Dial::Budget(1.0 + percent / 100.0),
        }
    }

    /// In percent, for sampling.
    pub fn percent(self) -> f64 {
        match self {
            Self::Times(times) => (times - 1.0) * 100.0,
            Self::Percent(percent) => percent,
        }
    }
}

/// That the dial asks for less than recording costs at the least, and what that is; `None`: it can
/// be kept.
pub fn unkept(dial: Dial) -> Option<String> {
    let scheduler = Scheduler::new(dial, Assumed::default(), 0).ok()?;
    match scheduler.promise() {
        Promise::Kept => None,
        Promise::Least(times) => Some(format!(
            "this budget is less than recording costs at the least, about {times:.1}x for most \
             programs; --sample costs less"
        )),
    }
}

/// Parses a budget, like `2x` or `5`; errors are phrases.
pub fn budget(text: &str) -> Result<Budget, String> {
    let Some(times) = text.strip_suffix('x') else {
        return sampled::budget(text.strip_suffix('%').unwrap_or(text)).map(Budget::Percent);
    };
    match times.parse::<f64>() {
        Ok(times) if times > 1.0 && times.is_finite() => Ok(Budget::Times(times)),
        _ => Err("write a number above 1, like 2x: twice as long as without recording".into()),
    }
}

/// Parses a share of time; errors are phrases.
pub fn duty(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    match percent {
        Some(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("write a share above 0% and at most 100%, like 5%".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_times_or_percent() {
        assert_eq!(budget("2x"), Ok(Budget::Times(2.0)));
        assert_eq!(budget("5"), Ok(Budget::Percent(5.0)));
        assert_eq!(budget("5%"), Ok(Budget::Percent(5.0)));
        for text in ["1x", "0.5x", "infx", "x", "", "-3", "NaN", "two"] {
            assert!(budget(text).is_err(), "{text}");
        }
        assert_eq!(Budget::dial(Some(Budget::Percent(50.0))), Dial::Budget(1.5));
        assert_eq!(Budget::Times(1.5).percent(), 50.0);
    }

    #[test]
    fn budgets_that_cannot_be_kept_are_told() {
        assert_eq!(unkept(Dial::Budget(2.0)), None);
        assert_eq!(unkept(Dial::Duty(0.01)), None);
        assert!(unkept(Dial::Budget(1.05)).is_some_and(|said| said.contains("1.1x")));
    }

    #[test]
    fn duties_are_shares() {
        assert_eq!(duty("5%"), Ok(0.05));
        for text in ["0%", "101%", "5", "%", "-1%"] {
            assert!(duty(text).is_err(), "{text}");
        }
    }
}
