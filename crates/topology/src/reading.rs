//! Where a [`Topology`] comes from: this machine, a file, a text.

use crate::model::{ObjectKind, Topology};
use crate::{TopologyError, hwloc, sysfs};
use std::path::Path;

/// Largest cache: more than any of SRAM; the lines of more do not fit into memory when they are
/// simulated.
const MAX_CACHE_BYTES: u64 = 8 << 30;

impl Topology {
    /// This machine: by hwloc, or by `/sys` when hwloc finds nothing. CPUs outside the cgroup's
    /// cpuset or the inherited affinity mask are in the tree but not allowed.
    ///
    /// # Errors
    /// Fails when neither way shows a PU.
    pub fn discover() -> Result<Self, TopologyError> {
        let mask = crate::inherited_mask();
        let found = match hwloc::this_machine(&mask) {
            Some(topology) => topology,
            None => sysfs::read(Path::new("/sys"), &mask)?,
        };
        found.checked()
    }

    /// A machine as [`Topology::to_xml`] or `lstopo` wrote it.
    ///
    /// # Errors
    /// Fails when the text is no hwloc XML, or describes no PU.
    pub fn from_xml_str(xml: &str) -> Result<Self, TopologyError> {
        hwloc::from_xml(xml, "the stored topology")?.checked()
    }

    /// A machine from an hwloc XML file, or from a text file with a synthetic description.
    ///
    /// # Errors
    /// Fails when the file cannot be read, or describes no machine.
    pub fn from_xml_file(path: &Path) -> Result<Self, TopologyError> {
        let name = path.display().to_string();
        let text = std::fs::read(path)
            .map_err(|source| TopologyError::File { path: name.clone(), source })?;
        let text = String::from_utf8_lossy(&text);
        let synthetic = text.len() < 4096 && !text.contains('<') && text.contains(':');
        match synthetic {
            true => Self::from_synthetic(text.trim()).map_err(|error| match error {
                TopologyError::Synthetic { .. } => TopologyError::Xml { what: format!("'{name}'") },
                other => other,
            }),
            false => hwloc::from_xml(&text, &format!("'{name}'"))?.small_enough(),
        }
    }

    /// A machine from an hwloc synthetic description such as `pack:2 core:8 pu:2`.
    ///
    /// # Errors
    /// Fails when hwloc does not understand the text.
    pub fn from_synthetic(text: &str) -> Result<Self, TopologyError> {
        hwloc::from_synthetic(text)?.small_enough()
    }

    /// A machine from the name of an XML file or a synthetic description, whichever `spec` is.
    ///
    /// # Errors
    /// Fails when there is neither such a file nor such a description.
    pub fn from_spec(spec: &str) -> Result<Self, TopologyError> {
        let path = Path::new(spec);
        let looks_like_file = spec.ends_with(".xml") || spec.contains('/') && !spec.contains(':');
        match path.exists() || looks_like_file {
            true => Self::from_xml_file(path),
            false => Self::from_synthetic(spec),
        }
    }

    /// Of a description, which may have any size; this machine has what it has.
    fn small_enough(self) -> Result<Self, TopologyError> {
        for object in &self.objects {
            let (kind, bytes) = (object.kind, object.cache_bytes);
            if let ObjectKind::Cache(level) = kind
                && bytes > MAX_CACHE_BYTES
            {
                return Err(TopologyError::TooLargeCache { level, bytes });
            }
        }
        self.checked()
    }

    fn checked(self) -> Result<Self, TopologyError> {
        match self.pus.iter().any(|pu| pu.allowed) {
            true => Ok(self),
            false => Err(TopologyError::NothingAllowed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_that_cannot_be_worked_with_are_refused() {
        let error = |spec: &str| Topology::from_spec(spec).unwrap_err().to_string();
        let many = error("pack:1000000 core:1000000 pu:2");
        assert!(many.starts_with("the machine has more than 4096 PUs"), "{many}");
        let large = error("l3:1(size=1TiB) core:2 l2:1(size=1MiB) pu:1");
        assert!(large.starts_with("a cache of level 3 has 1099511627776 bytes"), "{large}");
        assert!(Topology::from_spec("l3:1(size=1GiB) core:2 pu:1").is_ok());
        let other = error("/proc/self/status");
        assert!(other.starts_with("'/proc/self/status' is not an hwloc XML"), "{other}");
    }
}
