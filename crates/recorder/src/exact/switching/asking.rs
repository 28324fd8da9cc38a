//! When threads are asked to leave light code for the program's own: each time it takes them a
//! moment, and those that may not go lose some time.
//!
//! Neighbour: `switching` shows it to them.

/// How long threads are asked to leave light code for the program's own, and how long until they
/// are asked again for the first time, ns; then twice as long each time.
const ASKING_NS: u64 = 1_000_000;
const ASK_AGAIN_NS: u64 = 8_000_000;

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

    /// What comes after it has ended, or begun.
    pub fn next(self, now_ns: u64) -> Self {
        if self.now {
            let until_ns = now_ns + self.rest_ns;
            return Self { until_ns, now: false, rest_ns: 2 * self.rest_ns };
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
