//! How many transfers the threads of a finding may make if they run natively at once.
//!
//! Problem: threads that take turns on a processor hardly ever meet, however often each of them
//! comes to a line that they share. Approach: how often they come back to it was sampled
//! (`returns`), and does not depend on who else ran. From that follows the most that the lines can
//! be transferred, and about how often they are. Pure. Neighbours: `causes` asks for groups whose
//! threads hardly ran at once, `cost` has the prices.

use crate::causes::constants::{MIN_PART_KNOWN, MIN_RETURNS};
use analysis::{Pace, Visitor, likely_transfers, most_transfers};
use profile::{Profile, ReturnRow};
use std::collections::{BTreeMap, HashMap, HashSet};
use types::CommKind;

/// What a profile says of visits.
pub(super) struct Visits<'a> {
    returns: HashMap<u64, Vec<&'a ReturnRow>>,
    /// RAW and WAW events by line.
    events: HashMap<u64, u64>,
    /// Lines with threads that have written to them.
    writers: HashSet<(u64, u32)>,
    /// Of each thread: its instructions, and the factor (0 to 1) that its visits are multiplied by.
    threads: Vec<(f64, f64)>,
}

impl<'a> Visits<'a> {
    pub(super) fn of(profile: &'a Profile) -> Self {
        let mut returns: HashMap<u64, Vec<&ReturnRow>> = HashMap::new();
        for row in profile.returns.iter().filter(|row| row.returns >= MIN_RETURNS) {
            returns.entry(row.line).or_default().push(row);
        }
        let (mut events, mut writers) = (HashMap::new(), HashSet::new());
        for event in profile.events.iter().filter(|event| returns.contains_key(&event.line)) {
            let takes = matches!(event.kind, CommKind::Raw | CommKind::Waw);
            let sum: &mut u64 = events.entry(event.line).or_default();
            *sum = sum.saturating_add(if takes { event.count } else { 0 });
            if takes {
                writers.insert((event.line, event.from.0));
            }
            if event.kind == CommKind::Waw {
                writers.insert((event.line, event.to.0));
            }
        }
        let threads = profile.threads.iter().map(|t| (t.instructions as f64, 1.0)).collect();
        let mut visits = Self { returns, events, writers, threads };
        visits.cut(profile);
        visits
    }

    /// Scales visits down so that no thread comes to lines more often than it accesses memory.
    /// Lines that are used in bursts were looked at in bursts, and seem to be used all the time.
    fn cut(&mut self, profile: &Profile) {
        let mut all = vec![0.0; self.threads.len()];
        for row in self.returns.values().flatten() {
            if let Some(all) = all.get_mut(row.thread.index()) {
                *all += self.visitor(row).visits;
            }
        }
        for ((thread, (_, part)), visits) in profile.threads.iter().zip(&mut self.threads).zip(all)
        {
            let accesses = (thread.loads + thread.stores) as f64;
            if accesses > 0.0 && visits > accesses {
                *part = accesses / visits;
            }
        }
    }

    /// The most transfers over the run of lines, of each of which so many events are of interest;
    /// `None` where it is not known of any how often threads come there.
    pub(super) fn most(&self, lines: &BTreeMap<u64, u64>) -> Option<u64> {
        self.sum(lines, most_transfers)
    }

    /// About how many there are if the threads run at once.
    pub(super) fn likely(&self, lines: &BTreeMap<u64, u64>, pace: &Pace) -> Option<u64> {
        self.sum(lines, |visitors| likely_transfers(visitors, pace))
    }

    fn sum(
        &self,
        lines: &BTreeMap<u64, u64>,
        transfers: impl Fn(&[Visitor]) -> f64,
    ) -> Option<u64> {
        let of_line = |(line, count): (&u64, &u64)| {
            let rows = self.returns.get(line)?;
            let visitors: Vec<Visitor> = rows.iter().map(|row| self.visitor(row)).collect();
            let known = visitors.len() > 1 && visitors.iter().any(|visitor| visitor.writes > 0.0);
            // The other events on the line are another finding's.
            let part = *count as f64 / self.events[line].max(*count) as f64;
            known.then(|| part * transfers(&visitors))
        };
        let known: Vec<f64> = lines.iter().filter_map(of_line).collect();
        let part = self.part_known(lines)?;
        (!known.is_empty()).then(|| (known.iter().sum::<f64>() / part) as u64)
    }

    /// How often threads come to the lines over the run; `None` where that is known of none.
    pub(super) fn count(&self, lines: &BTreeMap<u64, u64>) -> Option<f64> {
        let known = lines.keys().filter_map(|line| self.returns.get(line));
        let visits: Vec<f64> = known.flatten().map(|row| self.visitor(row).visits).collect();
        let part = self.part_known(lines)?;
        (!visits.is_empty()).then(|| visits.iter().sum::<f64>() / part)
    }

    /// Share of the events on lines of which visits are known; the others are taken to be alike.
    /// `None` where these are more.
    fn part_known(&self, lines: &BTreeMap<u64, u64>) -> Option<f64> {
        let all: f64 = lines.values().map(|events| *events as f64).sum();
        let known = lines.iter().filter(|(line, _)| self.returns.contains_key(line));
        let part = known.map(|(_, events)| *events as f64).sum::<f64>() / all.max(1.0);
        (part >= MIN_PART_KNOWN).then_some(part)
    }

    /// The thread of a row, with as many visits as its returns tell of its whole run.
    fn visitor(&self, row: &ReturnRow) -> Visitor {
        let (instructions, part) =
            self.threads.get(row.thread.index()).copied().unwrap_or((0.0, 1.0));
        let visits = part * instructions * row.returns as f64 / row.instructions.max(1) as f64;
        // A thread that has written may have done so at other times than when it was looked at.
        let unseen = u64::from(self.writers.contains(&(row.line, row.thread.0)));
        let wrote = (row.writes + unseen) as f64 / (row.returns + unseen).max(1) as f64;
        Visitor { instructions, visits, writes: visits * wrote }
    }
}
