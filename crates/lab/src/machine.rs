//! The virtual machine: nodes with processors and memory, their distances, and QEMU's options for
//! all that.

use std::time::{Duration, Instant};

/// Distance of a node to itself, by definition (ACPI's System Locality Information Table).
const HERE: u8 = 10;

/// One node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Node {
    /// May be 0: a node of memory only.
    pub cpus: u32,
    /// May be 0: a node of processors only. The first node needs some, for the kernel and all
    /// files.
    pub memory_mib: u32,
}

/// The machine.
#[derive(Clone, Debug)]
pub struct Machine {
    nodes: Vec<Node>,
    /// `distances[from][to]`.
    distances: Vec<Vec<u8>>,
    caches_per_node: Option<u32>,
    huge_pages: u32,
    kernel_options: String,
}

impl Machine {
    /// As many nodes, each with as many processors and 256 MiB. The nodes are in two groups with
    /// distance 12 within a group and 21 between them; two nodes have distance 21.
    pub fn even(nodes: u32, cpus_per_node: u32) -> Self {
        let group = |node: u32| node / (nodes / 2).max(1);
        let distance = |from: u32, to: u32| match () {
            () if from == to => HERE,
            () if group(from) == group(to) => 12,
            () => 21,
        };
        Self {
            nodes: vec![Node { cpus: cpus_per_node, memory_mib: 256 }; nodes as usize],
            distances: (0..nodes)
                .map(|from| (0..nodes).map(|to| distance(from, to)).collect())
                .collect(),
            caches_per_node: None,
            huge_pages: 0,
            kernel_options: String::new(),
        }
    }

    /// Memory of each node.
    pub fn memory_mib(mut self, memory_mib: u32) -> Self {
        self.nodes.iter_mut().for_each(|node| node.memory_mib = memory_mib);
        self
    }

    /// Another node at this place.
    pub fn node(mut self, number: usize, node: Node) -> Self {
        self.nodes[number] = node;
        self
    }

    /// Distances as firmware tells them, `[from][to]`: 10 on the diagonal, elsewhere more.
    ///
    /// # Panics
    /// If there is not one for each pair of nodes, or the diagonal is another.
    pub fn distances(mut self, distances: Vec<Vec<u8>>) -> Self {
        assert_eq!(distances.len(), self.nodes.len());
        for (from, row) in distances.iter().enumerate() {
            assert_eq!(row.len(), self.nodes.len());
            assert!(row.iter().enumerate().all(|(to, d)| if from == to {
                *d == HERE
            } else {
                *d > HERE
            }));
        }
        self.distances = distances;
        self
    }

    /// Last-level caches in each node, as in processors with several dies (default: one).
    pub fn caches_per_node(mut self, caches: u32) -> Self {
        self.caches_per_node = Some(caches);
        self
    }

    /// Pages of 2 MiB that the kernel reserves on each node with memory.
    pub fn huge_pages(mut self, pages: u32) -> Self {
        self.huge_pages = pages;
        self
    }

    /// Further words for the kernel's command line.
    pub fn kernel_options(mut self, words: &str) -> Self {
        self.kernel_options = words.to_owned();
        self
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The kernel's command line. Without the first lines, it would spend most of the boot on
    /// measuring the emulated processors one by one.
    pub(crate) fn kernel_line(&self) -> String {
        let mut line = format!(
            "tsc_early_khz={} tsc=reliable no_timer_check lpj=10000000 cryptomgr.notests nowatchdog \
             random.trust_cpu=on mitigations=off nokaslr quiet console=ttyS0 panic=-1 rdinit=/init",
            timestamp_khz()
        );
        if self.huge_pages > 0 {
            let with_memory = (0..).zip(&self.nodes).filter(|(_, node)| node.memory_mib > 0);
            let each: Vec<String> = with_memory
                .map(|(node, _): (u32, _)| format!("{node}:{}", self.huge_pages))
                .collect();
            line += &format!(" hugepages={}", each.join(","));
        }
        format!("{line} {}", self.kernel_options)
    }

    /// QEMU's options for processors, memory and nodes.
    pub(crate) fn options(&self) -> Vec<String> {
        let cpus: u32 = self.nodes.iter().map(|node| node.cpus).sum();
        let memory: u32 = self.nodes.iter().map(|node| node.memory_mib).sum();
        let mut options: Vec<String> = Vec::new();
        let mut add = |name: &str, value: String| options.extend([name.to_owned(), value]);
        add("-accel", "tcg,thread=multi".into());
        add("-m", format!("{memory}M"));
        add("-smp", self.processors(cpus));
        match self.caches_per_node {
            // Only processors of this maker have a leaf of CPUID that tells dies apart.
            Some(_) => {
                add("-cpu", "EPYC-Rome,topoext=on".into());
                let level = |number: u32, cache: &str, at: &str| {
                    format!(",smp-cache.{number}.cache={cache},smp-cache.{number}.topology={at}")
                };
                let levels =
                    [(0, "l1d", "core"), (1, "l1i", "core"), (2, "l2", "core"), (3, "l3", "die")];
                add(
                    "-machine",
                    "pc".to_owned() + &levels.map(|(n, cache, at)| level(n, cache, at)).concat(),
                );
            }
            None => {
                add("-cpu", "max,la57=off".into());
                add("-machine", "pc".into());
            }
        }
        let mut first = 0;
        for (number, node) in self.nodes.iter().enumerate() {
            let mut value = format!("node,nodeid={number}");
            if node.cpus > 0 {
                value += &format!(",cpus={first}-{}", first + node.cpus - 1);
            }
            if node.memory_mib > 0 {
                add(
                    "-object",
                    format!("memory-backend-ram,id=m{number},size={}M", node.memory_mib),
                );
                value += &format!(",memdev=m{number}");
            }
            add("-numa", value);
            first += node.cpus;
        }
        for (from, row) in self.distances.iter().enumerate() {
            for (to, distance) in row.iter().enumerate().filter(|(to, _)| *to != from) {
                add("-numa", format!("dist,src={from},dst={to},val={distance}"));
            }
        }
        options
    }

    /// A socket for each node, if all have as many processors; otherwise one for all.
    fn processors(&self, cpus: u32) -> String {
        let each = self.nodes[0].cpus;
        let sockets = if self.nodes.iter().all(|node| node.cpus == each) {
            self.nodes.len() as u32
        } else {
            1
        };
        let dies = self.caches_per_node.unwrap_or(1);
        format!("{cpus},sockets={sockets},dies={dies},cores={},threads=1", cpus / sockets / dies)
    }
}

/// How fast the processor's timestamps count, in kHz: those of the emulated processors are the
/// host's own.
fn timestamp_khz() -> u64 {
    const WHILE: Duration = Duration::from_millis(20);
    let (start, from) = (Instant::now(), timestamp());
    std::thread::sleep(WHILE);
    let (to, took) = (timestamp(), start.elapsed());
    (u128::from(to - from) * 1_000_000 / took.as_nanos()) as u64
}

#[cfg(target_arch = "x86_64")]
fn timestamp() -> u64 {
    // SAFETY: every x86-64 processor has this instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn timestamp() -> u64 {
    0 // Never asked for: see `Tools::find`.
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_in_two_groups() {
        let distances = |nodes| Machine::even(nodes, 1).distances;
        assert_eq!(distances(1), [[10]]);
        assert_eq!(distances(2), [[10, 21], [21, 10]]);
        assert_eq!(distances(4)[1], [12, 10, 21, 21]);
        assert_eq!(distances(8)[5], [21, 21, 21, 21, 12, 10, 12, 12]);
    }

    #[test]
    fn processors_and_memory_are_given_to_nodes() {
        let machine = Machine::even(3, 2).node(1, Node { cpus: 0, memory_mib: 64 });
        let options = machine.node(2, Node { cpus: 1, memory_mib: 0 }).options().join(" ");
        assert!(options.contains("-m 320M -smp 3,sockets=1,dies=1,cores=3,threads=1"), "{options}");
        assert!(options.contains("node,nodeid=0,cpus=0-1,memdev=m0"), "{options}");
        assert!(options.contains("size=64M -numa node,nodeid=1,memdev=m1"), "{options}");
        assert!(options.contains("node,nodeid=2,cpus=2-2 "), "{options}");
    }
}
