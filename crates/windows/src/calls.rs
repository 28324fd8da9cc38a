//! How slow light code is, by the system calls that the program makes in it and natively.
//!
//! Recording does not change how many calls the program makes for its work. Native time is compared
//! with the light time right before it, as a program does other work at other times.

use crate::constants::{MAX_SLOWER, MIN_CALLS, MIN_NATIVE_CALLS};

/// What calls tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Calls {
    /// Made in light code right before native time.
    pub made: u64,
    /// Expected in as much processor time of the native time that followed.
    pub expected: u64,
    /// Processor time of all native time, ns.
    pub native_cpu: u64,
}

impl Calls {
    /// How many times as long light code takes as the program's own, or longer than that if it made
    /// few calls; `None` if too few were expected as well.
    pub fn slower(&self) -> Option<f64> {
        let made = self.made as f64;
        let most = match self.made >= MIN_CALLS {
            true => made,
            // What it would have made at the most, by chance.
            false => made + 2.0 * made.sqrt() + 4.0,
        };
        let times = (self.expected as f64 / most).clamp(1.0, MAX_SLOWER);
        (self.made.max(self.expected) >= MIN_CALLS).then_some(times)
    }

    pub(crate) fn without(&self, part: &Self) -> Self {
        Self {
            made: self.made.saturating_sub(part.made),
            expected: self.expected.saturating_sub(part.expected),
            native_cpu: self.native_cpu.saturating_sub(part.native_cpu),
        }
    }
}

/// Processor time, ns, and system calls in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Pace {
    cpu_ns: u64,
    calls: u64,
}

impl Pace {
    fn add(&mut self, cpu_ns: u64, calls: u64) {
        self.cpu_ns += cpu_ns;
        self.calls += calls;
    }
}

/// Compares light time with the native time that follows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Comparison {
    light: Pace,
    native: Pace,
    before: Calls,
}

impl Comparison {
    /// Adds light time: its processor time in ns, and the system calls that were made in it.
    pub fn light(&mut self, cpu_ns: u64, calls: u64) {
        if self.native.cpu_ns > 0 {
            self.end();
        }
        self.light.add(cpu_ns, calls);
    }

    /// Adds native time in the same way.
    pub fn native(&mut self, cpu_ns: u64, calls: u64) {
        self.native.add(cpu_ns, calls);
    }

    /// Ends the comparison: what comes next does not belong to this light time.
    pub fn end(&mut self) {
        *self = Self { before: self.calls(), ..Self::default() };
    }

    /// What calls tell up to now.
    pub fn calls(&self) -> Calls {
        let Self { light, native, before: mut calls } = *self;
        calls.native_cpu += native.cpu_ns;
        if native.calls >= MIN_NATIVE_CALLS && light.cpu_ns > 0 {
            let expected = light.cpu_ns as f64 * native.calls as f64 / native.cpu_ns.max(1) as f64;
            calls.expected += expected as u64;
            calls.made += light.calls;
        }
        calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Light and native time in turns, whose calls take so long, ns.
    fn in_turns(light_ns: u64, native_ns: u64) -> Calls {
        let mut comparison = Comparison::default();
        for turn in 1..=20 {
            // The program does something else each time.
            let cpu = 10_000_000 / turn;
            comparison.light(cpu, cpu / light_ns);
            comparison.native(cpu * 8, cpu * 8 / native_ns);
        }
        comparison.calls()
    }

    #[test]
    fn calls_tell_how_slow_light_code_is() {
        for (light_ns, native_ns, times) in [(60_000, 10_000, 6.0), (10_000, 10_000, 1.0)] {
            let calls = in_turns(light_ns, native_ns);
            assert!((calls.slower().unwrap() - times).abs() < 0.1 * times, "{calls:?}");
        }
        assert_eq!(in_turns(200_000, 100_000).slower(), None, "few");
        let few = Calls { made: 16, expected: 4000, native_cpu: 1 };
        assert_eq!(few.slower(), Some(MAX_SLOWER), "but many were expected");
        assert_eq!(Calls { expected: 420, ..few }.slower(), Some(420.0 / 28.0));
    }

    #[test]
    fn light_time_without_native_time_behind_it_tells_nothing() {
        let mut comparison = Comparison::default();
        comparison.light(1_000_000, 1000);
        comparison.end();
        comparison.native(1_000_000, 4000);
        assert_eq!(comparison.calls(), Calls { native_cpu: 1_000_000, ..Calls::default() });
    }
}
