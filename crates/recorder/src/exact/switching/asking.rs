//! When threads are asked to leave light code for the program's own: each time it takes them a
//! moment, and those that may not go lose some time.
//!
//! Neighbour: `switching` shows it to them.

/// How long threads are asked to leave light code for the program's own, and how long until they
/// are asked again for the first time, ns; then twice as long each time.
const ASKING_NS: u64 = 1_000_000;
const ASK_AGAIN_NS: u64 = 8_000_000;
/// The longest time until they are asked again where light code is slow: a thread that has waited
/// in a system call goes on in light code until then.
const SLOW_AGAIN_NS: u64 = 8_000_000;

/// Whether they are asked, and when that changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Asking {
    /// When asking ends, or begins again, ns.
    until_ns: u64,
    now: bool,
    rest_ns: u64,
}

impl Asking {
    /// Threads are not asked.
    pub const NEVER: Self = Self { until_ns: u64::MAX, now: false, rest_ns: 0 };

    /// It begins.
    pub fn begin(now_ns: u64) -> Self {
        Self { until_ns: now_ns + ASKING_NS, now: true, rest_ns: ASK_AGAIN_NS }
    }

    /// What comes after it has ended, or begun; `slower`: by which part light code is, if it is
    /// slow, else 0.
    pub fn next(self, now_ns: u64, slower: f64) -> Self {
        if self.now {
            let most = if slower > 0.0 { SLOW_AGAIN_NS } else { u64::MAX };
            let until_ns = now_ns + self.rest_ns;
            return Self { until_ns, now: false, rest_ns: (2 * self.rest_ns).min(most) };
        }
        Self { until_ns: now_ns + ASKING_NS, now: true, ..self }
    }

    /// When asking ends, or begins again, ns.
    pub fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// Whether threads are asked now.
    pub fn is_now(&self) -> bool {
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often threads are asked in a second.
    fn asked(slower: f64) -> u32 {
        let (mut asking, mut times) = (Asking::begin(0), 0);
        while asking.until_ns() < 1_000_000_000 {
            times += u32::from(asking.is_now());
            asking = asking.next(asking.until_ns(), slower);
        }
        times
    }

    #[test]
    fn threads_are_asked_ever_less_often_unless_light_code_is_slow() {
        assert!((6..=8).contains(&asked(0.0)), "{}", asked(0.0));
        assert!(asked(2.0) > 100, "{}", asked(2.0));
    }
}
