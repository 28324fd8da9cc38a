//! Indirect branches learn where they lead: guards are made from what sites have sampled.
//!
//! Neighbour: [`sites`](crate::connect::sites) says why.

use crate::cache::entries::Entries;
use crate::cache::recovery::Parked;
use crate::code::emitter::{Emitted, Emitter, reaches};
use crate::connect::blocks::NO_LINK;
use crate::connect::links::{self, Link};
use crate::connect::sites::{KNOWN, Site, worth_knowing};
use crate::control;
use crate::engine::Workshop;
use crate::engine::generations::Translated;
use crate::host::Host;
use crate::options::Options;
use crate::regs::R11;
use alloc::vec::Vec;

/// A guard ready to be placed.
struct Guard {
    code: Emitted,
    links: Vec<Link>,
}

/// A site has sampled where it leads: once it knows enough, it gets a guard, or, where there is
/// nothing to know, leads to the lookup for good. Returns whether there is a new guard.
///
/// # Safety
/// The engine's lock is held.
pub(crate) unsafe fn learn(
    code: &mut Translated,
    (site, target): (usize, u64),
    options: &Options,
    workshop: &mut Workshop,
    host: &mut dyn Host,
) -> bool {
    let Some((site, samples)) = code.sites.sample(site, target, options.site_samples) else {
        return false;
    };
    let guard = place_guard(code, &site, &worth_knowing(&samples), (options, workshop), host);
    // SAFETY: a patchable branch in the present generation.
    unsafe { links::point_branch(site.branch, guard.unwrap_or(site.lookup)) };
    guard.is_some()
}

/// Makes a guard that a site reaches; `None` if there is nothing to know, or no place for it.
fn place_guard(
    code: &mut Translated,
    site: &Site,
    targets: &[u64],
    (options, workshop): (&Options, &mut Workshop),
    host: &mut dyn Host,
) -> Option<u64> {
    if targets.is_empty() {
        return None;
    }
    let k = code.region_for(site.branch, host)?;
    let base = code.regions[k].next().hot;
    if !reaches(base, site.branch) {
        return None;
    }
    let Guard { code: made, links } = guard(code, site, targets, k, options);
    let entries = Entries::new(&made.entries, targets[0], &mut workshop.scratch);
    code.regions[k].place(&made.bytes, made.split, targets[0], entries);
    links.into_iter().for_each(|link| code.blocks.add_link(link));
    Some(base)
}

/// The guard to lie at the next spot of a region.
fn guard(
    code: &Translated,
    site: &Site,
    targets: &[u64],
    region: usize,
    options: &Options,
) -> Guard {
    let region = &code.regions[region];
    let mut e = Emitter::new(region.next(), options);
    let (mut compared, mut ways) = (Vec::new(), Vec::new());
    // A thread that shall leave does so at the pad.
    let leave = poll_known(&mut e, options.poll);
    for target in targets {
        e.mark(0, KNOWN);
        compared.push(e.open_branch(&[0x4c, 0x3b, 0x1d])); // cmp r11, [rip + target]
        let other = e.open_branch(&[0x0f, 0x85]); // jne
        e.mark(*target, Parked { r11: true, ..Parked::NOTHING });
        e.load(R11, control::SAVED_R11);
        e.mark(*target, Parked::NOTHING);
        // Where the block is, or is likely to be.
        let at = code.blocks.get(*target).map_or(*target, |block| block.entry);
        let far = !reaches(e.ip(), at);
        let way = if far {
            e.open_branch(&[0xff, 0x25]) // jmp [rip + block]
        } else {
            e.patchable_branch(&[0xe9])
        };
        ways.push((far, way));
        let next = e.len();
        e.lead(other, next);
        if compared.len() == targets.len() {
            e.mark(0, KNOWN);
            leave.into_iter().for_each(|leave| e.lead(leave, e.len()));
            e.jump(site.lookup);
        }
    }
    e.align(8);
    let literal = |e: &mut Emitter, rel32: usize, value: u64| {
        let at = e.len();
        e.lead(rel32, at);
        e.bytes(&value.to_le_bytes());
        at
    };
    for (target, rel32) in targets.iter().zip(compared) {
        literal(&mut e, rel32, *target);
    }
    // Words that are patched; until the stubs are there, their addresses are not known.
    let words: Vec<_> =
        ways.iter().map(|(far, way)| far.then(|| literal(&mut e, *way, 0))).collect();
    e.begin_cold();
    let mut links = Vec::new();
    for (k, target) in targets.iter().enumerate() {
        let (stub, at) = (e.ip(), e.len());
        let id = code.blocks.next_link() + links.len();
        links::emit_exit_stub(&mut e, *target, id, region.trampolines.direct);
        let site = match words[k] {
            Some(word) => {
                e.replace(word, &stub.to_le_bytes());
                word
            }
            None => {
                e.lead(ways[k].1, at);
                ways[k].1
            }
        };
        let site = e.address_at(site);
        let kind = if ways[k].0 { links::Kind::Word } else { links::Kind::Branch };
        links.push(Link { site, target: *target, stub, next: NO_LINK, stale: false, kind });
    }
    Guard { code: e.finish(), links }
}

/// Polls where the target is in %r11, if there is something to poll.
fn poll_known(e: &mut Emitter, address: i32) -> Option<usize> {
    e.mark(0, KNOWN);
    (address != 0).then(|| e.poll(address))
}
