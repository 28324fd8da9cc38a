//! Which events of a processor count what, as data: `families/*.json`, each entry with its source.
//!
//! Kinds: *transfers*, lines that came from another core's cache; *memory*, operations on memory;
//! *precise*, events whose samples carry the accessed address. That an event is listed does not
//! mean that it works: virtual machines offer some of them, and some that stay 0. `probe` finds
//! out.

use crate::event::{Event, Supplies};
use crate::units::of_cores;
use serde::Deserialize;
use std::ops::RangeInclusive;

const FILES: [&str; 2] =
    [include_str!("../families/amd.json"), include_str!("../families/intel.json")];

/// An event in a family's file.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FamilyEvent {
    /// As in the manual.
    pub name: String,
    /// Hexadecimal: the event's number in bits 0–7, the unit mask in bits 8–15.
    code: String,
    /// `precise_ip`; then samples carry addresses.
    #[serde(default)]
    precise: u8,
    /// What it counts.
    pub counts: String,
    /// What it counts besides, or leaves out.
    #[serde(default)]
    pub includes: String,
}

impl FamilyEvent {
    /// The event to open. `None` if the file is wrong, which a test excludes.
    pub fn event(&self) -> Option<Event> {
        let config = u64::from_str_radix(self.code.strip_prefix("0x")?, 16).ok()?;
        let mut event = of_cores(Event::raw(&self.name, config));
        event.precise = self.precise;
        if self.precise > 0 {
            event.supplies = Supplies::Address;
        }
        Some(event)
    }
}

/// A family of processors.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// Its name for people.
    pub name: String,
    vendor: String,
    family: u32,
    /// Hexadecimal numbers and ranges.
    models: Vec<String>,
    /// Events that count transfers of cache lines.
    #[serde(default)]
    pub transfers: Vec<FamilyEvent>,
    /// Events that sample accesses to memory with their address.
    #[serde(default)]
    pub memory: Vec<FamilyEvent>,
    /// Events with precise addresses of instructions.
    #[serde(default)]
    pub precise: Vec<FamilyEvent>,
    /// Where the codes are from.
    pub source: String,
}

#[derive(Deserialize)]
struct FamilyFile {
    families: Vec<Family>,
}

fn all() -> impl Iterator<Item = Family> {
    FILES.iter().flat_map(|text| {
        serde_json::from_str::<FamilyFile>(text).map_or(Vec::new(), |file| file.families)
    })
}

impl Family {
    /// All its events.
    pub fn all(&self) -> impl Iterator<Item = &FamilyEvent> {
        self.transfers.iter().chain(&self.memory).chain(&self.precise)
    }

    fn has_model(&self, model: u32) -> bool {
        self.models.iter().filter_map(|text| range(text)).any(|models| models.contains(&model))
    }
}

fn range(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    Some(number(first)?..=number(last)?)
}

/// The processor this runs on, as /proc/cpuinfo describes it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Processor {
    /// Vendor, like `AuthenticAMD`.
    pub vendor: String,
    /// Family number.
    pub family: u32,
    /// Model number.
    pub model: u32,
    /// As marketed.
    pub name: String,
    /// A hypervisor says that it is there.
    pub is_virtual: bool,
}

impl Processor {
    /// This machine's.
    pub fn here() -> Self {
        Self::from_cpuinfo(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    }

    fn from_cpuinfo(text: &str) -> Self {
        let first = text.split("\n\n").next().unwrap_or_default();
        let field = |name: &str| {
            let value = |line: &str| {
                let (key, value) = line.split_once(':')?;
                (key.trim() == name).then(|| value.trim().to_string())
            };
            first.lines().find_map(value).unwrap_or_default()
        };
        let number = |name: &str| field(name).parse().unwrap_or_default();
        Self {
            vendor: field("vendor_id"),
            family: number("cpu family"),
            model: number("model"),
            name: field("model name"),
            is_virtual: field("flags").split(' ').any(|flag| flag == "hypervisor"),
        }
    }

    /// What is known of its events.
    pub fn events(&self) -> Option<Family> {
        all()
            .find(|f| f.vendor == self.vendor && f.family == self.family && f.has_model(self.model))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_read_and_name_their_sources() {
        for text in FILES {
            let file: FamilyFile = serde_json::from_str(text).unwrap();
            for family in file.families {
                assert!(!family.source.is_empty(), "{}", family.name);
                assert!(family.models.iter().all(|m| range(m).is_some()), "{}", family.name);
                for event in family.all() {
                    assert!(event.event().is_some(), "{}: {}", family.name, event.name);
                }
            }
        }
    }

    fn processor(vendor: &str, family: u32, model: u32) -> Option<Family> {
        Processor { vendor: vendor.into(), family, model, ..Processor::default() }.events()
    }

    #[test]
    fn processors_are_found_by_vendor_family_and_model() {
        let name = |vendor, family, model| processor(vendor, family, model).map(|f| f.name);
        assert_eq!(name("AuthenticAMD", 25, 0x01).as_deref(), Some("AMD Zen 3"));
        assert_eq!(name("AuthenticAMD", 25, 0x11).as_deref(), Some("AMD Zen 4"));
        // As Linux has it (`init_amd`): models are no ranges of one kind each.
        assert_eq!(name("AuthenticAMD", 25, 0x30).as_deref(), Some("AMD Zen 3"));
        assert_eq!(name("AuthenticAMD", 25, 0x61).as_deref(), Some("AMD Zen 4"));
        assert_eq!(name("AuthenticAMD", 26, 0x02).as_deref(), Some("AMD Zen 5"));
        assert_eq!(name("AuthenticAMD", 26, 0x50).as_deref(), Some("AMD Zen 6"));
        assert_eq!(name("AuthenticAMD", 23, 0x50), None);
        assert_eq!(name("GenuineIntel", 6, 0xa5).as_deref(), Some("Intel Skylake (client)"));
        assert_eq!(
            name("GenuineIntel", 6, 0x97).as_deref(),
            Some("Intel Alder Lake, Raptor Lake (large cores)")
        );
        // It has small cores only.
        assert_eq!(name("GenuineIntel", 6, 0xbe), None);
        assert_eq!(name("AuthenticAMD", 23, 0x31).as_deref(), Some("AMD Zen 2"));
        assert_eq!(name("AuthenticAMD", 23, 0x01), None);
        assert_eq!(
            name("GenuineIntel", 6, 0x55).as_deref(),
            Some("Intel Skylake-SP, Cascade Lake")
        );
        assert_eq!(name("GenuineIntel", 6, 0x3c), None);
    }

    #[test]
    fn the_transfers_of_zen_3_are_the_union_of_all_caches_but_its_own() {
        let event = processor("AuthenticAMD", 25, 1).unwrap().transfers[0].event().unwrap();
        assert_eq!((event.config, event.precise), (0x1643, 0));
        assert_eq!(event.supplies, Supplies::Registers);
        let hitm = processor("GenuineIntel", 6, 0x8f).unwrap().transfers[0].event().unwrap();
        assert_eq!((hitm.config, hitm.precise), (0x04d2, 2));
        assert_eq!(hitm.supplies, Supplies::Address);
        // Samples of loads alone never show the writer.
        let first = processor("GenuineIntel", 6, 0x8f).unwrap().precise[0].event().unwrap();
        assert_eq!((first.config, first.supplies), (0x83d0, Supplies::Address));
    }

    #[test]
    fn cpuinfo_is_read() {
        let text = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\n\
                    model name\t: AMD EPYC\nflags\t\t: fpu hypervisor sse\n\nprocessor\t: 1\n";
        let read = Processor::from_cpuinfo(text);
        assert_eq!((read.family, read.model, read.is_virtual), (26, 2, true));
        assert_eq!(read.name, "AMD EPYC");
        assert_eq!(Processor::from_cpuinfo(""), Processor::default());
    }
}
