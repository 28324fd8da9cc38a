//! Findings and profiles to text, JSON and HTML; matrix exports.
//!
//! | file | holds |
//! | --- | --- |
//! | `findings.rs` | [`Findings`]: everything the report says, serialised as `--json` |
//! | `talk.rs` | who talks with whom, and how much |
//! | `verdict.rs` | the first sentences |
//! | `causes.rs`, `causes/` | what causes the transfers, what to change in the program, what it costs |
//! | `lines.rs`, `lines/` | hot lines: who does what to which bytes from where |
//! | `code.rs` | hot code: which code hands what to which, over all lines |
//! | `objects.rs`, `changes.rs` | objects and who uses them; what became of them between two runs |
//! | `notes.rs` | words for the codes of notes |
//! | `reliability.rs` | how far amounts of samples can be trusted, in sentences |
//! | `evidence.rs` | how many events each kind of evidence shows |
//! | `residence.rs` | what serves transfers: caches, or memory |
//! | `describe.rs` | how the threads communicate, in sentences |
//! | `compare.rs`, `policies.rs` | computes the placements that are compared; what every policy's costs |
//! | `ran.rs`, `at_once.rs` | where threads ran; how much they ran at once |
//! | `layouts.rs` | the machine, placements on it, where the talk meets |
//! | `export.rs`, `export/` | matrices as CSV, NumPy, GraphML, DOT, and as numalize writes them; tables as CSV, JSON |
//! | `text.rs`, `text/`, `table.rs` | the report in the terminal |
//! | `wording.rs` | phrases that several sections use |
//! | `page_use.rs` | a profile's pages as placement needs them |
//! | `page.rs` | the report as one HTML file; its looks are in `web/` |
//!
//! Neighbours: `cli` calls this; `profile`, `analysis`, `placement` and `topology` supply what is
//! shown.

mod at_once;
mod causes;
mod changes;
mod code;
mod compare;
mod describe;
mod evidence;
mod export;
mod findings;
mod grouped;
mod layouts;
mod lines;
mod memory;
mod notes;
mod objects;
mod page;
mod page_use;
mod phases;
mod policies;
mod ran;
mod reliability;
mod residence;
mod table;
mod talk;
mod tasks;
mod text;
mod verdict;
mod wording;

#[cfg(test)]
mod samples;

pub use at_once::{AtOnce, ran_apart};
pub use causes::{AtMost, Cause, CauseKind, Cost, Elsewhere, LatentSharing, Side, Sync};
pub use changes::{ChangedObject, Changes};
pub use code::{Code, Flow};
pub use compare::{CompareError, Setting, compare};
pub use evidence::EvidenceShare;
pub use export::{
    MatrixFormat, ProfileTable, TableFormat, flow_parquet, write_matrix, write_numalize_pages,
    write_table,
};
pub use findings::{FINDINGS_VERSION, Findings, Measured, Program};
pub use grouped::{Grouped, GroupedBy};
pub use layouts::{Chance, Layout, MachineLevel, MachineNode, Placement};
pub use lines::{Access, AccessKind, ByteUse, Bytes, HotLine, Lines, Place, Split};
pub use memory::{
    DataAdvice, DataPattern, DataPolicy, GainOf, MemoryNodes, MemoryObject, MemoryUse, PageMetrics,
    PhaseUse, SizeMetrics, ThreadsBy, Weighed,
};
pub use notes::{Process, Warning, sentence, unrecorded};
pub use objects::{Does, HotObject, Objects, Usage, UseOfBytes, User, Uses};
pub use page::{
    SimulatedLink, SimulatedMachine, SimulatedPlan, SimulatedServed, SimulatedStall,
    SimulatedValue, SimulationPage, page, simulation_page,
};
pub use page_use::data_use;
pub use phases::RunPhases;
pub use placement::LevelShare;
pub use policies::{LeftOut, Policies, PolicyCost};
pub use ran::{PlaceError, Ran, by_place};
pub use reliability::{Reliability, RestOn};
pub use residence::Served;
pub use talk::{Pair, Talk, Thread};
pub use tasks::tasks;
pub use text::{TextStyle, difference_json, difference_text, text};
pub use verdict::{Shape, Verdict};
