//! How slow light code is, by what the program does in it and natively.
//!
//! Recording changes neither how many system calls the program makes for its work nor how much the
//! words grow that grow with it ([`Growth`](crate::Growth)). Native time is compared with the light
//! time right before it, as a program does other work at other times.

use crate::constants::{
    FOR_COMPARING, MAX_SLOWER, MIN_AWAY, MIN_CALLS, MIN_COMPARED, MIN_NATIVE_CALLS,
};
use core::ops::AddAssign;

/// What a program has done in some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Did {
    /// Processor time, ns.
    pub cpu_ns: u64,
    /// System calls.
    pub calls: u64,
    /// Work by the words that grow with it, in units of work, and the processor time in which that
    /// was done, ns; 0 where no word tells.
    pub grown: u64,
    /// See `grown`.
    pub grown_ns: u64,
    /// Work that was counted, as translated code does. In native time, that is the work of threads
    /// that are not away.
    pub work: u64,
}

impl Did {
    /// What was done natively. Work that was counted meanwhile was done in light code: the time and
    /// calls that it takes there, by this light time, are left out.
    #[must_use]
    pub fn without_light(self, light: &Self) -> Self {
        let times = self.work as f64 / light.work.max(1) as f64;
        let left = |all: u64, light: u64| all.saturating_sub((light as f64 * times) as u64);
        Self {
            cpu_ns: left(self.cpu_ns, light.cpu_ns),
            calls: left(self.calls, light.calls),
            grown: left(self.grown, light.grown),
            grown_ns: left(self.grown_ns, light.grown_ns),
            work: 0,
        }
    }

    /// The same where words are not to tell how fast threads are that run at once.
    #[must_use]
    pub fn without_growth(self) -> Self {
        Self { grown: 0, grown_ns: 0, ..self }
    }
}

impl AddAssign for Did {
    fn add_assign(&mut self, more: Self) {
        self.cpu_ns += more.cpu_ns;
        self.calls += more.calls;
        self.grown += more.grown;
        self.grown_ns += more.grown_ns;
        self.work += more.work;
    }
}

/// What that tells of light code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compared {
    /// System calls made in light code right before native time.
    pub made: u64,
    /// Expected in as much processor time of the native time that followed.
    pub expected: u64,
    /// The same of work by the words that grow with it, and the processor time of that light time,
    /// ns.
    pub grown: u64,
    /// See `grown`.
    pub expected_growth: u64,
    /// See `grown`.
    pub grown_ns: u64,
    /// Processor time of all native time, ns.
    pub native_cpu: u64,
}

impl Compared {
    /// How many times as long light code takes as the program's own, by words that grow with its
    /// work, else by its calls: it is slower than that if it made few. `None` if too few were
    /// expected as well.
    pub fn slower(&self) -> Option<f64> {
        self.by_growth().or_else(|| self.by_calls())
    }

    fn by_calls(&self) -> Option<f64> {
        let made = self.made as f64;
        let most = match self.made >= MIN_CALLS {
            true => made,
            // What it would have made at the most, by chance.
            false => made + 2.0 * made.sqrt() + 4.0,
        };
        let times = (self.expected as f64 / most).clamp(1.0, MAX_SLOWER);
        (self.made.max(self.expected) >= MIN_CALLS).then_some(times)
    }

    /// The same by words that grow alone.
    pub fn by_growth(&self) -> Option<f64> {
        let tells = self.grown_ns >= MIN_COMPARED && self.grown > 0;
        let times = self.expected_growth as f64 / self.grown as f64;
        tells.then(|| times.clamp(1.0, MAX_SLOWER))
    }

    /// Whether words that grow shall tell more, of a program that has taken so much processor time
    /// (ns).
    pub fn wants_more(&self, cpu_ns: u64) -> bool {
        self.grown_ns < MIN_COMPARED.max((FOR_COMPARING * cpu_ns as f64) as u64)
    }

    pub(crate) fn without(&self, part: &Self) -> Self {
        Self {
            made: self.made.saturating_sub(part.made),
            expected: self.expected.saturating_sub(part.expected),
            grown: self.grown.saturating_sub(part.grown),
            expected_growth: self.expected_growth.saturating_sub(part.expected_growth),
            grown_ns: self.grown_ns.saturating_sub(part.grown_ns),
            native_cpu: self.native_cpu.saturating_sub(part.native_cpu),
        }
    }
}

/// Compares light time with the native time that follows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Comparison {
    light: Did,
    native: Did,
    before: Compared,
}

impl Comparison {
    /// Adds light time.
    pub fn light(&mut self, did: &Did) {
        if self.native.cpu_ns > 0 {
            self.end();
        }
        self.light += *did;
    }

    /// Adds native time.
    pub fn native(&mut self, did: &Did) {
        self.native += *did;
    }

    /// Ends the comparison: what comes next does not belong to this light time.
    pub fn end(&mut self) {
        *self = Self { before: self.told(), ..Self::default() };
    }

    /// What is known up to now.
    pub fn told(&self) -> Compared {
        let Self { light, native: all, before: mut told } = *self;
        let native = all.without_light(&light);
        told.native_cpu += native.cpu_ns;
        if (native.cpu_ns as f64) < MIN_AWAY * all.cpu_ns as f64 {
            return told;
        }
        let in_light = |done: u64, native_ns: u64, light_ns: u64| {
            (light_ns as f64 * done as f64 / native_ns.max(1) as f64) as u64
        };
        if native.calls >= MIN_NATIVE_CALLS && light.cpu_ns > 0 {
            told.expected += in_light(native.calls, native.cpu_ns, light.cpu_ns);
            told.made += light.calls;
        }
        if native.grown > 0 && light.grown > 0 {
            told.expected_growth += in_light(native.grown, native.grown_ns, light.grown_ns);
            told.grown += light.grown;
            told.grown_ns += light.grown_ns;
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn made(cpu_ns: u64, calls: u64) -> Did {
        Did { cpu_ns, calls, ..Did::default() }
    }

    #[test]
    fn words_that_grow_tell_it_where_calls_do_not() {
        let mut comparison = Comparison::default();
        for turn in 1..=2 {
            assert_eq!(comparison.told().slower(), None);
            let did = |ms, grown| Did { grown, grown_ns: ms * MS, ..made(9 * ms * MS, 1) };
            assert!(comparison.told().wants_more(1000 * MS));
            comparison.light(&did(20, 500 * turn));
            comparison.native(&did(80, 5000 * turn));
        }
        assert!((comparison.told().slower().unwrap() - 2.5).abs() < 0.01);
        assert!(!comparison.told().wants_more(1000 * MS));
        assert!(comparison.told().wants_more(3000 * MS));
    }

    /// Light and native time in turns, whose calls take so long, ns.
    fn in_turns(light_ns: u64, native_ns: u64) -> Compared {
        let mut comparison = Comparison::default();
        for turn in 1..=20 {
            // The program does something else each time.
            let cpu = 10_000_000 / turn;
            comparison.light(&made(cpu, cpu / light_ns));
            comparison.native(&made(cpu * 8, cpu * 8 / native_ns));
        }
        comparison.told()
    }

    #[test]
    fn calls_tell_how_slow_light_code_is() {
        for (light_ns, native_ns, times) in [(60_000, 10_000, 6.0), (10_000, 10_000, 1.0)] {
            let calls = in_turns(light_ns, native_ns);
            assert!((calls.slower().unwrap() - times).abs() < 0.1 * times, "{calls:?}");
        }
        assert_eq!(in_turns(200_000, 100_000).slower(), None, "few");
        let few = Compared { made: 16, expected: 4000, native_cpu: 1, ..Compared::default() };
        assert_eq!(few.slower(), Some(MAX_SLOWER), "but many were expected");
        assert_eq!(Compared { expected: 420, ..few }.slower(), Some(420.0 / 28.0));
    }

    #[test]
    fn threads_that_stay_in_light_code_do_not_count_as_native() {
        // Natively, a call takes 10 us, in light code 60 us.
        let light = Did { work: 1000, ..made(6 * MS, 100) };
        let mixed = |away_ms: u64, work: u64| {
            let stayed = Did { work, ..made(6 * MS * work / 1000, work / 10) };
            let mut all = made(away_ms * MS, away_ms * 100);
            all += stayed;
            all
        };
        let told = |native: Did| {
            let mut comparison = Comparison::default();
            for _ in 0..10 {
                comparison.light(&light);
                comparison.native(&native);
            }
            comparison.told()
        };
        for work in [0, 1000, 5000] {
            let told = told(mixed(10, work));
            assert!((told.slower().unwrap() - 6.0).abs() < 0.1, "{told:?}");
            assert_eq!(told.native_cpu, 100 * MS);
        }
        assert_eq!(told(mixed(1, 5000)).slower(), None, "what is left is chance");
    }

    #[test]
    fn light_time_without_native_time_behind_it_tells_nothing() {
        let mut comparison = Comparison::default();
        comparison.light(&made(1_000_000, 1000));
        comparison.end();
        comparison.native(&made(1_000_000, 4000));
        assert_eq!(comparison.told(), Compared { native_cpu: 1_000_000, ..Compared::default() });
    }
}
