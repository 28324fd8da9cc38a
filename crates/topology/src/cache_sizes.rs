//! [`CacheSizes`]: what the caches of a machine hold.

use crate::hierarchy::Hierarchy;
use crate::model::{Object, ObjectKind, Topology};
use std::collections::BTreeSet;

/// What the caches of the PUs that may be used hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheSizes {
    /// Bytes of the largest cache that belongs to one core; the least of all cores.
    pub private_bytes: u64,
    /// Bytes of the outermost cache, which may be the same; the least of all.
    pub outer_bytes: u64,
    /// How many of these there are.
    pub outer_caches: usize,
}

impl CacheSizes {
    /// `None` where the size of any of them is not known.
    pub fn of(topology: &Topology) -> Option<Self> {
        let mut private_bytes = u64::MAX;
        let mut outer = BTreeSet::new();
        for pu in Hierarchy::new(topology).pus {
            let core = topology.ancestor(pu, ObjectKind::Core);
            let of_core = core.map_or(1, |core| topology.object(core).pus);
            let caches = caches(topology, pu);
            let own = caches.iter().rfind(|(_, cache)| cache.pus <= of_core)?;
            private_bytes = private_bytes.min(own.1.cache_bytes);
            let (id, cache) = caches.last()?;
            outer.insert((cache.cache_bytes, *id));
        }
        let (outer_bytes, _) = *outer.first()?;
        (private_bytes.min(outer_bytes) > 0).then_some(Self {
            private_bytes,
            outer_bytes,
            outer_caches: outer.len(),
        })
    }
}

/// The caches of a PU, innermost first.
fn caches(topology: &Topology, pu: u32) -> Vec<(u32, &Object)> {
    let mut found = Vec::new();
    let mut at = Some(topology.pus[pu as usize].object);
    while let Some(id) = at {
        let object = topology.object(id);
        if matches!(object.kind, ObjectKind::Cache(_)) {
            found.push((id.0, object));
        }
        at = object.parent;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_of_a_core_and_of_all() {
        let of = |spec| CacheSizes::of(&Topology::from_synthetic(spec).unwrap());
        let two = "pack:2 l3:1(size=32MiB) l2:4(size=1MiB) core:1 pu:2";
        let sizes = CacheSizes { private_bytes: 1 << 20, outer_bytes: 32 << 20, outer_caches: 2 };
        assert_eq!(of(two), Some(sizes));
        let shared = "pack:1 l2:2(size=512KiB) l1:2(size=32KiB) core:1 pu:1";
        let sizes = CacheSizes { private_bytes: 32 << 10, outer_bytes: 512 << 10, outer_caches: 2 };
        assert_eq!(of(shared), Some(sizes));
        let own = "pack:1 l2:4(size=512KiB) core:1 pu:1";
        let sizes =
            CacheSizes { private_bytes: 512 << 10, outer_bytes: 512 << 10, outer_caches: 4 };
        assert_eq!(of(own), Some(sizes));
        assert_eq!(of("pack:2 core:4 pu:1"), None);
    }
}
