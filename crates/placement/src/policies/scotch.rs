//! `scotch`: the mapping of the Scotch library (Pellegrini: Static mapping by dual recursive
//! bipartitioning of process and architecture graphs, 1994), through its C interface.
//!
//! A reference to compare with, behind the cargo feature `scotch`; nothing else needs the library.
//! Scotch is asked for perfect balance. It still overfills leaves now and then; such tasks are
//! moved to the nearest free slot.

use crate::even;
use crate::policies::{Input, Policy};
use crate::slots::SlotTree;
use crate::tasks::Tasks;
use std::ffi::{c_double, c_int, c_void};
use std::ptr;
use std::sync::Mutex;

pub struct Scotch;

/// Scotch's random numbers are global.
static LOCK: Mutex<()> = Mutex::new(());

impl Policy for Scotch {
    fn place(&self, input: &Input<'_>) -> Vec<usize> {
        let tree = input.tree;
        // With more threads than PUs, PUs are the leaves and Scotch balances their loads; else a
        // leaf takes one task, and free slots are tasks that communicate with no other.
        let shared = input.tasks.len() > input.hierarchy.pus.len();
        let levels = tree.depth() - usize::from(shared);
        let leaves = tree.ranges(levels);
        let vertices = if shared { input.tasks.len() } else { leaves.len() };
        let leaf = match Arch::of(tree, levels) {
            Some(arch) => map(&Edges::of(input.tasks, vertices), &arch, input.seed),
            // Scotch knows trees only where all nodes of a level have as many children.
            None => (0..vertices).map(|vertex| vertex % leaves.len()).collect(),
        };
        let wanted: Vec<usize> = leaf.iter().map(|&leaf| leaves[leaf].start).collect();
        let mut slots = apart(tree, &wanted);
        slots.truncate(input.tasks.len());
        even::even_out(input.tasks, input.tree, &mut slots);
        slots.iter().map(|&slot| input.tree.pu[slot]).collect()
    }
}

/// Each task in a slot of its own: where it should go or, if that is taken, in the nearest free
/// one.
fn apart(tree: &SlotTree, wanted: &[usize]) -> Vec<usize> {
    let mut free = vec![true; tree.len()];
    let mut late = Vec::new();
    let mut slots = wanted.to_vec();
    for (task, &slot) in wanted.iter().enumerate() {
        if !std::mem::replace(&mut free[slot], false) {
            late.push(task);
        }
    }
    for task in late {
        let open = (0..tree.len()).filter(|&slot| free[slot]);
        let nearest = open.max_by_key(|&slot| (tree.common(slot, wanted[task]), usize::MAX - slot));
        slots[task] = nearest.expect("as many slots as tasks");
        free[slots[task]] = false;
    }
    slots
}

/// The graph in compressed rows, with weights as Scotch's numbers.
struct Edges {
    first: Vec<c_int>,
    other: Vec<c_int>,
    weight: Vec<c_int>,
}

impl Edges {
    fn of(tasks: &Tasks, vertices: usize) -> Self {
        // Sums of weights · costs must fit into an int.
        let scale = (100_000_000.0 / (tasks.total() * 2.0).max(1.0)).min(1.0);
        let mut edges = Self { first: vec![0], other: Vec::new(), weight: Vec::new() };
        for task in 0..vertices {
            let known = if task < tasks.len() { tasks.neighbours(task) } else { &[] };
            for &(other, weight) in known {
                edges.other.push(other as c_int);
                edges.weight.push(((weight * scale) as c_int).max(1));
            }
            edges.first.push(edges.other.len() as c_int);
        }
        edges
    }
}

/// A tree of levels with equal nodes.
struct Arch {
    children: Vec<c_int>,
    cost: Vec<c_int>,
}

impl Arch {
    /// The upper `levels` of a tree.
    fn of(tree: &SlotTree, levels: usize) -> Option<Self> {
        let largest = tree.cost.iter().copied().fold(0.0, f64::max).max(1.0);
        let mut arch = Self { children: Vec::new(), cost: Vec::new() };
        for level in 0..levels {
            let (nodes, below) = (tree.ranges(level), tree.ranges(level + 1));
            let each = below.len() / nodes.len();
            let regular = nodes.iter().enumerate().all(|(node, range)| {
                below[node * each].start == range.start && range.len() * nodes.len() == tree.len()
            });
            if !regular || each * nodes.len() != below.len() {
                return None;
            }
            arch.children.push(each as c_int);
            arch.cost.push(((tree.cost[level] / largest * 1000.0) as c_int).max(1));
        }
        Some(arch)
    }
}

#[link(name = "scotch")]
#[link(name = "scotcherr")]
unsafe extern "C" {
    fn SCOTCH_graphAlloc() -> *mut c_void;
    fn SCOTCH_graphInit(graph: *mut c_void) -> c_int;
    fn SCOTCH_graphExit(graph: *mut c_void);
    #[allow(clippy::too_many_arguments)]
    fn SCOTCH_graphBuild(
        graph: *mut c_void,
        base: c_int,
        vertices: c_int,
        first: *const c_int,
        end: *const c_int,
        vertex_weight: *const c_int,
        label: *const c_int,
        edges: c_int,
        other: *const c_int,
        weight: *const c_int,
    ) -> c_int;
    fn SCOTCH_graphMap(
        graph: *mut c_void,
        arch: *const c_void,
        strategy: *mut c_void,
        part: *mut c_int,
    ) -> c_int;
    fn SCOTCH_archAlloc() -> *mut c_void;
    fn SCOTCH_archInit(arch: *mut c_void) -> c_int;
    fn SCOTCH_archExit(arch: *mut c_void);
    fn SCOTCH_archTleaf(
        arch: *mut c_void,
        levels: c_int,
        children: *const c_int,
        cost: *const c_int,
    ) -> c_int;
    fn SCOTCH_stratAlloc() -> *mut c_void;
    fn SCOTCH_stratInit(strategy: *mut c_void) -> c_int;
    fn SCOTCH_stratExit(strategy: *mut c_void);
    fn SCOTCH_stratGraphMapBuild(
        strategy: *mut c_void,
        flags: c_int,
        parts: c_int,
        imbalance: c_double,
    ) -> c_int;
    fn SCOTCH_memFree(memory: *mut c_void);
    fn SCOTCH_numSizeof() -> c_int;
    fn SCOTCH_randomSeed(seed: c_int);
    fn SCOTCH_randomReset();
}

/// `SCOTCH_STRATQUALITY`.
const QUALITY: c_int = 1;

/// For each vertex its leaf.
fn map(edges: &Edges, arch: &Arch, seed: u64) -> Vec<usize> {
    let vertices = edges.first.len() - 1;
    let mut part = vec![0 as c_int; vertices];
    let _one_at_a_time = LOCK.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // SAFETY: Scotch allocates and initialises its own objects; the arrays given to it outlive the
    // graph, are of the lengths told and of its integers' size, which is asked first.
    unsafe {
        assert_eq!(SCOTCH_numSizeof() as usize, size_of::<c_int>(), "Scotch with 32-bit numbers");
        let (graph, machine, strategy) =
            (SCOTCH_graphAlloc(), SCOTCH_archAlloc(), SCOTCH_stratAlloc());
        SCOTCH_graphInit(graph);
        SCOTCH_archInit(machine);
        SCOTCH_stratInit(strategy);
        SCOTCH_randomSeed(seed as c_int);
        SCOTCH_randomReset();
        SCOTCH_graphBuild(
            graph,
            0,
            vertices as c_int,
            edges.first.as_ptr(),
            edges.first.as_ptr().add(1),
            ptr::null(),
            ptr::null(),
            edges.other.len() as c_int,
            edges.other.as_ptr(),
            edges.weight.as_ptr(),
        );
        let levels = arch.children.len() as c_int;
        SCOTCH_archTleaf(machine, levels, arch.children.as_ptr(), arch.cost.as_ptr());
        SCOTCH_stratGraphMapBuild(strategy, QUALITY, vertices as c_int, 0.0);
        SCOTCH_graphMap(graph, machine, strategy, part.as_mut_ptr());
        SCOTCH_stratExit(strategy);
        SCOTCH_archExit(machine);
        SCOTCH_graphExit(graph);
        [graph, machine, strategy].into_iter().for_each(|object| SCOTCH_memFree(object));
    }
    part.into_iter().map(|leaf| leaf as usize).collect()
}
