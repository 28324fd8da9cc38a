//! What the memory with events was for: groups of allocated blocks, variables, stacks, files.
//!
//! The agent numbers what it knows, groups of blocks (`wire::objects`); here each event gets a row
//! of the profile's table `objects`. What lies in no block is named by its address, like lines, or
//! by the zone of memory that it is in.
//! Neighbours: `session` has the records, `places` names addresses, `tables` asks.

use crate::alike;
use crate::allocated::{RawBlock, RawGroup, add_counted};
use crate::elements;
use crate::error::RecorderError;
use crate::frames::Allocation;
use crate::mapped::{self, Mapped};
use crate::object_texts::{block_text, described, joined};
use crate::pages;
use crate::places::{Lying, Places};
use crate::session::Session;
use crate::stack_variables::{OnStack, at_byte};
use crate::static_lines::shortened;
use profile::{BlockRow, EventRow, FieldRow, ObjectRow, PAGE_BYTES, PageRow, PageTables, SiteRow};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Acquire;
use types::{Sharing, ThreadId};
use wire::objects::{Block, FIRST_ZONE, Group, MAX_BLOCKS, MAX_GROUPS, MAX_ZONES, OTHERS, Zone};
use wire::session::{BLOCKS_OFFSET, GROUPS_OFFSET, Header, MAX_THREADS, ZONES_OFFSET};

/// Bytes of the lines of memory in a profile.
const LINE_BYTES: u64 = 64;
/// Such lines in a page.
const LINES_OF_PAGE: u64 = PAGE_BYTES / LINE_BYTES;
/// Most blocks of a line that are named.
const MAX_BLOCKS_NAMED: usize = 4;

/// What a process has allocated.
#[derive(Default)]
pub struct Allocated {
    /// By number.
    pub groups: Vec<RawGroup>,
    /// By start.
    blocks: Vec<RawBlock>,
    /// Most bytes of one of them.
    largest: u64,
    /// By number: start and bytes.
    zones: Vec<(u64, u64)>,
    /// Files that were mapped, by the numbers that events have.
    mapped: HashMap<u32, Mapped>,
    /// A block on each page of the tables of pages, where one is known.
    on_pages: Vec<Option<RawBlock>>,
}

impl Allocated {
    /// Reads what the agent has left.
    pub fn read(session: &Session, header: &Header) -> Result<Self, RecorderError> {
        let words = |offset, count: &AtomicU32, most: usize, bytes: usize| {
            let count = (count.load(Acquire) as usize).min(most);
            session.words(offset, count * bytes / 8)
        };
        let (group, block) = (size_of::<Group>(), size_of::<Block>());
        let groups = words(GROUPS_OFFSET, &header.groups, MAX_GROUPS, group)?;
        let blocks = words(BLOCKS_OFFSET, &header.blocks_described, MAX_BLOCKS, block)?;
        let threads = (header.threads.load(Acquire) as usize).min(MAX_THREADS);
        let mut groups: Vec<RawGroup> = groups.chunks_exact(group / 8).map(RawGroup::of).collect();
        add_counted(&mut groups, session, threads)?;
        let blocks = blocks.chunks_exact(block / 8).map(RawBlock::of).collect();
        let zones = words(ZONES_OFFSET, &header.zones, MAX_ZONES, size_of::<Zone>())?;
        let zones = zones.chunks_exact(2).map(|zone| (zone[0], zone[1])).collect();
        let mapped = mapped::read(session, header)?;
        Ok(Self { zones, mapped, ..Self::new(groups, blocks) })
    }

    /// The same with a block on each page of the tables of pages.
    pub fn with_pages(self, on_pages: Vec<Option<RawBlock>>) -> Self {
        Self { on_pages, ..self }
    }

    /// The same where it is not known of all blocks when they were freed.
    pub fn without_lives(mut self) -> Self {
        for group in &mut self.groups {
            (group.freed, group.lived) = (None, None);
        }
        self.blocks.iter_mut().for_each(|block| block.lifetime_ns = None);
        self
    }

    /// From groups by number, and blocks.
    pub fn new(groups: Vec<RawGroup>, mut blocks: Vec<RawBlock>) -> Self {
        blocks.retain(|b| b.group != 0 && (b.group as usize) < groups.len() && b.bytes > 0);
        blocks.sort_unstable_by_key(|b| (b.start, b.ordinal, b.group));
        let largest = blocks.iter().map(|b| b.bytes).max().unwrap_or(0);
        Self { groups, blocks, largest, ..Self::default() }
    }

    /// Blocks of a group that have been in a line.
    fn in_line(&self, line: u64, group: u32) -> impl Iterator<Item = &RawBlock> {
        let first = self.blocks.partition_point(|b| b.start < line.saturating_sub(self.largest));
        let around = self.blocks[first..].iter().take_while(move |b| b.start < line + LINE_BYTES);
        around.filter(move |b| b.group == group && b.start.saturating_add(b.bytes) > line)
    }
}

/// What memory with events was for.
#[derive(Default)]
pub struct Objects {
    pub rows: Vec<ObjectRow>,
    pub blocks: Vec<BlockRow>,
    pub fields: Vec<FieldRow>,
    /// Region of lines with allocated memory or mapped files, and what lies there.
    pub texts: HashMap<u64, (String, String)>,
}

/// The rows of `objects` so far, by what they are.
struct Naming<'a> {
    allocated: &'a Allocated,
    /// How many threads the process had.
    threads: usize,
    rows: Vec<ObjectRow>,
    blocks: BTreeSet<BlockRow>,
    of_groups: HashMap<u32, u32>,
    of_names: HashMap<(String, String), u32>,
}

/// Gives each event and each page its object, and each line with allocated memory the text that
/// says what lies there. `events` name groups, are ordered by line, and afterwards name rows of the
/// table of objects. `sites` gains those of calls that allocate; the process had `threads`.
pub fn name(
    (events, pages): (&mut [EventRow], &mut PageTables),
    allocated: &Allocated,
    threads: usize,
    places: &mut Places<'_>,
    sites: &mut Vec<SiteRow>,
) -> Objects {
    let (of_groups, of_names, blocks) = Default::default();
    let rows = vec![ObjectRow::default()];
    let mut naming = Naming { allocated, threads, rows, blocks, of_groups, of_names };
    let mut texts = HashMap::new();
    places.set_mapped(allocated.mapped.values());
    for of_line in events.chunk_by_mut(|a, b| a.line == b.line) {
        let line = of_line[0].line;
        if let Some(text) = naming.text_of_line(of_line, places, sites) {
            texts.insert(line, text);
        }
        if let Some(text) = naming.name_line(of_line, places, sites) {
            texts.entry(line).or_insert(text);
        }
    }
    // Of pages, unlike of events, nothing says which file they were in.
    places.set_mapped(std::iter::empty());
    naming.name_pages(pages, places, sites);
    places.set_mapped(allocated.mapped.values());
    pages::without_ours(pages, &naming.rows);
    let Naming { mut rows, blocks, of_groups, .. } = naming;
    let mut groups = of_groups.into_iter().map(|(group, row)| (row, group)).collect();
    let order = alike::in_order(&mut rows, &mut groups);
    events.iter_mut().for_each(|event| event.object = order[event.object as usize]);
    pages.pages.iter_mut().for_each(|page| page.object = order[page.object as usize]);
    let ordered = |block: BlockRow| BlockRow { object: order[block.object as usize], ..block };
    let blocks = without_doubles(blocks.into_iter().map(ordered).collect());
    let mut objects = Objects { rows, blocks, fields: Vec::new(), texts };
    elements::tell(&mut objects, events, &groups, allocated, places);
    objects
}

/// The bytes of its line that an event is about. A thread that has written two variables beside
/// each other shares truly only the one that another takes.
fn met_on(event: &EventRow) -> u64 {
    let (to, from) = (event.to_bytes, event.from_bytes);
    match event.sharing {
        Sharing::True if to & from != 0 => to & from,
        _ => to | from,
    }
}

/// The variable on a stack that an event at these bytes of its line is about.
fn variable_of<'a>(
    on_stack: &'a [OnStack],
    event: &EventRow,
    touched: u64,
    sites: &[SiteRow],
) -> Option<&'a OnStack> {
    let function = |site: u32| sites.get(site as usize).map_or("", |site| &site.function);
    let byte = u64::from(touched.trailing_zeros()).min(LINE_BYTES - 1);
    let sites = [function(event.from_site), function(event.to_site)];
    at_byte(on_stack, byte, &sites, &[event.from.0, event.to.0])
}

/// Whether there are variables on the last line of a page that was accessed.
fn others_lie(page: u64, lines: u64, places: &mut Places<'_>) -> bool {
    let last = LINES_OF_PAGE - 1 - u64::from(lines.leading_zeros()) % LINES_OF_PAGE;
    let named = places.objects(page + last * LINE_BYTES, true);
    named.iter().any(|lying| lying.variable != (0..0))
}

/// Whether a variable of at least a page has all these lines of the page at an address.
fn holds_all(variable: &Range<u64>, page: u64, lines: u64) -> bool {
    let first = page + u64::from(lines.trailing_zeros()) % LINES_OF_PAGE * LINE_BYTES;
    let end =
        page + (LINES_OF_PAGE - u64::from(lines.leading_zeros()) % LINES_OF_PAGE) * LINE_BYTES;
    let is_large = variable.end - variable.start >= PAGE_BYTES;
    is_large && variable.start <= first && end <= variable.end
}

/// A process of several whose events are told together.
pub struct Member<'a> {
    allocated: Allocated,
    places: Places<'a>,
    of_groups: HashMap<u32, u32>,
}

impl<'a> Member<'a> {
    /// Its threads are numbered from `first` on.
    pub fn new(mut allocated: Allocated, mut places: Places<'a>, first: u32) -> Self {
        places.set_mapped(allocated.mapped.values());
        for block in allocated.blocks.iter_mut().filter(|block| block.thread != u32::MAX) {
            block.thread = block.thread.saturating_add(first);
        }
        Self { allocated, places, of_groups: HashMap::new() }
    }

    pub fn places(&mut self) -> &mut Places<'a> {
        &mut self.places
    }
}

/// The same as [`name`] for events of several processes. An event's object is an index into
/// `known`, which holds the process (an index into `members`) and the object's number in it.
/// `threads` is the number of threads of all processes together.
pub fn name_together(
    events: &mut [EventRow],
    known: &[(usize, u32)],
    members: &mut [Member<'_>],
    threads: usize,
    sites: &mut Vec<SiteRow>,
) -> Objects {
    let mut all = Objects { rows: vec![ObjectRow::default()], ..Objects::default() };
    let (mut of_names, mut blocks) = Default::default();
    for of_line in events.chunk_by_mut(|a, b| a.line == b.line) {
        let process_of = |event: &EventRow| known[event.object as usize].0;
        let mut processes: Vec<usize> = of_line.iter().map(process_of).collect();
        let of_event = processes.clone();
        processes.sort_unstable();
        processes.dedup();
        let mut texts = Vec::new();
        for process in processes {
            let Member { allocated, places, of_groups } = &mut members[process];
            let mut naming = Naming {
                allocated,
                threads,
                rows: std::mem::take(&mut all.rows),
                blocks: std::mem::take(&mut blocks),
                of_groups: std::mem::take(of_groups),
                of_names: std::mem::take(&mut of_names),
            };
            let is_own = |k: &usize| of_event[*k] == process;
            let own: Vec<usize> = (0..of_line.len()).filter(is_own).collect();
            let mut named: Vec<EventRow> = own.iter().map(|k| of_line[*k]).collect();
            named.iter_mut().for_each(|event| event.object = known[event.object as usize].1);
            let text = naming.text_of_line(&named, places, sites);
            let other = naming.name_line(&mut named, places, sites);
            texts.extend(text.or(other));
            own.iter().zip(&named).for_each(|(k, event)| of_line[*k].object = event.object);
            *of_groups = naming.of_groups;
            (all.rows, blocks, of_names) = (naming.rows, naming.blocks, naming.of_names);
        }
        if !texts.is_empty() {
            all.texts.insert(of_line[0].line, joined(texts));
        }
    }
    all.blocks = without_doubles(blocks);
    all
}

/// Each block once, with all that is known of it: a child has its parent's blocks, but does not
/// know which thread allocated them, and pages do not know how long they were there.
fn without_doubles(blocks: BTreeSet<BlockRow>) -> Vec<BlockRow> {
    let place = |block: &BlockRow| (block.object, block.start, block.ordinal, block.bytes);
    let mut blocks: Vec<BlockRow> = blocks.into_iter().collect();
    blocks.dedup_by(|next, block| {
        let is_same = place(next) == place(block);
        if is_same {
            block.thread = block.thread.or(next.thread);
            block.lifetime_ns = block.lifetime_ns.or(next.lifetime_ns);
        }
        is_same
    });
    blocks
}

impl Naming<'_> {
    /// Gives the events of a line their objects. Returns region and text of a line on a stack where
    /// its variables are known.
    fn name_line(
        &mut self,
        events: &mut [EventRow],
        places: &mut Places<'_>,
        sites: &mut Vec<SiteRow>,
    ) -> Option<(String, String)> {
        let line = events[0].line;
        let wanted = events.iter().any(|event| event.object == 0);
        let named = places.objects(line, wanted);
        let on_stack = if wanted { places.on_stack(line) } else { Vec::new() };
        let allocated = self.allocated;
        let mut of_files: HashMap<u32, Vec<Lying>> = HashMap::new();
        let mut texts = Vec::new();
        for event in events {
            let touched = met_on(event);
            event.object = match (event.object, allocated.mapped.get(&event.object)) {
                (0, _) => match variable_of(&on_stack, event, touched, sites) {
                    Some(variable) => {
                        texts.push(variable.text(line));
                        self.row_named(&variable.lying())
                    }
                    None => {
                        self.note_beside(&named, event);
                        self.row_touched(&named, touched)
                    }
                },
                (FIRST_ZONE.., _) => self.row_of_zone(event.object, places),
                (number, Some(file)) => {
                    let lying =
                        of_files.entry(number).or_insert_with(|| places.in_file(line, file));
                    self.row_touched(lying, touched)
                }
                (group, None) => self.row_of_group(group, places, sites),
            };
        }
        texts.sort_unstable();
        texts.dedup();
        (!texts.is_empty()).then(|| ("stack".into(), shortened(texts, "; ")))
    }

    /// Says what lies on pages: the allocated block that is known, or else what is at the first
    /// line that was accessed. Pages whose object is set are on blocks of that group.
    fn name_pages(
        &mut self,
        tables: &mut PageTables,
        places: &mut Places<'_>,
        sites: &mut Vec<SiteRow>,
    ) {
        let mut lines = vec![0_u64; tables.pages.len()];
        tables.touched.iter().for_each(|row| lines[row.page as usize] |= row.lines);
        let mut placed = vec![false; lines.len()];
        // Most pages lie on the variable of the page before.
        let mut last = (0..0, 0);
        let blocks = self.allocated.on_pages.iter().chain(std::iter::repeat(&None));
        let pages = tables.pages.iter_mut().zip(lines).zip(blocks);
        for (((page, lines), block), placed) in pages.zip(&mut placed) {
            if let Some(block) = block {
                self.name_block_on(page, block, places, sites);
                *placed = true;
                continue;
            }
            if page.object != 0 {
                page.object = self.row_of_group(page.object, places, sites);
                *placed = true;
                continue;
            }
            if !holds_all(&last.0, page.address, lines) {
                last = self.row_on_page(page.address, lines, places);
            }
            page.object = last.1;
            if !last.0.is_empty() {
                page.offset = page.address.saturating_sub(last.0.start / PAGE_BYTES * PAGE_BYTES);
                *placed = true;
            }
        }
        pages::count_offsets(tables, |number| placed[number]);
    }

    /// Where the variable lies that has all lines of a page that were accessed, and its row; else
    /// the row of what lies at the first of these `lines`, and no place.
    fn row_on_page(
        &mut self,
        address: u64,
        lines: u64,
        places: &mut Places<'_>,
    ) -> (Range<u64>, u32) {
        let first = u64::from(lines.trailing_zeros()) % LINES_OF_PAGE;
        let line = address + first * LINE_BYTES;
        let named = places.objects(line, true);
        let Some(lying) = named.iter().find(|lying| !lying.bytes.is_empty()) else {
            return (0..0, 0);
        };
        // The last one on the line may go on behind it.
        let last = named.iter().rev().find(|lying| !lying.variable.is_empty());
        if let Some(lying) = last.filter(|last| holds_all(&last.variable, address, lines)) {
            return (lying.variable.clone(), self.row_named(lying));
        }

        let is_several = lying.variable != (0..0)
            || lying.region == "static" && others_lie(address, lines, places);
        let object = match places.file_at(line).filter(|_| is_several) {
            // One of several on the page: none of them has it.
            Some(file) => self.row_of_data(lying, &file),
            None => self.row_named(lying),
        };
        (0..0, object)
    }

    /// The row of a file's small variables, of which this is one.
    fn row_of_data(&mut self, one: &Lying, file: &str) -> u32 {
        let (region, name) = (one.region.clone(), format!("static data ({file})"));
        self.row_named(&Lying { bytes: 0..0, region, name, variable: 0..0 })
    }

    /// Says that the block lies on the page, and maybe others, too.
    fn name_block_on(
        &mut self,
        page: &mut PageRow,
        block: &RawBlock,
        places: &mut Places<'_>,
        sites: &mut Vec<SiteRow>,
    ) {
        page.object = self.row_of_group(block.group, places, sites);
        page.ordinal = block.ordinal;
        page.offset = page.address.saturating_sub(block.start / PAGE_BYTES * PAGE_BYTES);
        // What covers the page is alone there.
        let end = block.start.saturating_add(block.bytes);
        page.blocks = u32::from(block.start <= page.address && end >= page.address + PAGE_BYTES);
        let thread = Some(ThreadId(block.thread));
        page.allocated_by = thread.filter(|thread| thread.index() < self.threads);
        self.note_block(page.object, block);
    }

    /// The row of what lies at the first byte touched of a line.
    fn row_touched(&mut self, named: &[Lying], touched: u64) -> u32 {
        let byte = u64::from(touched.trailing_zeros()).min(LINE_BYTES - 1);
        let at = named.iter().find(|lying| lying.bytes.contains(&byte));
        at.map_or(0, |lying| self.row_named(lying))
    }

    /// Notes the variables that both threads of an event use: it has the first one as its object.
    fn note_beside(&mut self, named: &[Lying], event: &EventRow) {
        let touched = event.from_bytes | event.to_bytes;
        let is_touched = |lying: &&Lying| {
            !lying.variable.is_empty() && lying.bytes.clone().any(|byte| touched >> byte & 1 == 1)
        };
        if event.sharing == Sharing::False {
            named.iter().filter(is_touched).for_each(|lying| {
                self.row_named(lying);
            });
        }
    }

    fn row_named(&mut self, lying: &Lying) -> u32 {
        let Lying { region, name, variable, .. } = lying;
        if region.is_empty() || region == "unknown" {
            return 0;
        }
        let rows = &mut self.rows;
        let object = *self.of_names.entry((region.clone(), name.clone())).or_insert_with(|| {
            let row =
                ObjectRow { region: region.clone(), name: name.clone(), ..ObjectRow::default() };
            rows.push(row);
            rows.len() as u32 - 1
        });
        if !variable.is_empty() {
            let (start, bytes) = (variable.start, variable.end - variable.start);
            self.blocks.insert(BlockRow {
                object,
                start,
                ordinal: 0,
                bytes,
                thread: None,
                lifetime_ns: None,
            });
        }
        object
    }

    fn note_block(&mut self, object: u32, block: &RawBlock) {
        if object == 0 || block.start.checked_add(block.bytes).is_none() {
            return;
        }
        self.blocks.insert(BlockRow {
            object,
            start: block.start,
            ordinal: block.ordinal,
            bytes: block.bytes,
            thread: Some(ThreadId(block.thread)).filter(|thread| thread.index() < self.threads),
            lifetime_ns: block.lifetime_ns,
        });
    }

    /// The row of the memory in a zone; 0 where that is not known.
    fn row_of_zone(&mut self, number: u32, places: &Places<'_>) -> u32 {
        if let Some(row) = self.of_groups.get(&number) {
            return *row;
        }
        let zone = self.allocated.zones.get((number - FIRST_ZONE) as usize);
        let found = zone.filter(|(_, bytes)| *bytes > 0);
        let (region, name) = found.map_or_else(Default::default, |zone| places.zone(*zone));
        let row = self.row_named(&Lying { bytes: 0..0, region, name, variable: 0..0 });
        self.of_groups.insert(number, row);
        row
    }

    /// The row of a group; 0 for a number that none has.
    fn row_of_group(
        &mut self,
        group: u32,
        places: &mut Places<'_>,
        sites: &mut Vec<SiteRow>,
    ) -> u32 {
        if let Some(row) = self.of_groups.get(&group) {
            return *row;
        }
        let Some(raw) = self.allocated.groups.get(group as usize) else { return 0 };
        let region = if raw.is_mapped { "anonymous" } else { "heap" }.into();
        let mut row = ObjectRow { region, ..ObjectRow::default() };
        if group == OTHERS {
            row.name = "in further places".into();
        } else {
            let Allocation { name, callers, site } = places.allocation(&raw.frames, raw.modules);
            (row.name, row.callers) = (name, callers);
            row.site = sites.len() as u32;
            sites.push(site);
            (row.blocks, row.bytes) = (raw.blocks, raw.bytes);
            (row.freed, row.lifetime_ns) = (raw.freed, raw.lifetime_ns());
        }
        let number = self.add_group(row);
        self.of_groups.insert(group, number);
        number
    }

    /// Adds the row of a group. What a process has mapped may be there in its children, too: the
    /// first group of each process with these words, the second one of each, and so on.
    fn add_group(&mut self, row: ObjectRow) -> u32 {
        let next = self.rows.len() as u32;
        if row.region == "anonymous" {
            let bytes = row.bytes.checked_div(row.blocks).unwrap_or(0);
            let of_process: HashSet<u32> = self.of_groups.values().copied().collect();
            for number in 0.. {
                let what = format!("{}\n{}\n{bytes}\n{number}", row.name, row.callers);
                let known = *self.of_names.entry((row.region.clone(), what)).or_insert(next);
                if known == next {
                    break;
                }
                if !of_process.contains(&known) {
                    return known;
                }
            }
        }
        self.rows.push(row);
        next
    }

    /// `heap` and `heap block of 400 bytes allocated in f at f.c:7`, with what else lay in the
    /// line.
    fn text_of_line(
        &mut self,
        events: &[EventRow],
        places: &mut Places<'_>,
        sites: &mut Vec<SiteRow>,
    ) -> Option<(String, String)> {
        let line = events[0].line;
        let mut groups: Vec<u32> = events.iter().map(|e| e.object).filter(|g| *g != 0).collect();
        groups.sort_unstable();
        groups.dedup();
        if line == 0 || groups.is_empty() {
            return None;
        }
        let mut told = Vec::new();
        for group in groups {
            if let Some(file) = self.allocated.mapped.get(&group) {
                let of_file = events.iter().filter(|event| event.object == group);
                let touched = of_file.fold(0, |bytes, e| bytes | e.from_bytes | e.to_bytes);
                told.push(places.line_in_file(line, touched, file));
                continue;
            }
            let row = self.row_of_group(group, places, sites) as usize;
            let blocks: Vec<&RawBlock> = self.allocated.in_line(line, group).collect();
            blocks.iter().for_each(|block| self.note_block(row as u32, block));
            let mut starts: Vec<(u64, u64)> = blocks.iter().map(|b| (b.start, b.bytes)).collect();
            starts.dedup();
            let object = &self.rows[row];
            let mut texts = Vec::new();
            if starts.is_empty() {
                texts.push(described(object));
            }
            for (start, bytes) in starts.into_iter().take(MAX_BLOCKS_NAMED) {
                let of_block = || blocks.iter().filter(|b| (b.start, b.bytes) == (start, bytes));
                let one = (of_block().count() == 1).then(|| of_block().next()).flatten();
                texts.push(block_text(object, one.copied(), line, start, bytes));
            }
            told.push((object.region.clone(), texts.join("; ")));
        }
        Some(joined(told))
    }
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
