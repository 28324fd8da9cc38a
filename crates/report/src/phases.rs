//! A profile's phases as placement needs them: what each kind communicates, in which order they
//! come, and the code by which another run can recognise that one begins. Neighbour: `tasks.rs` has
//! the whole run.

use crate::tasks::tasks_of;
use analysis::{Choice, Stretch, stretches};
use placement::{MAX_PHASES, PlanMark, Tasks};
use profile::{FlowRow, Profile, SiteRow};
use std::collections::HashMap;

/// A mark must come within this part of each of its phases.
const EARLY: f64 = 0.2;
/// This part of a phase, at its beginning and end, belongs to neither: flows are told by stretches
/// of time that do not end where phases do.
const EDGE: f64 = 0.1;
/// A mark that was seen at one beginning only must go on for this part of the phase: what runs once
/// in a run, such as the lookup of symbols, will not come when the phase comes back.
const LASTING: f64 = 0.5;
/// Events that a mark must have in each of its phases: fewer may be missing in the next run.
const LEAST: u64 = 5;
/// Of its events, at most one in this number may be at the edge of another phase.
const STRANGE: u64 = 100;

/// The phases of a run.
pub struct RunPhases {
    /// What each kind communicates.
    pub kinds: Vec<Tasks>,
    /// The kind of each phase in turn.
    pub order: Vec<usize>,
    /// By phase: where it begins and ends, ns after the start.
    times: Vec<(u64, u64)>,
    /// What each site did in each phase.
    sites: Vec<(PlanMark, bool, Vec<Visits>)>,
}

/// Events of a site in a phase.
#[derive(Clone, Copy, Default)]
struct Visits {
    /// Away from its edges.
    inside: u64,
    /// Certainly in this phase.
    all: u64,
    /// When the first of them was, and the last, ns.
    first: u64,
    last: u64,
}

impl RunPhases {
    /// Of a run with two kinds of phases or more; `None` of others.
    pub fn of(profile: &Profile, choice: Choice) -> Option<Self> {
        let found = stretches(profile, choice, MAX_PHASES);
        let kinds = found.iter().map(|stretch| stretch.kind + 1).max().unwrap_or(0);
        if kinds < 2 {
            return None;
        }
        let of_kind = |kind: usize| {
            let within = |slice: usize| {
                found.iter().any(|stretch| stretch.kind == kind && stretch.slices.contains(&slice))
            };
            let matrix =
                profile.matrix_where(|row| choice.counts(row) && within(row.slice as usize));
            tasks_of(profile, &matrix)
        };
        let time = |stretch: &Stretch| {
            let last = stretch.slices.end.max(1) - 1;
            (profile.slices[stretch.slices.start].start_ns, profile.slices[last].end_ns)
        };
        let times: Vec<(u64, u64)> = found.iter().map(time).collect();
        Some(Self {
            kinds: (0..kinds).map(of_kind).collect(),
            order: found.iter().map(|stretch| stretch.kind).collect(),
            sites: sites(profile, &times),
            times,
        })
    }

    /// Code that threads execute from the beginning of each phase of these kinds on, and in no
    /// other phase: of the program's own rather than a library's, then what comes first.
    pub fn mark(&self, kinds: &[usize]) -> Option<PlanMark> {
        let ours = |phase: usize| kinds.contains(&self.order[phase]);
        let begins = |phase: usize| ours(phase) && (phase == 0 || !ours(phase - 1));
        let once = (0..self.order.len()).filter(|&phase| begins(phase)).count() == 1;
        let late = |visits: &[Visits]| -> Option<f64> {
            let mut latest: f64 = 0.0;
            for (phase, of_phase) in visits.iter().enumerate() {
                if !ours(phase) && of_phase.inside > 0 {
                    return None;
                }
                if begins(phase) {
                    let (from, to) = self.times[phase];
                    let part = |at: u64| at.saturating_sub(from) as f64 / (to - from).max(1) as f64;
                    let passing = once && part(of_phase.last) < LASTING;
                    let part = part(of_phase.first);
                    if of_phase.inside < LEAST || part > EARLY || passing {
                        return None;
                    }
                    latest = latest.max(part);
                }
            }
            Some(latest)
        };
        let all = self.sites.iter().filter_map(|(mark, own, visits)| {
            let events: u64 = visits.iter().map(|one| one.all).sum();
            // What runs between phases would come too early.
            let strange: u64 =
                (0..visits.len()).filter(|&at| !ours(at)).map(|at| visits[at].all).sum();
            let late = late(visits).filter(|_| strange <= events / STRANGE)?;
            Some((!own, late, u64::MAX - events, mark))
        });
        let best = all.min_by(|a, b| {
            // What comes within the same tenth of a phase comes at the same time.
            let key = |one: &(bool, f64, u64, &PlanMark)| (one.0, (one.1 * 10.0) as u64, one.2);
            key(a).cmp(&key(b)).then_with(|| a.3.offset.cmp(&b.3.offset))
        });
        best.map(|found| found.3.clone())
    }
}

/// Sites of accesses with a file, whether it is the program's own, and what they did in each phase.
fn sites(profile: &Profile, times: &[(u64, u64)]) -> Vec<(PlanMark, bool, Vec<Visits>)> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let program = profile.meta.command.first().map(|path| name(path)).unwrap_or_default();
    let mut of: HashMap<u32, Vec<Visits>> = HashMap::new();
    for row in profile.flow.iter().filter(|row| row.site != 0) {
        let visits = of.entry(row.site).or_insert_with(|| vec![Visits::default(); times.len()]);
        note(row, times, visits);
    }
    let mut found: Vec<(u32, Vec<Visits>)> = of.into_iter().collect();
    found.sort_unstable_by_key(|one| one.0);
    let marked = |(site, visits): (u32, Vec<Visits>)| {
        let site = profile.sites.get(site as usize).filter(|site| !site.module.is_empty())?;
        let module = name(&site.module);
        let line = match site.line {
            0 => String::new(),
            line => format!("{}:{line}{}", name(&site.file), inlined_into(site)),
        };
        let own = module == program;
        let mark = PlanMark { module, offset: site.offset, function: site.function.clone(), line };
        Some((mark, own, visits))
    };
    found.into_iter().filter_map(marked).collect()
}

/// The function whose code the site is in, where that is not the site's own: the same function may
/// be inlined into the code of several phases.
fn inlined_into(site: &SiteRow) -> String {
    match site.inlined.rsplit("; ").next() {
        None | Some("") => String::new(),
        Some(outermost) => format!(", inlined into {outermost}"),
    }
}

/// Adds a row to the phase that contains its middle.
fn note(row: &FlowRow, times: &[(u64, u64)], visits: &mut [Visits]) {
    let middle = row.start_ns / 2 + row.end_ns / 2;
    let last = times.len() - 1;
    let phase = times.iter().position(|(_, to)| middle < *to).unwrap_or(last);
    let (from, to) = times[phase];
    let edge = ((to - from) as f64 * EDGE) as u64;
    let count = if row.hits > 0 { row.hits } else { row.count };
    let one = &mut visits[phase];
    if one.last == 0 || row.start_ns < one.first {
        one.first = row.start_ns;
    }
    one.last = one.last.max(row.end_ns);
    // Where a row spans the border of two phases nobody knows in which of them its events were.
    let spans = (phase > 0 && row.start_ns < from) || (phase < last && row.end_ns > to);
    if !spans {
        one.all += count;
    }
    let at_an_edge = (phase > 0 && row.start_ns < from + edge)
        || (phase < last && row.end_ns > to.saturating_sub(edge));
    if !at_an_edge {
        one.inside += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{CommRow, SliceRow, sample};
    use types::{CommKind, Sharing, ThreadId};

    /// Neighbours in slices marked `a`, threads two apart in those marked `b`, at sites 1 and 2;
    /// both also at site 3.
    fn run(pattern: &str) -> Profile {
        let (mut comm, mut flow) = (Vec::new(), Vec::new());
        let mut slices = Vec::new();
        for (slice, letter) in pattern.chars().enumerate() {
            let (start_ns, end_ns) = (slice as u64 * 1000, slice as u64 * 1000 + 1000);
            slices.push(SliceRow { start_ns, end_ns });
            let (pairs, site) = match letter {
                'a' => ([(0, 1), (2, 3)], 1),
                _ => ([(0, 2), (1, 3)], 2),
            };
            for (from, to) in pairs.map(|(a, b)| (ThreadId(a), ThreadId(b))) {
                let whole = CommRow::whole(from, to, CommKind::Raw, 50);
                comm.push(CommRow { slice: slice as u32, ..whole });
                let row = FlowRow {
                    start_ns,
                    end_ns,
                    thread: to,
                    from,
                    kind: CommKind::Raw,
                    sharing: Sharing::True,
                    object: 0,
                    line: 0,
                    site,
                    count: 40,
                    hits: 0,
                };
                flow.extend([row, FlowRow { site: 3, count: 10, ..row }]);
            }
        }
        let mut profile = sample::profile((0..4).map(sample::thread).collect(), comm);
        profile.slices = slices;
        profile.flow = flow;
        let site = |offset| SiteRow {
            module: "/bin/app".into(),
            offset,
            function: format!("f{offset}"),
            ..SiteRow::default()
        };
        profile.sites = [SiteRow::default(), site(1), site(2), site(3)].into();
        profile
    }

    fn offset(phases: &RunPhases, kinds: &[usize]) -> Option<u64> {
        phases.mark(kinds).map(|mark| mark.offset)
    }

    #[test]
    fn phases_have_their_own_communication_and_marks() {
        let profile = run("aaaaaaaaaabbbbbbbbbbaaaaaaaaaa");
        let phases = RunPhases::of(&profile, Choice::of_talk(&profile)).unwrap();
        assert_eq!(phases.order, [0, 1, 0]);
        let weights =
            |kind: usize| [phases.kinds[kind].weight(0, 1), phases.kinds[kind].weight(0, 2)];
        assert_eq!((weights(0), weights(1)), ([1000.0, 0.0], [0.0, 500.0]));
        assert_eq!((offset(&phases, &[0]), offset(&phases, &[1])), (Some(1), Some(2)));
    }

    #[test]
    fn code_that_runs_in_all_phases_marks_none() {
        let mut profile = run("aaaaaaaaaabbbbbbbbbb");
        profile.flow.iter_mut().for_each(|row| row.site = 3);
        let phases = RunPhases::of(&profile, Choice::of_talk(&profile)).unwrap();
        assert_eq!((offset(&phases, &[0]), offset(&phases, &[1])), (None, None));
    }

    #[test]
    fn what_passed_at_the_only_beginning_marks_no_phase() {
        let mut profile = run("aaaaaaaaaabbbbbbbbbb");
        for row in &mut profile.flow {
            row.site = if row.start_ns < 2000 { 1 } else { 3 };
        }
        let phases = RunPhases::of(&profile, Choice::of_talk(&profile)).unwrap();
        assert_eq!(offset(&phases, &[0]), None);
    }

    #[test]
    fn what_passed_at_each_beginning_marks_a_phase() {
        let mut profile = run("aaaaaaaaaabbbbbbbbbbaaaaaaaaaa");
        for row in &mut profile.flow {
            let (first, again) = (row.start_ns < 3000, (20_000..23_000).contains(&row.start_ns));
            row.site = if first || again { 1 } else { 3 };
        }
        let phases = RunPhases::of(&profile, Choice::of_talk(&profile)).unwrap();
        assert_eq!(offset(&phases, &[0]), Some(1));
    }

    /// Rows of flow need not end where phases do.
    #[test]
    fn events_at_a_border_are_of_either_phase() {
        let mut profile = run("aaaaaaaaaabbbbbbbbbb");
        for row in &mut profile.flow {
            let moves = if row.site == 1 { 700 } else { 0 };
            (row.start_ns, row.end_ns) = (row.start_ns + moves, row.end_ns + moves);
        }
        let phases = RunPhases::of(&profile, Choice::of_talk(&profile)).unwrap();
        assert_eq!((offset(&phases, &[0]), offset(&phases, &[1])), (Some(1), Some(2)));
    }

    #[test]
    fn a_steady_run_has_no_phases() {
        let profile = run("aaaaaaaaaaaa");
        assert!(RunPhases::of(&profile, Choice::of_talk(&profile)).is_none());
    }
}
