//! What to change in the program: one finding for each cause of transfers.
//!
//! Problem: lists of lines, sites and objects are no finding. Approach: `group` puts events
//! together that have one cause; each group becomes a finding with its object, the sides that meet
//! there, what to change, and what it costs. Synchronisation is kept apart from data. Nothing is
//! said of fewer than [`MIN_EVENTS`] events or [`MIN_HITS`] hits. Pure. Neighbours: `verdict` shows
//! the weightiest, `text/causes.rs` all; `objects` and `lines` have what they rest on.

mod advice;
mod code;
mod constants;
mod cost;
mod expected;
mod group;
mod latent;
mod memory;
mod origins;
mod own;
mod passing;
mod price;
mod range;
mod side;
mod synchronization;
mod words;

pub(crate) use constants::MUCH;
pub(crate) use cost::share_words;
pub use cost::{AtMost, Cost};
pub use latent::{Elsewhere, LatentSharing};
pub use synchronization::Sync;

use crate::at_once;
use crate::causes::code::Origin;
use crate::causes::constants::{
    FALSE_WORTH, FEW_LINES, LISTED, MIN_EVENTS, MIN_EVENTS_APART, MIN_HITS, OTHER_WORTH,
};
use crate::causes::expected::Visits;
use crate::causes::group::{Class, Group};
use crate::causes::memory::Memory;
use crate::causes::origins::Origins;
use crate::causes::passing::Order;
use crate::causes::price::{Costs, Visited};
use crate::causes::range::End;
use crate::layouts::Placement;
use crate::lines::{AccessKind, Place};
use crate::residence::{Holding, Served};
use analysis::told_by_hit;
use profile::{Mode, Profile, SiteRow};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use ts_rs::TS;
use types::numbers::grouped;

/// Most findings.
const MAX: usize = 16;

/// A cause of transfers, and what to do about it.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Cause {
    /// `c1` for the first.
    pub id: String,
    /// What kind of cause it is.
    pub kind: CauseKind,
    /// What threads synchronise by; `None`: it is about data.
    pub synchronization: Option<Sync>,
    /// The finding in a few words.
    pub title: String,
    /// The object in words.
    pub object: String,
    /// Its row in the table of objects; `None` where it is not known.
    pub object_row: Option<u32>,
    /// Share of all RAW and WAW events, 0 to 1.
    pub share: f64,
    /// RAW and WAW events.
    pub events: u64,
    /// Of these, with false sharing.
    pub falsely: u64,
    /// Share that memory serves, because the lines were written too long ago, 0 to 1; `None` where
    /// that is not known.
    pub from_memory: Option<f64>,
    /// Samples that showed them; `None`: they were counted.
    pub hits: Option<u64>,
    /// Lines of it that are known.
    pub lines: u64,
    /// Address of the hottest of them, or empty.
    pub hottest: String,
    /// The code and threads that meet there, most events first.
    pub sides: Vec<Side>,
    /// What they do, in a sentence.
    pub evidence: String,
    /// What to change.
    pub advice: String,
    /// What it costs: an estimate.
    pub cost: Cost,
    /// All of it in sentences.
    pub text: String,
}

/// Kinds of causes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// Threads use different bytes of one line.
    FalseSharing,
    /// Several threads write the same bytes of few lines: counters, heads of queues.
    Contended,
    /// One thread writes, others read the same bytes of few lines.
    OneWriter,
    /// Threads use what others wrote, on many lines.
    Transferred,
    /// Locks, barriers, queues of runtimes, reference counts.
    Synchronization,
}

/// Bytes that code accesses.
#[derive(Clone, PartialEq, Debug, Default, Serialize, TS)]
pub struct Part {
    /// Bytes of the variable or block, or of the hottest line where that is not known: `0–7`, or
    /// `T1 0–7, T2 8–15` where threads use different ones.
    pub bytes: String,
    /// Variables or fields that these are, where known.
    pub fields: Vec<String>,
    /// Whether each of several threads has bytes of its own, as far as that can be told.
    #[serde(skip)]
    #[ts(skip)]
    pub own: bool,
}

/// What the code at one place does.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Side {
    /// Threads, ordered by id.
    pub threads: Vec<u32>,
    /// Whether they read, write or both.
    pub does: AccessKind,
    /// Whether by an atomic operation of a library.
    pub atomically: bool,
    /// Whether it only gives: it wrote, and did not take the line from another thread.
    pub only_gives: bool,
    /// What it accesses; if it reads other bytes than it writes, what it writes.
    #[serde(flatten)]
    pub what: Part,
    /// What it only reads, if it writes other bytes.
    pub only_reads: Option<Part>,
    /// The function.
    pub function: String,
    /// Its source file, or empty.
    pub file: String,
    /// From 1; 0 = unknown.
    pub line: u32,
    /// Its known callers, innermost first.
    pub callers: Vec<String>,
    /// Events that it takes part in.
    pub events: u64,
    /// The place of the code, as lists of lines have it.
    #[serde(skip)]
    #[ts(skip)]
    pub place: Place,
}

/// The findings, and what they leave.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Causes {
    /// The weightiest first.
    pub list: Vec<Cause>,
    /// Share of all RAW and WAW events that is synchronisation, 0 to 1; `None` where code is not
    /// known.
    pub synchronization: Option<f64>,
    /// Share of these events that is known by code, 0 to 1.
    pub known: f64,
    /// False sharing that would appear elsewhere.
    pub latent: Vec<LatentSharing>,
}

impl Cause {
    /// Whether it belongs among the first things said.
    pub(crate) fn leads(&self) -> bool {
        self.cost.worth || (self.cost.not_known && self.kind != CauseKind::Transferred)
    }

    /// What comes first: what is worth a change, then what may be, then data that threads have to
    /// transfer.
    fn rank(&self) -> u32 {
        match (self.kind, self.cost.worth, self.cost.may_be_worth()) {
            (CauseKind::Transferred, true, _) => 2,
            (CauseKind::Transferred, false, _) => 4,
            (_, true, _) => 0,
            (_, false, true) => 1,
            (_, false, false) => 3,
        }
    }

    /// By what causes of one rank are ordered: what they cost. A runtime's own synchronisation
    /// counts half, since the program chose it less directly.
    pub(crate) fn weight(&self) -> f64 {
        let of_runtime = self.synchronization.is_some_and(|sync| !sync.lies_in_program());
        self.cost.cpu_share.unwrap_or(0.0) * if of_runtime { 0.5 } else { 1.0 }
    }
}

/// The causes of a profile's transfers.
pub(crate) fn causes(profile: &Profile, placement: Option<&Placement>) -> Causes {
    let paths = paths(profile);
    let origins = Origins::of(profile, &paths);
    let groups = group::groups(profile, &origins);
    let on_sites: u64 = groups.iter().map(|group| group.events).fold(0, u64::saturating_add);
    if on_sites == 0 {
        return Causes::default();
    }
    let totals = &profile.meta.totals;
    let all = totals.raw.saturating_add(totals.waw).max(on_sites);
    let part = |events: u64| events as f64 / all as f64;
    let of_sync = groups.iter().filter(|group| matches!(group.class, Class::Sync(_)));
    let own = of_sync.map(|group| group.events.saturating_sub(group.guarded.values().sum()));
    let synchronization = part(own.fold(0, u64::saturating_add));
    let knows_order = profile.events.iter().any(|event| event.streamed > 0);
    let telling = Telling {
        profile,
        knows_order,
        origins: &origins,
        memory: Memory::of(profile),
        visits: Visits::of(profile),
        costs: Costs::of(profile, placement, waited_for(&groups, all, knows_order)),
        holding: Holding::of(profile, placement),
        all,
        per_hit: told_by_hit(profile),
    };
    let leads: Vec<bool> = telling
        .causes(&groups)
        .iter()
        .map(|cause| cause.as_ref().is_some_and(Cause::leads))
        .collect();
    // What is hardly worth a change is said once for each object.
    let groups = group::joined_by_object(groups, &leads);
    let mut list: Vec<Cause> = telling.causes(&groups).into_iter().flatten().collect();
    // Stable: by events where nothing else tells.
    list.sort_by(|a, b| a.rank().cmp(&b.rank()).then(b.weight().total_cmp(&a.weight())));
    list.truncate(MAX);
    for (index, cause) in list.iter_mut().enumerate() {
        cause.id = format!("c{}", index + 1);
    }
    let latent = latent::found(profile, &telling.memory, &telling.costs);
    Causes { list, synchronization: Some(synchronization), known: part(on_sites), latent }
}

/// How many events that threads fight for take as long as `all` events, some of which are `groups`.
fn waited_for(groups: &[Group], all: u64, knows_order: bool) -> u64 {
    let passed = groups.iter().filter(|group| kind(group) == CauseKind::Transferred);
    let saved = passed.map(|group| {
        let part = Order::of(group.streams, knows_order).part(End::Mid);
        group.events as f64 * (1.0 - part)
    });
    (all as f64 - saved.sum::<f64>()).max(0.0) as u64
}

/// Makes findings of groups.
struct Telling<'a> {
    profile: &'a Profile,
    /// Whether it was seen which lines follow others.
    knows_order: bool,
    origins: &'a Origins,
    memory: Memory<'a>,
    visits: Visits<'a>,
    costs: Costs,
    holding: Option<Holding>,
    /// Events of the run.
    all: u64,
    /// How many independent hits one hit is worth, see [`told_by_hit`].
    per_hit: f64,
}

impl Telling<'_> {
    /// The finding of each group; `None` where there is too little to tell.
    fn causes(&self, groups: &[Group]) -> Vec<Option<Cause>> {
        let most: Vec<Option<AtMost>> = groups.iter().map(|group| self.at_most(group)).collect();
        let listed = |(group, most): (&Group, &Option<AtMost>)| self.is_listed(group, *most);
        let listed: Vec<bool> = groups.iter().zip(&most).map(listed).collect();
        let told = groups.iter().zip(&listed).filter(|(_, listed)| **listed);
        let pairs: Vec<_> = told.map(|(group, _)| &group.pairs).collect();
        let mut at_once = at_once::little(self.profile, &pairs).into_iter();
        let cause = |((group, most), listed): ((&Group, Option<AtMost>), bool)| {
            let at_once = listed.then(|| at_once.next())??;
            self.is_enough(group, at_once, most).then(|| self.finding(group, at_once, most))
        };
        groups.iter().zip(most).zip(listed).map(cause).collect()
    }

    fn is_sampled(&self) -> bool {
        self.profile.meta.mode != Mode::Exact
    }

    /// The number of independent hits that would tell as much.
    fn independent(&self, hits: u64) -> u64 {
        (hits as f64 * self.per_hit).round().max(1.0) as u64
    }

    fn share(&self, group: &Group) -> f64 {
        group.events as f64 / self.all as f64
    }

    /// The most that the group's threads may make; nothing is known of those that come to wait for
    /// each other, or for a runtime's reasons.
    fn at_most(&self, group: &Group) -> Option<AtMost> {
        let locks = [Sync::Mutex, Sync::RwLock, Sync::SpinLock, Sync::References];
        let may_collide = match group.class {
            Class::Sync(sync) => locks.contains(&sync),
            Class::False | Class::True | Class::Unknown => true,
        };
        let most = self.visits.most(&group.lines).filter(|_| may_collide)?;
        Some(self.costs.at_most(most, self.part(group)))
    }

    /// What an event of a group costs, as part of the latency of a line that threads fight for.
    fn part(&self, group: &Group) -> f64 {
        match kind(group) {
            CauseKind::Transferred => Order::of(group.streams, self.knows_order).part(End::Mid),
            _ => 1.0,
        }
    }

    /// Whether a group is looked at; `most` transfers may be made by its threads.
    fn is_listed(&self, group: &Group, most: Option<AtMost>) -> bool {
        let told = group.class != Class::Unknown && group.events >= MIN_EVENTS_APART;
        let matters = most.is_some_and(|most| most.may_be_worth());
        let least = if matters { MIN_EVENTS_APART } else { MIN_HITS };
        let seen = !self.is_sampled() || group.hits >= least;
        told && seen && (matters || self.share(group) >= LISTED)
    }

    /// Whether there are enough events, `apart` being how little its threads ran at the same time:
    /// of those that did not, few are enough if they come there often.
    fn is_enough(&self, group: &Group, apart: Option<f64>, most: Option<AtMost>) -> bool {
        let in_turns = apart.is_some() && most.is_some_and(|most| most.may_be_worth());
        let seen = !self.is_sampled() || group.hits >= MIN_HITS;
        seen && group.events >= MIN_EVENTS || in_turns
    }

    fn finding(&self, group: &Group, at_once: Option<f64>, at_most: Option<AtMost>) -> Cause {
        let seen = Seen {
            hits: self.is_sampled().then_some(group.hits),
            independent: self.is_sampled().then(|| self.independent(group.hits)),
            share: self.share(group),
            served: self.holding.as_ref().and_then(|holding| holding.served(&group.gaps)),
            at_once,
            at_most,
            visited: Visited {
                visits: self.visits.count(&group.lines),
                likely: self.visits.likely(&group.lines, &self.costs.pace()),
                atomically: group.is_by_atomics(self.origins),
            },
            order: Order::of(group.streams, self.knows_order),
        };
        finding(group, seen, self.origins, &self.memory, &self.costs)
    }
}

/// Where the code of each site is, as findings name it: library code by the program's line that
/// called it, where that is known.
pub(crate) fn places(profile: &Profile) -> Vec<Place> {
    let paths = paths(profile);
    let place = |(site, row): (u32, &SiteRow)| {
        Origin::of(row, paths.get(&site).map_or(&[][..], Vec::as_slice)).place
    };
    (0..).zip(&profile.sites).map(place).collect()
}

/// Sampled paths of calls of each site, the commonest first.
fn paths(profile: &Profile) -> HashMap<u32, Vec<&str>> {
    let mut counted: BTreeMap<u32, Vec<(u64, &str)>> = BTreeMap::new();
    for row in &profile.calls {
        counted.entry(row.site).or_default().push((row.count, &row.path));
    }
    let mut ordered = HashMap::new();
    for (site, mut paths) in counted {
        paths.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        ordered.insert(site, paths.into_iter().map(|(_, path)| path).collect());
    }
    ordered
}

/// How much of a group was seen.
struct Seen {
    hits: Option<u64>,
    /// The number of independent hits that would tell as much.
    independent: Option<u64>,
    /// Of all events.
    share: f64,
    served: Option<Served>,
    at_once: Option<f64>,
    at_most: Option<AtMost>,
    /// How often its threads come to its lines.
    visited: Visited,
    order: Order,
}

fn finding(
    group: &Group,
    seen: Seen,
    origins: &Origins,
    memory: &Memory<'_>,
    costs: &Costs,
) -> Cause {
    let kind = kind(group);
    let memory = &memory.about(group.objects.keys().copied());
    let object = match memory.instances(group.objects.keys().copied()) {
        Some(name) => name,
        None => memory.object(group.object(), group.hottest()),
    };
    let sides = words::sides(group, origins, memory);
    let title = words::title(kind, group, &object, &sides);
    let evidence = words::evidence(&sides, &object) + &words::guarded(group, memory);
    let advice = advice::advice(kind, group, origins, memory);
    let cost = cost(kind, group, &seen, costs);
    let Seen { hits, share, served, .. } = seen;
    let lines = match group.lines.len() {
        0 => String::new(),
        1 => ", one line".into(),
        n => format!(", {} lines", grouped(n as u64)),
    };
    let late = served.map_or(String::new(), |served| served.caveat());
    let caveats: String = [late, cost.caveat()]
        .into_iter()
        .filter(|one| !one.is_empty())
        .map(|one| one + " ")
        .collect();
    let text = format!(
        "{title}: {} of the transfers{lines}; {}. {evidence}. {caveats}{advice}",
        share_words(share),
        cost.words(),
    );
    Cause {
        id: String::new(),
        kind,
        synchronization: match group.class {
            Class::Sync(sync) => Some(sync),
            _ => None,
        },
        title,
        object,
        object_row: Some(group.object()).filter(|row| *row != 0),
        share,
        events: group.events,
        falsely: group.falsely,
        from_memory: served.map(|served| served.memory),
        hits,
        lines: group.lines.len() as u64,
        hottest: group.hottest().map_or(String::new(), |line| format!("{line:#x}")),
        sides,
        evidence,
        advice,
        cost,
        text,
    }
}

/// What a group's transfers cost that caches serve.
fn cost(kind: CauseKind, group: &Group, seen: &Seen, costs: &Costs) -> Cost {
    let least = if kind == CauseKind::FalseSharing { FALSE_WORTH } else { OTHER_WORTH };
    let (independent, enough) = (seen.independent, seen.share >= least);
    let from_memory = seen.served.map_or(0.0, |served| served.memory);
    let of_caches = (group.events as f64 * (1.0 - from_memory)).round() as u64;
    let cost = match kind {
        CauseKind::FalseSharing => {
            costs.of_false_sharing(of_caches, independent, enough, seen.visited)
        }
        CauseKind::Transferred => costs.of_data(of_caches, independent, enough, seen.order),
        _ => costs.of_events(of_caches, independent, enough),
    };
    cost.leaving_out(
        left_out(kind, group),
        seen.at_once,
        (seen.at_most, group.events as f64),
        seen.share >= FALSE_WORTH,
    )
}

/// What transfers of lines do not show of what a group costs.
fn left_out(kind: CauseKind, group: &Group) -> &'static str {
    match (kind, group.class) {
        (CauseKind::Synchronization, Class::Sync(sync)) => match sync {
            Sync::Mutex | Sync::RwLock | Sync::SpinLock => "the waiting for the lock",
            Sync::Condition | Sync::Barrier | Sync::Semaphore => "the waiting for other threads",
            Sync::References => "the time of atomic instructions",
            _ => "",
        },
        (CauseKind::Contended, _) => "the time of atomic instructions and of waiting for locks",
        _ => "",
    }
}

fn kind(group: &Group) -> CauseKind {
    match group.class {
        Class::Sync(_) => return CauseKind::Synchronization,
        Class::False => return CauseKind::FalseSharing,
        Class::True | Class::Unknown => {}
    }
    let writers = group.writers();
    // More lines than a few for each writer are buffers that are handed on.
    let few = group.hot_lines() <= FEW_LINES * writers.len();
    if writers.len() > 1 && few && group.has_one_writer_each() {
        return CauseKind::OneWriter;
    }
    let many = group.hot_lines() > FEW_LINES && !(writers.len() > 1 && group.is_fought_over());
    match writers.len() {
        _ if group.lines.is_empty() || many => CauseKind::Transferred,
        0 | 1 => CauseKind::OneWriter,
        _ => CauseKind::Contended,
    }
}

#[cfg(test)]
mod tests;
