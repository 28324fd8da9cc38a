//! Where transfers are served: by caches, or by memory because the line was written too long ago.
//!
//! `analysis::residence` tells; this puts it into numbers and words for the whole run and for each
//! finding. Neighbours: `findings` has the run's, `causes` leaves what memory serves out of costs.

use crate::layouts::Placement;
use analysis::{Capacity, Footprints, Gaps, Residence};
use profile::Profile;
use serde::Serialize;
use ts_rs::TS;
use types::numbers::{percent, size};

/// Share from which on something is said of it.
const NOTABLE: f64 = 0.05;

/// Shares of the transfers by what serves them, which add up to 1.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, TS)]
pub struct Served {
    /// By the writer's own caches.
    pub private: f64,
    /// By the outermost cache: the writer has used more than its own caches hold since it wrote.
    pub outer: f64,
    /// By memory: all threads have used more than that cache holds. No cache-to-cache transfer.
    pub memory: f64,
    /// Not known.
    pub unknown: f64,
    /// What the largest cache of a core holds.
    pub private_bytes: u64,
    /// What the outermost cache holds.
    pub outer_bytes: u64,
}

/// What it takes to tell.
#[derive(Debug)]
pub(crate) struct Holding {
    footprints: Footprints,
    capacity: Capacity,
}

impl Holding {
    /// `None` where the caches are not known.
    pub(crate) fn of(profile: &Profile, placement: Option<&Placement>) -> Option<Self> {
        let caches = placement?.caches?;
        let capacity = Capacity {
            private_bytes: caches.private_bytes,
            outer_bytes: caches.outer_bytes,
            outer_caches: caches.outer_caches,
        };
        let line_bytes = profile.meta.parameters.block_bytes;
        Some(Self { footprints: Footprints::of(&profile.footprints, line_bytes), capacity })
    }

    /// What serves the transfers with these gaps; `None` without any, or if it is known of none.
    pub(crate) fn served(&self, gaps: &Gaps) -> Option<Served> {
        let Residence { private, outer, memory, unknown } =
            gaps.residence(&self.footprints, &self.capacity)?;
        let Capacity { private_bytes, outer_bytes, .. } = self.capacity;
        (unknown < 1.0).then_some(Served {
            private,
            outer,
            memory,
            unknown,
            private_bytes,
            outer_bytes,
        })
    }

    /// The same for all transfers of a profile.
    pub(crate) fn of_run(&self, profile: &Profile) -> Option<Served> {
        let mut gaps = Gaps::default();
        profile.events.iter().for_each(|event| gaps.add(event));
        self.served(&gaps)
    }
}

impl Served {
    /// A sentence about all transfers.
    pub(crate) fn sentence(&self) -> String {
        let caches = self.private + self.outer;
        let rest = match self.unknown >= NOTABLE {
            true => format!(" Of {} it is not known.", percent(self.unknown)),
            false => String::new(),
        };
        if self.memory < NOTABLE {
            return format!(
                "Caches still hold the lines of {} of the transfers when they are used.{rest}",
                percent(caches)
            );
        }
        format!(
            "Caches still hold the lines of {} of the transfers when they are used. Of {} they do not: the \
             threads have used more than the {} of the outermost cache since the line was written, so memory \
             serves it, as it would without the writer.{rest}",
            percent(caches),
            percent(self.memory),
            size(self.outer_bytes)
        )
    }

    /// What follows for a finding, as a sentence; or empty.
    pub(crate) fn caveat(&self) -> String {
        match self.memory >= NOTABLE {
            true => format!(
                "{} of them come so late that memory serves them, which a change here does not save; the cost \
                 is that of the others.",
                percent(self.memory)
            ),
            false => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(memory: f64, unknown: f64) -> Served {
        let private = 1.0 - memory - unknown;
        Served {
            private,
            outer: 0.0,
            memory,
            unknown,
            private_bytes: 1 << 20,
            outer_bytes: 32 << 20,
        }
    }

    #[test]
    fn memory_is_told_where_it_serves_a_notable_part() {
        assert_eq!(
            served(0.01, 0.0).sentence(),
            "Caches still hold the lines of 99 % of the transfers when they are used."
        );
        assert_eq!(served(0.01, 0.0).caveat(), "");
        let much = served(0.4, 0.1);
        assert_eq!(
            much.sentence(),
            "Caches still hold the lines of 50 % of the transfers when they are used. Of 40 % they do not: \
             the threads have used more than the 32 MiB of the outermost cache since the line was written, so \
             memory serves it, as it would without the writer. Of 10 % it is not known."
        );
        assert!(much.caveat().starts_with("40 % of them come so late"), "{}", much.caveat());
    }
}
