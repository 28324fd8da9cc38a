//! What a machine's description does not say: ways, latencies, protocol, core, energy.
//!
//! The figures are data, `data/families.json`, each with its source. A family is chosen by the
//! processor's model name; machines without one are generic. Neighbours: `machine.rs` completes a
//! topology with these figures.

use serde::Deserialize;
use std::sync::LazyLock;

/// How caches come to agree on who has a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// The last reader of an unchanged line forwards it; a changed line that is read goes to
    /// memory.
    Mesif,
    /// A changed line that is read stays with its owner, who forwards it; of unchanged lines that
    /// several have, memory sends copies.
    Moesi,
}

/// When a line is in a cache besides those inside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Filling {
    /// Whatever the caches inside hold is here, too; what leaves here leaves them.
    Inclusive,
    /// Filled on the way in, but left without regard to the caches inside.
    InclusionNotKept,
    /// Filled only with what the caches inside evict.
    Victim,
}

/// A level of caches.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheFigures {
    /// 1 is next to the core.
    pub level: u8,
    /// Ways, where the description of the machine does not say.
    pub ways: u32,
    /// Cycles of a hit.
    pub cycles: f64,
    /// When lines are here.
    pub filling: Filling,
}

/// The translation of addresses, second level: what is not in it is walked for.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
pub struct TlbFigures {
    /// Pages.
    pub entries: u32,
    /// Ways.
    pub ways: u32,
    /// Cycles of a walk through the page table.
    pub walk_cycles: f64,
}

/// The core as the interval model has it.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
pub struct CoreFigures {
    /// While nothing stalls.
    pub instructions_per_cycle: f64,
    /// Instructions that are in flight at most, so that misses among them overlap.
    pub window: u32,
    /// Misses that are in flight at most.
    pub outstanding: u32,
    /// Part of its rate that a thread keeps when the core's other threads run.
    pub smt_share: f64,
}

/// What is fetched before it is asked for.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
pub struct PrefetchFigures {
    /// Whether an instruction's next line is fetched when its last ones were equally far apart.
    pub stride: bool,
    /// Lines that are fetched ahead of a run of neighbouring lines; 0: none.
    pub stream_lines: u32,
}

/// The memory controllers.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
pub struct MemoryFigures {
    /// Part of the bandwidth that can be reached.
    pub occupied_share: f64,
}

/// A family of machines.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Family {
    /// What it is called.
    pub name: String,
    /// How model names of its processors begin, or what they contain.
    pub models: Vec<String>,
    /// Clock, GHz.
    pub ghz: f64,
    /// The coherence protocol.
    pub protocol: Protocol,
    /// By level.
    pub caches: Vec<CacheFigures>,
    /// The TLB.
    pub tlb: TlbFigures,
    /// The cores.
    pub core: CoreFigures,
    /// The prefetchers.
    pub prefetch: PrefetchFigures,
    /// The controllers.
    pub memory: MemoryFigures,
    /// Bandwidth of a link between memory nodes, one way.
    pub link_bytes_per_ns: f64,
    /// Name of the table of energies.
    pub energy: String,
    /// Where the figures are from.
    pub source: String,
}

/// What events cost in energy.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct EnergyFigures {
    /// What the table is called.
    pub name: String,
    /// An instruction, pJ.
    pub instruction_pj: f64,
    /// 64 bits from a cache of `cache_word_at_bytes`, pJ.
    pub cache_word_pj: f64,
    /// Size of that cache.
    pub cache_word_at_bytes: f64,
    /// With which power of its size a cache's energy grows.
    pub cache_exponent: f64,
    /// A line from memory or to it, pJ.
    pub memory_line_pj: f64,
    /// A line over a link between memory nodes, pJ.
    pub hop_line_pj: f64,
    /// A core at rest, W.
    pub core_static_watts: f64,
    /// Where the figures are from.
    pub source: String,
}

#[derive(Deserialize)]
struct File {
    families: Vec<Family>,
    energies: Vec<EnergyFigures>,
}

static FILE: LazyLock<File> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../data/families.json")).expect("checked by a test")
});

impl Family {
    /// The family of a processor with this model name.
    pub fn of_model(model: &str) -> &'static Family {
        let named = |family: &&Family| family.models.iter().any(|name| model.contains(name));
        let generic = FILE.families.last().expect("checked by a test");
        FILE.families.iter().find(named).unwrap_or(generic)
    }

    /// The figures of a level; those of the outermost one for levels beyond.
    pub fn cache(&self, level: u8) -> CacheFigures {
        let found = self.caches.iter().find(|cache| cache.level == level);
        *found.or(self.caches.last()).expect("checked by a test")
    }

    /// What events cost in energy.
    pub fn energies(&self) -> &'static EnergyFigures {
        FILE.energies.iter().find(|table| table.name == self.energy).expect("checked by a test")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_whole_and_has_a_source() {
        for family in &FILE.families {
            assert!(!family.source.is_empty() && !family.energies().source.is_empty());
            assert!(!family.caches.is_empty() && family.caches.is_sorted_by_key(|c| c.level));
            assert!(family.tlb.entries % family.tlb.ways == 0, "{}", family.name);
            assert!(family.ghz > 0.0 && family.core.window > 0 && family.core.outstanding > 0);
        }
        assert!(FILE.families.last().unwrap().models.is_empty(), "the last one is for all others");
    }

    #[test]
    fn a_family_is_found_by_the_model_s_name() {
        assert_eq!(Family::of_model("AMD EPYC 7763 64-Core Processor").protocol, Protocol::Moesi);
        assert_eq!(Family::of_model("Intel(R) Xeon(R) CPU E5-2680 v4").protocol, Protocol::Mesif);
        assert_eq!(Family::of_model("").name, "generic");
    }

    #[test]
    fn a_larger_cache_takes_the_energy_of_the_source() {
        let energies = Family::of_model("").energies();
        let grown = (1048576.0 / energies.cache_word_at_bytes).powf(energies.cache_exponent);
        assert!((energies.cache_word_pj * grown - 100.0).abs() < 0.5);
    }
}
