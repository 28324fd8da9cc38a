//! What shows that an event happened, and sets of that.

use core::fmt::{self, Display, Formatter};

/// Names the variants once: a new one is a line here, and its word in `report`.
macro_rules! evidence {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// What shows that an event happened.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub enum Evidence {
            $($(#[$doc])* $variant,)*
        }

        impl Evidence {
            /// All, in the order in which tables have them.
            pub const ALL: &[Evidence] = &[$(Evidence::$variant,)*];

            /// The name in tables and JSON.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Evidence::$variant => $name,)*
                }
            }
        }
    };
}

evidence! {
    /// Every access was seen, and the event was counted.
    #[default]
    Exact = "exact",
    /// Counted in random windows of exact recording, and scaled; the amount is an estimate.
    Window = "window",
    /// Samples show the accesses of both threads; the amount is an estimate.
    Sampled = "sampled",
    /// Concluded from samples of neighbouring cache lines: who wrote the line, and which bytes, was
    /// not seen.
    Inferred = "inferred",
}

impl Evidence {
    /// The inverse of [`Evidence::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|evidence| evidence.name() == name)
    }

    /// Whether it was seen which bytes each of the threads accessed.
    pub fn knows_bytes(self) -> bool {
        self != Evidence::Inferred
    }
}

/// A set of evidence, as of all events on a cache line. Its text is the names, joined by `+`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct EvidenceSet(u16);

impl EvidenceSet {
    /// The set of one.
    pub fn of(evidence: Evidence) -> Self {
        Self(1 << evidence as u16)
    }

    /// Adds to the set.
    pub fn insert(&mut self, evidence: Evidence) {
        self.0 |= Self::of(evidence).0;
    }

    /// Whether the set has it.
    pub fn contains(self, evidence: Evidence) -> bool {
        self.0 & Self::of(evidence).0 != 0
    }

    /// What the set has, in the order of [`Evidence::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Evidence> {
        Evidence::ALL.iter().copied().filter(move |&evidence| self.contains(evidence))
    }

    /// The inverse of the set's text.
    pub fn from_names(names: &str) -> Option<Self> {
        let mut set = Self::default();
        for name in names.split('+').filter(|_| !names.is_empty()) {
            set.insert(Evidence::from_name(name)?);
        }
        Some(set)
    }
}

impl Display for EvidenceSet {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for (place, evidence) in self.iter().enumerate() {
            let plus = if place > 0 { "+" } else { "" };
            write!(out, "{plus}{}", evidence.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_round_trip() {
        for &evidence in Evidence::ALL {
            assert_eq!(Evidence::from_name(evidence.name()), Some(evidence));
        }
        assert_eq!(Evidence::from_name("guessed"), None);
    }

    #[test]
    fn sets_have_text() {
        let mut set = EvidenceSet::of(Evidence::Inferred);
        set.insert(Evidence::Sampled);
        assert_eq!(set.to_string(), "sampled+inferred");
        assert_eq!(EvidenceSet::from_names("sampled+inferred"), Some(set));
        assert_eq!(EvidenceSet::from_names(""), Some(EvidenceSet::default()));
        assert_eq!(EvidenceSet::from_names("sampled+"), None);
        assert!(!set.contains(Evidence::Exact));
    }
}
