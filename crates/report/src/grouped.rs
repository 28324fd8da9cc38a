//! Matrices of groups of threads: of processes, or of places where threads ran.
//!
//! Neighbours: `ran` makes those of places, `export` writes them.

use analysis::Choice;
use profile::Profile;
use types::{CommMatrix, ThreadId};

/// What the rows and columns of a matrix are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupedBy {
    /// Threads.
    Thread,
    /// Processes of the recording.
    Process,
    /// PUs on which threads ran.
    Pu,
    /// Cores on which threads ran.
    Core,
    /// Memory nodes of the PUs on which threads ran.
    Node,
}

impl GroupedBy {
    /// All of them.
    pub const ALL: [GroupedBy; 5] =
        [GroupedBy::Thread, GroupedBy::Process, GroupedBy::Pu, GroupedBy::Core, GroupedBy::Node];

    /// The name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            GroupedBy::Thread => "thread",
            GroupedBy::Process => "process",
            GroupedBy::Pu => "pu",
            GroupedBy::Core => "core",
            GroupedBy::Node => "node",
        }
    }

    /// What it is, as a phrase.
    pub fn summary(self) -> &'static str {
        match self {
            GroupedBy::Thread => "threads of a process",
            GroupedBy::Process => "processes of the recording, by number",
            GroupedBy::Pu => "PUs where the threads ran, by the kernel's number",
            GroupedBy::Core => "cores where the threads ran",
            GroupedBy::Node => "NUMA nodes where the threads ran",
        }
    }
}

/// A matrix of groups of threads.
#[derive(Clone, PartialEq, Debug)]
pub struct Grouped {
    /// What the groups are.
    pub by: GroupedBy,
    /// Of the groups, in order.
    pub names: Vec<String>,
    /// Events between the groups, and within each on the diagonal.
    pub matrix: CommMatrix,
    /// Part of the events whose groups are known, 0 to 1; the matrix has these.
    pub known: f64,
}

impl Grouped {
    /// The matrix of a profile's threads.
    pub fn threads(profile: &Profile, choice: Choice) -> Self {
        let names = profile.threads.iter().map(|thread| thread.identity.name.clone()).collect();
        Self { by: GroupedBy::Thread, names, matrix: choice.matrix(profile), known: 1.0 }
    }

    /// The matrix of processes. `processes` has the name of each and the events of its threads
    /// among themselves, none where it was not recorded; `between` has events from one to another.
    pub fn processes(processes: Vec<(String, u64)>, between: &[(u32, u32, u64)]) -> Self {
        let mut matrix = CommMatrix::of_groups(processes.len());
        for ((_, events), id) in processes.iter().zip(0..) {
            matrix.add(ThreadId(id), ThreadId(id), *events);
        }
        for &(from, to, events) in between {
            matrix.add(ThreadId(from), ThreadId(to), events);
        }
        let names = processes.into_iter().map(|(name, _)| name).collect();
        Self { by: GroupedBy::Process, names, matrix, known: 1.0 }
    }
}

/// Nodes of a graph.
pub(crate) struct Nodes<'a> {
    pub(crate) by: GroupedBy,
    pub(crate) names: &'a [String],
}

impl Nodes<'_> {
    /// What a node is called in the file: threads as everywhere, groups by their kind.
    pub(crate) fn id(&self, node: ThreadId) -> String {
        match self.by {
            GroupedBy::Thread => node.to_string(),
            by => format!("{}{}", by.name(), node.0),
        }
    }

    /// All nodes with their names.
    pub(crate) fn all(&self) -> impl Iterator<Item = (String, &str)> {
        self.names.iter().zip(0..).map(|(name, id)| (self.id(ThreadId(id)), name.as_str()))
    }
}
