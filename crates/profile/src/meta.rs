//! What `profile.json` says of a recording: how it was made, what was seen, what became of the
//! program.

use crate::SCHEMA_VERSION;
use crate::note::{self, Note, Unrecorded};
use crate::sampling::Sampling;
use crate::tables::pages::PageUse;
use crate::tables::{CommRow, ThreadRow};
use serde::{Deserialize, Serialize};
use ts_rs::TS;
use types::{CommKind, Sharing};

/// Events that may be missing beside those told, for each of these, from which on that is told.
const WORTH_TELLING: f64 = 0.1;

/// How the counts were obtained.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Every access was seen by the exact engine.
    Exact,
    /// Some accesses were sampled; counts are estimates.
    Sampled,
    /// Every access was seen by the exact engine in random windows of time; counts are estimates.
    Windows,
}

/// What was counted, and so which tables have rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum Counted {
    /// The matrices of RAW, WAW and invalidation, sharing not told apart.
    #[default]
    Matrix,
    /// The matrices by true and false sharing, and events by line and code site.
    Detail,
    /// Undirected pairs by numalize's definition.
    Undirected,
    /// As `Detail`, by the reference recorder from a trace of all accesses.
    Reference,
    /// Nothing: the program was translated only.
    Translate,
}

/// Settings that the counts depend on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Parameters {
    /// Memory block in which communication is counted, bytes, a power of two.
    pub block_bytes: u64,
    /// Length of a time slice; 0: the run is one slice.
    #[serde(default)]
    pub slice_ns: u64,
    /// How much detail was counted.
    #[serde(default)]
    pub counted: Counted,
}

impl Parameters {
    /// Matrices of a whole run.
    pub fn matrix(block_bytes: u64) -> Self {
        Self { block_bytes, slice_ns: 0, counted: Counted::Matrix }
    }
}

/// Sums over the whole run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Threads.
    pub threads: u64,
    /// Instructions executed.
    pub instructions: u64,
    /// Loads executed.
    pub loads: u64,
    /// Stores executed.
    pub stores: u64,
    /// All events of a kind, whatever their sharing.
    pub raw: u64,
    /// All WAW events, whatever their sharing.
    pub waw: u64,
    /// All invalidations.
    pub invalidation: u64,
    /// All undirected pairs.
    pub undirected: u64,
    /// Those whose sharing is known.
    pub raw_true: u64,
    /// RAW events with false sharing.
    pub raw_false: u64,
    /// WAW events with true sharing.
    pub waw_true: u64,
    /// WAW events with false sharing.
    pub waw_false: u64,
}

impl Totals {
    /// The totals that belong to these tables.
    pub fn of(threads: &[ThreadRow], comm: &[CommRow]) -> Self {
        let mut totals = Self { threads: threads.len() as u64, ..Self::default() };
        for thread in threads {
            totals.instructions += thread.instructions;
            totals.loads += thread.loads;
            totals.stores += thread.stores;
        }
        for row in comm {
            *totals.of_kind(row.kind) += row.count;
            match (row.kind, row.sharing) {
                (CommKind::Raw, Sharing::True) => totals.raw_true += row.count,
                (CommKind::Raw, Sharing::False) => totals.raw_false += row.count,
                (CommKind::Waw, Sharing::True) => totals.waw_true += row.count,
                (CommKind::Waw, Sharing::False) => totals.waw_false += row.count,
                _ => {}
            }
        }
        totals
    }

    fn of_kind(&mut self, kind: CommKind) -> &mut u64 {
        match kind {
            CommKind::Raw => &mut self.raw,
            CommKind::Waw => &mut self.waw,
            CommKind::Invalidation => &mut self.invalidation,
            CommKind::Undirected => &mut self.undirected,
        }
    }
}

/// `profile.json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Meta {
    /// Version of the folder's schema; see `schema.rs`.
    pub schema_version: u32,
    /// `threadtalk` and its version.
    pub tool: String,
    /// The recorded command with its arguments.
    pub command: Vec<String>,
    /// Working directory of the command.
    pub directory: String,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// Wall-clock time of the recorded run, seconds.
    pub wall_seconds: f64,
    /// User plus system CPU time of the recorded run, seconds.
    pub cpu_seconds: f64,
    /// Of it, that of the kernel; 0 where that is not known.
    #[serde(default)]
    pub system_seconds: f64,
    /// Name of the machine.
    pub host: String,
    /// The machine as hwloc XML, or empty when hwloc could not say.
    pub topology_xml: String,
    /// Whether every access was seen, or samples.
    pub mode: Mode,
    /// Settings that the counts depend on.
    pub parameters: Parameters,
    /// Sums over the whole run.
    pub totals: Totals,
    /// What was not seen or not exact.
    #[serde(deserialize_with = "note::notes")]
    pub warnings: Vec<Note>,
    /// The program's exit code, if it exited.
    pub exit_code: Option<i32>,
    /// The signal that ended the program, if one did.
    pub exit_signal: Option<i32>,
    /// How often the engine's cache of translated code was full and all code was translated anew.
    /// That costs time and changes no count.
    #[serde(default)]
    pub cache_flushes: u64,
    /// Blocks of code in the engine's cache, and how many of them came translated from earlier
    /// recordings.
    #[serde(default)]
    pub blocks: u64,
    /// Blocks that came from the store of code instead of being translated.
    #[serde(default)]
    pub blocks_stored: u64,
    /// Processes that the program started, in the order in which they came to be; only in the
    /// profile of the program that was started first.
    #[serde(default)]
    pub processes: Vec<ProcessRow>,
    /// The profile of all processes that communicate, if any does with another: a folder relative
    /// to this one; only in the profile of the program that was started first.
    #[serde(default)]
    pub together: Option<String>,
    /// How it was sampled; null in other modes.
    #[serde(default)]
    pub sampled: Option<Sampling>,
    /// The windows in which it was recorded; null in other modes.
    #[serde(default)]
    pub windows: Option<Windows>,
    /// What the run would have taken without recording; null where that is not known.
    #[serde(default)]
    pub own_time: Option<OwnTime>,
    /// How much longer threads take because others run at once; null where that is not known.
    #[serde(default)]
    pub slowed: Option<Slowed>,
    /// What the tables of pages rest on; null where pages were not recorded.
    #[serde(default)]
    pub page_use: Option<PageUse>,
}

impl Meta {
    /// Of a profile that is shown and not kept: the program's words and the mode, and of all else
    /// nothing.
    pub fn passing(command: Vec<String>, mode: Mode) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            tool: String::new(),
            command,
            directory: String::new(),
            started: String::new(),
            wall_seconds: 0.0,
            cpu_seconds: 0.0,
            system_seconds: 0.0,
            host: String::new(),
            topology_xml: String::new(),
            mode,
            parameters: Parameters::matrix(64),
            totals: Totals::default(),
            warnings: Vec::new(),
            exit_code: None,
            exit_signal: None,
            cache_flushes: 0,
            blocks: 0,
            blocks_stored: 0,
            processes: Vec::new(),
            together: None,
            sampled: None,
            windows: None,
            own_time: None,
            slowed: None,
            page_use: None,
        }
    }
}

/// What a run would have taken without recording, on the machine as it was: an estimate.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, TS)]
pub struct OwnTime {
    /// Wall-clock time, seconds.
    pub seconds: f64,
    /// The least that it may be.
    pub low: f64,
    /// The most.
    pub high: f64,
}

/// The part of the processor time that threads take because others run at once: waiting for lines
/// and for the memory. Measured in moments in which one thread ran alone.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, TS)]
pub struct Slowed {
    /// What is likely, 0 to 1.
    pub share: f64,
    /// Ends of its interval (95 %).
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Whether threads ran the program's own code then. Otherwise they counted their instructions,
    /// which may slow them more together than alone.
    #[serde(default)]
    pub natively: bool,
}

/// Windows of exact recording, and what they were good for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Windows {
    /// What was asked for, like `2x` (times as long as without recording), `usual` (1.2 times, and
    /// 2 times for the first two seconds) or `5%` (share of the time).
    pub asked: String,
    /// Windows whose counts count.
    pub windows: u64,
    /// Whether these are too few for amounts with an interval.
    pub too_short: bool,
    /// Part of the instructions in counting parts of windows, and while everything was recorded.
    pub observed: f64,
    /// Of that, the part while everything was recorded.
    #[serde(default)]
    pub whole: f64,
    /// Warm-up of the last window, ns.
    pub warm_up_ns: u64,
    /// Most events that may be missing, as a part of those told: first reads and writes of blocks
    /// whose last writer may have been forgotten, scaled as events are; the upper end of the 95 %
    /// interval. None is missing among those that were counted while everything was recorded.
    pub missed: f64,
    /// How alike the transfers of two pairs of threads vary from window to window: their
    /// correlation, 0 to 1, taken to be the same for all pairs. For intervals of sums.
    #[serde(default)]
    pub alike: f64,
    /// The likely part of false sharing in the transfers told, 0 to 1. Where the writer may have
    /// begun before the window, false sharing cannot be proven; it is taken to be as common there
    /// as elsewhere. Null where there are too few events or windows to tell.
    #[serde(default)]
    pub false_share: Option<f64>,
}

/// Part of a run recorded whole from which on amounts are told, however few windows saw the rest.
pub const MOSTLY_WHOLE: f64 = 0.5;
/// With fewer transfers than one in this many instructions, they do not matter: they take less than
/// 1 % of the time, at about 100 ns for a transfer and 0.3 ns for an instruction.
const INSTRUCTIONS_PER_TRANSFER: f64 = 30_000.0;
/// From this part of all on, a bound on what is missing says nothing.
const MOST: f64 = 0.9;

/// Transfers that windows may not have seen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Missing {
    /// Such a part of all at most.
    AtMost(f64),
    /// More than they saw.
    MoreThanSeen,
}

impl Windows {
    /// Whether they are enough for amounts, or hardly matter.
    pub fn are_enough(&self) -> bool {
        !self.too_short || self.whole >= MOSTLY_WHOLE
    }

    /// Whether communication would have been seen if there had been any: all was observed, or there
    /// were enough windows.
    pub fn would_show(&self) -> bool {
        self.observed >= 1.0 || !self.too_short
    }

    /// If windows forgot the last writers of lines, and so may have missed most transfers: the most
    /// that there may have been, if these would matter. `None`: what windows saw may be relied on.
    pub fn may_hide(&self, totals: &Totals) -> Option<u64> {
        // A multiple of what was seen; of nothing, it is the number itself.
        let most = self.missed * totals.raw.saturating_add(totals.waw).max(1) as f64;
        let accesses = totals.loads.saturating_add(totals.stores);
        let most = if accesses > 0 { most.min(accesses as f64) } else { most };
        let matters = most * INSTRUCTIONS_PER_TRANSFER >= totals.instructions as f64;
        let hidden = self.missing() == Some(Missing::MoreThanSeen);
        (hidden && matters).then_some(most as u64)
    }

    /// How many of all transfers may be missing, if that is worth telling.
    pub fn missing(&self) -> Option<Missing> {
        (self.missed >= WORTH_TELLING).then(|| match self.missed / (1.0 + self.missed) {
            part if part < MOST => Missing::AtMost(part),
            _ => Missing::MoreThanSeen,
        })
    }
}

/// A process beside the first one, number 0: one that it or one of its children started, or one
/// that was sampled because it was named.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, TS)]
pub struct ProcessRow {
    /// From 1; some may be missing.
    pub number: u32,
    /// Number of the process that started it; 0 for those that were named.
    pub parent: u32,
    /// It ran already and was named (`--pid`): none of the others has started it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[ts(optional, as = "Option<bool>")]
    pub named: bool,
    /// Process id, as the process saw it.
    pub pid: u32,
    /// Command line of its last program.
    pub command: Vec<String>,
    /// Threads over the whole run; 0 when it was not recorded.
    pub threads: u32,
    /// What it exited with; null when it ended otherwise, was still running, or it is not known.
    pub exit_code: Option<i32>,
    /// The signal that ended it, if its parent was told of one.
    #[serde(default)]
    pub exit_signal: Option<i32>,
    /// Its profile, a folder relative to this one; null when it was not recorded.
    pub profile: Option<String>,
    /// Why it was not recorded.
    #[serde(default, deserialize_with = "note::unrecorded")]
    pub unrecorded: Option<Unrecorded>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_say_what_they_are_enough_for() {
        let few = Windows {
            asked: "5%".into(),
            windows: 3,
            too_short: true,
            observed: 0.3,
            whole: 0.25,
            warm_up_ns: 1_000_000,
            missed: 0.0,
            alike: 0.0,
            false_share: None,
        };
        assert!(!few.are_enough() && !few.would_show());
        let mostly_whole = Windows { whole: 0.9, observed: 0.9, ..few.clone() };
        assert!(mostly_whole.are_enough() && !mostly_whole.would_show());
        let whole = Windows { whole: 1.0, observed: 1.0, ..few.clone() };
        assert!(whole.are_enough() && whole.would_show());
        let many = Windows { windows: 30, too_short: false, ..few.clone() };
        assert!(many.are_enough() && many.would_show());
        let missing = |missed| Windows { missed, ..few.clone() }.missing();
        assert_eq!(missing(0.05), None);
        assert_eq!(missing(1.0), Some(Missing::AtMost(0.5)));
        assert_eq!(missing(20.0), Some(Missing::MoreThanSeen));
        let may_hide = |missed, raw| {
            let (instructions, loads) = (3_000_000_000, 10_000_000);
            let totals = Totals { raw, instructions, loads, ..Totals::default() };
            Windows { missed, ..many.clone() }.may_hide(&totals)
        };
        assert_eq!(may_hide(2e6, 0), Some(2_000_000));
        assert_eq!(may_hide(2000.0, 1000), Some(2_000_000), "few were seen");
        assert_eq!(may_hide(8.0, 1_000_000), None, "a bound that tells something");
        assert_eq!(may_hide(20.0, 1_000_000), Some(10_000_000), "no more than accesses");
        assert_eq!(may_hide(20.0, 1000), None, "too few in any case");
        assert_eq!(may_hide(50_000.0, 0), None, "they would take less than 1 % of the time");
        let uncounted = Totals { instructions: 0, ..Totals::default() };
        let forgot = Windows { missed: 2e6, ..many };
        assert_eq!(forgot.may_hide(&uncounted), Some(2_000_000), "unknown is not enough");
    }
}
