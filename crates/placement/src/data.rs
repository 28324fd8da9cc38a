//! Data plans and joint plans: where pages go, given threads, and where both go.
//!
//! Comes in: who accesses which page when ([`DataUse`]), beside tasks and machine. Goes out: a
//! [`JointPlan`]: a PU for each thread, a node for each page, and what the policies would cost.
//!
//! | file | holds |
//! | --- | --- |
//! | `data/usage.rs` | the input: objects, pages, accesses, working sets |
//! | `data/policy.rs` | the data policies by name, and the node that each gives every page |
//! | `data/units.rs` | pages of an object with alike use, taken together |
//! | `data/model.rs` | what a layout of threads and data costs |
//! | `data/descend.rs` | data, given threads |
//! | `data/threads.rs` | threads, given data |
//! | `data/joint.rs` | both in turns, from several starts; the lower bound |
//! | `data/merge.rs` | several runs of one program as one input |
//! | `data/file.rs` | the plan file's part about data |
//! | `data/recognise.rs` | the objects of a plan in another run |
//!
//! Neighbours: `pages.rs` has the policies of Diener's thesis, `place.rs` places threads alone.

mod descend;
mod file;
mod joint;
mod merge;
mod model;
mod policy;
mod recognise;
mod threads;
mod units;
mod usage;

pub use file::{
    DataCost, DataRow, PLAN_WITH_DATA, PlanData, PlanNode, PlanObject, PlanRange, RestOfMemory,
};
pub use joint::{JointPlan, JointRequest, Pair, plan_jointly};
pub use model::{COLD_SHARE, CostParts};
pub use policy::DataPolicy;
pub use recognise::{Applied, Fit, digits};
pub use usage::{
    DataAccess, DataIdentity, DataObject, DataPage, DataUse, REACHING_SHARE, WorkingSet,
};
