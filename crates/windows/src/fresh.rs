//! Whether there was time between windows lately, by which it is known what these cost.
//!
//! What windows cost is told by the time for a unit of work in them and between them. Where windows
//! follow each other at once, the time between them is that of long ago: a program that a script
//! starts seemed to be as fast in windows as between them, as that had been shells that start. So
//! nothing but windows came, and it took eleven times as long as alone. Then light time comes
//! first, and from there on, rates are those of the time since.
//!
//! Pure. Neighbour: `dial.rs` asks when a period begins.

use crate::constants::{MIN_MEASURED, STALE};
use crate::cost::Sums;

/// When there was time between windows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fresh {
    /// Processor time between windows and in windows by then, ns.
    off: u64,
    on: u64,
    /// Sums from which on rates are those of the program as it is now.
    pub since: Sums,
}

impl Fresh {
    /// Whether light time is to begin, as what windows cost is not known any more.
    pub fn looks(&mut self, spent: &Sums) -> bool {
        let Sums { off, on, .. } = spent;
        let is_fresh = off.cpu - self.off.min(off.cpu) >= MIN_MEASURED;
        let is_stale = !is_fresh && on.cpu - self.on.min(on.cpu) >= STALE;
        if is_fresh || is_stale {
            (self.off, self.on) = (off.cpu, on.cpu);
        }
        if is_stale {
            self.since = *spent;
        }
        is_stale
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spent;

    const MS: u64 = 1_000_000;

    #[test]
    fn windows_alone_tell_nothing_after_a_while() {
        let spent = |off, on| {
            let of = |cpu| Spent { cpu: cpu * MS, ..Spent::default() };
            Sums { off: of(off), on: of(on), ..Sums::default() }
        };
        let mut fresh = Fresh::default();
        assert!(!fresh.looks(&spent(100, 0)));
        assert!(!fresh.looks(&spent(105, 900)));
        assert_eq!(fresh.since, Sums::default());
        assert!(fresh.looks(&spent(105, 1010)));
        assert_eq!(fresh.since, spent(105, 1010));
        assert!(!fresh.looks(&spent(140, 1900)), "there was such time now");
        assert!(!fresh.looks(&spent(140, 2600)));
        assert!(fresh.looks(&spent(140, 3000)));
    }
}
