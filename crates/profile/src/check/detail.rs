//! Invariants of sites, objects with their blocks and fields, lines and events: events name sites,
//! objects and lines that are there, and lines hold the sums of their events.

use super::check_pair;
use crate::{BlockRow, EventRow, FieldRow, LineRow, ObjectRow, Profile, SiteRow};

pub(super) fn check(profile: &Profile) -> Result<(), String> {
    if profile.sites.first() != Some(&SiteRow::default()) {
        return Err("site 0 is not the unknown site".into());
    }
    if profile.objects.first() != Some(&ObjectRow::default()) {
        return Err("object 0 is not the unknown object".into());
    }
    if profile.objects.iter().any(|o| o.site as usize >= profile.sites.len()) {
        return Err("an object was allocated at a site that is none".into());
    }
    check_blocks(profile)?;
    check_fields(profile)?;
    for event in &profile.events {
        check_pair(event.kind, event.from, event.to, event.count, profile.threads.len())?;
        let sites = profile.sites.len();
        if event.from_site.max(event.to_site) as usize >= sites {
            return Err(format!("events on line {:#x} at sites beyond {sites}", event.line));
        }
        if event.object as usize >= profile.objects.len() {
            return Err(format!("events on line {:#x} on an object that is none", event.line));
        }
    }
    if let Some(pair) = profile.events.windows(2).find(|pair| pair[0].key() >= pair[1].key()) {
        return Err(format!("events on line {:#x} out of order", pair[1].line));
    }
    check_lines(&profile.lines, &profile.events)
}

fn check_blocks(profile: &Profile) -> Result<(), String> {
    for BlockRow { object, start, bytes, thread, .. } in &profile.blocks {
        if *object == 0 || *object as usize >= profile.objects.len() {
            return Err(format!("the block at {start:#x} is of an object that is none"));
        }
        if *bytes == 0 || start.checked_add(*bytes).is_none() {
            return Err(format!("the block at {start:#x} has {bytes} bytes"));
        }
        if let Some(thread) = thread.filter(|t| t.index() >= profile.threads.len()) {
            return Err(format!("the block at {start:#x} is by {thread}, which is none"));
        }
    }
    match profile.blocks.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => Err(format!("the block at {:#x} is out of order", pair[1].start)),
        None => Ok(()),
    }
}

fn check_fields(profile: &Profile) -> Result<(), String> {
    for FieldRow { object, offset, bytes, name } in &profile.fields {
        let Some(row) = profile.objects.get(*object as usize).filter(|_| *object > 0) else {
            return Err(format!("the field {name} is of an object that is none"));
        };
        let end = offset.checked_add(*bytes);
        if *bytes == 0 || end.is_none_or(|end| end > row.stride) {
            return Err(format!("the field {name} is not within {} bytes", row.stride));
        }
    }
    match profile.fields.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => Err(format!("the field {} is out of order", pair[1].name)),
        None => Ok(()),
    }
}

fn check_lines(lines: &[LineRow], events: &[EventRow]) -> Result<(), String> {
    let mut groups = events.chunk_by(|a, b| a.line == b.line);
    for line in lines {
        let group = groups.next().unwrap_or_default();
        if group.first().is_none_or(|event| event.line != line.line) {
            return Err(format!("line {:#x} is out of order or has no events", line.line));
        }
        let (region, object) = (line.region.clone(), line.object.clone());
        if *line != (LineRow { region, object, ..LineRow::of(group) }) {
            return Err(format!("line {:#x} does not hold the sums of its events", line.line));
        }
    }
    match groups.next() {
        Some(group) => Err(format!("line {:#x} has events but is no line", group[0].line)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::check::tests::reason;
    use types::ThreadId;

    #[test]
    fn every_invariant_is_checked() {
        let cases = [
            (reason(|p| p.sites[0].address = 1), "site 0 is not the unknown site"),
            (reason(|p| p.sites.clear()), "site 0 is not the unknown site"),
            (reason(|p| p.objects.clear()), "object 0 is not the unknown object"),
            (reason(|p| p.objects[1].site = 3), "an object was allocated at a site that is none"),
            (
                reason(|p| p.blocks[0].object = 2),
                "the block at 0x40a0 is of an object that is none",
            ),
            (reason(|p| p.blocks[1].bytes = 0), "the block at 0x40f0 has 0 bytes"),
            (
                reason(|p| p.blocks[0].thread = Some(ThreadId(3))),
                "the block at 0x40a0 is by T3, which is none",
            ),
            (reason(|p| p.blocks.swap(0, 1)), "the block at 0x40a0 is out of order"),
            (reason(|p| p.fields[0].object = 0), "the field count is of an object that is none"),
            (reason(|p| p.fields[2].bytes = 9), "the field next is not within 24 bytes"),
            (reason(|p| p.fields.swap(0, 1)), "the field count is out of order"),
            (reason(|p| p.events[1].object = 2), "events on line 0x40c0 on an object that is none"),
            (reason(|p| p.events[0].to = ThreadId(7)), "events T2 to T7 but 3 threads"),
            (reason(|p| p.events[1].to_site = 3), "events on line 0x40c0 at sites beyond 3"),
            (reason(|p| p.events.swap(1, 2)), "events on line 0x40c0 out of order"),
            (reason(|p| p.lines.swap(0, 1)), "line 0x40c0 is out of order or has no events"),
            (reason(|p| p.lines[1].line += 64), "line 0x4100 is out of order or has no events"),
            (
                reason(|p| p.lines[1].raw_false -= 1),
                "line 0x40c0 does not hold the sums of its events",
            ),
            (reason(|p| drop(p.lines.pop())), "line 0x40c0 has events but is no line"),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected);
        }
    }
}
