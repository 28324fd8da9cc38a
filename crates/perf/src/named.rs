//! Events by the names that users of perf know (`man perf-list`).
//!
//! | text | what |
//! | --- | --- |
//! | `r1643` | the processor's own code, hexadecimal: unit mask and number of the event |
//! | `cpu/event=0x43,umask=0x16/` | an event of a unit that the kernel lists, by its fields or by name |
//! | `mem:0x404040/8:w` | accesses to memory, noticed by a debug register |
//! | `cycles`, `page-faults`, … | names of the kernel's, of a unit's, and of `families/*.json` |
//!
//! `:p`, `:pp` and `:ppp` ask for addresses from the hardware, `:u` says what is always so.
//!
//! Neighbours: `named/unit.rs` knows the units, `named/kernel.rs` the kernel's own names; `probe`
//! tries what was named.

mod kernel;
mod unit;

use crate::event::{Event, Supplies, Watch, Watched};
use crate::families::{Family, Processor};
use std::path::Path;
use thiserror::Error;
use unit::{Unit, Units};

/// Where the kernel lists units that count.
const UNITS: &str = "/sys/bus/event_source/devices";
/// Units whose events are known by name alone: those of the processor's cores.
const CORES: [&str; 3] = ["cpu", "cpu_core", "cpu_atom"];
/// How alike names are that are worth a word (0: not at all, 1: the same).
const ALIKE: f64 = 0.6;
/// Most names that are offered.
const MAX_NEAR: usize = 3;

/// Why a text names no event.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum NameError {
    #[error(
        "there is no event '{name}' on this machine{near}; events are named like r1643, \
         cpu/event=0x43,umask=0x16/, mem:0x404040/8:w or cycles"
    )]
    Unknown { name: String, near: String },
    #[error(
        "this machine has no unit '{unit}' that counts{near}; 'ls /sys/bus/event_source/devices' shows \
         those that it has"
    )]
    NoUnit { unit: String, near: String },
    #[error("'{unit}' has neither a field nor an event '{term}'{near}; 'ls {folder}' shows them")]
    NoTerm { unit: String, term: String, near: String, folder: String },
    #[error("'{value}' is no number for the field '{term}', which has {bits} bits")]
    Value { term: String, value: String, bits: u32 },
    #[error(
        "'{unit}' counts for the machine as a whole, not for its threads; name an event of the \
         processor's cores"
    )]
    NotOfThreads { unit: String },
    #[error(
        "'{text}' {why}; write memory to watch like mem:0x404040/8:w, or :rw for reads and writes"
    )]
    Memory { text: String, why: &'static str },
    #[error(
        "'{modifier}' cannot be asked for; programs are sampled without the kernel (u), and addresses from \
         the hardware are p, pp or ppp"
    )]
    Modifier { modifier: String },
}

/// AMD's instruction-based sampling, if the kernel offers it.
pub(crate) fn ibs_op() -> Option<Event> {
    let event = Units::of(Path::new(UNITS)).unit(unit::IBS).ok()?.event("").ok()?;
    Some(Event { name: unit::IBS.into(), ..event })
}

/// The large cores of a processor that has two kinds; `None`: all are alike.
pub(crate) fn large_cores() -> Option<Vec<i32>> {
    Units::of(Path::new(UNITS)).large_cores()
}

/// The event that `text` names on this machine.
///
/// # Errors
/// When there is none, with what to do.
pub fn named(text: &str) -> Result<Event, NameError> {
    Names { units: Units::of(Path::new(UNITS)), family: Processor::here().events() }.event(text)
}

struct Names {
    units: Units,
    /// What is known of the processor's events.
    family: Option<Family>,
}

impl Names {
    fn event(&self, text: &str) -> Result<Event, NameError> {
        if let Some(memory) = text.strip_prefix("mem:") {
            return watching(text, memory);
        }
        let (plain, modifiers) = match text.rsplit_once('/') {
            Some((plain, after)) => (plain, after.trim_start_matches(':')),
            None => text.split_once(':').unwrap_or((text, "")),
        };
        let precise = precise(modifiers)?;
        let mut event = match plain.split_once('/') {
            Some((unit, terms)) => self.units.unit(unit)?.event(terms)?,
            None => self.by_name(plain)?,
        };
        event.name = text.into();
        event.precise = precise;
        if precise > 0 && event.supplies == Supplies::Registers {
            event.supplies = Supplies::Address;
        }
        Ok(event)
    }

    fn by_name(&self, name: &str) -> Result<Event, NameError> {
        let raw = name.strip_prefix('r').and_then(|code| u64::from_str_radix(code, 16).ok());
        let listed = || {
            let unit = self.cores().find(|unit| unit.has_event(name))?;
            unit.event(name).ok()
        };
        let of_family = || {
            let known = self.family.iter().flat_map(Family::all).find(|event| event.name == name);
            known.and_then(|known| known.event())
        };
        // Where cores differ, the kernel takes what does not say whose it is for the large ones'
        // (`Event::of_cores`).
        let of_cores = |event: Event| match event.is_of_cores() {
            true => Event { cpus: self.units.large_cores(), ..event },
            false => event,
        };
        let plain = match raw {
            Some(code) => Some(Event::raw(name, code)),
            None => kernel::event(name),
        };
        let found = plain.map(of_cores).or_else(listed).or_else(of_family);
        found.ok_or_else(|| NameError::Unknown { name: name.into(), near: self.near(name) })
    }

    fn cores(&self) -> impl Iterator<Item = Unit> {
        CORES.iter().filter_map(|name| self.units.unit(name).ok())
    }

    fn near(&self, name: &str) -> String {
        let listed = self.cores().flat_map(|unit| unit.events());
        let of_family = self.family.iter().flat_map(Family::all).map(|event| event.name.clone());
        near(name, kernel::names().chain(listed).chain(of_family))
    }
}

/// `precise_ip` by modifiers.
fn precise(modifiers: &str) -> Result<u8, NameError> {
    let precise = modifiers.bytes().filter(|&letter| letter == b'p').count();
    match modifiers.bytes().all(|letter| letter == b'p' || letter == b'u') && precise <= 3 {
        true => Ok(precise as u8),
        false => Err(NameError::Modifier { modifier: modifiers.into() }),
    }
}

/// `ADDRESS[/BYTES][:ACCESS]`.
fn watching(text: &str, memory: &str) -> Result<Event, NameError> {
    let refuse = |why| NameError::Memory { text: text.into(), why };
    let (place, access) = memory.split_once(':').unwrap_or((memory, "rw"));
    let watch = match access {
        "w" => Watch::Writes,
        "rw" | "wr" => Watch::All,
        "r" => {
            return Err(refuse(
                "asks for reads only, which debug registers cannot tell from writes",
            ));
        }
        _ => return Err(refuse("does not say which accesses")),
    };
    let (address, bytes) = place.split_once('/').unwrap_or((place, "4"));
    let address = number(address).ok_or_else(|| refuse("does not say an address"))?;
    let bytes = number(bytes).unwrap_or(0);
    if ![1, 2, 4, 8].contains(&bytes) {
        return Err(refuse("must be 1, 2, 4 or 8 bytes long"));
    }
    if address % bytes != 0 {
        return Err(refuse("must begin at a multiple of its length"));
    }
    if address >= 1 << 63 {
        return Err(refuse("is the kernel's memory, and programs are sampled without the kernel"));
    }
    Ok(Event::watching(text, Watched { address, bytes: bytes as u32, watch }))
}

/// A number, hexadecimal with 0x.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Which of `names` are like `name`, as the end of a phrase.
fn near(name: &str, names: impl Iterator<Item = String>) -> String {
    let part = name.len() > 2;
    let alike =
        |other: &String| match part && (other.contains(name) || name.contains(other.as_str())) {
            true => 1.0,
            false => strsim::normalized_damerau_levenshtein(name, other),
        };
    let mut found: Vec<(f64, String)> =
        names.map(|other| (alike(&other), other)).filter(|(alike, _)| *alike >= ALIKE).collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    found.dedup();
    let listed: Vec<String> =
        found.into_iter().take(MAX_NEAR).map(|(_, name)| format!("'{name}'")).collect();
    if listed.is_empty() { String::new() } else { format!(", but {}", listed.join(", ")) }
}

#[cfg(test)]
#[path = "named_tests.rs"]
mod tests;
