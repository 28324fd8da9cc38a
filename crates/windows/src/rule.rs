//! What counts in a window, and what true and false sharing mean there.
//!
//! When a window opens, everything known about memory is forgotten. What an event rests on must
//! therefore lie in the window itself, from its opening on:
//!
//! * **read after write, write after write**: the write before;
//! * **invalidation**: the write before and the read. Without that write, the reader may itself
//!   have been the last writer, and then nothing is invalidated;
//! * **undirected**: the other thread's access.
//!
//! The event itself must lie in the counting part. Then everything that takes no longer than the
//! warm-up, from the first access to the event, is seen with the same probability.
//!
//! *True and false.* The writer's set of bytes is only known from the opening on. A byte of it that
//! the other thread uses proves true sharing, whenever the writer took the block. No such byte
//! proves false sharing only if the writer took the block inside the window, for then its set is
//! whole. It did if another thread has accessed the block in the window before the write; the first
//! write to a block that no other thread has accessed may add to an older set. All other events are
//! undecided.
//!
//! *Remembered writers*, known from an earlier window only, may have been overwritten since by
//! another thread. They tell which threads may communicate, and are no events: they have a type of
//! their own, without addition to counts.

use types::CommKind;

/// What lay between the opening of the window and the event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inside {
    /// The last write before the event; of undirected pairs, the other thread's access.
    pub write: bool,
    /// The reader's first read after it; of invalidations only.
    pub read: bool,
}

/// Whether an event in the counting part counts.
pub fn counts(kind: CommKind, inside: Inside) -> bool {
    match kind {
        CommKind::Raw | CommKind::Waw | CommKind::Undirected => inside.write,
        CommKind::Invalidation => inside.write && inside.read,
    }
}

/// Whether the writer owns the block since before the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ownership {
    /// It took the block inside: all bytes of its set are known.
    Inside,
    /// It may have taken it before.
    Unknown,
}

impl Ownership {
    /// Of a write that takes the block or finds it its own. `met`: another thread has accessed the
    /// block in this window, before the write. An owner stays what it was while nobody takes the
    /// block.
    pub fn of_taking(met: bool) -> Self {
        if met { Self::Inside } else { Self::Unknown }
    }
}

/// What is known about the sharing of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Judged {
    /// True sharing.
    True,
    /// False sharing.
    False,
    /// One of both.
    Undecided,
}

/// `overlap`: whether the event uses a byte that the writer was seen writing.
pub fn judge(overlap: bool, ownership: Ownership) -> Judged {
    match (overlap, ownership) {
        (true, _) => Judged::True,
        (false, Ownership::Inside) => Judged::False,
        (false, Ownership::Unknown) => Judged::Undecided,
    }
}

/// A read of a block whose writer is known from an earlier window only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Remembered(pub u64);

/// Events by what is known about their sharing; amounts are counts or estimates.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Judgements {
    /// True sharing whose writer took the block inside the window.
    pub true_inside: f64,
    /// True sharing whose writer may have taken it before.
    pub true_unknown: f64,
    /// False sharing, whose writers always took the block inside.
    pub false_inside: f64,
    /// Events that are one of both.
    pub undecided: f64,
}

/// The part of false sharing in all events.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FalseShare {
    /// That of the events whose writer took the block inside, where both kinds are decided alike;
    /// but not below `least` or above `most`. `None`: there are no such events.
    pub likely: Option<f64>,
    /// If no undecided event were false sharing.
    pub least: f64,
    /// If all were.
    pub most: f64,
}

impl Judgements {
    /// Events whose writer took the block inside.
    pub fn inside(&self) -> f64 {
        self.true_inside + self.false_inside
    }

    /// All events.
    pub fn all(&self) -> f64 {
        self.inside() + self.true_unknown + self.undecided
    }

    /// `None` without events.
    pub fn false_share(&self) -> Option<FalseShare> {
        let (inside, all) = (self.inside(), self.all());
        (all > 0.0).then(|| {
            let (least, most) =
                (self.false_inside / all, (self.false_inside + self.undecided) / all);
            let likely = (inside > 0.0).then(|| (self.false_inside / inside).clamp(least, most));
            FalseShare { likely, least, most }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_needs_all_that_it_rests_on() {
        let inside = |write, read| Inside { write, read };
        for kind in [CommKind::Raw, CommKind::Waw, CommKind::Undirected] {
            assert!(counts(kind, inside(true, false)) && !counts(kind, inside(false, true)));
        }
        assert!(counts(CommKind::Invalidation, inside(true, true)));
        assert!(!counts(CommKind::Invalidation, inside(false, true)));
        assert!(!counts(CommKind::Invalidation, inside(true, false)));
    }

    #[test]
    fn overlap_proves_and_its_absence_only_with_a_whole_set() {
        assert_eq!(judge(true, Ownership::Unknown), Judged::True);
        assert_eq!(judge(false, Ownership::of_taking(true)), Judged::False);
        assert_eq!(judge(false, Ownership::of_taking(false)), Judged::Undecided);
    }

    #[test]
    fn undecided_events_widen_the_share_and_do_not_shift_it() {
        let judged = Judgements {
            true_inside: 30.0,
            true_unknown: 20.0,
            false_inside: 10.0,
            undecided: 40.0,
        };
        let share = judged.false_share().unwrap();
        assert_eq!((share.likely, share.least, share.most), (Some(0.25), 0.1, 0.5));
        // Were as many of the others false sharing, more would be undecided.
        let few = Judgements { undecided: 1.0, true_unknown: 60.0, ..judged };
        let share = few.false_share().unwrap();
        assert_eq!(share.likely, Some(share.most));
        assert_eq!(Judgements::default().false_share(), None);
        let unknown = Judgements { undecided: 5.0, ..Judgements::default() }.false_share().unwrap();
        assert_eq!((unknown.likely, unknown.least, unknown.most), (None, 0.0, 1.0));
    }
}
