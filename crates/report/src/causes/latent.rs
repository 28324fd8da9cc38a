//! False sharing that is not there, but would be on other machines or if memory began elsewhere.
//!
//! Rests on lines to which threads are known to come back (`returns`), with the bytes that events
//! show of them there. Heap blocks may begin at any multiple of 16 bytes in another run; variables
//! stay where the linker has put them. Only what would be worth a change is told. Pure. Neighbours:
//! `analysis::latent` lays bytes over other lines, `expected` knows the visits, `cost` the prices.

use super::cost::{Cost, Costs};
use super::expected::Native;
use super::memory::Memory;
use super::words::thread_list;
use analysis::{LATENT_LINE, Latent, Use, Variation, Visitor, at_most, latent};
use profile::{Profile, ReturnRow};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use ts_rs::TS;
use types::CommKind;
use types::numbers::{grouped, short};

/// Offsets in a line at which the C library's blocks may begin.
const OFFSETS: [u64; 3] = [16, 32, 48];
/// Lines that many processors fetch in pairs.
const PAIR_OF_LINES: u64 = 128;
/// Visits below which nothing is said, as of events.
const MIN_VISITS: f64 = 500.0;
/// Most that are told.
const MAX: usize = 4;

/// False sharing that would appear.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct LatentSharing {
    /// The object in words.
    pub object: String,
    /// Its row in the table of objects.
    pub object_row: u32,
    /// Bytes of the lines on which it would appear.
    pub line_bytes: u64,
    /// How many bytes later the object would have to begin; 0: where it does.
    pub later: u64,
    /// Threads that would share lines, ordered by id.
    pub threads: Vec<u32>,
    /// Lines that they would share.
    pub lines: u64,
    /// Transfers in the whole run, at most.
    pub transfers: f64,
    /// How often threads were seen to come back to these lines, of which that is an estimate.
    pub returns: u64,
    /// Most that it would cost: fetching lines in pairs costs less than sharing them.
    pub cost: Cost,
    /// All of it in sentences.
    pub text: String,
}

/// What would appear, the dearest first.
pub(super) fn found(
    profile: &Profile,
    native: &Native<'_>,
    memory: &Memory<'_>,
    costs: &Costs,
) -> Vec<LatentSharing> {
    let mut list: Vec<LatentSharing> = Vec::new();
    for (object, (uses, returns)) in uses(profile, native) {
        let in_heap = profile.objects[object as usize].region == "heap";
        let later = OFFSETS.into_iter().filter(|_| in_heap).map(Variation::Later);
        let ways = std::iter::once(Variation::Lines(PAIR_OF_LINES)).chain(later);
        let one = |way| Some((way, latent(&uses, way)?));
        let worth = |(_, found): &(Variation, Latent)| {
            found.visits >= MIN_VISITS && costs.of_events(found.visits as u64, None, false).worth
        };
        let mut ways: Vec<_> = ways.filter_map(one).filter(worth).collect();
        // One of the offsets stands for all.
        ways.sort_by(|(_, a), (_, b)| b.visits.total_cmp(&a.visits));
        ways.dedup_by_key(|(way, _)| matches!(way, Variation::Later(_)));
        let name =
            memory.object(object, uses.first().map(|one| one.start / LATENT_LINE * LATENT_LINE));
        let told = ways.into_iter().map(|(way, mut found)| {
            // No more than such a line can serve.
            let of_them = uses.iter().filter(|one| found.threads.contains(&one.thread));
            let visitors: Vec<Visitor> = of_them.map(|one| native.visitor(one)).collect();
            let served = at_most(&visitors, &costs.paces()[0]).transfers;
            found.visits = found.visits.min(served);
            let cost = costs.of_events(found.visits as u64, None, false);
            told((object, &name), way, &found, returns, cost)
        });
        list.extend(told);
    }
    list.sort_by(|a, b| b.transfers.total_cmp(&a.transfers));
    list.truncate(MAX);
    list
}

/// Uses of each object by threads that are known to come back, and how often that was seen.
fn uses(profile: &Profile, native: &Native<'_>) -> BTreeMap<u32, (Vec<Use>, u64)> {
    let mut masks: HashMap<(u64, u32), u64> = HashMap::new();
    let mut objects: HashMap<u64, u32> = HashMap::new();
    let moves = |kind: CommKind| matches!(kind, CommKind::Raw | CommKind::Waw);
    for event in profile.events.iter().filter(|event| event.line != 0 && moves(event.kind)) {
        objects.insert(event.line, event.object);
        *masks.entry((event.line, event.from.0)).or_default() |= event.from_bytes;
        *masks.entry((event.line, event.to.0)).or_default() |= event.to_bytes;
    }
    let mut found: BTreeMap<u32, (Vec<Use>, u64)> = BTreeMap::new();
    for row in &profile.reuse.returns {
        let object = objects.get(&row.line).copied().unwrap_or(0);
        let mask = masks.get(&(row.line, row.thread.0)).copied().unwrap_or(0);
        if let Some(one) = use_of(row, mask, native).filter(|_| object != 0) {
            let (uses, returns) = found.entry(object).or_default();
            uses.push(one);
            *returns += row.returns;
        }
    }
    found
}

fn use_of(row: &ReturnRow, mask: u64, native: &Native<'_>) -> Option<Use> {
    let visits = native.visits(row)?[1];
    let first = u64::from(mask.trailing_zeros());
    (mask != 0).then(|| Use {
        thread: row.thread.0,
        start: row.line + first,
        bytes: 64 - first - u64::from(mask.leading_zeros()),
        writes: native.writes(row.line, row.thread.0),
        visits,
    })
}

fn told(
    (object_row, object): (u32, &str),
    way: Variation,
    found: &Latent,
    returns: u64,
    cost: Cost,
) -> LatentSharing {
    let threads: Vec<u32> = found.threads.iter().copied().collect();
    let (line_bytes, later, when) = match way {
        Variation::Lines(bytes) => (
            bytes,
            0,
            format!(
                "with lines of {bytes} bytes, or where neighbouring lines are fetched in pairs"
            ),
        ),
        Variation::Later(bytes) => {
            (LATENT_LINE, bytes, format!("if it began {bytes} bytes later in its line"))
        }
    };
    let to = if later == 0 { line_bytes } else { LATENT_LINE };
    let text = format!(
        "{object}: {} would share {} falsely {when}: up to {} transfers in this run if they go on as in {} \
         returns that were seen. Align it, and what each thread has of it, to {to} bytes.",
        thread_list(&threads),
        if found.lines == 1 {
            "a line".into()
        } else {
            format!("{} lines", grouped(found.lines as u64))
        },
        short(found.visits),
        grouped(returns)
    );
    LatentSharing {
        object: object.to_owned(),
        object_row,
        line_bytes,
        later,
        threads,
        lines: found.lines as u64,
        transfers: found.visits,
        returns,
        cost,
        text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::shared;
    use profile::{EventRow, LineRow, ObjectRow};
    use types::{Sharing, ThreadId};

    /// Two threads, each with a line of its own of a block; the initial thread set both up.
    fn neighbours(returns: u64) -> Profile {
        let mut profile = shared();
        profile.objects.push(ObjectRow {
            region: "heap".into(),
            blocks: 1,
            bytes: 128,
            ..ObjectRow::default()
        });
        let first = profile.events[0];
        let event = |k: u32| EventRow {
            line: 0x7000 + 64 * u64::from(k),
            from: ThreadId(0),
            to: ThreadId(1 + k),
            kind: CommKind::Waw,
            sharing: Sharing::True,
            from_bytes: u64::MAX,
            to_bytes: 0xff,
            object: 1,
            count: 1,
            ..first
        };
        profile.events = vec![event(0), event(1)];
        profile.lines = profile.events.chunk_by(|a, b| a.line == b.line).map(LineRow::of).collect();
        profile.threads.iter_mut().for_each(|thread| thread.instructions = 10_000_000);
        let row = |k: u32| ReturnRow {
            line: 0x7000 + 64 * u64::from(k),
            thread: ThreadId(1 + k),
            returns,
            instructions: returns * 20,
            ..ReturnRow::NONE
        };
        profile.reuse.returns = vec![row(0), row(1)];
        profile
    }

    #[test]
    fn neighbouring_lines_of_two_threads_are_latent_if_both_are_known_to_come_back() {
        let causes = |profile: &Profile| crate::causes::causes(profile, None).latent;
        let [one] = &causes(&neighbours(100))[..] else { panic!() };
        assert_eq!((one.line_bytes, one.later, &one.threads[..]), (128, 0, &[1, 2][..]));
        assert!(one.transfers > 10_000.0 && one.cost.worth && one.returns == 200, "{one:#?}");
        assert!(one.text.contains("T1 and T2 would share a line falsely"), "{}", one.text);
        assert!(causes(&neighbours(2)).is_empty(), "too few");
        assert!(causes(&shared()).is_empty(), "nothing is known of returns");
    }
}
