//! `place --same-program`: several runs of one program as one, or the answer that its pattern does
//! not repeat.

use super::Application;
use analysis::repeats;
use anyhow::{bail, ensure};
use placement::{DataUse, Moment, Tasks};
use std::collections::HashMap;
use std::path::PathBuf;
use types::{CommMatrix, ThreadId, ThreadIdentity};

/// Work and accesses to which each run is scaled.
const WHOLE: f64 = 1e9;

/// One application of all runs: its threads are those of the run with most. Pages count where all
/// runs have them.
pub fn merge(mut runs: Vec<Application>, paths: &[PathBuf]) -> anyhow::Result<Application> {
    ensure!(runs.len() > 1, "--same-program needs several runs; name two profiles or more");
    if let Some(bare) = runs.iter().position(|run| run.identities.is_empty()) {
        bail!(
            "'{}' is a matrix, whose threads cannot be recognised in another run; --same-program \
             needs profiles",
            paths[bare].display()
        );
    }
    let base =
        (0..runs.len()).max_by_key(|&at| (runs[at].tasks.len(), runs.len() - at)).unwrap_or(0);
    let threads = runs[base].tasks.len();
    let mut thread_of = Vec::new();
    for (run, path) in runs.iter().zip(paths) {
        let Some(map) = matched(&run.identities, &runs[base].identities) else {
            bail!(
                "'{}' has threads that '{}' does not have: these are not runs of one program",
                path.display(),
                paths[base].display()
            );
        };
        thread_of.push(map);
    }
    for at in (0..runs.len()).filter(|&at| at != base) {
        compare(&runs[base], &runs[at], &thread_of[at], [&paths[base], &paths[at]])?;
    }
    let usage = runs.iter().zip(&thread_of).map(|(run, map)| Some((run.usage.as_ref()?, &map[..])));
    let usage = usage.collect::<Option<Vec<_>>>().and_then(|all| DataUse::merged(&all, threads));
    let tasks = merged_tasks(&runs, &thread_of, threads);
    let found = runs.swap_remove(base);
    // Runs may be in their phases at other times.
    Ok(Application { tasks, usage, phases: None, ..found })
}

/// Each thread's number among `others`, by creator, start routine and number; `None` where one is
/// missing.
fn matched(threads: &[ThreadIdentity], others: &[ThreadIdentity]) -> Option<Vec<u32>> {
    let key = |identity: &ThreadIdentity, parent: Option<u32>| {
        (parent, identity.start_routine.clone(), identity.ordinal)
    };
    let known: HashMap<_, u32> = others
        .iter()
        .zip(0..)
        .map(|(identity, at)| (key(identity, identity.parent.map(|parent| parent.0)), at))
        .collect();
    let mut found: Vec<u32> = Vec::new();
    for identity in threads {
        // A creator's number is below its threads'.
        let parent = match identity.parent {
            Some(parent) => Some(*found.get(parent.index())?),
            None => None,
        };
        found.push(*known.get(&key(identity, parent))?);
    }
    Some(found)
}

/// Whether two runs communicate in the same pattern, judged by the threads that both have.
fn compare(
    base: &Application,
    run: &Application,
    map: &[u32],
    [a, b]: [&PathBuf; 2],
) -> anyhow::Result<()> {
    let common = map.len();
    let (mut first, mut second) = (CommMatrix::new(common), CommMatrix::new(common));
    let id = |at: usize| ThreadId(at as u32);
    for i in 0..common {
        for j in 0..i {
            let (x, y) = (map[i] as usize, map[j] as usize);
            first.add(id(i), id(j), base.tasks.weight(x, y) as u64);
            second.add(id(i), id(j), run.tasks.weight(i, j) as u64);
        }
    }
    let found = repeats(&first, &second)?;
    ensure!(
        found.holds(),
        "the pattern does not repeat: communication in '{}' and '{}' differs by a mean squared error \
         of {:.0} (by chance {:.0}), so a plan of one run would not fit the next; there is no plan",
        a.display(),
        b.display(),
        found.mse,
        found.by_chance
    );
    Ok(())
}

/// The communication of all runs, each scaled to the mean of their events, so that a longer one
/// does not outweigh the others; their work and times.
fn merged_tasks(runs: &[Application], thread_of: &[Vec<u32>], threads: usize) -> Tasks {
    let mut matrix = CommMatrix::new(threads);
    let mut moments = Vec::new();
    let mean = runs.iter().map(|run| run.tasks.total()).sum::<f64>() / runs.len() as f64;
    let (mut work, mut traffic) = (vec![0.0; threads], vec![0.0; threads]);
    for (run, map) in runs.iter().zip(thread_of) {
        let total = run.tasks.total();
        let scale = if total > 0.0 { mean / total } else { 0.0 };
        for a in 0..run.tasks.len() {
            for &(b, weight) in run.tasks.neighbours(a).iter().filter(|e| e.0 > a) {
                matrix.add(ThreadId(map[a]), ThreadId(map[b]), (weight * scale).round() as u64);
            }
        }
        let moved = |moment: &Moment| Moment {
            pair: (map[moment.pair.0] as usize, map[moment.pair.1] as usize),
            events: moment.events * scale,
            ..*moment
        };
        moments.extend(run.tasks.moments().iter().map(moved));
        let share = |of: &dyn Fn(usize) -> f64, to: &mut Vec<f64>| {
            let all = (0..map.len()).map(of).sum::<f64>().max(f64::MIN_POSITIVE);
            map.iter().enumerate().for_each(|(t, &at)| to[at as usize] += of(t) / all * WHOLE);
        };
        share(&|t| run.tasks.work(t), &mut work);
        share(&|t| run.tasks.traffic(t), &mut traffic);
    }
    let whole = |all: &[f64]| all.iter().map(|one| one.round() as u64).collect::<Vec<u64>>();
    let tasks = Tasks::from(&matrix).with_work(&whole(&work)).with_moments(moments);
    match runs.iter().all(|run| run.tasks.knows_traffic()) {
        true => tasks.with_traffic(&whole(&traffic)),
        false => tasks,
    }
}
