//! Writes a model as hwloc XML (version 2), for machines that hwloc itself could not read.
//!
//! Neighbours: `sysfs.rs` builds such models, `hwloc.rs` reads the XML back.

use crate::model::{FULLY_ASSOCIATIVE, ObjectId, ObjectKind, Topology};
use std::fmt::Write;
use types::CpuSet;

/// The text without its `<!DOCTYPE …>`, which names a file that is rarely there. No empty line
/// stays behind: hwloc's own small parser, used where its XML plugin is not installed, stumbles
/// over it.
pub fn without_doctype(text: &str) -> String {
    let Some(start) = text.find("<!DOCTYPE") else { return text.into() };
    let Some(length) = text[start..].find('>') else { return text.into() };
    format!("{}{}", &text[..start], text[start + length + 1..].trim_start())
}

/// How many PUs a document has.
pub fn pus(text: &str) -> usize {
    text.matches("type=\"PU\"").count()
}

/// The model as an hwloc XML document.
pub fn write(topology: &Topology) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    out.push_str("<topology version=\"2.0\">\n");
    write_object(&mut out, topology, ObjectId(0), 1);
    out.push_str("</topology>\n");
    out
}

fn write_object(out: &mut String, topology: &Topology, id: ObjectId, indent: usize) {
    let object = topology.object(id);
    let range = object.first_pu as usize..(object.first_pu + object.pus) as usize;
    let cpus: CpuSet = topology.pus[range].iter().map(|pu| pu.os as usize).collect();
    let sets = format!(
        "cpuset=\"{0}\" complete_cpuset=\"{0}\" nodeset=\"{1}\" complete_nodeset=\"{1}\"",
        mask(&cpus),
        mask(&nodes_of(topology, id))
    );
    let _ = write!(out, "{:indent$}<object type=\"{}\" {sets}", "", hwloc_name(object.kind));
    if let Some(os) = object.os {
        let _ = write!(out, " os_index=\"{os}\"");
    }
    if object.parent.is_none() {
        let every_node = topology.numa_nodes.iter().map(|n| n.os as usize).collect();
        let _ = write!(
            out,
            " allowed_cpuset=\"{}\" allowed_nodeset=\"{}\"",
            mask(&topology.allowed()),
            mask(&every_node)
        );
    }
    if let ObjectKind::Cache(level) = object.kind {
        let (size, line) = (object.cache_bytes, object.line_bytes);
        let _ = write!(
            out,
            " cache_size=\"{size}\" depth=\"{level}\" cache_linesize=\"{line}\" \
             cache_associativity=\"{}\" cache_type=\"{}\"",
            // hwloc's way to say that a cache is fully associative.
            if object.ways == FULLY_ASSOCIATIVE { -1 } else { i64::from(object.ways) },
            u8::from(level == 1)
        );
    }
    let _ = writeln!(out, " gp_index=\"{}\">", id.0 + 1);
    for &node in &object.numa {
        let node = &topology.numa_nodes[node];
        let _ = writeln!(
            out,
            "{:indent$} <object type=\"NUMANode\" os_index=\"{}\" {sets} gp_index=\"{}\" \
             local_memory=\"{}\"/>",
            "",
            node.os,
            topology.objects.len() as u32 + 1 + node.logical,
            node.bytes
        );
    }
    for &child in &object.children {
        write_object(out, topology, child, indent + 1);
    }
    let _ = writeln!(out, "{:indent$}</object>", "");
}

/// OS numbers of the NUMA nodes at, below, or else above the object.
fn nodes_of(topology: &Topology, id: ObjectId) -> CpuSet {
    let object = topology.object(id);
    let inside = |other: &&crate::Object| {
        other.first_pu >= object.first_pu
            && other.first_pu + other.pus <= object.first_pu + object.pus
    };
    let os = |numa: &[usize]| -> Vec<usize> {
        numa.iter().map(|&n| topology.numa_nodes[n].os as usize).collect()
    };
    let below: CpuSet =
        topology.objects.iter().filter(inside).flat_map(|other| os(&other.numa)).collect();
    let mut at = object.parent;
    while let Some(above) = at.filter(|_| below.is_empty()) {
        let numa = os(&topology.object(above).numa);
        if !numa.is_empty() {
            return numa.into_iter().collect();
        }
        at = topology.object(above).parent;
    }
    below
}

fn hwloc_name(kind: ObjectKind) -> String {
    match kind {
        ObjectKind::Machine => "Machine".into(),
        ObjectKind::Package => "Package".into(),
        ObjectKind::Die => "Die".into(),
        ObjectKind::Group => "Group".into(),
        ObjectKind::Cache(level) => format!("L{level}Cache"),
        ObjectKind::Core => "Core".into(),
        ObjectKind::Pu => "PU".into(),
    }
}

/// hwloc's notation of a set: 32-bit words, most significant first, `0x00000001,0x00000003`.
fn mask(set: &CpuSet) -> String {
    let words = set.iter().max().map_or(1, |last| last / 32 + 1);
    let word = |w: usize| (0..32).fold(0u32, |m, b| m | u32::from(set.contains(w * 32 + b)) << b);
    let words: Vec<String> = (0..words).rev().map(|w| format!("0x{:08x}", word(w))).collect();
    words.join(",")
}

/// Major version and version of an hwloc XML document; version 1 documents have none.
pub fn version(text: &str) -> Option<(u32, String)> {
    let tag = text.split("<topology").nth(1)?.split('>').next()?;
    let version = tag.split("version=\"").nth(1)?.split('"').next()?;
    let major = version.split('.').next()?.parse().ok()?;
    // It goes into an error message, which no document may fill.
    Some((major, version.chars().take(12).filter(|c| !c.is_control()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_words_of_32_bits() {
        assert_eq!(mask(&CpuSet::parse_list("0-1").unwrap()), "0x00000003");
        assert_eq!(mask(&CpuSet::parse_list("33,0").unwrap()), "0x00000002,0x00000001");
        assert_eq!(mask(&CpuSet::new()), "0x00000000");
    }

    #[test]
    fn the_document_type_goes() {
        let text = "<?xml?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology/>";
        assert_eq!(without_doctype(text), "<?xml?>\n<topology/>");
        assert_eq!(without_doctype("<topology/>"), "<topology/>");
    }
}
