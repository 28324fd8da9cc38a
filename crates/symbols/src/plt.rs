//! Names of the stubs through which functions of other libraries are called: `printf@plt`.
//!
//! They have no symbols. Each jumps through a slot of the global offset table, and a relocation
//! says whose address the loader puts there.

use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationTarget};

/// Bytes of a stub on x86-64.
const STUB: usize = 16;

/// Link-time address and name of each stub, ascending.
pub(crate) fn stubs<'data>(object: &impl Object<'data>) -> Vec<(u64, String)> {
    let slots = slots(object);
    let mut stubs = Vec::new();
    let (Some(relocations), Some(symbols)) =
        (object.dynamic_relocations(), object.dynamic_symbol_table())
    else {
        return stubs;
    };
    for (slot, relocation) in relocations {
        let first = slots.partition_point(|(known, _)| *known < slot);
        let through = slots[first..].iter().take_while(|(known, _)| *known == slot);
        let RelocationTarget::Symbol(index) = relocation.target() else { continue };
        for (_, address) in through {
            let symbol = symbols.symbol_by_index(index);
            let name = symbol.and_then(|symbol| symbol.name()).map(crate::demangle);
            stubs.extend(name.map(|name| (*address, format!("{name}@plt"))));
        }
    }
    stubs.sort_unstable();
    stubs
}

/// The name of the stub that contains `address`.
pub(crate) fn name(stubs: &[(u64, String)], address: u64) -> Option<&str> {
    let after = stubs.partition_point(|(start, _)| *start <= address);
    let (start, name) = stubs[..after].last()?;
    (address - start < STUB as u64).then_some(name)
}

/// The slot that each stub jumps through and the stub's address, by slot.
fn slots<'data>(object: &impl Object<'data>) -> Vec<(u64, u64)> {
    let mut slots = Vec::new();
    for section in object.sections() {
        if !section.name().is_ok_and(|name| name.starts_with(".plt")) {
            continue;
        }
        let data = section.data().unwrap_or_default();
        let size = if section.name() == Ok(".plt.got") { STUB / 2 } else { STUB };
        for (address, code) in (section.address()..).step_by(size).zip(data.chunks_exact(size)) {
            slots.extend(slot_of(address, code).map(|slot| (slot, address)));
        }
    }
    slots.sort_unstable();
    slots
}

/// The slot through which the stub at `address` jumps: `jmp *slot(%rip)`, after what indirect
/// branch tracking wants.
fn slot_of(address: u64, code: &[u8]) -> Option<u64> {
    let jump = code.windows(6).position(|bytes| bytes.starts_with(&[0xff, 0x25]))?;
    let displacement = i32::from_le_bytes(code[jump + 2..jump + 6].try_into().ok()?);
    Some((address + jump as u64 + 6).wrapping_add_signed(displacement.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_relative_to_the_next_instruction() {
        let plain = [0xff, 0x25, 0x10, 0, 0, 0, 0x66, 0x90];
        assert_eq!(slot_of(0x1000, &plain), Some(0x1016));
        let tracked =
            [0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0xf0, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0];
        assert_eq!(slot_of(0x1000, &tracked), Some(0xffb));
        assert_eq!(slot_of(0x1000, &[0x90; 16]), None);
    }

    #[test]
    fn an_address_belongs_to_the_stub_around_it() {
        let stubs = [(0x1020, "a@plt".to_owned()), (0x1030, "b@plt".to_owned())];
        let name = |address| name(&stubs, address);
        assert_eq!(
            [0x101f, 0x1020, 0x102f, 0x103f, 0x1040].map(name),
            [None, Some("a@plt"), Some("a@plt"), Some("b@plt"), None]
        );
    }
}
