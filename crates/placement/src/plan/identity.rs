//! Threads as a plan knows them in another run.

use serde::{Deserialize, Serialize};
use types::ThreadIdentity;

/// `types::ThreadIdentity` as it stands in a plan.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PlanIdentity {
    /// Start routine: module and offset.
    pub start_routine: String,
    /// Demangled name of it, by which it is found after the program was built anew; empty where it
    /// is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub symbol: String,
    /// Id of the creating thread; `None` for the initial thread.
    pub parent: Option<u32>,
    /// Number among the creator's threads with this start routine, from 0.
    pub ordinal: u32,
    /// Name in the recorded run.
    pub name: String,
}

impl PlanIdentity {
    /// Whether it is the same thread of the same recorded run. Names do not matter: not all parts
    /// of a plan know them.
    pub fn is_same(&self, other: &Self) -> bool {
        let Self { start_routine, parent, ordinal, .. } = self;
        (start_routine, parent, ordinal) == (&other.start_routine, &other.parent, &other.ordinal)
    }
}

impl From<&ThreadIdentity> for PlanIdentity {
    fn from(identity: &ThreadIdentity) -> Self {
        Self {
            start_routine: identity.start_routine.clone(),
            symbol: String::new(),
            parent: identity.parent.map(|parent| parent.0),
            ordinal: identity.ordinal,
            name: identity.name.clone(),
        }
    }
}
