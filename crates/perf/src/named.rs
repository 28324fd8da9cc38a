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
//! Neighbours: `units.rs` knows the units, `named/kernel.rs` the kernel's own names; `probe`
//! tries what was named.

mod kernel;

use crate::event::{Event, Supplies, Watch, Watched};
use crate::families::{Family, Processor};
use crate::name_error::{NameError, near, number};
use crate::units::{Unit, Units};

/// Units whose events are known by name alone: those of the processor's cores.
const CORES: [&str; 3] = ["cpu", "cpu_core", "cpu_atom"];

/// The event that `text` names on this machine.
///
/// # Errors
/// When there is none, with what to do.
pub fn named(text: &str) -> Result<Event, NameError> {
    Names { units: Units::of_this_machine(), family: Processor::here().events() }.event(text)
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
        // ([`of_cores`](crate::units::of_cores)).
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

#[cfg(test)]
#[path = "named_tests.rs"]
mod tests;
