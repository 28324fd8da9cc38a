//! Latency and bandwidth from the processors of each NUMA node to the memory of each.
//!
//! A buffer of several times the size of the largest cache is put on a node, and it is asked where
//! its pages really are: a kernel that puts them elsewhere would make every number wrong. One
//! thread on each node then follows a random chain through its lines, each read waiting for the one
//! before; and one thread on each core reads a part of it from start to end, all at once.
//!
//! Neighbours: `buffer.rs` has the memory, `topology` keeps the results and makes costs of them.

use crate::LatencyError;
use crate::buffer::Buffer;
use crate::pingpong::bind_to;
use statistics::{median, quantile};
use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;
use topology::{Hierarchy, MeasuredAccess, MeasuredMemory, ObjectKind, Topology, UnmeasuredAccess};

/// Bytes of a buffer over those of the largest cache.
const CACHES: u64 = 4;
/// With fewer caches' bytes than this, much of it stays in the cache.
const MIN_CACHES: u64 = 2;
const MIN_BYTES: u64 = 32 << 20;
/// Part of a node's memory that is used at most: 1/`PART`.
const PART: u64 = 3;
/// Batches of dependent reads, the reads of one, and those before that do not count.
const BATCHES: usize = 9;
const READS: usize = 50_000;
const WARM_UP: usize = 2;
/// How often all threads of a node read the buffer.
const ROUNDS: usize = 5;

/// The nodes whose processors read, and those whose memory is read, by place in `numa_nodes`.
struct Nodes {
    /// With the P# of a PU of each core.
    from: Vec<(usize, Vec<u32>)>,
    to: Vec<usize>,
}

impl Nodes {
    fn of(topology: &Topology) -> Self {
        let hierarchy = Hierarchy::new(topology);
        let place = |logical| topology.numa_nodes.iter().position(|node| node.logical == logical);
        let from = hierarchy.nodes.iter().enumerate().filter_map(|(at, node)| {
            let mut cores = BTreeSet::new();
            let pus = (0..hierarchy.pus.len())
                .filter(|&pu| hierarchy.node[pu] == at && cores.insert(hierarchy.core[pu]))
                .map(|pu| hierarchy.os[pu]);
            Some((place(node.logical)?, pus.collect()))
        });
        let from = from.collect();
        let nodes = topology.numa_nodes.iter().enumerate();
        Self { from, to: nodes.filter(|(_, node)| node.bytes > 0).map(|(at, _)| at).collect() }
    }
}

/// Measures between all nodes of this machine; `None` where it has one only, so that there is
/// nothing between them. `progress` is told how many pairs of nodes of how many are done.
///
/// # Errors
/// When `topology` is another machine, or no thread can be started.
pub fn measure_memory(
    topology: &Topology,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Option<MeasuredMemory>, LatencyError> {
    if !topology.is_this_machine() {
        return Err(LatencyError::NotHere);
    }
    if topology.numa_nodes.len() < 2 {
        return Ok(None);
    }
    let nodes = Nodes::of(topology);
    let mut found = MeasuredMemory::default();
    crate::on_a_thread_of_its_own(|| measure_all(topology, &nodes, &mut found, progress))?;
    found.accesses.sort_unstable_by_key(|access| (access.from_os, access.to_os));
    Ok(Some(found))
}

fn measure_all(
    topology: &Topology,
    nodes: &Nodes,
    found: &mut MeasuredMemory,
    progress: &(dyn Fn(usize, usize) + Sync),
) {
    let count = nodes.from.len() * nodes.to.len();
    let bytes = bytes(topology, nodes);
    found.bytes = *bytes.as_ref().unwrap_or(&0);
    let os = |at: usize| topology.numa_nodes[at].os;
    for (number, &to) in nodes.to.iter().enumerate() {
        let buffer = bytes.clone().and_then(|bytes| Buffer::on(os(to), bytes));
        for (turn, (from, pus)) in nodes.from.iter().enumerate() {
            progress(number * nodes.from.len() + turn, count);
            let result =
                buffer.as_ref().map_err(Clone::clone).and_then(|buffer| access(buffer, pus));
            let (from_os, to_os) = (os(*from), os(to));
            match result {
                Ok(access) => found.accesses.push(MeasuredAccess { from_os, to_os, ..access }),
                Err(why) => found.unmeasured.push(UnmeasuredAccess { from_os, to_os, why }),
            }
        }
    }
    progress(count, count);
}

/// Bytes of a buffer, the same on all nodes.
fn bytes(topology: &Topology, nodes: &Nodes) -> Result<u64, String> {
    let is_cache = |kind| matches!(kind, ObjectKind::Cache(_));
    let caches = topology.objects.iter().filter(|object| is_cache(object.kind));
    let cache = caches.map(|object| object.cache_bytes).max().unwrap_or(0);
    let least = nodes.to.iter().map(|&at| topology.numa_nodes[at].bytes).min().unwrap_or(0) / PART;
    let bytes = (CACHES * cache).max(MIN_BYTES).min(least);
    if bytes < (MIN_CACHES * cache).max(MIN_BYTES / CACHES) {
        return Err("a node has too little memory for more than the caches hold".into());
    }
    Ok(bytes)
}

/// From the cores with these PUs to a buffer; errors are reasons.
fn access(buffer: &Buffer, pus: &[u32]) -> Result<MeasuredAccess, String> {
    let first = *pus.first().ok_or("no processor of the node may be used")?;
    bind_to(first).map_err(|failure| failure.to_string())?;
    let mut batches = Vec::with_capacity(BATCHES);
    let mut at = 0;
    for batch in 0..WARM_UP + BATCHES {
        let start = Instant::now();
        at = buffer.follow(at, READS);
        let ns = start.elapsed().as_nanos() as f64 / READS as f64;
        if batch >= WARM_UP {
            batches.push(ns);
        }
    }
    black_box(at);
    let mut rates = (0..ROUNDS).map(|_| rate(buffer, pus)).collect::<Result<Vec<f64>, _>>()?;
    let tenths = |ns: f64| (ns * 10.0).round() / 10.0;
    let mut place = |place| quantile(&mut batches, place).map(tenths).ok_or("nothing was timed");
    let (quartiles_ns, latency_ns) = ([place(0.25)?, place(0.75)?], place(0.5)?);
    let bandwidth = median(&mut rates).ok_or("nothing was timed")?;
    // The caller knows the nodes.
    Ok(MeasuredAccess { from_os: 0, to_os: 0, latency_ns, quartiles_ns, bandwidth })
}

/// Bytes per ns that a thread on each of these PUs reads while all of them do: all of it over the
/// time until the last one has ended.
fn rate(buffer: &Buffer, pus: &[u32]) -> Result<f64, String> {
    let together = Barrier::new(pus.len());
    let part = |number: usize, pu: u32| {
        let bound = bind_to(pu);
        together.wait();
        let start = Instant::now();
        bound.map_err(|failure| failure.to_string())?;
        black_box(buffer.read(number, pus.len()));
        Ok((start, Instant::now()))
    };
    let times: Vec<Result<(Instant, Instant), String>> = thread::scope(|scope| {
        let part = &part;
        let start = |(number, &pu): (usize, &u32)| scope.spawn(move || part(number, pu));
        let threads: Vec<_> = pus.iter().enumerate().map(start).collect();
        let ended = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err("a thread ended unexpectedly".into()))
        };
        threads.into_iter().map(ended).collect()
    });
    let times = times.into_iter().collect::<Result<Vec<_>, String>>()?;
    let start = times.iter().map(|(start, _)| *start).min().ok_or("nothing was timed")?;
    let end = times.iter().map(|(_, end)| *end).max().ok_or("nothing was timed")?;
    Ok(buffer.bytes() as f64 / (end - start).as_nanos().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_node_has_nothing_between() {
        let here = Topology::discover().unwrap();
        if here.numa_nodes.len() < 2 {
            assert_eq!(measure_memory(&here, &|_, _| {}).unwrap(), None);
        }
        let other = Topology::from_synthetic("pack:2 numa:1 core:2 pu:1").unwrap();
        assert!(matches!(measure_memory(&other, &|_, _| {}), Err(LatencyError::NotHere)));
    }

    #[test]
    fn buffers_are_larger_than_the_caches_or_nothing_is_measured() {
        let size = |spec: &str| {
            let topology = Topology::from_synthetic(spec).unwrap();
            bytes(&topology, &Nodes::of(&topology))
        };
        let spec = "pack:2 numa:1(memory=64GiB) l3:1(size=32MiB) core:2 pu:2";
        assert_eq!(size(spec), Ok(128 << 20));
        let topology = Topology::from_synthetic(spec).unwrap();
        let nodes = Nodes::of(&topology);
        // One PU of each core.
        assert_eq!(nodes.from[1], (1, vec![4, 6]));
        assert!(size("pack:2 numa:1(memory=120MiB) l3:1(size=32MiB) core:2 pu:2").is_err());
    }
}
