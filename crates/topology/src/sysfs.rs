//! The machine from `/sys/devices/system`, for when hwloc finds nothing.
//!
//! Reads packages, NUMA nodes, caches, cores and CPUs as the kernel describes them; what is missing
//! is left out, so that even a `/sys` that names only the online CPUs gives a flat machine. The
//! groups (sets of CPUs) are nested by size; a group that overlaps another only in part is dropped.
//! Neighbours: `model.rs` owns the result, `xml.rs` exports it.

use crate::model::{NumaNode, Object, ObjectId, ObjectKind, Pu, Source, Topology};
use crate::{TopologyError, xml};
use std::fs;
use std::path::Path;
use types::CpuSet;

/// A set of CPUs that have something in common.
struct Group {
    kind: ObjectKind,
    os: Option<u32>,
    cpus: CpuSet,
    cache_bytes: u64,
    line_bytes: u32,
    ways: u32,
    numa: Vec<usize>,
}

/// Reads the machine below `root` (normally `/sys`), with only the CPUs in `mask` allowed; an empty
/// mask allows all.
pub fn read(root: &Path, mask: &CpuSet) -> Result<Topology, TopologyError> {
    let system = root.join("devices/system");
    let online = list(&system.join("cpu/online")).filter(|set| !set.is_empty());
    let Some(cpus) = online.or_else(|| (!mask.is_empty()).then(|| mask.clone())) else {
        return Err(TopologyError::NotFound {
            root: root.display().to_string(),
            reason: "cpu/online cannot be read and there is no affinity mask".into(),
        });
    };
    let (numa_nodes, mut groups) = numa(&system, &cpus);
    for cpu in cpus.iter() {
        collect_cpu(&system.join(format!("cpu/cpu{cpu}")), cpu, &cpus, &mut groups);
    }
    let mut topology = Topology {
        objects: Vec::new(),
        pus: Vec::new(),
        numa_nodes,
        numa_distances: Vec::new(),
        numa_latencies: Vec::new(),
        source: Source::Sysfs,
        model: String::new(),
        assumed_sizes: Vec::new(),
        xml: String::new(),
    };
    let machine = Group::new(ObjectKind::Machine, Some(0), cpus.clone());
    groups.retain(|g| g.kind != ObjectKind::Machine);
    nest(&mut groups);
    add(&mut topology, machine, groups, None, mask);
    if topology.objects.iter().all(|o| o.numa.is_empty()) {
        topology.numa_nodes = vec![NumaNode::default()];
        topology.objects[0].numa = vec![0];
    }
    number(&mut topology);
    topology.xml = xml::write(&topology);
    Ok(topology)
}

impl Group {
    fn new(kind: ObjectKind, os: Option<u32>, cpus: CpuSet) -> Self {
        Self { kind, os, cpus, cache_bytes: 0, line_bytes: 0, ways: 0, numa: Vec::new() }
    }
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|s| s.trim().to_string())
}

fn list(path: &Path) -> Option<CpuSet> {
    CpuSet::parse_list(&text(path)?).ok()
}

fn number_in(path: &Path) -> Option<u32> {
    text(path)?.parse().ok()
}

/// NUMA nodes with CPUs, and a group for each of them.
fn numa(system: &Path, online: &CpuSet) -> (Vec<NumaNode>, Vec<Group>) {
    let (mut nodes, mut groups) = (Vec::new(), Vec::new());
    for os in list(&system.join("node/online")).unwrap_or_default().iter() {
        let folder = system.join(format!("node/node{os}"));
        let Some(cpus) = list(&folder.join("cpulist")) else { continue };
        let cpus = cpus.intersection(online);
        if cpus.is_empty() {
            continue;
        }
        let memory = text(&folder.join("meminfo")).unwrap_or_default();
        let total = memory.lines().find(|l| l.contains("MemTotal:")).unwrap_or("");
        let kib = total.split_whitespace().rev().nth(1).and_then(|n| n.parse::<u64>().ok());
        let logical = nodes.len();
        let bytes = kib.unwrap_or(0) * 1024;
        nodes.push(NumaNode {
            logical: logical as u32,
            os: os as u32,
            bytes,
            ..NumaNode::default()
        });
        let mut group = Group::new(ObjectKind::Group, None, cpus);
        group.numa.push(logical);
        groups.push(group);
    }
    (nodes, groups)
}

/// Adds the package, caches, core and PU of one CPU.
fn collect_cpu(folder: &Path, cpu: usize, online: &CpuSet, groups: &mut Vec<Group>) {
    let alone: CpuSet = [cpu].into_iter().collect();
    let topology = folder.join("topology");
    let set = |names: [&str; 2]| {
        let found = names.iter().find_map(|name| list(&topology.join(name)));
        found.map(|cpus| cpus.intersection(online)).filter(|cpus| cpus.contains(cpu))
    };
    let id = |name: &str| number_in(&topology.join(name));
    if let Some(cpus) = set(["package_cpus_list", "core_siblings_list"]) {
        insert(groups, Group::new(ObjectKind::Package, id("physical_package_id"), cpus));
    }
    for index in 0..16 {
        let cache = folder.join(format!("cache/index{index}"));
        let Some(kind) = text(&cache.join("type")) else { break };
        let Some(level) = number_in(&cache.join("level")).filter(|l| (1..=5).contains(l)) else {
            continue;
        };
        let cpus = list(&cache.join("shared_cpu_list")).unwrap_or_default().intersection(online);
        if kind == "Instruction" || !cpus.contains(cpu) {
            continue;
        }
        let mut group = Group::new(ObjectKind::Cache(level as u8), None, cpus);
        group.cache_bytes = size_bytes(&text(&cache.join("size")).unwrap_or_default());
        group.line_bytes = number_in(&cache.join("coherency_line_size")).unwrap_or(0);
        group.ways = number_in(&cache.join("ways_of_associativity")).unwrap_or(0);
        insert(groups, group);
    }
    let core = set(["core_cpus_list", "thread_siblings_list"]).unwrap_or(alone.clone());
    insert(groups, Group::new(ObjectKind::Core, id("core_id"), core));
    insert(groups, Group::new(ObjectKind::Pu, Some(cpu as u32), alone));
}

/// `32K`, `8192K`, `1M` in bytes; 0 when it is something else.
fn size_bytes(text: &str) -> u64 {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => 1,
    };
    digits.parse::<u64>().map_or(0, |n| n * unit)
}

fn insert(groups: &mut Vec<Group>, group: Group) {
    if !groups.iter().any(|g| g.kind == group.kind && g.cpus == group.cpus) {
        groups.push(group);
    }
}

/// Which of two groups with the same CPUs is the outer one: that with the lower rank.
fn rank(kind: ObjectKind) -> u32 {
    match kind {
        ObjectKind::Machine => 0,
        ObjectKind::Package | ObjectKind::Die => 1,
        ObjectKind::Group => 2,
        ObjectKind::Cache(level) => 10 - u32::from(level),
        ObjectKind::Core => 20,
        ObjectKind::Pu => 21,
    }
}

/// Orders groups so that each comes before those inside it, and drops those that overlap in part.
fn nest(groups: &mut Vec<Group>) {
    groups.sort_by_key(|g| (std::cmp::Reverse(g.cpus.len()), rank(g.kind), g.cpus.iter().next()));
    let mut kept: Vec<Group> = Vec::new();
    for group in groups.drain(..) {
        let fits = |other: &Group| {
            let common = other.cpus.intersection(&group.cpus).len();
            common == 0 || common == group.cpus.len()
        };
        if kept.iter().all(fits) {
            kept.push(group);
        }
    }
    *groups = kept;
}

/// Adds `group` and, below it, those of `inside` (ordered by [`nest`]) that lie in it.
fn add(
    topology: &mut Topology,
    group: Group,
    inside: Vec<Group>,
    parent: Option<ObjectId>,
    mask: &CpuSet,
) -> ObjectId {
    let id = ObjectId(topology.objects.len() as u32);
    let first_pu = topology.pus.len() as u32;
    topology.objects.push(Object {
        kind: group.kind,
        depth: 0,
        logical: 0,
        os: group.os,
        parent,
        children: Vec::new(),
        first_pu,
        pus: 0,
        cache_bytes: group.cache_bytes,
        line_bytes: group.line_bytes,
        ways: group.ways,
        inclusive: None,
        numa: group.numa,
    });
    if group.kind == ObjectKind::Pu {
        let os = group.os.unwrap_or(0);
        let allowed = mask.is_empty() || mask.contains(os as usize);
        topology.pus.push(Pu { logical: first_pu, os, object: id, allowed });
    }
    let mut rest = inside;
    while !rest.is_empty() {
        let child = rest.remove(0);
        let within = |g: &Group| g.cpus.iter().next().is_some_and(|c| child.cpus.contains(c));
        let below: Vec<Group> = take_if(&mut rest, within);
        let child = add(topology, child, below, Some(id), mask);
        topology.objects[id.index()].children.push(child);
    }
    topology.objects[id.index()].pus = topology.pus.len() as u32 - first_pu;
    id
}

/// Gives levels, widest objects first, and logical numbers by kind, in tree order.
fn number(topology: &mut Topology) {
    let mut kinds: Vec<(ObjectKind, u32)> = Vec::new();
    for object in &topology.objects {
        match kinds.iter_mut().find(|(kind, _)| *kind == object.kind) {
            Some((_, widest)) => *widest = object.pus.max(*widest),
            None => kinds.push((object.kind, object.pus)),
        }
    }
    kinds.sort_by_key(|&(kind, widest)| (std::cmp::Reverse(widest), rank(kind)));
    for object in &mut topology.objects {
        let depth = kinds.iter().position(|(kind, _)| *kind == object.kind);
        object.depth = depth.unwrap_or(0) as u32;
    }
    let mut next = std::collections::BTreeMap::new();
    for object in &mut topology.objects {
        let counter = next.entry(object.kind).or_insert(0);
        object.logical = *counter;
        *counter += 1;
    }
}

/// Moves what matches out of `groups`, keeping the order of both.
fn take_if(groups: &mut Vec<Group>, matches: impl Fn(&Group) -> bool) -> Vec<Group> {
    let (taken, kept) = groups.drain(..).partition(|group| matches(group));
    *groups = kept;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Hierarchy, Topology};

    /// A folder that looks like `/sys`, removed at the end.
    struct FakeSys(std::path::PathBuf);

    impl FakeSys {
        fn new(name: &str, files: &[(String, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
            for (file, content) in files {
                let path = root.join("devices/system").join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for FakeSys {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Two packages of two cores of two threads, siblings numbered as Linux does it.
    fn files() -> Vec<(String, &'static str)> {
        let mut files = vec![
            ("cpu/online".to_string(), "0-7\n"),
            ("node/online".to_string(), "0-1"),
            ("node/node0/cpulist".to_string(), "0-1,4-5"),
            ("node/node1/cpulist".to_string(), "2-3,6-7"),
            ("node/node0/meminfo".to_string(), "Node 0 MemTotal:  1024 kB\n"),
        ];
        for cpu in 0..8 {
            let package = ["0-1,4-5", "2-3,6-7"][cpu % 4 / 2];
            let core = ["0,4", "1,5", "2,6", "3,7"][cpu % 4];
            let mut add = |file: &str, text| files.push((format!("cpu/cpu{cpu}/{file}"), text));
            add("topology/package_cpus_list", package);
            add("topology/physical_package_id", ["0", "1"][cpu % 4 / 2]);
            add("topology/core_cpus_list", core);
            add("topology/core_id", ["0", "1"][cpu % 2]);
            for (index, (kind, level, shared)) in
                [("Data", "1", core), ("Instruction", "1", core), ("Unified", "3", package)]
                    .into_iter()
                    .enumerate()
            {
                add(&format!("cache/index{index}/type"), kind);
                add(&format!("cache/index{index}/level"), level);
                add(&format!("cache/index{index}/shared_cpu_list"), shared);
                add(&format!("cache/index{index}/size"), "32K");
                add(&format!("cache/index{index}/coherency_line_size"), "128");
            }
        }
        files
    }

    #[test]
    fn a_machine_is_read_from_sysfs_and_its_xml_by_hwloc() {
        let sys = FakeSys::new("threadtalk-sysfs-whole", &files());
        let mask = CpuSet::parse_list("0-6").unwrap();
        let machine = read(&sys.0, &mask).unwrap();
        let os: Vec<u32> = machine.pus.iter().map(|pu| pu.os).collect();
        assert_eq!(os, [0, 4, 1, 5, 2, 6, 3, 7]);
        assert_eq!(machine.allowed().to_string(), "0-6");
        assert_eq!(machine.line_bytes(), 128);
        assert_eq!(machine.numa_nodes[0].bytes, 1 << 20);
        let names = |m: &Topology| {
            Hierarchy::new(m).levels.iter().map(|l| l.between).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&machine), "packages cores PUs");
        let read_back = Topology::from_xml_str(machine.to_xml()).unwrap();
        assert_eq!(read_back.pus.iter().map(|pu| pu.os).collect::<Vec<_>>(), os);
        assert_eq!(read_back.allowed(), machine.allowed());
        assert_eq!(names(&read_back), names(&machine));
        assert_eq!(read_back.numa_nodes, machine.numa_nodes);
        assert_eq!(read_back.count(ObjectKind::Cache(3)), 2);
    }

    #[test]
    fn a_bare_sysfs_gives_a_flat_machine_and_none_at_all_the_mask() {
        let sys = FakeSys::new("threadtalk-sysfs-bare", &[("cpu/online".into(), "0-2")]);
        let machine = read(&sys.0, &CpuSet::new()).unwrap();
        assert_eq!(machine.pus.len(), 3);
        assert_eq!(machine.count(ObjectKind::Core), 3);
        assert!(Topology::from_xml_str(machine.to_xml()).is_ok());
        let nowhere = Path::new("/nonexistent");
        let machine = read(nowhere, &CpuSet::parse_list("3,5").unwrap()).unwrap();
        assert_eq!(machine.allowed().to_string(), "3,5");
        let error = read(nowhere, &CpuSet::new()).unwrap_err();
        assert!(matches!(error, TopologyError::NotFound { .. }));
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!(["32K", "1M", "512", "x", ""].map(size_bytes), [32768, 1 << 20, 512, 0, 0]);
    }
}
