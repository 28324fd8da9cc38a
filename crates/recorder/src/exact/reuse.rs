//! The tables `gaps` and `returns` of a profile, from what the agent has counted.
//!
//! Both speak of lines and objects as the session knows them, and count what was seen: in windows
//! only a part. Here they get the profile's objects, and gaps are scaled as the events that they
//! divide. Neighbours: `counts` reads them, `tables` asks.

use profile::{EventRow, GapRow, ReturnRow, ReuseTables};
use std::collections::{HashMap, HashSet};
use types::{CommKind, ThreadId};

/// What a session calls the place of an event.
type Place = (u64, u32, ThreadId, ThreadId);

fn place_of(event: &EventRow) -> Place {
    (event.line, event.object, event.from, event.to)
}

/// The tables of a profile. `before` and `after` are the same events, in the same order, with
/// objects of the session and of the profile; their counts are those of the whole run.
pub fn tables(counted: &ReuseTables, before: &[EventRow], after: &[EventRow]) -> ReuseTables {
    let mut of: HashMap<Place, (u32, u64)> = HashMap::new();
    for (old, new) in before.iter().zip(after) {
        if matches!(old.kind, CommKind::Raw | CommKind::Waw) {
            let (object, count) = of.entry(place_of(old)).or_default();
            (*object, *count) = (new.object, count.saturating_add(old.count));
        }
    }
    let mut seen: HashMap<Place, u64> = HashMap::new();
    for row in &counted.gaps {
        *seen.entry((row.line, row.object, row.from, row.to)).or_default() += row.count;
    }
    let named = |row: &GapRow| {
        let place = (row.line, row.object, row.from, row.to);
        let (object, all) = of.get(&place)?;
        let count = (row.count as f64 * *all as f64 / seen[&place] as f64).round() as u64;
        Some(GapRow { object: *object, count, ..*row }).filter(|row| row.count > 0)
    };
    let mut gaps: Vec<GapRow> = counted.gaps.iter().filter_map(named).collect();
    gaps.sort_unstable_by_key(GapRow::key);
    gaps.dedup_by(|next, kept| {
        let same = next.key() == kept.key();
        if same {
            kept.count = kept.count.saturating_add(next.count);
        }
        same
    });
    let lines: HashSet<u64> = after.iter().map(|event| event.line).collect();
    ReuseTables { gaps, returns: returns(counted, &lines) }
}

/// Sums of the returns to lines that events name.
fn returns(counted: &ReuseTables, lines: &HashSet<u64>) -> Vec<ReturnRow> {
    let known = counted.returns.iter().filter(|row| lines.contains(&row.line));
    let mut returns: Vec<ReturnRow> = known.copied().collect();
    returns.sort_unstable_by_key(ReturnRow::key);
    returns.dedup_by(|next, kept| {
        let same = next.key() == kept.key();
        if same {
            kept.returns += next.returns;
            kept.instructions = kept.instructions.saturating_add(next.instructions);
            kept.away += next.away;
            kept.away_instructions = kept.away_instructions.saturating_add(next.away_instructions);
        }
        same
    });
    returns
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::Gap;
    use types::{Evidence, Sharing};

    fn event(line: u64, object: u32, count: u64) -> EventRow {
        EventRow {
            line,
            from: ThreadId(0),
            to: ThreadId(1),
            kind: CommKind::Raw,
            sharing: Sharing::True,
            from_site: 0,
            to_site: 0,
            count,
            from_bytes: 0,
            to_bytes: 0,
            hits: 0,
            evidence: Evidence::Window,
            object,
        }
    }

    #[test]
    fn gaps_get_objects_and_the_counts_of_the_whole_run() {
        let gap = |gap, count| {
            let (from, to) = (ThreadId(0), ThreadId(1));
            GapRow { line: 64, object: 900, from, to, gap, count }
        };
        let row = ReturnRow { line: 64, returns: 2, instructions: 30, ..ReturnRow::NONE };
        let counted = ReuseTables {
            gaps: vec![gap(Gap::Beyond, 3), gap(Gap::Private, 1)],
            returns: vec![row, ReturnRow { line: 128, ..row }, row],
        };
        let tables = tables(&counted, &[event(64, 900, 40)], &[event(64, 2, 40)]);
        let expected = [gap(Gap::Private, 10), gap(Gap::Beyond, 30)];
        assert_eq!(tables.gaps, expected.map(|row| GapRow { object: 2, ..row }));
        assert_eq!(tables.returns, [ReturnRow { returns: 4, instructions: 60, ..row }]);
    }
}
