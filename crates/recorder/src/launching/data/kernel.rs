//! What the kernel can do for a plan's data here: which nodes there are and may be used, which
//! policies it has, and whether it is allowed to be asked.

use placement::{PlanData, PlanRange, RestOfMemory};
use std::fs;
use types::CpuSet;
use wire::data::MAX_NODES;

/// Modes of `linux/mempolicy.h`, as in `injected::policies`.
pub const PREFERRED: u32 = 1;
pub const INTERLEAVE: u32 = 3;
pub const WEIGHTED: u32 = 6;

/// The system's weights of its weighted interleaving (Linux 6.9), by node.
const WEIGHTS: &str = "/sys/kernel/mm/mempolicy/weighted_interleave";
const NODES: &str = "/sys/devices/system/node";
/// Most turns into which weighted interleaving is cut where the kernel has none.
const MAX_TURNS: u64 = 8;
const PAGE: u64 = 4096;

/// A range as the library gets it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Policy {
    pub offset: u64,
    pub bytes: u64,
    pub mode: u32,
    /// Nodes as bits.
    pub nodes: u64,
}

/// What can be done here.
#[derive(Clone, Default, Debug)]
pub struct Abilities {
    /// The system's weights, if it interleaves by weight.
    pub weights: Option<Vec<(u32, u64)>>,
    /// What was done otherwise than planned, sentences.
    pub notes: Vec<String>,
}

impl Abilities {
    /// Asks the kernel; the reason where none of the plan's data can be placed.
    pub fn probe(plan: &PlanData) -> Result<Self, String> {
        let used = used(plan);
        if let Some(far) = used.iter().find(|node| **node as usize >= MAX_NODES) {
            return Err(format!(
                "it names node P#{far}; numbers from {MAX_NODES} on cannot be used"
            ));
        }
        let text = |path: String| fs::read_to_string(path).unwrap_or_default();
        let online = text(format!("{NODES}/has_memory"));
        let online = nodes(&online).unwrap_or_else(|| [0].into_iter().collect());
        let status = text("/proc/self/status".into());
        let allowed = status.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:"));
        let allowed = allowed.and_then(nodes).unwrap_or_else(|| online.clone());
        check_nodes(&used, &online, &allowed)?;
        if let Err(error) = try_bind(PREFERRED, 1 << used.first().copied().unwrap_or(0)) {
            return Err(match error.raw_os_error() {
                Some(libc::ENOSYS) => "this kernel has no NUMA support".into(),
                Some(libc::EPERM) => {
                    "mbind is not permitted here (a container's seccomp filter, most likely); allow it, or run the \
                     container with --cap-add SYS_NICE"
                        .into()
                }
                _ => format!("mbind failed: {error}"),
            });
        }
        let mut found = Self::default();
        let all = used.iter().fold(0, |bits, node| bits | 1 << node);
        if plan_is_weighted(plan) {
            found.weights =
                try_bind(WEIGHTED, all).is_ok().then(|| system_weights(&used)).flatten();
            if !weights(plan).iter().all(|weights| found.has_weights(weights)) {
                found.notes.push(
                    "the kernel does not interleave by the plan's weights (Linux 6.9 and newer do, by \
                     /sys/kernel/mm/mempolicy/weighted_interleave): large stretches were used instead"
                        .into(),
                );
            }
        }
        Ok(found)
    }

    /// Whether the system's weights are in the proportions of these.
    fn has_weights(&self, wanted: &[(u32, u32)]) -> bool {
        let Some(system) = &self.weights else { return false };
        let of = |node: u32| system.iter().find(|(n, _)| *n == node).map_or(0, |(_, w)| *w);
        let Some((first, weight)) = wanted.first() else { return false };
        wanted.iter().all(|(node, w)| of(*node) * u64::from(*weight) == of(*first) * u64::from(*w))
    }

    /// A range of the plan as the kernel can do it.
    pub fn policies(&self, range: &PlanRange) -> Vec<Policy> {
        let PlanRange { offset, bytes, .. } = *range;
        let nodes = range.interleave.iter().fold(0, |bits, node| bits | 1_u64 << node);
        if let Some(node) = range.node {
            return vec![Policy { offset, bytes, mode: PREFERRED, nodes: 1 << node }];
        }
        let weights: Vec<(u32, u32)> =
            range.interleave.iter().copied().zip(range.weights.iter().copied()).collect();
        if weights.is_empty() || weights.iter().all(|(_, weight)| *weight == weights[0].1) {
            return vec![Policy { offset, bytes, mode: INTERLEAVE, nodes }];
        }
        if self.has_weights(&weights) {
            return vec![Policy { offset, bytes, mode: WEIGHTED, nodes }];
        }
        in_stretches(offset, bytes, &weights)
    }

    /// Mode and nodes of memory that no object names.
    pub fn rest(&self, plan: &PlanData) -> (u32, u64) {
        let nodes = plan.nodes.iter().fold(0, |bits, node| bits | 1_u64 << node.os);
        let weights: Vec<(u32, u32)> =
            plan.nodes.iter().map(|node| (node.os, node.weight)).collect();
        match plan.rest {
            RestOfMemory::FirstTouch => (0, 0),
            RestOfMemory::WeightedInterleave if self.has_weights(&weights) => (WEIGHTED, nodes),
            _ => (INTERLEAVE, nodes),
        }
    }
}

/// Weighted interleaving in stretches: turns over the nodes, each with its weight's part.
fn in_stretches(offset: u64, bytes: u64, weights: &[(u32, u32)]) -> Vec<Policy> {
    let all: u64 = weights.iter().map(|(_, weight)| u64::from(*weight)).sum();
    let pages = bytes / PAGE;
    let unit = pages.div_ceil((all * MAX_TURNS).max(1)).max(1);
    let (mut found, mut at) = (Vec::new(), 0);
    for (node, weight) in weights.iter().cycle() {
        if at >= pages || all == 0 {
            break;
        }
        let count = (unit * u64::from(*weight)).min(pages - at);
        let (offset, bytes) = (offset + at * PAGE, count * PAGE);
        if count > 0 {
            found.push(Policy { offset, bytes, mode: PREFERRED, nodes: 1 << node });
        }
        at += count;
    }
    found
}

/// Nodes that the plan puts data on.
fn used(plan: &PlanData) -> Vec<u32> {
    let ranges = plan.objects.iter().flat_map(|object| &object.ranges);
    let mut all: Vec<u32> =
        ranges.flat_map(|range| range.node.into_iter().chain(range.interleave.clone())).collect();
    if plan.rest != RestOfMemory::FirstTouch {
        all.extend(plan.nodes.iter().map(|node| node.os));
    }
    all.sort_unstable();
    all.dedup();
    all
}

fn weights(plan: &PlanData) -> Vec<Vec<(u32, u32)>> {
    let ranges = plan.objects.iter().flat_map(|object| &object.ranges);
    let mut all: Vec<Vec<(u32, u32)>> = ranges
        .filter(|range| !range.weights.is_empty())
        .map(|range| range.interleave.iter().copied().zip(range.weights.iter().copied()).collect())
        .collect();
    if plan.rest == RestOfMemory::WeightedInterleave {
        all.push(plan.nodes.iter().map(|node| (node.os, node.weight)).collect());
    }
    all.retain(|weights| weights.iter().any(|(_, weight)| *weight != weights[0].1));
    all
}

fn plan_is_weighted(plan: &PlanData) -> bool {
    !weights(plan).is_empty()
}

fn system_weights(nodes: &[u32]) -> Option<Vec<(u32, u64)>> {
    let weight = |node: &u32| {
        let text = fs::read_to_string(format!("{WEIGHTS}/node{node}")).ok()?;
        Some((*node, text.trim().parse().ok()?))
    };
    nodes.iter().map(weight).collect()
}

fn check_nodes(used: &[u32], online: &CpuSet, allowed: &CpuSet) -> Result<(), String> {
    let missing = |among: &CpuSet| {
        used.iter().find(|node| !among.iter().any(|known| known == **node as usize)).copied()
    };
    if let Some(node) = missing(online) {
        return Err(format!(
            "it puts data on node P#{node}, which is not online here or has no memory (nodes with memory: {online})"
        ));
    }
    if let Some(node) = missing(allowed) {
        return Err(format!(
            "it puts data on node P#{node}, which the cpuset does not allow here (allowed: {allowed})"
        ));
    }
    Ok(())
}

/// A list as the kernel prints it: `0-1,4`.
fn nodes(text: &str) -> Option<CpuSet> {
    let mut all = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        all.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(all.into_iter().collect())
}

/// Gives a page of ours a policy.
fn try_bind(mode: u32, nodes: u64) -> std::io::Result<()> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new page that nothing else uses, gone at the end; the mask is a word.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), PAGE as usize, access, flags, -1, 0);
        if page == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        let result =
            libc::syscall(libc::SYS_mbind, page, PAGE, mode, &raw const nodes, MAX_NODES + 1, 0);
        let error = std::io::Error::last_os_error();
        libc::munmap(page, PAGE as usize);
        if result == 0 { Ok(()) } else { Err(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(weights: &[u32]) -> PlanRange {
        let interleave = (0..weights.len() as u32).collect();
        PlanRange {
            offset: 8192,
            bytes: 100 * PAGE,
            interleave,
            weights: weights.to_vec(),
            ..PlanRange::default()
        }
    }

    #[test]
    fn weights_that_the_kernel_does_not_have_become_stretches() {
        let none = Abilities::default();
        let found = none.policies(&range(&[3, 1]));
        assert!(found.len() <= 2 * (MAX_TURNS as usize + 1), "{found:?}");
        let pages = |node: u32| -> u64 {
            found.iter().filter(|p| p.nodes == 1 << node).map(|p| p.bytes / PAGE).sum()
        };
        assert_eq!(pages(0) + pages(1), 100);
        assert!((70..=80).contains(&pages(0)), "{}", pages(0));
        assert_eq!(found[0].offset, 8192);
        assert!(found.windows(2).all(|w| w[0].offset + w[0].bytes == w[1].offset));
    }

    #[test]
    fn weights_of_the_kernel_are_used_where_their_proportions_are_right() {
        let weights = Some(vec![(0, 6), (1, 2)]);
        let with = Abilities { weights, ..Abilities::default() };
        assert_eq!(with.policies(&range(&[3, 1]))[0].mode, WEIGHTED);
        assert_eq!(with.policies(&range(&[2, 1]))[0].mode, PREFERRED);
        assert_eq!(with.policies(&range(&[1, 1]))[0].mode, INTERLEAVE);
        assert_eq!(with.policies(&range(&[]))[0].nodes, 0);
    }

    #[test]
    fn nodes_that_are_missing_or_forbidden_are_named() {
        let set = |text| nodes(text).unwrap();
        assert!(check_nodes(&[0, 1], &set("0-1\n"), &set("0-3")).is_ok());
        let offline = check_nodes(&[0, 2], &set("0-1"), &set("0-1")).unwrap_err();
        assert!(offline.contains("node P#2, which is not online"), "{offline}");
        let forbidden = check_nodes(&[0, 1], &set("0-1"), &set("0")).unwrap_err();
        assert!(forbidden.contains("node P#1, which the cpuset"), "{forbidden}");
    }
}
