//! What the engine makes of a program's bytes, as text: one line for each emitted instruction.
//!
//! Addresses are named, so that the text is the same wherever things lie: `program+6`, `block+1b`
//! and `cold+2c` in the two parts of a block, `table+…`, and the trampolines by what they are for.
//! What is not reached by the block's own flow (descriptors, return addresses) is shown as bytes.

use super::host::{MEANINGS, REGIONS, TestHost};
use super::{CODE_BYTES, Machine};
use engine::cache::{Stubs, hot_bytes};
use engine::{Engine, Host, Mode, Options, Resolved, control};
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter, Instruction, IntelFormatter, Mnemonic,
    Register, SymbolResolver, SymbolResult,
};
use std::collections::BTreeMap;
use std::ops::Range;

/// Where the agent's entry points would be: addresses by which trampolines are recognised.
const STUBS: [(&str, u64); 7] = [
    ("direct", 0x1111_1111_1111),
    ("indirect", 0x2222_2222_2222),
    ("learn", 0x1222_2222_2222),
    ("access", 0x3333_3333_3333),
    ("repeat", 0x4444_4444_4444),
    ("syscall", 0x5555_5555_5555),
    ("after_syscall", 0x6666_6666_6666),
];

/// One of a block's parts.
#[derive(Clone)]
struct Part {
    name: &'static str,
    place: Range<u64>,
}

/// What a pad has that is cold: an exit's stub.
const PAD_COLD_BYTES: u64 = 32;
/// Bytes of the rest, and where that is entered.
const PAD_HOT_BYTES: u64 = 80;
const PAD_ENTRY: u64 = 21;

/// Names for addresses.
#[derive(Clone)]
struct Names {
    program: u64,
    region: u64,
    region_bytes: u64,
    /// The hot part and the cold one.
    parts: [Part; 2],
    table: u64,
    trampolines: Vec<(&'static str, u64)>,
}

impl Names {
    /// The part of the block that the address lies in.
    fn part(&self, address: u64) -> Option<&Part> {
        self.parts.iter().find(|part| part.place.contains(&address))
    }

    fn of(&self, address: u64) -> Option<String> {
        let inside = |start: u64, bytes: u64| address.wrapping_sub(start) < bytes;
        if let Some(Part { name, place }) = self.part(address) {
            return Some(format!("{name}+{:x}", address - place.start));
        }
        if inside(self.region, self.region_bytes) {
            // The last trampoline that starts before it.
            let before = self.trampolines.iter().filter(|t| t.1 <= address).max_by_key(|t| t.1);
            return Some(before.map_or_else(|| "block-".into(), |t| t.0.to_string()));
        }
        if inside_of(address, self.program) {
            return Some(format!("program+{:x}", address - self.program));
        }
        if inside(self.table, 4 << 20) {
            return Some(format!("table+{:x}", address - self.table));
        }
        self.line(address)
    }

    /// A line of the program, by the low half of its number.
    fn line(&self, number: u64) -> Option<String> {
        let lines = (number as u32).wrapping_sub((self.program >> 6) as u32);
        let is_line = number >> 32 == 0 && (lines as usize) < CODE_BYTES >> 6;
        is_line.then(|| format!("line program+{:x}", u64::from(lines) << 6))
    }
}

fn inside_of(address: u64, program: u64) -> bool {
    address.wrapping_sub(program) < CODE_BYTES as u64
}

impl SymbolResolver for Names {
    fn symbol(
        &mut self,
        instruction: &Instruction,
        _: u32,
        _: Option<u32>,
        address: u64,
        _: u32,
    ) -> Option<SymbolResult<'_>> {
        // The number of a line may be an address of the table, too: only what is relative to GS is
        // a line for sure.
        let line = match instruction.segment_prefix() {
            Register::GS => self.line(address),
            _ => None,
        };
        line.or_else(|| self.of(address)).map(|name| SymbolResult::with_string(address, name))
    }
}

/// The text of what is emitted for `program` in a mode.
pub fn listing(machine: &Machine, program: &[u8], mode: Mode, disable: u32) -> String {
    machine.load(program);
    // The pad for indirect branches to the block lies right behind it, in both parts.
    let options = Options { beside: false, ..Options::new(mode, 6, disable) };
    let [direct, indirect, learn, access, repeat, syscall, after_syscall] =
        STUBS.map(|stub| stub.1);
    let hook = 0;
    let stubs = Stubs { direct, indirect, learn, access, repeat, hook, syscall, after_syscall };
    let mut engine = Engine::new(options, stubs, machine.tables);
    let mut host: Box<dyn Host> = Box::new(TestHost {
        code: machine.code..machine.code + CODE_BYTES as u64,
        changing: false,
        held: Vec::new(),
    });
    engine.prepare(machine.code, &mut *host).expect("room for a region");
    let before = engine.cache_bytes();
    // SAFETY: nothing runs.
    let resolved = unsafe { engine.look_up(machine.code, &mut *host) };
    // The first has trampolines only.
    let (region, region_bytes) = REGIONS.with(|regions| regions.borrow()[1]);
    let text = match resolved {
        Resolved::Native => "runs where it is\n".into(),
        Resolved::Cache(entry) => {
            let pad = machine.tables.table(0).first_pad(machine.code) - PAD_ENTRY;
            let hot = Part { name: "block", place: region + before..pad };
            let all_cold = engine.cache_bytes() - (pad + PAD_HOT_BYTES - region);
            let start = region + hot_bytes(region_bytes);
            let cold = Part { name: "cold", place: start..start + all_cold - PAD_COLD_BYTES };
            let names = Names {
                program: machine.code,
                region,
                region_bytes,
                parts: [hot, cold],
                table: machine.tables.base as u64,
                trampolines: trampolines(region, before),
            };
            text(&names, entry)
        }
    };
    machine.unmap_regions();
    text
}

fn bytes_at(start: u64, end: u64) -> &'static [u8] {
    // SAFETY: within a region that is mapped as long as the text is made.
    unsafe { std::slice::from_raw_parts(start as *const u8, (end - start) as usize) }
}

/// Trampolines by the agent's addresses in them: each starts where the one before it ends.
fn trampolines(region: u64, bytes: u64) -> Vec<(&'static str, u64)> {
    let code = bytes_at(region, region + bytes);
    let place = |stub: u64| code.windows(8).position(|word| word == stub.to_le_bytes());
    let mut start = region;
    let mut found = Vec::new();
    for (name, stub) in STUBS {
        if let Some(at) = place(stub) {
            found.push((name, start));
            start = region + at as u64 + 8;
        }
    }
    found.push(("deliver", start));
    found
}

fn text(names: &Names, entry: u64) -> String {
    let mut formatter = IntelFormatter::with_options(Some(Box::new(names.clone())), None);
    formatter.options_mut().set_rip_relative_addresses(true);
    let reached = reached(names, entry);
    names.parts.iter().map(|part| text_of(names, part, entry, &reached, &mut formatter)).collect()
}

fn text_of(
    names: &Names,
    part: &Part,
    entry: u64,
    reached: &BTreeMap<u64, Instruction>,
    formatter: &mut IntelFormatter,
) -> String {
    let Range { start, end } = part.place;
    let mut text = if part.name == "cold" { "cold:\n".into() } else { String::new() };
    let mut at = start;
    while at < end {
        let offset = at - start;
        let mark = if at == entry { " <- entry" } else { "" };
        match reached.get(&at) {
            Some(step) => {
                let mut line = String::new();
                formatter.format(step, &mut line);
                let line = with_page_offset(step, line);
                text += &format!("{offset:4x}  {line}{mark}\n");
                at += step.len() as u64;
            }
            None => {
                let next = reached.range(at..end).next().map_or(end, |(start, _)| *start);
                text += &data(names, start, at, next);
                at = next;
            }
        }
    }
    text
}

/// Fields of the control block by their offset in its page, tallies by what they mean.
fn with_page_offset(step: &Instruction, line: String) -> String {
    let displacement = step.memory_displacement64() as i64;
    let is_field = step.memory_base() == Register::None && displacement < 0;
    if step.segment_prefix() != Register::GS || !is_field {
        return line;
    }
    let start = line.find("gs:[").expect("the operand") + 4;
    let end = start + line[start..].find(']').expect("the operand's end");
    let offset = displacement - i64::from(control::PAGE);
    let name = match offset {
        ..0 => tally((displacement - i64::from(control::tally(0))) as usize / 8),
        0..10 => offset.to_string(),
        _ => format!("{offset:X}h"),
    };
    format!("{}{name}{}", &line[..start], &line[end..])
}

/// What a tally means: instructions, loads, stores, or instructions that have waited.
fn tally(number: usize) -> String {
    let [instructions, loads, stores, waited] = MEANINGS.with(|m| m.borrow()[number].parts());
    if waited > 0 {
        return format!("tally {waited}i waited");
    }
    format!("tally {instructions}i {loads}l {stores}s")
}

/// Bytes that are not run, of the part that begins at `part`; return addresses by name.
fn data(names: &Names, part: u64, start: u64, end: u64) -> String {
    // Return addresses are aligned.
    let aligned = start.next_multiple_of(8).min(end);
    let mut words = if aligned > start { vec![hex(bytes_at(start, aligned))] } else { Vec::new() };
    words.extend(bytes_at(aligned, end).chunks(8).map(|chunk| {
        match chunk.try_into().map(u64::from_le_bytes) {
            Ok(word) => names.of(word).unwrap_or_else(|| hex(chunk)),
            Err(_) => hex(chunk),
        }
    }));
    format!("{:4x}  data {}\n", start - part, words.join(" "))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The block's instructions that its own flow reaches, by address.
fn reached(names: &Names, entry: u64) -> BTreeMap<u64, Instruction> {
    let mut found = BTreeMap::new();
    let mut open = vec![names.parts[0].place.start, entry];
    while let Some(at) = open.pop() {
        let Some(part) = names.part(at) else { continue };
        if found.contains_key(&at) {
            continue;
        }
        let end = part.place.end;
        let code = bytes_at(at, end);
        let step = Decoder::with_ip(64, code, at, DecoderOptions::NONE).decode();
        found.insert(at, step);
        let falls_through = !matches!(
            step.flow_control(),
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return
        );
        if falls_through {
            open.push(step.next_ip());
        }
        // Where the slow path comes back to.
        if step.mnemonic() == Mnemonic::Lea && step.is_ip_rel_memory_operand() {
            let next = &bytes_at(step.next_ip(), end);
            let next = Decoder::with_ip(64, next, step.next_ip(), DecoderOptions::NONE).decode();
            if next.memory_displacement64() == control::RESUME as u64 {
                open.push(step.ip_rel_memory_address());
            }
        }
        if step.near_branch_target() != 0 {
            open.push(step.near_branch_target());
        }
    }
    found
}
