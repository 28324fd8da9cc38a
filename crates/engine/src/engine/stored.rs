//! Blocks that are used again in later runs: as a record that says what in them depends on places,
//! and back from there.
//!
//! Problem: a short-lived program costs little but its translation, which is the same in each run.
//! Approach: a record holds a finished block with everything that belongs to it, and the program's
//! code that it was made from. When the same code comes to be executed in another run, the record
//! is copied into the cache instead, [moved](crate::code::moves) to where things are now. From then
//! on the block is like any other: linked, invalidated, recovered from, flushed.
//!
//! What a block looks like depends on more than its own code: liveness looks at where it leads to.
//! So the host keeps records by the file that the code is mapped from, and by what else decides
//! ([`fingerprint`]); the block's own code is compared all the same. Left out, because they are few
//! or depend on more: code that changes, and the hook of thread starts.
//!
//! Layout of a record, little-endian: [`Head`], places to change (u32: offset, kind, argument),
//! links (u16 rel32, u16 stub, i32 distance of the target from the block's first instruction), the
//! program's code, the block's code, packed recovery entries. Of a versioned loop, the ordinary
//! body comes first; the versioned form follows, the same way, without the program's code.
//!
//! Neighbours: [`engine`](crate::engine) asks before it translates, the host keeps records.

use crate::body::cold::Finished;
use crate::cache::entries::Entries;
use crate::cache::regions::Spot;
use crate::code::emitter::Emitted;
use crate::code::moves::{self, MOVABLE_FROM, Place as Moved};
use crate::connect::blocks::{Block, NO_LINK};
use crate::connect::indirect;
use crate::connect::links::{self, Link, STUB_ID};
use crate::connect::sites::{self, Site};
use crate::control;
use crate::decode::superblock::Superblock;
use crate::engine::Engine;
use crate::host::{Host, Kind};
use crate::options::Options;
use alloc::vec::Vec;
use iced_x86::Instruction;
use types::tally::Meaning;

/// Code is mapped in steps of this many bytes (log2).
const PAGE_SHIFT: u32 = 12;
/// Bits of a place's offset, kind and argument.
const OFFSET_BITS: u32 = 16;
const KIND_BITS: u32 = 4;

/// Where a block lies: its parts, its region, its entry.
pub(crate) struct Place {
    pub spot: Spot,
    pub region: u64,
    /// Offset of the entry.
    pub entry: usize,
}

/// A number for everything but the program's code that decides how it is translated.
pub fn fingerprint(options: &Options) -> u64 {
    of_processor(options, indirect::rotates())
}

fn of_processor(options: &Options, rotates: bool) -> u64 {
    // A new option must appear here: decide whether code depends on it. Blocks with hooks are not
    // stored.
    let Options {
        mode,
        block_shift,
        bmi2,
        liveness,
        merge,
        group,
        at_once,
        hoist,
        park,
        loops,
        entries,
        sites,
        tallies,
        pages,
        max_instructions,
        max_branches,
        unroll,
        poll,
        max_bytes: _,
        max_bytes_in_all: _,
        stores: _,
        beside: _,
        site_samples: _,
        thread_start_hook: _,
    } = *options;
    let flags = [
        bmi2,
        liveness,
        merge,
        group,
        at_once,
        hoist,
        park,
        loops,
        entries,
        tallies,
        sites,
        rotates,
        pages,
        poll != 0,
    ];
    let flags = flags.iter().fold(1, |all, flag| all << 1 | u64::from(*flag));
    let numbers = [mode as usize, block_shift as usize, max_instructions, max_branches, unroll];
    numbers
        .into_iter()
        .fold(flags, |all, n| (all.rotate_left(13) ^ n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Whether blocks like this are kept.
pub(crate) fn is_wanted(options: &Options, source: &Superblock) -> bool {
    options.stores && source.original.is_empty() && source.pc != options.thread_start_hook
}

/// The fixed part of a record.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Head {
    /// Where the program's code, the block's two parts and its region were.
    pc: u64,
    hot: u64,
    cold: u64,
    region: u64,
    /// Bytes of the block and of its recovery entries.
    code: u32,
    entries: u32,
    /// Bytes of the program's code; numbers of places and links; offset of the entry.
    original: u16,
    places: u16,
    links: u16,
    entry: u16,
    /// What the engine counts about it: instructions, accesses, checks, operands not seen.
    counts: [u16; 4],
    /// Offsets of the rel32 and the lookup of its site; 0 = it has none.
    site: [u16; 2],
    /// Bytes of the hot part.
    split: u16,
}

impl Head {
    const BYTES: usize = 62;

    fn write(&self, out: &mut Vec<u8>) {
        for word in [self.pc, self.hot, self.cold, self.region] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for word in [self.code, self.entries] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        let words = [self.original, self.places, self.links, self.entry];
        for word in words.into_iter().chain(self.counts).chain(self.site).chain([self.split]) {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.get(..Self::BYTES)?.try_into().ok()?;
        let long = |at: usize| u64::from_le_bytes(core::array::from_fn(|k| bytes[at + k]));
        let word = |at: usize| u32::from_le_bytes(core::array::from_fn(|k| bytes[at + k]));
        let short = |k: usize| u16::from_le_bytes([bytes[40 + 2 * k], bytes[41 + 2 * k]]);
        Some(Head {
            pc: long(0),
            hot: long(8),
            cold: long(16),
            region: long(24),
            code: word(32),
            entries: word(36),
            original: short(0),
            places: short(1),
            links: short(2),
            entry: short(3),
            counts: [short(4), short(5), short(6), short(7)],
            site: [short(8), short(9)],
            split: short(10),
        })
    }
}

fn packed_place(place: &Moved) -> Option<u32> {
    let offset = u32::from(u16::try_from(place.offset).ok()?);
    let argument = u32::from(place.argument);
    let fits = argument < 1 << (32 - OFFSET_BITS - KIND_BITS);
    let kind = place.kind as u32;
    fits.then_some(offset | kind << OFFSET_BITS | argument << (OFFSET_BITS + KIND_BITS))
}

fn unpacked_place(word: u32) -> Option<Moved> {
    let kind = word >> OFFSET_BITS & ((1 << KIND_BITS) - 1);
    Some(Moved {
        offset: (word & 0xffff) as usize,
        kind: *moves::Kind::ALL.get(kind as usize)?,
        argument: (word >> (OFFSET_BITS + KIND_BITS)) as u16,
    })
}

/// Where a block that comes from the store is entered, and where it was in the run that kept it.
struct Entered {
    now: u64,
    then: u64,
}

/// A record taken apart.
struct Stored<'a> {
    head: Head,
    places: &'a [u8],
    links: &'a [u8],
    original: &'a [u8],
    code: &'a [u8],
    entries: &'a [u8],
    /// What follows: a loop's versioned form.
    rest: &'a [u8],
}

impl<'a> Stored<'a> {
    fn parse(record: &'a [u8]) -> Option<Self> {
        let head = Head::read(record)?;
        let mut rest = &record[Head::BYTES..];
        let mut take = |bytes: usize| {
            let (part, others) = rest.split_at_checked(bytes)?;
            rest = others;
            Some(part)
        };
        Some(Stored {
            head,
            places: take(4 * usize::from(head.places))?,
            links: take(8 * usize::from(head.links))?,
            original: take(head.original.into())?,
            code: take(head.code as usize)?,
            entries: take(head.entries as usize)?,
            rest,
        })
    }

    fn places(&self) -> impl Iterator<Item = Option<Moved>> {
        let words = self.places.chunks_exact(4);
        words.map(|w| unpacked_place(u32::from_le_bytes([w[0], w[1], w[2], w[3]])))
    }

    /// Offsets of rel32 and stub, and distance of the target.
    fn links(&self) -> impl Iterator<Item = (u16, u16, i32)> {
        self.links.chunks_exact(8).map(|w| {
            let short = |k: usize| u16::from_le_bytes([w[k], w[k + 1]]);
            (short(0), short(2), i32::from_le_bytes([w[4], w[5], w[6], w[7]]))
        })
    }
}

/// Whether blocks at `pc` may be kept, or come from the store.
pub(crate) fn may_store(engine: &Engine, pc: u64) -> bool {
    engine.options.stores && pc != engine.options.thread_start_hook
}

/// The kind of the code at `pc`, by what is known so far. A block that reveals its function's
/// kind is stored under the other kind, so that it reveals the kind again in each run.
pub(crate) fn kind_at(engine: &Engine, pc: u64) -> Kind {
    Kind {
        returns_flags: engine.workshop.scanner.conventions.returns_flags(pc),
        fingerprint: engine.fingerprint,
    }
}

/// Writes the record of a finished block made from the `original` instructions, or, of a loop's
/// versioned form, adds that to the ordinary body's; leaves it empty if the block cannot be
/// used again. `counts`: accesses, checks, operands not seen.
pub(crate) fn write_record(
    out: &mut Vec<u8>,
    source: &Superblock,
    finished: &Finished,
    entries: &Entries,
    place: &Place,
    counts: [usize; 3],
    original: Option<&[Instruction]>,
) {
    if original.is_some() {
        out.clear();
    } else if out.is_empty() {
        return;
    }
    let original = original.unwrap_or_default();
    let written = !finished.code.moves.fixed
        && record(source, original, finished, entries, place, counts, out).is_some();
    if !written {
        out.clear();
    }
}

/// The block for the code at `pc` from the store, if it is there.
///
/// # Safety
/// As [`load`].
pub(crate) unsafe fn block(
    engine: &mut Engine,
    pc: u64,
    region: usize,
    host: &mut dyn Host,
) -> Option<Block> {
    let mut record = core::mem::take(&mut engine.workshop.record);
    record.clear();
    let found = host.stored(pc, kind_at(engine, pc), &mut record);
    // SAFETY: forwarded.
    let block = if found { unsafe { load(engine, &record, pc, region, host) } } else { None };
    engine.workshop.record = record;
    block
}

/// Copies a stored block of the code at `pc` into a region; `None` if it is of other code, or
/// does not fit here.
///
/// # Safety
/// As [`Engine::follow`](crate::Engine::follow); code at `pc` is readable, the region has room.
unsafe fn load(
    engine: &mut Engine,
    record: &[u8],
    pc: u64,
    region: usize,
    host: &mut dyn Host,
) -> Option<Block> {
    let stored = Stored::parse(record)?;
    let end = pc + stored.original.len() as u64;
    let is_code = !stored.original.is_empty() && host.is_translatable(end - 1);
    if !is_code || host.hook_within(pc + 1, end).is_some() {
        return None;
    }
    // SAFETY: no block is as long as a page, and both of its ends are readable code.
    let now = unsafe { core::slice::from_raw_parts(pc as *const u8, stored.original.len()) };
    let distance = distance(stored.head.pc, pc, engine.options.block_shift)?;
    if now != stored.original {
        return None;
    }
    let ordinary = place(engine, &stored, pc, distance, 0, region, host)?;
    if stored.rest.is_empty() {
        return Some(Block { entry: ordinary.now, end });
    }
    let versioned = Stored::parse(stored.rest)?;
    let moved = ordinary.now.wrapping_sub(ordinary.then) as i64;
    let entry = place(engine, &versioned, pc, distance, moved, region, host)?.now;
    engine.statistics.loops += 1;
    Some(Block { entry, end })
}

/// Copies a stored block to the region's next spot, with its links and its site.
/// `ordinary_moved` is how far the ordinary body of the loop has moved whose versioned form it
/// is.
fn place(
    engine: &mut Engine,
    stored: &Stored,
    pc: u64,
    distance: i64,
    ordinary_moved: i64,
    region: usize,
    host: &mut dyn Host,
) -> Option<Entered> {
    let spot = engine.code.regions[region].next();
    move_code(engine, stored, pc, [distance, ordinary_moved], region, host)?;
    let split = usize::from(stored.head.split);
    engine.code.regions[region].place(
        &engine.workshop.scratch,
        split,
        pc,
        Entries::packed(stored.entries),
    );
    let at = |offset: u16| spot.at(offset.into(), split);
    for (site, stub, target) in stored.links() {
        engine.code.blocks.add_link(Link {
            site: at(site),
            target: pc.wrapping_add_signed(target.into()),
            stub: at(stub),
            next: NO_LINK,
            stale: false,
            kind: links::Kind::Branch,
        });
    }
    let [branch, lookup] = stored.head.site;
    if branch != 0 {
        engine.code.sites.add(Site { branch: at(branch), lookup: at(lookup) });
    }
    let [instructions, accesses, checks, unseen] = stored.head.counts.map(u64::from);
    let statistics = &mut engine.statistics;
    statistics.blocks += 1;
    statistics.stored += 1;
    statistics.instructions += instructions;
    statistics.accesses += accesses;
    statistics.checks += checks;
    statistics.unseen += unseen;
    let then = Spot { hot: stored.head.hot, cold: stored.head.cold };
    let entry = usize::from(stored.head.entry);
    Some(Entered { now: spot.at(entry, split), then: then.at(entry, split) })
}

/// Moves the code of a stored block to the region's next spot; the result is in `scratch`.
fn move_code(
    engine: &mut Engine,
    stored: &Stored,
    pc: u64,
    [distance, ordinary_moved]: [i64; 2],
    region: usize,
    host: &mut dyn Host,
) -> Option<()> {
    let code = &mut engine.workshop.scratch;
    code.clear();
    code.extend_from_slice(stored.code);
    let split = usize::from(stored.head.split);
    code.get(..split)?;
    let region = &engine.code.regions[region];
    let (now, then) = (region.next(), Spot { hot: stored.head.hot, cold: stored.head.cold });
    let hot_moved = now.hot.wrapping_sub(then.hot) as i64;
    let cold_moved = now.cold.wrapping_sub(then.cold) as i64;
    let region_moved = region.base().wrapping_sub(stored.head.region) as i64;
    for place in stored.places() {
        let Moved { offset, kind, argument } = place?;
        let (moved, other_moved) = match offset < split {
            true => (hot_moved, cold_moved),
            false => (cold_moved, hot_moved),
        };
        let bytes = code.get_mut(offset..offset + kind.bytes())?;
        let old = u32::from_le_bytes(bytes[..4].try_into().ok()?);
        let relative = |by: i64| Some(i32::try_from(i64::from(old as i32) + by).ok()? as u32);
        let new = match kind {
            moves::Kind::Relative => relative(distance.wrapping_sub(moved))?,
            moves::Kind::Trampoline => relative(region_moved.wrapping_sub(moved))?,
            moves::Kind::Across => relative(other_moved.wrapping_sub(moved))?,
            moves::Kind::Ordinary => relative(ordinary_moved.wrapping_sub(moved))?,
            moves::Kind::Block => old.wrapping_add((distance >> engine.options.block_shift) as u32),
            moves::Kind::Table => engine.code.table.base() as u32,
            moves::Kind::Poll => engine.options.poll as u32,
            moves::Kind::Site => host.site(pc + u64::from(argument)),
            moves::Kind::Tally => control::tally(host.tally(Meaning::from_bits(old))?) as u32,
            moves::Kind::Absolute => {
                let address = u64::from_le_bytes((*bytes).try_into().ok()?);
                bytes.copy_from_slice(&address.wrapping_add_signed(distance).to_le_bytes());
                continue;
            }
        };
        bytes.copy_from_slice(&new.to_le_bytes());
    }
    let first = engine.code.blocks.next_link();
    for (k, (site, stub, _)) in stored.links().enumerate() {
        let [from, to] = [site, stub].map(|at| now.at(at.into(), split));
        let displacement = to.wrapping_sub(from + 4) as u32;
        let site = usize::from(site);
        code.get_mut(site..site + 4)?.copy_from_slice(&displacement.to_le_bytes());
        let id = usize::from(stub) + STUB_ID;
        code.get_mut(id..id + 4)?.copy_from_slice(&((first + k) as u32).to_le_bytes());
    }
    let [branch, lookup] = stored.head.site.map(usize::from);
    if branch != 0 {
        code.get(branch..branch + 4)?;
        let number = lookup.checked_sub(sites::NUMBER as usize)?;
        let next = engine.code.sites.next() as u32;
        code.get_mut(number..number + 4)?.copy_from_slice(&next.to_le_bytes());
    }
    Some(())
}

/// How far code has moved from `old` to `new`; `None` if a block of it would not be the same there.
fn distance(old: u64, new: u64, block_shift: u32) -> Option<i64> {
    let distance = new.wrapping_sub(old) as i64;
    let movable = old >= MOVABLE_FROM && new >= MOVABLE_FROM && block_shift <= PAGE_SHIFT;
    let whole = distance & ((1 << PAGE_SHIFT) - 1) == 0;
    (distance == 0 || movable && whole).then_some(distance)
}

/// `None` if something does not fit. `original` is the program's code as far as it is kept.
fn record(
    source: &Superblock,
    original: &[Instruction],
    finished: &Finished,
    entries: &Entries,
    place: &Place,
    counts: [usize; 3],
    out: &mut Vec<u8>,
) -> Option<()> {
    let short = |n: usize| u16::try_from(n).ok();
    let Finished { code: Emitted { bytes: code, split, moves, .. }, links, .. } = finished;
    let [accesses, checks, unseen] = counts;
    // Offsets in the code must fit, too.
    short(code.len())?;
    let offset = |address| place.spot.offset(address, *split) as u16;
    let head = Head {
        pc: source.pc,
        hot: place.spot.hot,
        cold: place.spot.cold,
        region: place.region,
        code: code.len() as u32,
        entries: entries.bytes().len() as u32,
        original: short(original.iter().map(Instruction::len).sum())?,
        places: short(moves.places.len())?,
        links: short(links.len())?,
        entry: short(place.entry)?,
        counts: [
            short(source.instructions.len())?,
            short(accesses)?,
            short(checks)?,
            short(unseen)?,
        ],
        site: finished.site.map_or([0; 2], |site| [site.branch, site.lookup].map(offset)),
        split: *split as u16,
    };
    head.write(out);
    for p in &moves.places {
        out.extend_from_slice(&packed_place(p)?.to_le_bytes());
    }
    for link in links {
        let offsets = [link.site, link.stub].map(offset);
        offsets.iter().for_each(|offset| out.extend_from_slice(&offset.to_le_bytes()));
        let distance = link.target.wrapping_sub(source.pc) as i64;
        out.extend_from_slice(&i32::try_from(distance).ok()?.to_le_bytes());
    }
    for i in original {
        out.extend_from_slice(source.bytes_of(i));
    }
    let start = out.len();
    out.extend_from_slice(code);
    for (at, meaning) in &moves.tallies {
        out[start + at..][..4].copy_from_slice(&meaning.bits().to_le_bytes());
    }
    out.extend_from_slice(entries.bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Mode, disable};

    #[test]
    fn heads_and_places_come_back() {
        let head = Head {
            pc: 1 << 40,
            hot: 2,
            cold: 16,
            region: 3,
            code: 70_000,
            entries: 5,
            original: 6,
            places: 7,
            links: 8,
            entry: 9,
            counts: [10, 11, 12, 13],
            site: [14, 15],
            split: 17,
        };
        let mut out = Vec::new();
        head.write(&mut out);
        assert_eq!((out.len(), Head::read(&out)), (Head::BYTES, Some(head)));
        assert_eq!(Head::read(&out[1..]), None);
        for kind in moves::Kind::ALL {
            let place = Moved { offset: 0xfffe, kind, argument: 4095 };
            assert_eq!(unpacked_place(packed_place(&place).unwrap()), Some(place));
        }
        let far = |offset, argument| Moved { offset, kind: moves::Kind::Site, argument };
        assert_eq!(packed_place(&far(0x1_0000, 0)).or(packed_place(&far(0, 4096))), None);
    }

    #[test]
    fn code_moves_by_whole_pages_and_not_from_fixed_addresses() {
        let (low, high) = (0x40_1000, 0x5555_5555_5000);
        assert_eq!(distance(low, low, 6), Some(0));
        assert_eq!(distance(low, low + 0x1000, 6), None);
        assert_eq!(distance(low, high, 6).or(distance(high, low, 6)), None);
        assert_eq!(distance(high, high - 0x3000, 12), Some(-0x3000));
        assert_eq!(distance(high, high + 0x3040, 6), None);
        assert_eq!(distance(high, high + 0x4000, 14), None, "blocks larger than pages");
        assert_eq!(distance(high + 8, high + 8, 14), Some(0));
    }

    #[test]
    fn whatever_changes_code_changes_the_fingerprint() {
        let base = Options::new(Mode::Detail, 6, 0);
        let of = |options: &Options| of_processor(options, false);
        let mut all = alloc::vec![of(&base), of_processor(&base, true)];
        all.extend(
            [Mode::Matrix, Mode::Undirected, Mode::Count].map(|mode| of(&Options::new(mode, 6, 0))),
        );
        all.push(of(&Options::new(Mode::Detail, 7, 0)));
        use disable::*;
        all.push(of(&Options { bmi2: !base.bmi2, ..base }));
        for bit in [LIVENESS, MERGE, GROUP, AT_ONCE, HOIST, LOOPS, ENTRIES, TALLIES, PARK, SITES] {
            all.push(of(&Options::new(Mode::Detail, 6, bit)));
        }
        all.push(of(&base.with_pages()));
        all.push(of(&Options { max_branches: 3, ..base }));
        all.push(of(&Options { max_instructions: 3, ..base }));
        all.push(of(&Options { unroll: 3, ..base }));
        all.push(of(&Options { poll: 3, ..base }));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
