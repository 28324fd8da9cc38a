//! Ranges of estimates, and which of their numbers is asked for.

/// The usual, the least and the most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub mid: f64,
    pub low: f64,
    pub high: f64,
}

/// What is taken of ranges: the usual, the least, or the most.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum End {
    Mid,
    Low,
    High,
}

impl Range {
    pub(super) fn at(&self, end: End) -> f64 {
        match end {
            End::Mid => self.mid,
            End::Low => self.low,
            End::High => self.high,
        }
    }
}

impl End {
    pub(super) fn other(self) -> Self {
        match self {
            End::Mid => End::Mid,
            End::Low => End::High,
            End::High => End::Low,
        }
    }
}
