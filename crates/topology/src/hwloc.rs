//! Fills the model from libhwloc: this machine, an XML description, a synthetic description.
//!
//! CPUs that may not be used are kept in the tree (so that logical numbers do not change meaning
//! with the cpuset) and marked. Neighbours: `model.rs` owns the result, `sysfs.rs` is the fallback.

use crate::model::{
    FULLY_ASSOCIATIVE, NumaNode, Object, ObjectId, ObjectKind, Pu, Source, Topology,
};
use crate::{TopologyError, memory, synthetic, xml};
use hwlocality::cpu::cpuset::CpuSet as HwlocSet;
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::{CacheAssociativity, ObjectAttributes};
use hwlocality::object::distance::DistancesKind;
use hwlocality::object::types::ObjectType;
use hwlocality::topology::builder::{BuildFlags, TopologyBuilder};
use hwlocality::topology::editor::AllowSet;
use hwlocality::topology::export::xml::XMLExportFlags;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use types::CpuSet;

type Loaded = hwlocality::Topology;

/// The machine the process runs on, with only the CPUs in `mask` allowed (all that the cpuset
/// allows when `mask` is empty). `None` when hwloc fails or finds no CPU.
pub fn this_machine(mask: &CpuSet) -> Option<Topology> {
    let mut loaded = quietly(&[NO_PLUGINS], || build(hwlocality::Topology::builder()))?;
    let narrowed: HwlocSet = loaded
        .allowed_cpuset()
        .iter_set()
        .filter(|&cpu| mask.is_empty() || mask.contains(usize::from(cpu)))
        .collect();
    loaded.edit(|editor| {
        // A refusal leaves what the cpuset allows; `convert` narrows once more below.
        let _ = editor.allow(AllowSet::Custom { cpuset: Some(&narrowed), nodeset: None });
    });
    let source = if loaded.is_this_system() { Source::Hwloc } else { Source::Xml };
    let mut topology = convert(&loaded, source)?;
    if source == Source::Hwloc && !mask.is_empty() {
        topology.pus.iter_mut().for_each(|pu| pu.allowed &= mask.contains(pu.os as usize));
    }
    topology.model = processor_model(&loaded);
    Some(topology)
}

/// A machine from hwloc XML; `what` names it in errors.
pub fn from_xml(text: &str, what: &str) -> Result<Topology, TopologyError> {
    let refused = || match xml::version(text).filter(|(major, _)| *major > NEWEST_MAJOR) {
        Some((_, version)) => TopologyError::NewerXml { what: what.into(), version },
        None => TopologyError::Xml { what: what.into() },
    };
    if !text.contains("<topology") || text.contains('\0') {
        return Err(refused());
    }
    if xml::pus(text) > MAX_PUS {
        return Err(TopologyError::TooManyPus { most: MAX_PUS });
    }
    // The document type names a file that the XML library would go looking for.
    let text = xml::without_doctype(text);
    let loaded = quietly(&[], || build(hwlocality::Topology::builder().from_xml(&text).ok()?));
    let loaded = loaded.ok_or_else(refused)?;
    let mut topology = convert(&loaded, Source::Xml).ok_or_else(refused)?;
    topology.model = processor_model(&loaded);
    Ok(topology)
}

/// A machine from an hwloc synthetic description.
pub fn from_synthetic(text: &str) -> Result<Topology, TopologyError> {
    let refused = || TopologyError::Synthetic { text: text.into() };
    if text.trim().is_empty() || text.contains('\0') {
        return Err(refused());
    }
    if synthetic::pus(text) > MAX_PUS {
        return Err(TopologyError::TooManyPus { most: MAX_PUS });
    }
    let load = |text: &str| {
        quietly(&[NO_PLUGINS], || build(hwlocality::Topology::builder().from_synthetic(text).ok()?))
    };
    // hwloc insists on PUs; people leave out what there is one of.
    let loaded = load(text).or_else(|| load(&format!("{text} pu:1"))).ok_or_else(refused)?;
    let topology = convert(&loaded, Source::Synthetic).ok_or_else(refused)?;
    Ok(Topology { assumed_sizes: synthetic::levels_without_size(text), ..topology })
}

/// hwloc takes seconds for as many, ten for twice as many, and minutes for a million.
const MAX_PUS: usize = 4096;

fn build(builder: TopologyBuilder) -> Option<Loaded> {
    builder.with_flags(BuildFlags::INCLUDE_DISALLOWED).ok()?.build().ok()
}

/// Newest major version of XML that every hwloc from 2.5 on reads; hwloc 3 writes its own unless
/// told.
const NEWEST_MAJOR: u32 = 2;

/// A setting of hwloc's in the environment.
type Setting = (&'static str, &'static str);

/// hwloc's plugins know graphics cards and other XML libraries, and bring dozens of libraries in,
/// which takes longer than everything else. For processors, caches and memory none is needed.
const NO_PLUGINS: Setting = ("HWLOC_PLUGINS_PATH", "/nonexistent");

/// Runs `load` with `settings` and hwloc's own messages off, as far as the user has not set them; a
/// panic of the bindings (they take an unforeseen error number for one) counts as a failure to
/// load.
fn quietly(settings: &[Setting], load: impl FnOnce() -> Option<Loaded>) -> Option<Loaded> {
    const HIDE: Setting = ("HWLOC_HIDE_ERRORS", "2");
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let all = settings.iter().chain([&HIDE]);
    let unset: Vec<&Setting> = all.filter(|(name, _)| std::env::var_os(name).is_none()).collect();
    for (name, value) in &unset {
        // SAFETY: Rust's own readers of the environment hold the lock that this takes; machines are
        // loaded under `ONE_AT_A_TIME`, before the callers start threads that read it through libc.
        unsafe { std::env::set_var(name, value) };
    }
    let loaded = catch_unwind(AssertUnwindSafe(load)).ok().flatten();
    for (name, _) in unset {
        // SAFETY: as above; removed so that child processes see their environment unchanged.
        unsafe { std::env::remove_var(name) };
    }
    loaded
}

/// Copies hwloc's tree; `None` when it has no PU.
fn convert(loaded: &Loaded, source: Source) -> Option<Topology> {
    let mut topology = Topology {
        objects: Vec::new(),
        pus: Vec::new(),
        numa_nodes: Vec::new(),
        numa_distances: Vec::new(),
        numa_latencies: Vec::new(),
        source,
        model: String::new(),
        assumed_sizes: Vec::new(),
        xml: loaded.export_xml(XMLExportFlags::empty()).ok()?.to_string(),
    };
    add_numa_nodes(&mut topology, loaded);
    memory::add(&mut topology, loaded);
    add_object(&mut topology, loaded.root_object(), None, loaded)?;
    for (index, pu) in topology.pus.iter().enumerate() {
        if pu.logical as usize != index {
            return None;
        }
    }
    (!topology.pus.is_empty()).then_some(topology)
}

/// Adds `from` and everything below it, depth first; returns its id.
fn add_object(
    topology: &mut Topology,
    from: &TopologyObject,
    parent: Option<ObjectId>,
    loaded: &Loaded,
) -> Option<ObjectId> {
    let id = ObjectId(topology.objects.len() as u32);
    let kind = kind_of(from.object_type());
    let (cache_bytes, line_bytes, ways) = cache_sizes(from);
    topology.objects.push(Object {
        kind,
        depth: usize::try_from(from.depth()).map_or(0, |depth| depth as u32),
        logical: from.logical_index() as u32,
        os: from.os_index().and_then(|os| u32::try_from(os).ok()),
        parent,
        children: Vec::new(),
        first_pu: topology.pus.len() as u32,
        pus: 0,
        cache_bytes,
        line_bytes,
        ways,
        inclusive: from.info("Inclusive").map(|value| value.to_bytes() == b"1"),
        numa: local_nodes(from),
    });
    if kind == ObjectKind::Pu {
        let os = from.os_index()?;
        let allowed = loaded.allowed_cpuset().is_set(os);
        let logical = from.logical_index() as u32;
        topology.pus.push(Pu { logical, os: os as u32, object: id, allowed });
    }
    for child in from.normal_children() {
        let child = add_object(topology, child, Some(id), loaded)?;
        topology.objects[id.index()].children.push(child);
    }
    let object = &mut topology.objects[id.index()];
    object.pus = topology.pus.len() as u32 - object.first_pu;
    Some(id)
}

fn kind_of(kind: ObjectType) -> ObjectKind {
    match kind {
        ObjectType::Machine => ObjectKind::Machine,
        ObjectType::Package => ObjectKind::Package,
        ObjectType::Die => ObjectKind::Die,
        ObjectType::L1Cache => ObjectKind::Cache(1),
        ObjectType::L2Cache => ObjectKind::Cache(2),
        ObjectType::L3Cache => ObjectKind::Cache(3),
        ObjectType::L4Cache => ObjectKind::Cache(4),
        ObjectType::L5Cache => ObjectKind::Cache(5),
        ObjectType::Core => ObjectKind::Core,
        ObjectType::PU => ObjectKind::Pu,
        _ => ObjectKind::Group,
    }
}

/// Size and line size of a cache, bytes, and its ways; 0 where unknown.
fn cache_sizes(object: &TopologyObject) -> (u64, u32, u32) {
    match object.attributes() {
        Some(ObjectAttributes::Cache(cache)) => (
            cache.size().map_or(0, |size| size.get()),
            cache.line_size().map_or(0, |line| line.get() as u32),
            match cache.associativity() {
                CacheAssociativity::Unknown => 0,
                CacheAssociativity::Full => FULLY_ASSOCIATIVE,
                CacheAssociativity::Ways(ways) => ways.get() as u32,
            },
        ),
        _ => (0, 0, 0),
    }
}

/// Logical numbers of the NUMA nodes attached to `object`, also behind memory-side caches.
fn local_nodes(object: &TopologyObject) -> Vec<usize> {
    let mut nodes = Vec::new();
    for child in object.memory_children() {
        match child.object_type() {
            ObjectType::NUMANode => nodes.push(child.logical_index()),
            _ => nodes.extend(local_nodes(child)),
        }
    }
    nodes
}

fn add_numa_nodes(topology: &mut Topology, loaded: &Loaded) {
    for node in loaded.objects_with_type(ObjectType::NUMANode) {
        let bytes = match node.attributes() {
            Some(ObjectAttributes::NUMANode(numa)) => numa.local_memory().map_or(0, |b| b.get()),
            _ => 0,
        };
        let logical = node.logical_index() as u32;
        let os = node.os_index().map_or(logical, |os| os as u32);
        topology.numa_nodes.push(NumaNode { logical, os, bytes, ..NumaNode::default() });
    }
    let nodes = topology.numa_nodes.len();
    let kind = Some(DistancesKind::MEANS_LATENCY);
    let matrices = loaded.distances_with_type(kind, ObjectType::NUMANode).unwrap_or_default();
    for matrix in &matrices {
        let order: Option<Vec<usize>> =
            matrix.objects().map(|node| node.map(|n| n.logical_index())).collect();
        let Some(order) = order.filter(|o| o.len() == nodes && nodes > 1) else { continue };
        let mut distances = vec![0; nodes * nodes];
        for (row, &from) in order.iter().enumerate() {
            for (column, &to) in order.iter().enumerate() {
                distances[from * nodes + to] = matrix.distances()[row * nodes + column];
            }
        }
        topology.numa_distances = distances;
        return;
    }
}

/// The processor's name as the first package gives it.
fn processor_model(loaded: &Loaded) -> String {
    let package = loaded.objects_with_type(ObjectType::Package).next();
    package
        .and_then(|p| p.info("CPUModel"))
        .map(|name| name.to_string_lossy().trim().to_string())
        .unwrap_or_default()
}
