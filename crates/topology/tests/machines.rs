//! The machines in `tests/machines/`, this machine, restricted machines, and bad descriptions.

use std::path::{Path, PathBuf};
use topology::{CostModel, Costs, Hierarchy, ObjectKind, Source, Topology, TopologyError};

fn machine_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines").join(name)
}

fn load(name: &str) -> Topology {
    Topology::from_spec(machine_file(name).to_str().unwrap()).unwrap()
}

fn counts(machine: &Topology) -> [usize; 5] {
    use ObjectKind::{Cache, Core, Package, Pu};
    [Package, Cache(3), Cache(2), Core, Pu].map(|kind| machine.count(kind))
}

#[test]
fn the_five_machines_have_their_parts_and_branches() {
    let cases = [
        ("broadwell-2s", [2, 2, 28, 28, 56], "packages, cores, PUs", vec![136.0, 51.0, 2.3]),
        ("nehalem-ex-4s", [4, 4, 32, 32, 64], "packages, cores, PUs", vec![136.0, 51.0, 2.3]),
        (
            "epyc-7763-nps4",
            [2, 16, 128, 128, 256],
            "packages, NUMA nodes, L3s, cores, PUs",
            vec![136.0, 82.0, 77.0, 51.0, 2.3],
        ),
        ("altra-2s", [2, 2, 160, 160, 160], "packages, cores", vec![136.0, 51.0]),
        (
            "sapphire-rapids-snc4",
            [2, 8, 112, 112, 224],
            "packages, NUMA nodes, cores, PUs",
            vec![136.0, 82.0, 51.0, 2.3],
        ),
    ];
    for (name, parts, branches, latencies) in cases {
        let machine = load(&format!("{name}.synthetic"));
        assert_eq!(counts(&machine), parts, "{name}");
        let names: Vec<&str> =
            Hierarchy::new(&machine).levels.iter().map(|level| level.between).collect();
        assert_eq!(names.join(", "), branches, "{name}");
        let costs = Costs::new(&CostModel::Latency, &machine).unwrap();
        assert_eq!(costs.per_level, latencies, "{name}");
        assert_eq!(machine.line_bytes(), 64, "{name}");
        assert_eq!(machine.source, Source::Synthetic);
    }
}

#[test]
fn latencies_of_memory_come_before_rough_distances() {
    let machine = load("memory-attributes.xml");
    let nodes: Vec<_> =
        machine.numa_nodes.iter().map(|n| (n.latency_ns, n.bandwidth_mib)).collect();
    assert_eq!(nodes, [(Some(90), Some(200_000)); 2]);
    assert_eq!(machine.numa_latencies, [90, 160, 170, 90]);
    // Published for a distance of 20, here 10 * 160 / 90 one way and 10 * 170 / 90 the other; by
    // the distances, which say 10 and 30, it would be 204.
    let costs = Costs::new(&CostModel::Latency, &machine).unwrap().per_level;
    assert_eq!(costs, [136.0 * (1600.0 / 90.0 + 1700.0 / 90.0) / 2.0 / 20.0, 51.0]);
    // Machines that say nothing, and what is unknown: nothing is made up.
    let plain = load("broadwell-2s.synthetic");
    assert!(plain.numa_latencies.is_empty());
    assert!(plain.numa_nodes.iter().all(|n| n.latency_ns.is_none() && n.bandwidth_mib.is_none()));
}

#[test]
fn complace_costs_are_decades() {
    let costs = |name: &str| Costs::new(&CostModel::Complace, &load(name)).unwrap().per_level;
    assert_eq!(costs("broadwell-2s.synthetic"), [10000.0, 100.0, 1.0]);
    assert_eq!(costs("epyc-7763-nps4.synthetic"), [10000.0, 1000.0, 1000.0, 100.0, 1.0]);
}

#[test]
fn explicit_costs_must_match_the_branching_levels() {
    let machine = Topology::from_synthetic("pack:4 core:8 pu:2").unwrap();
    let costs = |text: &str| Costs::new(&text.parse::<CostModel>().unwrap(), &machine);
    assert_eq!(costs("180, 50,10").unwrap().per_level, [180.0, 50.0, 10.0]);
    assert_eq!(
        costs("180,50").unwrap_err().to_string(),
        "2 costs given, but the machine branches at 3 levels (between packages, between cores, \
         between PUs); give one cost for each, from the root of the tree down"
    );
    for bad in ["", "1,,2", "1,-2", "1,x", "inf", "NaN,1,2"] {
        assert!(bad.parse::<CostModel>().is_err(), "{bad}");
    }
}

#[test]
fn a_hybrid_machine_keeps_cores_without_l3_apart() {
    let machine = load("hybrid.xml");
    assert_eq!(counts(&machine), [1, 1, 4, 8, 10]);
    let hierarchy = Hierarchy::new(&machine);
    assert_eq!(hierarchy.cores(), 8);
    assert_eq!(hierarchy.core, [0, 0, 1, 1, 2, 3, 4, 5, 6, 7]);
    let parts: Vec<_> = hierarchy.levels.iter().map(|l| (l.between, l.part.clone())).collect();
    assert_eq!(parts[0], ("L3s", vec![0, 0, 0, 0, 0, 0, 0, 0, 1, 1]));
    assert_eq!(parts[1], ("L2s", vec![0, 0, 1, 1, 2, 2, 2, 2, 3, 3]));
    assert_eq!(parts[2], ("cores", vec![0, 0, 1, 1, 2, 3, 4, 5, 6, 7]));
    assert_eq!(parts[3].0, "PUs");
    assert_eq!(parts.len(), 4);
    let costs = Costs::new(&CostModel::Latency, &machine).unwrap().per_level;
    assert_eq!(costs, [82.0, 51.0, 20.0, 2.3]);
}

#[test]
fn this_machine_is_found_and_survives_its_xml() {
    let machine = Topology::discover().unwrap();
    assert!(machine.is_this_machine());
    let mask = topology::inherited_mask();
    assert_eq!(machine.allowed().intersection(&mask), machine.allowed());
    let read_back = Topology::from_xml_str(machine.to_xml()).unwrap();
    assert_eq!(read_back.pus, machine.pus);
    assert_eq!(read_back.objects, machine.objects);
    assert_eq!(read_back.line_bytes(), machine.line_bytes());
}

#[test]
fn the_inherited_mask_narrows_what_is_allowed() {
    let whole = Topology::discover().unwrap();
    let keep = whole.allowed().iter().last().unwrap();
    let narrowed = std::thread::spawn(move || {
        // SAFETY: an all-zero CPU set is valid, and the set outlives the call.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(keep, &mut set);
            assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
        }
        Topology::discover().unwrap()
    });
    let narrowed = narrowed.join().unwrap();
    assert_eq!(narrowed.allowed().to_string(), keep.to_string());
    assert_eq!(narrowed.pus.len(), whole.pus.len(), "the others stay visible");
    assert!(Hierarchy::new(&narrowed).levels.is_empty());
    let read_back = Topology::from_xml_str(narrowed.to_xml()).unwrap();
    assert_eq!(read_back.allowed(), narrowed.allowed());
}

/// A machine whose cpuset leaves two SMT siblings and one lone PU of three packages.
#[test]
fn a_restricted_machine_branches_where_the_allowed_pus_do() {
    let whole = Topology::from_synthetic("pack:4 core:2 pu:2").unwrap();
    let xml =
        whole.to_xml().replace("allowed_cpuset=\"0x0000ffff\"", "allowed_cpuset=\"0x00000213\"");
    let machine = Topology::from_xml_str(&xml).unwrap();
    assert_eq!(machine.allowed().to_string(), "0-1,4,9");
    assert_eq!(machine.pus.len(), 16);
    let hierarchy = Hierarchy::new(&machine);
    assert_eq!(hierarchy.pus, [0, 1, 4, 9]);
    assert_eq!(hierarchy.core, [0, 0, 1, 2]);
    let names: Vec<&str> = hierarchy.levels.iter().map(|level| level.between).collect();
    assert_eq!(names, ["packages", "PUs"]);
    assert_eq!(hierarchy.levels[0].part, [0, 0, 1, 2]);
}

/// Offline PUs are not in the tree: of 12 cores 7 are left, one of them without its sibling, and
/// the packages have 9 and 4 PUs.
#[test]
fn a_machine_with_offline_pus_is_as_uneven_as_it_is() {
    let machine = load("uneven.xml");
    assert_eq!(machine.allowed().to_string(), "0-1,4-10,12-15");
    let hierarchy = Hierarchy::new(&machine);
    assert_eq!((hierarchy.pus.len(), hierarchy.cores()), (13, 7));
    assert_eq!(hierarchy.os[8..10], [10, 12]);
    let names: Vec<&str> = hierarchy.levels.iter().map(|level| level.between).collect();
    assert_eq!(names, ["packages", "cores", "PUs"]);
    let parts = &hierarchy.levels[0].part;
    assert_eq!(parts.iter().filter(|&&package| package == 0).count(), 9);
}

/// XML of a newer major version is refused with its version and a way out; that of hwloc 1 is read.
#[test]
fn xml_of_other_major_versions() {
    let now = Topology::from_synthetic("pack:2 core:2 pu:1").unwrap();
    let version = |version: &str| {
        let xml = now.to_xml().replacen("topology version=\"2.0\"", version, 1);
        assert_ne!(xml, now.to_xml());
        Topology::from_xml_str(&xml)
    };
    let error = version("topology version=\"3.0\"").unwrap_err().to_string();
    assert_eq!(
        error,
        "the stored topology is hwloc XML of version 3.0, which is newer than the hwloc here reads; \
         write it with 'lstopo --export-xml-flags v2 machine.xml'"
    );
    let old = Topology::from_xml_str(VERSION_1).unwrap();
    assert_eq!((old.pus.len(), old.numa_nodes.len()), (2, 2));
    assert_eq!(Hierarchy::new(&old).levels.len(), 1);
}

/// As hwloc 1.11 wrote it: memory in the tree, above the package.
const VERSION_1: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc.dtd">
<topology>
  <object type="Machine" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003" online_cpuset="0x00000003" allowed_cpuset="0x00000003" nodeset="0x00000003" complete_nodeset="0x00000003" allowed_nodeset="0x00000003">
    <object type="NUMANode" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" online_cpuset="0x00000001" allowed_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" allowed_nodeset="0x00000001" local_memory="1073741824">
      <object type="Socket" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" online_cpuset="0x00000001" allowed_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" allowed_nodeset="0x00000001">
        <object type="Core" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" online_cpuset="0x00000001" allowed_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" allowed_nodeset="0x00000001">
          <object type="PU" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" online_cpuset="0x00000001" allowed_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" allowed_nodeset="0x00000001"/>
        </object>
      </object>
    </object>
    <object type="NUMANode" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" online_cpuset="0x00000002" allowed_cpuset="0x00000002" nodeset="0x00000002" complete_nodeset="0x00000002" allowed_nodeset="0x00000002" local_memory="1073741824">
      <object type="Socket" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" online_cpuset="0x00000002" allowed_cpuset="0x00000002" nodeset="0x00000002" complete_nodeset="0x00000002" allowed_nodeset="0x00000002">
        <object type="Core" os_index="0" cpuset="0x00000002" complete_cpuset="0x00000002" online_cpuset="0x00000002" allowed_cpuset="0x00000002" nodeset="0x00000002" complete_nodeset="0x00000002" allowed_nodeset="0x00000002">
          <object type="PU" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" online_cpuset="0x00000002" allowed_cpuset="0x00000002" nodeset="0x00000002" complete_nodeset="0x00000002" allowed_nodeset="0x00000002"/>
        </object>
      </object>
    </object>
  </object>
</topology>
"#;

#[test]
fn bad_descriptions_say_what_to_do() {
    let message = |spec: &str| Topology::from_spec(spec).unwrap_err().to_string();
    assert!(
        message("no-such.xml").starts_with("cannot read the machine description 'no-such.xml'")
    );
    for nonsense in ["", "pack:0", "core:2 pack:2 x", "hello"] {
        assert!(message(nonsense).contains("neither a file nor an hwloc synthetic"), "{nonsense}");
    }
    for xml in ["", "<topology", "<topology></topology>", "<html/>", "\0"] {
        let error = Topology::from_xml_str(xml).unwrap_err();
        assert!(matches!(error, TopologyError::Xml { .. }), "{xml}: {error}");
    }
    let whole = Topology::from_synthetic("core:2").unwrap();
    let cut = &whole.to_xml()[..whole.to_xml().len() / 2];
    assert!(Topology::from_xml_str(cut).is_err());
}

#[test]
fn places_are_told_in_words() {
    let machine = load("epyc-7763-nps4.synthetic");
    assert_eq!(machine.place_of(255), "package 1, NUMA node 7, L3 15, core 127");
    let small = Topology::from_synthetic("core:2 pu:1").unwrap();
    assert_eq!(small.place_of(1), "core 1");
    assert_eq!(small.describe(), "2 cores, 2 PUs");
}
