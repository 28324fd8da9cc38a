//! The policies: what one is ([`Policy`]), their names ([`PolicyKind`]), and which is which. One
//! file per policy; those that use the solver or another policy name it themselves.

mod balance;
mod balanced_locality;
mod clusters;
mod compact;
mod complace;
mod detloc;
mod distance;
mod eagermap;
mod grouping;
mod kind;
mod locality;
mod os;
mod policy;
mod scatter;
#[cfg(feature = "scotch")]
mod scotch;
mod treematch;

pub(crate) use balanced_locality::bandwidth_shares;
pub(crate) use compact::Compact;
pub(crate) use complace::Complace;
pub(crate) use eagermap::Eagermap;
pub use kind::{PolicyKind, UnknownPolicy};
pub(crate) use policy::{Input, Policy};

impl PolicyKind {
    /// The policy of this name.
    pub(crate) fn policy(self) -> &'static dyn Policy {
        match self {
            PolicyKind::Compact => &compact::Compact,
            PolicyKind::Scatter => &scatter::Scatter,
            PolicyKind::Complace => &complace::Complace,
            PolicyKind::Eagermap => &eagermap::Eagermap,
            PolicyKind::Treematch => &treematch::Treematch,
            PolicyKind::Locality => &locality::Locality,
            PolicyKind::Distance => &distance::Distance,
            PolicyKind::Balance => &balance::Balance,
            PolicyKind::BalancedLocality => &balanced_locality::BalancedLocality,
            PolicyKind::LoadBalance => &balance::LoadBalance,
            PolicyKind::Detloc => &detloc::Detloc,
            PolicyKind::Os => &os::Os,
            #[cfg(feature = "scotch")]
            PolicyKind::Scotch => &scotch::Scotch,
        }
    }
}
