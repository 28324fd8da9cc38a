//! The machine as plain data: a tree of objects, its PUs, and which of them may be used.
//!
//! Objects lie in one vector, parents before children and children in hwloc's logical order, so the
//! PUs below any object are a contiguous range. NUMA nodes are not part of the tree (an object may
//! have several, such as HBM beside DRAM); they hang on the object whose CPUs they are local to.
//! Built by `hwloc.rs` or `sysfs.rs`.

use std::fmt;
use types::CpuSet;

/// Index of an object in [`Topology::objects`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(pub u32);

impl ObjectId {
    /// The id as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What an object is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ObjectKind {
    /// The whole machine.
    Machine,
    /// A package: what is put into a socket.
    Package,
    /// A die of a package.
    Die,
    /// A group of objects that hwloc has found.
    Group,
    /// Data or unified cache of this level, 1 to 5.
    Cache(u8),
    /// A core.
    Core,
    /// A processing unit.
    Pu,
}

impl ObjectKind {
    /// One of them, as people call it: `package`, `L3`, `core`.
    pub fn singular(self) -> &'static str {
        match self {
            ObjectKind::Machine => "machine",
            ObjectKind::Package => "package",
            ObjectKind::Die => "die",
            ObjectKind::Group => "group",
            ObjectKind::Cache(level) => ["L0", "L1", "L2", "L3", "L4", "L5"][usize::from(level)],
            ObjectKind::Core => "core",
            ObjectKind::Pu => "PU",
        }
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.singular())
    }
}

/// [`Object::ways`] of a cache that may hold any line anywhere.
pub const FULLY_ASSOCIATIVE: u32 = u32::MAX;

/// A node of the tree.
#[derive(Clone, PartialEq, Debug)]
pub struct Object {
    /// What it is.
    pub kind: ObjectKind,
    /// Level of the tree; objects of one level are of one kind. A branch may skip levels (a core
    /// without L3 beside cores with one).
    pub depth: u32,
    /// Logical number (L#) among the objects of this level.
    pub logical: u32,
    /// Operating-system number (P#), where the system gives one.
    pub os: Option<u32>,
    /// The object that it lies in; `None` for the root.
    pub parent: Option<ObjectId>,
    /// The objects in it.
    pub children: Vec<ObjectId>,
    /// Logical numbers of the PUs below, `first_pu..first_pu + pus`.
    pub first_pu: u32,
    /// PUs in it.
    pub pus: u32,
    /// Size of a cache, bytes; 0 when unknown or not a cache.
    pub cache_bytes: u64,
    /// Line size of a cache, bytes; 0 when unknown or not a cache.
    pub line_bytes: u32,
    /// Ways of a cache, [`FULLY_ASSOCIATIVE`] for one with a single set; 0 when unknown or not a
    /// cache.
    pub ways: u32,
    /// Whether a cache holds whatever those inside it hold, where that is known.
    pub inclusive: Option<bool>,
    /// NUMA nodes local to exactly these CPUs, as indexes into [`Topology::numa_nodes`].
    pub numa: Vec<usize>,
}

/// A processing unit: what the operating system calls a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pu {
    /// Logical number (L#), its index in [`Topology::pus`].
    pub logical: u32,
    /// Operating-system number (P#).
    pub os: u32,
    /// Its object in the tree.
    pub object: ObjectId,
    /// Neither the cgroup's cpuset nor the inherited affinity mask forbids it.
    pub allowed: bool,
}

/// Memory local to some CPUs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NumaNode {
    /// Logical number (L#).
    pub logical: u32,
    /// The kernel's number (P#).
    pub os: u32,
    /// Local memory, bytes; 0 when unknown.
    pub bytes: u64,
    /// Latency of an access from its own processors, ns, as the firmware gives it.
    pub latency_ns: Option<u64>,
    /// Bandwidth for its own processors, MiB/s, as the firmware gives it.
    pub bandwidth_mib: Option<u64>,
}

/// Where a topology comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// This machine, by hwloc.
    Hwloc,
    /// This machine, by `/sys`, because hwloc found nothing.
    Sysfs,
    /// An hwloc XML description.
    Xml,
    /// An hwloc synthetic description.
    Synthetic,
}

/// A machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Topology {
    /// Parents before children; the first is the machine.
    pub objects: Vec<Object>,
    /// By logical number.
    pub pus: Vec<Pu>,
    /// By logical number.
    pub numa_nodes: Vec<NumaNode>,
    /// Relative distances between NUMA nodes as the firmware gives them (10 = local), row-major by
    /// logical number; empty when unknown.
    pub numa_distances: Vec<u64>,
    /// Latencies of memory as the firmware gives them, ns: from the processors of a node (row) to
    /// the memory of another, row-major by logical number; 0 for an unknown one, empty when all
    /// are.
    pub numa_latencies: Vec<u64>,
    /// Where the description is from.
    pub source: Source,
    /// Processor model; may be empty.
    pub model: String,
    /// Levels of caches whose size the description does not give; their `cache_bytes` are hwloc's
    /// own.
    pub assumed_sizes: Vec<u8>,
    pub(crate) xml: String,
}

impl Topology {
    /// The machine as hwloc XML, readable by [`Topology::from_xml_str`] and `lstopo`.
    pub fn to_xml(&self) -> &str {
        &self.xml
    }

    /// The object with this id.
    pub fn object(&self, id: ObjectId) -> &Object {
        &self.objects[id.index()]
    }

    /// Whether this is the machine the process runs on.
    pub fn is_this_machine(&self) -> bool {
        matches!(self.source, Source::Hwloc | Source::Sysfs)
    }

    /// OS numbers of the PUs that may be used.
    pub fn allowed(&self) -> CpuSet {
        self.pus.iter().filter(|pu| pu.allowed).map(|pu| pu.os as usize).collect()
    }

    /// Number of PUs that may be used.
    pub fn allowed_pus(&self) -> usize {
        self.pus.iter().filter(|pu| pu.allowed).count()
    }

    /// Number of objects of one kind, whether allowed or not.
    pub fn count(&self, kind: ObjectKind) -> usize {
        self.objects.iter().filter(|o| o.kind == kind).count()
    }

    /// The PU with this OS number.
    pub fn pu_by_os(&self, os: u32) -> Option<&Pu> {
        self.pus.iter().find(|pu| pu.os == os)
    }

    /// The nearest object of `kind` at or above the PU with this logical number.
    pub fn ancestor(&self, pu_logical: u32, kind: ObjectKind) -> Option<ObjectId> {
        let mut at = Some(self.pus.get(pu_logical as usize)?.object);
        while let Some(id) = at {
            if self.object(id).kind == kind {
                return Some(id);
            }
            at = self.object(id).parent;
        }
        None
    }

    /// Cache line of the machine, bytes: of the first L1, or of any cache that says; else 64.
    pub fn line_bytes(&self) -> u32 {
        let known = |o: &&Object| o.line_bytes.is_power_of_two();
        let first_level = |o: &&Object| o.kind == ObjectKind::Cache(1);
        let mut caches = self.objects.iter().filter(known);
        let line = match self.objects.iter().filter(known).find(first_level) {
            Some(cache) => cache.line_bytes,
            None => caches.next().map_or(0, |cache| cache.line_bytes),
        };
        if line > 0 { line } else { 64 }
    }

    /// One line for people: `AMD EPYC, 2 packages, 16 cores, 32 PUs`.
    pub fn describe(&self) -> String {
        let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let mut parts = Vec::new();
        if !self.model.is_empty() {
            parts.push(self.model.clone());
        }
        for kind in [ObjectKind::Package, ObjectKind::Core, ObjectKind::Pu] {
            match self.count(kind) {
                0 => {}
                n => parts.push(plural(n, kind.singular())),
            }
        }
        if self.allowed_pus() < self.pus.len() {
            parts.push(format!("{} of them allowed", self.allowed_pus()));
        }
        parts.join(", ")
    }

    /// Where a PU is, in words: `package 0, L3 2, core 5`, leaving out what exists only once.
    pub fn place_of(&self, pu_logical: u32) -> String {
        let mut words = Vec::new();
        let mut at = self.pus.get(pu_logical as usize).map(|pu| pu.object);
        while let Some(id) = at {
            let object = self.object(id);
            at = object.parent;
            for &node in &object.numa {
                if self.numa_nodes.len() > 1 {
                    words.push(format!("NUMA node {}", self.numa_nodes[node].logical));
                }
            }
            let repeats_child = object.children.len() == 1
                && !matches!(object.kind, ObjectKind::Package | ObjectKind::Core);
            let speaks = !matches!(object.kind, ObjectKind::Pu | ObjectKind::Group)
                && !repeats_child
                && self.count(object.kind) > 1;
            if speaks {
                words.push(format!("{} {}", object.kind, object.logical));
            }
        }
        words.reverse();
        words.join(", ")
    }
}
