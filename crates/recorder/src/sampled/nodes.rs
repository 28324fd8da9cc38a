//! The machine's NUMA nodes: on which one a processor is, and on which one a page lies.
//!
//! Neighbours: `pages` counts samples by node, `binding` asks the kernel.

use profile::PAGE_SHIFT;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use types::CpuSet;

const NODES: &str = "/sys/devices/system/node";

/// The nodes of the machine.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    /// The only one with memory; `None`: there are more, or it is not known.
    only: Option<u32>,
    /// By number of the processor (P#); empty where the machine has one node, or it is not known.
    of_cpu: Arc<[Option<u32>]>,
}

impl Nodes {
    /// Those of this machine.
    pub fn here() -> Self {
        Self::described_in(Path::new(NODES))
    }

    /// As files say it that are like those of the kernel.
    fn described_in(folder: &Path) -> Self {
        let set = |name: &str| {
            let text = fs::read_to_string(folder.join(name)).ok()?;
            CpuSet::parse_list(text.trim()).ok()
        };
        let with_memory = set("has_memory").unwrap_or_default();
        let only = match with_memory.len() {
            1 => with_memory.iter().next().map(|node| node as u32),
            _ => None,
        };
        let all = set("online").unwrap_or_default();
        let mut of_cpu: Vec<Option<u32>> = Vec::new();
        for node in all.iter().filter(|_| all.len() > 1) {
            for cpu in set(&format!("node{node}/cpulist")).unwrap_or_default().iter() {
                of_cpu.resize(of_cpu.len().max(cpu + 1), None);
                of_cpu[cpu] = Some(node as u32);
            }
        }
        Self { only, of_cpu: of_cpu.into() }
    }

    /// The node of a processor, where there are several and it is known.
    pub fn of_cpu(&self, cpu: u32) -> Option<u32> {
        self.of_cpu.get(cpu as usize).copied().flatten()
    }

    /// On which nodes pages of a process lie; those that are not there, or may not be asked for,
    /// are left out.
    pub fn of_pages(&self, pid: u32, pages: &[u64]) -> Vec<(u64, u32)> {
        if let Some(only) = self.only {
            return pages.iter().map(|page| (*page, only)).collect();
        }
        let addresses: Vec<u64> = pages.iter().map(|page| page << PAGE_SHIFT).collect();
        let status = binding::where_pages_are(pid as i32, &addresses).unwrap_or_default();
        let told = pages.iter().zip(status);
        told.filter_map(|(page, status)| Some((*page, status.node()?))).collect()
    }

    /// A machine with one processor on each of these nodes, for tests.
    #[cfg(test)]
    pub fn with(of_cpu: &[u32]) -> Self {
        Self { only: None, of_cpu: of_cpu.iter().map(|node| Some(*node)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::Scratch;

    fn described(files: &[(&str, &str)]) -> Nodes {
        let folder = Scratch::new();
        for (name, text) in files {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{text}\n")).unwrap();
        }
        Nodes::described_in(folder.path())
    }

    #[test]
    fn processors_have_nodes_where_there_are_several() {
        let files = [("online", "0,2"), ("has_memory", "0,2"), ("node0/cpulist", "0-1,4")];
        let two = described(&[&files[..], &[("node2/cpulist", "2-3")]].concat());
        let of: Vec<Option<u32>> = (0..6).map(|cpu| two.of_cpu(cpu)).collect();
        assert_eq!(of, [Some(0), Some(0), Some(2), Some(2), Some(0), None]);
        assert_eq!(two.only, None);
        // Threads on a node without memory are remote to all pages.
        let bare = described(&[
            ("online", "0-1"),
            ("has_memory", "0"),
            ("node0/cpulist", "0"),
            ("node1/cpulist", "1"),
        ]);
        assert_eq!((bare.only, bare.of_cpu(1)), (Some(0), Some(1)));
        assert_eq!(bare.of_pages(1, &[7]), [(7, 0)]);
        let one = described(&[("online", "0"), ("has_memory", "0"), ("node0/cpulist", "0-3")]);
        assert_eq!((one.only, one.of_cpu(0)), (Some(0), None));
        let unknown = described(&[]);
        assert_eq!((unknown.only, unknown.of_cpu(0)), (None, None));
    }

    #[test]
    fn the_kernel_says_on_which_node_our_own_pages_lie() {
        let memory = vec![1_u8; 8192];
        let page = (memory.as_ptr() as u64 + 4096) >> PAGE_SHIFT;
        let asked = Nodes::with(&[0]).of_pages(std::process::id(), &[page, 1]);
        // The kernel may know nothing of nodes, but says nothing of a page that is not there.
        assert!(asked.is_empty() || asked.len() == 1 && asked[0].0 == page, "{asked:?}");
        drop(memory);
    }
}
