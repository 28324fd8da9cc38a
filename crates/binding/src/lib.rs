//! Where threads run and pages lie: set it, read it back, and say plainly why it was refused.
//!
//! All CPU numbers are operating-system numbers (P#). The kernel silently drops CPUs that do not
//! exist or that the cgroup's cpuset excludes, so [`bind`] always returns the set that is in force
//! afterwards. Neighbours: `recorder` binds launched programs, `threadtalk run` prints what it read
//! back.

mod affinity;
mod pages;
mod status;

pub use affinity::{BindError, affinity, bind, own_affinity};
pub use pages::{PageStatus, PagesError, move_pages, where_pages_are};
pub use status::{StatusError, TaskStatus};
