//! What can go wrong with machines and costs, each in one sentence that says what to do.

use thiserror::Error;

/// A machine that could not be read.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum TopologyError {
    /// The named file could not be read.
    #[error("cannot read the machine description '{path}': {source}")]
    File {
        /// The file as given.
        path: String,
        source: std::io::Error,
    },
    /// Not an XML topology, or one hwloc refuses.
    #[error(
        "{what} is not an hwloc XML topology that can be read; write one with 'lstopo machine.xml'"
    )]
    Xml {
        /// `'file'` or `the stored topology`.
        what: String,
    },
    /// An XML topology of a newer hwloc.
    #[error(
        "{what} is hwloc XML of version {version}, which is newer than the hwloc here reads; write it \
         with 'lstopo --export-xml-flags v2 machine.xml'"
    )]
    NewerXml {
        /// As in `Xml`.
        what: String,
        version: String,
    },
    /// Neither a file nor a synthetic description.
    #[error(
        "'{text}' is neither a file nor an hwloc synthetic description; name an hwloc XML file or \
         write one like 'pack:2 core:8 pu:2'"
    )]
    Synthetic { text: String },
    /// A machine that hwloc takes minutes to build.
    #[error(
        "the machine has more than {most} PUs, which is more than can be worked with; name a smaller one"
    )]
    TooManyPus { most: usize },
    /// A cache that is too large to be simulated.
    #[error(
        "a cache of level {level} has {bytes} bytes, which is more than can be worked with; mend its size"
    )]
    TooLargeCache { level: u8, bytes: u64 },
    /// The affinity mask and the allowed CPUs have nothing in common.
    #[error("the machine has no CPU that may be used; check the cpuset and the affinity mask")]
    NothingAllowed,
    /// hwloc and `/sys` both gave nothing.
    #[error("this machine's CPUs could not be found, neither by hwloc nor in {root}: {reason}")]
    NotFound { root: String, reason: String },
}

/// Costs that do not fit a machine.
#[derive(Debug, Error, PartialEq, Eq)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum CostError {
    /// Wrong number of explicit costs.
    #[error(
        "{given} cost{} given, but the machine branches at {} level{} ({levels}); give one cost \
         for each, from the root of the tree down",
        if *given == 1 { "" } else { "s" },
        needed,
        if *needed == 1 { "" } else { "s" }
    )]
    Count {
        given: usize,
        needed: usize,
        /// `between packages, between cores, between PUs`.
        levels: String,
    },
    /// Not a number, negative, or not finite.
    #[error(
        "'{part}' is not a cost; write 'latency', 'measured:FILE', 'complace' or non-negative numbers \
         like 180,50,10"
    )]
    Number { part: String },
    /// Measured latencies that could not be read; the whole sentence.
    #[error("{0}")]
    Measured(String),
    /// Latencies of a machine with other PUs.
    #[error(
        "the latencies were measured on another machine ({machine}); measure this one with 'threadtalk \
         topo --measure -o FILE'"
    )]
    OtherMachine { machine: String },
    /// A file of latencies without any between PUs that may be used.
    #[error(
        "no latency between PUs that may be used here was measured; measure again with 'threadtalk topo \
         --measure -o FILE'"
    )]
    NothingMeasured,
}
