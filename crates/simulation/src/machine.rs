//! The machine as the simulation has it: caches with their sets, cores, memory nodes, distances.
//!
//! Built from a topology, completed by a [`Family`]. Caches that belong to exactly the same PUs
//! form a *domain*: coherence is kept between domains. Neighbours: `coherence.rs` moves lines
//! between the caches, `interconnect.rs` between nodes.

use crate::family::{EnergyFigures, Family, Filling};
use crate::prepare::PAGE_SHIFT;
use std::collections::HashMap;
use topology::{
    CostModel, Costs, DataNodes, FULLY_ASSOCIATIVE, Hierarchy, ObjectId, ObjectKind, Topology,
};

/// Most caches of a machine; their numbers take 16 bits.
pub const MAX_CACHES: usize = 65_000;

/// Why a machine cannot be simulated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum MachineError {
    #[error(
        "{machine} names no caches, so nothing can be simulated on it; describe them, as in \
         'pack:2 numa:1 l3:1(size=32MiB) core:8 l2:1(size=1MiB) l1d:1(size=32KiB) pu:1'"
    )]
    NoCaches { machine: String },
    #[error("{machine} does not say how large its {cache} is; add its size to the description")]
    NoSize { machine: String, cache: String },
    #[error(
        "{machine} has an {cache} of {bytes} bytes, which is no whole number of lines of {line} \
         bytes; correct its size in the description"
    )]
    Size { machine: String, cache: String, bytes: u64, line: u32 },
    #[error("{machine} has {count} caches, more than the {MAX_CACHES} that can be simulated")]
    TooLarge { machine: String, count: usize },
}

/// A cache.
#[derive(Clone, PartialEq, Debug)]
pub struct CacheSpec {
    /// 1 is next to the core.
    pub level: u8,
    /// Bytes.
    pub bytes: u64,
    /// Ways of a set.
    pub ways: u32,
    /// Sets.
    pub sets: u64,
    /// Time of a hit, ns.
    pub hit_ns: f64,
    /// When lines are here.
    pub filling: Filling,
    /// The next cache outwards, which takes what leaves this one.
    pub outer: Option<u32>,
    /// The caches directly inside.
    pub inner: Vec<u32>,
    /// Its domain.
    pub domain: u32,
}

/// Caches that belong to exactly the same PUs.
#[derive(Clone, PartialEq, Debug)]
pub struct Domain {
    /// Its caches, inwards to outwards.
    pub caches: Vec<u32>,
    /// Index of its first PU in [`Machine::pus`].
    pub first_pu: u32,
    /// Number of its PUs.
    pub pus: u32,
}

/// A processing unit.
#[derive(Clone, PartialEq, Debug)]
pub struct PuSpec {
    /// hwloc's logical number (L#).
    pub logical: u32,
    /// The kernel's number (P#).
    pub os: u32,
    /// Number of its core.
    pub core: u32,
    /// Its caches, inwards to outwards.
    pub chain: Vec<u32>,
    /// Their domains, inwards to outwards.
    pub domains: Vec<u32>,
    /// Row of [`Machine::memory_ns`].
    pub home: usize,
    /// The node on which its threads' first touch puts a page.
    pub node: usize,
}

/// A machine that can be simulated.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// What it is called.
    pub name: String,
    /// Bytes of a cache line.
    pub line_bytes: u64,
    /// The family whose figures complete the description.
    pub family: &'static Family,
    /// What events cost in energy.
    pub energies: &'static EnergyFigures,
    /// All data caches.
    pub caches: Vec<CacheSpec>,
    /// All domains.
    pub domains: Vec<Domain>,
    /// The PUs that may be used, in the order of [`Hierarchy::pus`].
    pub pus: Vec<PuSpec>,
    /// Number of cores.
    pub cores: usize,
    /// The branching levels.
    pub hierarchy: Hierarchy,
    /// Time of a transfer between caches that a level splits, ns, from the root down.
    pub transfer_ns: Vec<f64>,
    /// Logical numbers (L#) of the memory nodes.
    pub nodes: Vec<u32>,
    /// Bandwidth of each node, bytes per ns.
    pub bandwidth: Vec<f64>,
    /// Time of an access to memory, ns: from the processors of a home to a node.
    pub memory_ns: Vec<Vec<f64>>,
    /// For each home, its own node.
    pub home_node: Vec<usize>,
    /// What a reader should know about what was assumed; sentences.
    pub notes: Vec<String>,
}

impl Machine {
    /// The allowed part of `topology`, called `name`.
    ///
    /// # Errors
    /// When caches or their sizes are not known.
    pub fn new(topology: &Topology, name: &str) -> Result<Self, MachineError> {
        let hierarchy = Hierarchy::new(topology);
        let family = Family::of_model(&topology.model);
        let costs = Costs::new(&CostModel::Latency, topology).expect("published figures fit all");
        let memory = DataNodes::new(topology, &costs);
        let mut building = Building::new(topology, name, family);
        let chains: Vec<Vec<u32>> =
            hierarchy.pus.iter().map(|&pu| building.chain(pu)).collect::<Result<_, _>>()?;
        let (caches, mut notes) = (building.caches, building.notes);
        if caches.len() > MAX_CACHES {
            return Err(MachineError::TooLarge { machine: name.into(), count: caches.len() });
        }
        notes.extend(memory.notes.clone());
        notes.extend(note_of_assumed_sizes(topology, name, &caches));
        if topology.model.is_empty() {
            notes.push(format!(
                "The description of {name} names no processor: latencies, protocol, TLB and core are \
                 those of the family '{}'.",
                family.name
            ));
        }
        let mut machine = Self {
            name: name.into(),
            line_bytes: u64::from(topology.line_bytes()),
            family,
            energies: family.energies(),
            caches,
            domains: Vec::new(),
            pus: Vec::new(),
            cores: hierarchy.cores(),
            transfer_ns: costs.per_level,
            nodes: memory.nodes.iter().map(|node| node.logical).collect(),
            bandwidth: memory.nodes.iter().map(|node| node.bandwidth).collect(),
            home_node: memory.nearest.clone(),
            memory_ns: memory.cost,
            hierarchy,
            notes,
        };
        machine.form_domains(&chains);
        let spec = |(index, chain): (usize, Vec<u32>)| PuSpec {
            logical: machine.hierarchy.pus[index],
            os: machine.hierarchy.os[index],
            core: machine.hierarchy.core[index],
            domains: domains_of(&chain, &machine.caches),
            chain,
            home: memory.home[index],
            node: memory.nearest[memory.home[index]],
        };
        machine.pus = chains.into_iter().enumerate().map(spec).collect();
        Ok(machine)
    }

    /// Groups caches by their PUs.
    fn form_domains(&mut self, chains: &[Vec<u32>]) {
        let mut pus: Vec<(u32, u32)> = vec![(u32::MAX, 0); self.caches.len()];
        for (pu, chain) in chains.iter().enumerate() {
            for &cache in chain {
                let range = &mut pus[cache as usize];
                range.0 = range.0.min(pu as u32);
                range.1 += 1;
            }
        }
        let mut known: HashMap<(u32, u32), u32> = HashMap::new();
        for chain in chains {
            for &cache in chain {
                let (first_pu, count) = pus[cache as usize];
                let domains = &mut self.domains;
                let id = *known.entry((first_pu, count)).or_insert_with(|| {
                    domains.push(Domain { caches: Vec::new(), first_pu, pus: count });
                    domains.len() as u32 - 1
                });
                self.caches[cache as usize].domain = id;
                let list = &mut self.domains[id as usize].caches;
                if !list.contains(&cache) {
                    list.push(cache);
                }
            }
        }
    }

    /// The level of [`Hierarchy::levels`] that splits two PUs, by their indexes; the number of
    /// levels for a PU and itself.
    pub fn level_between(&self, a: u32, b: u32) -> usize {
        self.hierarchy.common(a as usize, b as usize)
    }

    /// What transfers between PUs that a level splits are called: `between packages`.
    pub fn level_name(&self, level: usize) -> String {
        let level = self.hierarchy.levels.get(level);
        level.map_or_else(|| "on one PU".into(), placement::level_name)
    }

    /// Time of a transfer from a cache of `from` to `to`, PUs by index, ns. Levels with several
    /// distances between memory nodes are stretched by them.
    pub fn transfer_time(&self, from: u32, to: u32) -> f64 {
        let level = self.level_between(from, to);
        let Some(&usual) = self.transfer_ns.get(level) else { return self.innermost_ns(to) };
        let (a, b) = (&self.pus[from as usize], &self.pus[to as usize]);
        if a.node == b.node {
            return usual;
        }
        usual * self.memory_ns[b.home][a.node] / self.mean_remote(level)
    }

    /// Mean time of accesses to memory between nodes whose PUs `level` splits.
    fn mean_remote(&self, level: usize) -> f64 {
        let first = |node: usize| self.pus.iter().position(|pu| pu.node == node);
        let firsts: Vec<(usize, usize)> =
            (0..self.nodes.len()).filter_map(|n| Some((n, first(n)?))).collect();
        let pairs = firsts.iter().flat_map(|a| firsts.iter().map(move |b| (*a, *b)));
        let (mut sum, mut count) = (0.0, 0.0);
        for ((_, a), (to, b)) in pairs.filter(|(a, b)| a.0 != b.0) {
            if self.hierarchy.common(a, b) == level {
                sum += self.memory_ns[self.pus[a].home][to];
                count += 1.0;
            }
        }
        if count > 0.0 { sum / count } else { 1.0 }
    }

    fn innermost_ns(&self, pu: u32) -> f64 {
        self.caches[self.pus[pu as usize].chain[0] as usize].hit_ns
    }

    /// The page that a line is in.
    pub fn page_of(&self, line: u64) -> u64 {
        (line * self.line_bytes) >> PAGE_SHIFT
    }

    /// Number of levels of caches.
    pub fn cache_levels(&self) -> u8 {
        self.caches.iter().map(|cache| cache.level).max().unwrap_or(0)
    }

    /// Sets and ways of the innermost caches, if all are alike, have lines of 64 bytes and belong
    /// to one PU each: a filter that replaces by LRU can then stand for each of them.
    pub fn cache_of_each_pu(&self) -> Option<(u64, u32)> {
        let mut inner = self.pus.iter().map(|pu| {
            let cache = &self.caches[pu.chain[0] as usize];
            let is_own = self.domains[cache.domain as usize].pus == 1;
            (is_own && self.line_bytes == 64).then_some((cache.sets, cache.ways))
        });
        let first = inner.next()??;
        inner.all(|other| other == Some(first)).then_some(first)
    }

    /// What the numbers of sets of all innermost caches have in common: in a filter with so many
    /// sets, what was accessed last in its set is what was accessed last in the cache's.
    pub fn filter_sets(&self) -> u64 {
        let inner = self.pus.iter().map(|pu| self.caches[pu.chain[0] as usize].sets);
        inner.fold(0, gcd).max(1)
    }

    /// Fewest ways of all innermost caches.
    pub fn fewest_ways(&self) -> u32 {
        let inner = self.pus.iter().map(|pu| self.caches[pu.chain[0] as usize].ways);
        inner.min().unwrap_or(1)
    }
}

/// Greatest common divisor; 0 counts as a multiple of all.
pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn domains_of(chain: &[u32], caches: &[CacheSpec]) -> Vec<u32> {
    let mut domains: Vec<u32> = chain.iter().map(|&cache| caches[cache as usize].domain).collect();
    domains.dedup();
    domains
}

/// Says which caches have sizes that the description does not give.
fn note_of_assumed_sizes(topology: &Topology, name: &str, caches: &[CacheSpec]) -> Option<String> {
    let size = |level: &u8| {
        let cache = caches.iter().find(|cache| cache.level == *level)?;
        Some(format!("L{level} {}", types::numbers::size(cache.bytes)))
    };
    let sizes: Vec<String> = topology.assumed_sizes.iter().filter_map(size).collect();
    (!sizes.is_empty()).then(|| {
        format!(
            "The description of {name} leaves out sizes of caches; simulated are hwloc's own: {}.",
            sizes.join(", ")
        )
    })
}

/// Caches while they are gathered.
struct Building<'a> {
    topology: &'a Topology,
    name: &'a str,
    family: &'static Family,
    known: HashMap<ObjectId, u32>,
    caches: Vec<CacheSpec>,
    notes: Vec<String>,
}

impl<'a> Building<'a> {
    fn new(topology: &'a Topology, name: &'a str, family: &'static Family) -> Self {
        let (known, caches, notes) = Default::default();
        Self { topology, name, family, known, caches, notes }
    }

    /// The caches of a PU, inwards to outwards.
    fn chain(&mut self, pu: u32) -> Result<Vec<u32>, MachineError> {
        let mut chain: Vec<u32> = Vec::new();
        let mut at = Some(self.topology.pus[pu as usize].object);
        while let Some(id) = at {
            let object = self.topology.object(id);
            if matches!(object.kind, ObjectKind::Cache(_)) {
                let cache = self.cache(id)?;
                if let Some(&inner) = chain.last() {
                    self.caches[inner as usize].outer = Some(cache);
                    let list = &mut self.caches[cache as usize].inner;
                    if !list.contains(&inner) {
                        list.push(inner);
                    }
                }
                chain.push(cache);
            }
            at = object.parent;
        }
        match chain.is_empty() {
            true => Err(MachineError::NoCaches { machine: self.name.into() }),
            false => Ok(chain),
        }
    }

    fn cache(&mut self, id: ObjectId) -> Result<u32, MachineError> {
        if let Some(&known) = self.known.get(&id) {
            return Ok(known);
        }
        let object = self.topology.object(id);
        let ObjectKind::Cache(level) = object.kind else { unreachable!("the caller has looked") };
        let (machine, cache) = (self.name.to_string(), object.kind.to_string());
        let (bytes, line) = (object.cache_bytes, self.topology.line_bytes());
        if bytes == 0 {
            return Err(MachineError::NoSize { machine, cache });
        }
        if bytes % u64::from(line) != 0 {
            return Err(MachineError::Size { machine, cache, bytes, line });
        }
        let figures = self.family.cache(level);
        let lines = bytes / u64::from(line);
        let ways = match object.ways {
            0 => usual_ways(lines, figures.ways),
            FULLY_ASSOCIATIVE => lines as u32,
            ways if lines.is_multiple_of(u64::from(ways)) => ways,
            ways => {
                let taken = usual_ways(lines, ways);
                let text = format!(
                    "{lines} lines of the {cache} cannot lie in {ways} ways: {taken} are simulated."
                );
                if !self.notes.contains(&text) {
                    self.notes.push(text);
                }
                taken
            }
        };
        self.caches.push(CacheSpec {
            level,
            bytes,
            ways,
            sets: lines / u64::from(ways),
            hit_ns: figures.cycles / self.family.ghz,
            filling: match object.inclusive {
                Some(true) => Filling::Inclusive,
                Some(false) if figures.filling == Filling::Inclusive => Filling::InclusionNotKept,
                _ => figures.filling,
            },
            outer: None,
            inner: Vec::new(),
            domain: 0,
        });
        let number = self.caches.len() as u32 - 1;
        self.known.insert(id, number);
        Ok(number)
    }
}

/// The usual number of ways, or up to twice as many if that makes the sets a power of two, or the
/// next larger number by which the lines can be divided.
fn usual_ways(lines: u64, usual: u32) -> u32 {
    let usual = u64::from(usual).min(lines);
    let fits = |ways: &u64| lines.is_multiple_of(*ways);
    // Parts of an address say which set: 48 KiB have 12 ways.
    let by_address =
        (usual..=2 * usual).find(|ways| fits(ways) && (lines / ways).is_power_of_two());
    by_address.or_else(|| (usual..=lines).find(fits)).unwrap_or(lines) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(spec: &str) -> Result<Machine, MachineError> {
        Machine::new(&Topology::from_synthetic(spec).unwrap(), "the machine")
    }

    #[test]
    fn caches_of_the_same_pus_are_one_domain() {
        let spec = "pack:2 numa:1(memory=1GiB) l3:1(size=1MiB) core:2 l2:1(size=256KiB) l1d:1(size=32KiB) pu:2";
        let machine = machine(spec).unwrap();
        assert_eq!((machine.caches.len(), machine.domains.len()), (10, 6));
        assert_eq!(machine.pus.len(), 8);
        let levels: Vec<u8> =
            machine.pus[5].chain.iter().map(|&c| machine.caches[c as usize].level).collect();
        assert_eq!(levels, [1, 2, 3]);
        assert_eq!(machine.pus[5].domains.len(), 2);
        assert_eq!(machine.pus[4].domains, machine.pus[5].domains);
        assert_ne!(machine.pus[3].domains, machine.pus[4].domains);
        let l1 = &machine.caches[machine.pus[0].chain[0] as usize];
        assert_eq!((l1.ways, l1.sets), (8, 64));
        assert_eq!(machine.filter_sets(), 64);
        assert_eq!(machine.level_between(0, 1), 2);
        assert!(machine.transfer_time(0, 7) > machine.transfer_time(0, 2));
    }

    #[test]
    fn machines_without_caches_or_sizes_are_refused() {
        let error = machine("pack:2 core:2 pu:2").unwrap_err();
        assert!(error.to_string().starts_with("the machine names no caches"), "{error}");
        let mut topology = Topology::from_synthetic("core:2 l1d:1(size=32KiB) pu:1").unwrap();
        topology.objects.iter_mut().for_each(|object| object.cache_bytes = 0);
        let error = Machine::new(&topology, "it").unwrap_err();
        assert_eq!(error, MachineError::NoSize { machine: "it".into(), cache: "L1".into() });
    }

    #[test]
    fn sizes_that_are_left_out_are_told() {
        let machine = machine("l3:1(size=1MiB) core:2 l2:1 l1d:1(size=32KiB) pu:1").unwrap();
        let told = machine
            .notes
            .iter()
            .any(|note| note.contains("leaves out sizes") && note.contains(": L2 "));
        assert!(told, "{:?}", machine.notes);
    }

    #[test]
    fn odd_numbers_of_ways_are_what_divides_the_lines() {
        assert_eq!(usual_ways(573_440, 16), 16);
        assert_eq!(usual_ways(768, 8), 12, "64 sets, not 96");
        assert_eq!(usual_ways(12 * 7, 8), 12);
        assert_eq!(usual_ways(4, 8), 4);
    }
}
