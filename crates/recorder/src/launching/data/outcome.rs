//! What became of a plan's data: for each object, where its pages are.

use super::kernel::{INTERLEAVE, Policy};
use super::tables::Tables;
use super::{DataMemory, Parts};
use crate::child::{Ended, Ending};
use crate::error::RecorderError;
use binding::{PageStatus, where_pages_are};
use placement::{DataIdentity, Fit, PlanObject};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use wire::data::{Entry, Header, scaled, state};

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Where pages are that the plan puts somewhere.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pages {
    /// On the node that the plan says.
    pub as_planned: u64,
    /// On another.
    pub elsewhere: u64,
    /// Not in memory: never touched.
    pub absent: u64,
    /// By node, the kernel's numbers.
    pub on: BTreeMap<u32, u64>,
}

impl Pages {
    fn add(&mut self, other: &Self) {
        self.as_planned += other.as_planned;
        self.elsewhere += other.elsewhere;
        self.absent += other.absent;
        other.on.iter().for_each(|(node, pages)| *self.on.entry(*node).or_default() += pages);
    }

    /// Pages that are in memory.
    pub fn present(&self) -> u64 {
        self.as_planned + self.elsewhere
    }
}

/// An object of the plan, all its blocks together.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ObjectOutcome {
    /// How the plan names it.
    pub identity: DataIdentity,
    /// Bytes of one block, by the plan; 0 = not known.
    pub bytes: u64,
    /// Pages that the plan puts somewhere.
    pub planned: u64,
    /// Blocks that the plan names one by one, and whether it names all others.
    pub named: u64,
    /// Blocks of it that appeared.
    pub appeared: u64,
    /// Blocks of which everything could be asked for.
    pub placed: u64,
    /// Blocks that were looked at, and their pages.
    pub read: u64,
    /// Where their pages are.
    pub pages: Pages,
    /// What the kernel has refused, and why.
    pub refused: Option<(u64, String)>,
    /// Why it was left out.
    pub left_out: Option<&'static str>,
}

/// What became of the data of a plan.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DataReport {
    /// Why none of it was placed; `None` where it was.
    pub inactive: Option<String>,
    /// Whether what is there at the end was looked at: not if the program was killed.
    pub seen_at_end: bool,
    /// In the order of the plan.
    pub objects: Vec<ObjectOutcome>,
    /// What else there is to know, sentences.
    pub notes: Vec<String>,
}

impl DataReport {
    /// Of data that was not placed at all.
    pub fn inactive(reason: String) -> Self {
        Self { inactive: Some(reason), ..Self::default() }
    }

    /// Where all pages are together.
    pub fn pages(&self) -> Pages {
        let mut all = Pages::default();
        self.objects.iter().for_each(|object| all.add(&object.pages));
        all
    }

    /// Whether everything appeared that the plan names, and nothing is elsewhere.
    pub fn as_planned(&self) -> bool {
        self.inactive.is_none()
            && self
                .objects
                .iter()
                .all(|o| o.appeared > 0 && o.pages.elsewhere == 0 && o.refused.is_none())
    }
}

/// Pages of an object while the program runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Sight {
    /// How the plan names it.
    pub identity: DataIdentity,
    /// Blocks that are there now.
    pub blocks: u64,
    /// Where their pages are.
    pub pages: Pages,
}

impl Sight {
    /// Of what is there: start, bytes and entry of each.
    pub(super) fn of(
        pid: i32,
        tables: &Tables,
        all: impl Iterator<Item = (u64, u64, u32)>,
    ) -> Vec<Self> {
        let mut found: BTreeMap<String, Self> = BTreeMap::new();
        for (start, bytes, number) in all {
            let Some(entry) = tables.entries.get(number as usize) else { continue };
            let object = &tables.objects[entry.object];
            let sight = found.entry(words(&object.identity)).or_insert_with(|| Self {
                identity: object.identity.clone(),
                blocks: 0,
                pages: Pages::default(),
            });
            sight.blocks += 1;
            let first = entry.first as usize;
            let scaled = |offset| scaled(offset, object.bytes, bytes.div_ceil(PAGE));
            for range in &tables.ranges[first..first + entry.count as usize] {
                let (offset, to) = (scaled(range.offset), scaled(range.offset + range.bytes));
                let range = Policy { offset, bytes: to - offset, ..*range };
                sight.pages.add(&read(pid, start & !(PAGE - 1), start + bytes, &range));
            }
        }
        found.into_values().collect()
    }
}

/// Where the pages of a range are.
fn read(pid: i32, base: u64, end: u64, range: &Policy) -> Pages {
    let to = (base + range.offset + range.bytes).min(end.next_multiple_of(PAGE));
    let addresses: Vec<u64> = (base + range.offset..to).step_by(PAGE as usize).collect();
    let mut pages = Pages::default();
    for status in where_pages_are(pid, &addresses).unwrap_or_default() {
        match status {
            PageStatus::On(node) => *pages.on.entry(node).or_default() += 1,
            PageStatus::Absent | PageStatus::Refused(_) => pages.absent += 1,
        }
    }
    let present: u64 = pages.on.values().sum();
    let most = match range.mode {
        INTERLEAVE => present.div_ceil(u64::from(range.nodes.count_ones().max(1))),
        _ => present,
    };
    let planned = |node: u32| node < u64::BITS && range.nodes >> node & 1 != 0;
    let right = pages.on.iter().filter(|(node, _)| planned(**node)).map(|(_, n)| (*n).min(most));
    pages.as_planned = right.sum();
    pages.elsewhere = present - pages.as_planned;
    pages
}

/// An object in words: `heap block allocated in f at f.c:7, called from main at f.c:20`.
pub fn words(identity: &DataIdentity) -> String {
    let DataIdentity { region, name, code, callers, .. } = identity;
    let from = match callers.split("; ").next() {
        None | Some("") => String::new(),
        Some(caller) => format!(", called from {caller}"),
    };
    match (region.as_str(), name.as_str()) {
        ("heap", "") => format!("heap block allocated at {code}{from}"),
        ("heap", name) => format!("heap block allocated {name}{from}"),
        ("anonymous", name) if identity.is_known() => format!("mapping made {name}{from}"),
        (_, name) => name.to_owned(),
    }
}

impl DataMemory {
    /// What became of the data of a program that has ended. `loosest`: how objects were known.
    pub fn report(&self, ended: &Ended, loosest: Option<Fit>) -> Result<DataReport, RecorderError> {
        let parts = self.parts()?;
        let header = &parts.header.records()[0];
        if let Some(reason) = inactive(header) {
            return Ok(DataReport::inactive(reason));
        }
        let mut notes = self.notes.clone();
        notes.extend(remarks(header, ended, loosest));
        let seen_at_end = header.finished.load(Relaxed) != 0;
        Ok(DataReport { inactive: None, seen_at_end, objects: self.objects(&parts), notes })
    }

    /// By place or symbol, in the order of the plan.
    fn objects(&self, parts: &Parts<'_>) -> Vec<ObjectOutcome> {
        let tables = &self.tables;
        let mut order: Vec<usize> = Vec::new();
        let mut of_objects: Vec<Option<ObjectOutcome>> = vec![None; tables.objects.len()];
        // A site's outcome stands with its first object.
        let mut first_of = vec![usize::MAX; tables.entries.len()];
        for site in &tables.sites {
            let mut of_site: Vec<usize> =
                (site.first..site.first + site.count).map(|entry| entry as usize).collect();
            of_site.extend(Some(site.others as usize).filter(|_| site.others != wire::data::NONE));
            let first = of_site.iter().map(|e| tables.entries[*e].object).min().unwrap_or(0);
            of_site.iter().for_each(|entry| first_of[*entry] = first);
        }
        for (number, (entry, read)) in
            tables.entries.iter().zip(parts.entries.records()).enumerate()
        {
            let at = first_of[number].min(entry.object);
            let object = &tables.objects[at];
            let outcome = of_objects[at].get_or_insert_with(|| {
                order.push(at);
                ObjectOutcome {
                    identity: object.identity.clone(),
                    bytes: object.bytes,
                    ..ObjectOutcome::default()
                }
            });
            outcome.named += u64::from(entry.ordinal != u64::MAX);
            outcome.planned += planned_pages(&tables.objects[entry.object]);
            add(outcome, read);
        }
        for (at, reason) in &tables.left_out {
            order.push(*at);
            let object = &tables.objects[*at];
            of_objects[*at] = Some(ObjectOutcome {
                identity: object.identity.clone(),
                bytes: object.bytes,
                planned: planned_pages(object),
                left_out: Some(*reason),
                ..ObjectOutcome::default()
            });
        }
        order.sort_unstable();
        order.into_iter().filter_map(|at| of_objects[at].take()).collect()
    }
}

/// Pages that a plan puts somewhere.
pub fn planned_pages(object: &PlanObject) -> u64 {
    object.ranges.iter().map(|range| range.bytes / PAGE).sum()
}

fn add(outcome: &mut ObjectOutcome, entry: &Entry) {
    let read = &entry.read;
    outcome.appeared += entry.appeared.load(Relaxed);
    outcome.placed += entry.placed.load(Relaxed);
    outcome.read += read.blocks.load(Relaxed);
    let on = read.on.iter().zip(0_u32..).map(|(pages, node)| (node, pages.load(Relaxed)));
    outcome.pages.add(&Pages {
        as_planned: read.as_planned.load(Relaxed),
        elsewhere: read.elsewhere.load(Relaxed),
        absent: read.absent.load(Relaxed),
        on: on.filter(|(_, pages)| *pages > 0).collect(),
    });
    let refused = entry.refused.load(Relaxed);
    if refused > 0 {
        let error = io::Error::from_raw_os_error(entry.error.load(Relaxed) as i32);
        let before = outcome.refused.as_ref().map_or(0, |(count, _)| *count);
        outcome.refused = Some((before + refused, error.to_string()));
    }
}

fn inactive(header: &Header) -> Option<String> {
    match header.state.load(Acquire) {
        state::RUNNING | state::OWN_ALLOCATOR | state::NO_ROOM => None,
        state::VERSION_MISMATCH => Some(format!(
            "{} is of another version than this program; install both from one build",
            super::DATA
        )),
        _ => Some(format!(
            "{} was not loaded into the program; check that no wrapper cleans LD_PRELOAD from the environment",
            super::DATA
        )),
    }
}

/// What there is to know, in sentences.
fn remarks(header: &Header, ended: &Ended, loosest: Option<Fit>) -> Vec<String> {
    let mut all = Vec::new();
    match header.state.load(Acquire) {
        state::OWN_ALLOCATOR => all.push(
            "the program has an allocator of its own, whose blocks are not recognised; only static data and stacks \
             were placed"
                .into(),
        ),
        state::NO_ROOM => all.push(
            "the program's address space is limited (ulimit -v), so its heap was left alone".to_owned(),
        ),
        _ => {}
    }
    if loosest == Some(Fit::Functions) {
        all.push(
            "some places in the program were recognised by the names of their functions only: it was changed since the \
             recording; record it again if objects are missing"
                .into(),
        );
    }
    all.extend(left_alone(header));
    if header.filtered.load(Relaxed) > 0 {
        all.push(
            "the program forbade itself system calls (seccomp); what it allocated afterwards was left alone"
                .into(),
        );
    }
    if header.rest_error.load(Relaxed) != 0 {
        let error = io::Error::from_raw_os_error(header.rest_error.load(Relaxed) as i32);
        all.push(format!("the policy for the rest of memory was refused: {error}"));
    }
    if header.finished.load(Relaxed) == 0 {
        let how = match ended.ending {
            Ending::Killed(_) => ended.ending.in_words(),
            Ending::Exited(_) => "ended without the C library's exit".into(),
        };
        all.push(format!(
            "the program {how}, so what was still there at the end was not looked at (--data-every shows it while it runs)"
        ));
    }
    all
}

/// How much was left alone, and why.
fn left_alone(header: &Header) -> Vec<String> {
    let unanswered = header.unanswered.load(Relaxed).into();
    let all = [
        (
            header.own_policy.load(Relaxed),
            "block was left alone: the program sets a memory policy of its own, which takes precedence",
            "blocks were left alone: the program sets a memory policy of its own, which takes precedence",
        ),
        (
            header.own_ranges.load(Relaxed),
            "time, the program set a memory policy for what the plan places, which takes precedence",
            "times, the program set a memory policy for what the plan places, which takes precedence",
        ),
        (
            header.mapping_limit.load(Relaxed),
            "range was not placed: the kernel allows no more mappings (vm.max_map_count)",
            "ranges were not placed: the kernel allows no more mappings (vm.max_map_count)",
        ),
        (
            header.no_space.load(Relaxed),
            "block found no address space of ours, and came from the program's allocator",
            "blocks found no address space of ours, and came from the program's allocator",
        ),
        (
            header.conflicts.load(Relaxed),
            "small block is planned for another node than most of its page, and went with the page",
            "small blocks are planned for another node than most of their page, and went with the page",
        ),
        (
            header.small_lost.load(Relaxed),
            "page of small blocks could not be kept track of",
            "times, a page of small blocks could not be kept track of: there are too many",
        ),
        (
            unanswered,
            "place in the program could not be named in time; its blocks were not placed",
            "places in the program could not be named in time; their blocks were not placed",
        ),
    ];
    let told = all.into_iter().filter(|(count, ..)| *count > 0);
    told.map(|(count, one, many)| match count {
        1 => format!("1 {one}"),
        _ => format!("{} {many}", types::numbers::grouped(count)),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_our_own_are_read_by_range() {
        let memory = vec![1_u8; 64 * PAGE as usize];
        let base = (memory.as_ptr() as u64).next_multiple_of(PAGE);
        let range = Policy { offset: 2 * PAGE, bytes: 10 * PAGE, mode: 1, nodes: 1 };
        let found = read(0, base, base + 8 * PAGE, &range);
        // Up to the end of the object.
        assert_eq!(found.present() + found.absent, 6);
        let away = Policy { nodes: 1 << 63, ..range };
        let found = read(0, base, base + 8 * PAGE, &away);
        assert_eq!(found.as_planned, 0);
    }
}
