//! Placements for the threads and pages of a stream: by policy, or from plan files.

use super::{OnMachine, Scenario, planned};
use anyhow::{Context, bail, ensure};
use placement::{
    DataPolicy, PageUse, Plan, PlanIdentity, PolicyKind, Request, Tasks, place as place_threads,
};
use simulation::{Pages, Rule, TraceEnd, TracedThread, Usage};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use topology::{CostModel, Costs, DataNodes};

/// How many instructions each thread executes while others execute, too; accesses where
/// instructions were not counted.
fn work(usage: &Usage, end: &TraceEnd) -> Vec<u64> {
    let of = |(thread, &beside): (usize, &u64)| {
        let all = usage.accesses[thread].max(1);
        let instructions = end.threads.get(thread).and_then(|t| t.instructions).unwrap_or(all);
        (instructions as f64 * beside as f64 / all as f64) as u64
    };
    usage.beside.iter().enumerate().map(of).collect()
}

/// What is to be simulated on each machine.
pub struct Wanted {
    plans: Vec<(String, Plan)>,
    policies: Vec<PolicyKind>,
    /// None: pages lie where plans say, or else where they are first touched.
    data: Vec<DataPolicy>,
}

/// Threads and pages on a machine.
pub struct Placed {
    /// Index of the machine.
    pub machine: usize,
    /// What has placed the threads.
    pub threads: String,
    /// What has placed the pages.
    pub data: String,
    /// For each thread the index of its PU.
    pub pus: Vec<usize>,
    /// Where pages lie.
    pub pages: Pages,
}

impl Wanted {
    /// From the command line; without anything, scatter and locality at first touch.
    pub fn new(
        plans: &[PathBuf],
        policies: &[PolicyKind],
        data: &[DataPolicy],
    ) -> anyhow::Result<Self> {
        ensure!(
            !policies.contains(&PolicyKind::Os),
            "the policy 'os' binds nothing, so where threads run is not known; simulate 'scatter', \
             which spreads threads as schedulers do"
        );
        ensure!(
            !data.contains(&DataPolicy::Auto),
            "--data auto belongs to plans; make one with 'threadtalk place', or name a policy"
        );
        let read = |path: &PathBuf| Ok((path.display().to_string(), Plan::read(path)?));
        let plans: Vec<(String, Plan)> = plans.iter().map(read).collect::<anyhow::Result<_>>()?;
        for (name, plan) in &plans {
            ensure!(
                plan.apps.is_empty(),
                "the plan '{name}' is for several applications; name one for a single program"
            );
        }
        let mut policies = policies.to_vec();
        if policies.is_empty() && plans.is_empty() {
            policies = vec![PolicyKind::Scatter, PolicyKind::Locality];
        }
        Ok(Self { plans, policies, data: data.to_vec() })
    }
}

impl Wanted {
    /// A plan beside policies, pages at first touch.
    pub fn beside(name: &str, plan: Plan, policies: &[PolicyKind]) -> Self {
        let plans = vec![(name.into(), plan)];
        Self { plans, policies: policies.to_vec(), data: Vec::new() }
    }
}

/// What `place` expects communication to cost with threads on these PUs, ns: the sum over pairs of
/// threads of events times the cost of the level between them.
pub fn predicted(on: &OnMachine, usage: &Usage, pus: &[usize]) -> f64 {
    let events = usage.matrix.to_dense();
    let threads = usage.threads();
    let pairs = (0..threads).flat_map(|a| (0..threads).map(move |b| (a, b)));
    let cost = |(a, b): (usize, usize)| {
        let level = on.machine.level_between(pus[a] as u32, pus[b] as u32);
        let each = on.machine.transfer_ns.get(level).copied().unwrap_or(0.0);
        events[a * threads + b] as f64 * each
    };
    pairs.map(cost).sum()
}

/// All that is wanted on one machine, for a stream; `said` gains what a reader should know.
pub fn place(
    wanted: &Wanted,
    index: usize,
    on: &OnMachine,
    usage: &Usage,
    end: &TraceEnd,
    said: &mut Vec<String>,
) -> anyhow::Result<Vec<Placed>> {
    let mut placed = Vec::new();
    let mut threads: Vec<(String, Vec<usize>, bool)> = Vec::new();
    for (name, plan) in &wanted.plans {
        let pus = by_plan(name, plan, on, usage, end)?;
        let data = plan.data.as_ref().filter(|data| !data.stays());
        if let Some(data) = data {
            let (pages, note) = planned::pages((name, data), on, usage, end)?;
            said.push(note);
            let (threads, data, pus) = (name.clone(), "as planned".into(), pus.clone());
            placed.push(Placed { machine: index, threads, data, pus, pages });
        }
        threads.push((name.clone(), pus, data.is_some()));
    }
    let costs = Costs::new(&CostModel::Latency, &on.topology)?;
    let tasks =
        Tasks::from(&usage.matrix).with_work(&work(usage, end)).with_traffic(&usage.accesses);
    for &policy in &wanted.policies {
        let request = Request::new(policy);
        let placement = place_threads(&tasks, &on.topology, &costs, &request)
            .with_context(|| format!("cannot place threads on {}", on.machine.name))?;
        let pus = placement.pu_logical.iter().map(|&logical| index_of(on, logical));
        let pus = pus
            .collect::<Option<Vec<usize>>>()
            .context("a policy used a PU that may not be used")?;
        threads.push((policy.name().into(), pus, false));
    }
    let nodes = DataNodes::new(&on.topology, &costs);
    for (name, pus, has_data) in threads {
        let usual = if has_data { &[][..] } else { &[DataPolicy::FirstTouch] };
        let data = if wanted.data.is_empty() { usual } else { &wanted.data };
        for &data in data {
            let pages = pages(data, on, &nodes, usage, &pus)?;
            let (threads, data, pus) = (name.clone(), data.name().to_string(), pus.clone());
            placed.push(Placed { machine: index, threads, data, pus, pages });
        }
    }
    Ok(placed)
}

fn index_of(on: &OnMachine, logical: u32) -> Option<usize> {
    on.machine.pus.iter().position(|pu| pu.logical == logical)
}

/// Where a data policy puts the pages, threads being where they are.
fn pages(
    data: DataPolicy,
    on: &OnMachine,
    nodes: &DataNodes,
    usage: &Usage,
    pus: &[usize],
) -> anyhow::Result<Pages> {
    if data == DataPolicy::FirstTouch {
        return Ok(Pages::by(Rule::FirstTouch));
    }
    let thread_node: Vec<usize> = pus.iter().map(|&pu| on.machine.pus[pu].node).collect();
    let list = usage.pages();
    let by_thread = PageUse::by_thread(nodes.len(), &thread_node, &list)?;
    let node = data.map(&by_thread, nodes, 0);
    let planned = node.into_iter().map(Some).collect();
    Ok(Pages::planned(Arc::new(planned), Rule::FirstTouch))
}

/// Where a plan puts the threads of the stream.
fn by_plan(
    name: &str,
    plan: &Plan,
    on: &OnMachine,
    usage: &Usage,
    end: &TraceEnd,
) -> anyhow::Result<Vec<usize>> {
    let pus = on.topology.pus.len();
    if plan.machine_pus as usize != pus {
        bail!(
            "the plan '{name}' is for a machine with {} PUs ({}), but {} has {pus}; make one for it \
             with 'threadtalk place --on'",
            plan.machine_pus,
            plan.machine,
            on.machine.name
        );
    }
    let slot = |thread: usize| {
        let traced = end.threads.get(thread);
        let same = |identity: &PlanIdentity| traced.is_some_and(|traced| is_same(identity, traced));
        let recognised = plan.slots.iter().find(|slot| slot.identity.as_ref().is_some_and(same));
        let numbered = || {
            plan.slots.iter().find(|slot| {
                slot.thread as usize == thread && (slot.identity.is_none() || traced.is_none())
            })
        };
        recognised.or_else(numbered)
    };
    let pu = |thread: usize| {
        let Some(slot) = slot(thread) else {
            bail!(
                "the plan '{name}' does not know T{thread}, one of the program's {} threads: it is for \
                 another program or build, or for fewer threads; make one from a recording of this \
                 program",
                usage.threads()
            );
        };
        index_of(on, slot.pu_logical).with_context(|| {
            format!(
                "the plan '{name}' uses PU L#{}, which {} does not allow",
                slot.pu_logical, on.machine.name
            )
        })
    };
    (0..usage.threads()).map(pu).collect()
}

/// Whether a thread of the stream is the one that a plan means.
fn is_same(identity: &PlanIdentity, traced: &TracedThread) -> bool {
    identity.start_routine == traced.start_routine
        && identity.parent == traced.parent
        && identity.ordinal == traced.ordinal
}

/// What plans are called in the heads of columns; the policy for pages is only named where it
/// differs.
pub fn short_names(scenarios: &[&Scenario]) -> Vec<String> {
    let same_data = scenarios.windows(2).all(|two| two[0].data == two[1].data);
    let name = |scenario: &&Scenario| {
        let threads = short_name(&scenario.threads);
        if same_data { threads } else { format!("{threads}, {}", scenario.data) }
    };
    scenarios.iter().map(name).collect()
}

/// The plan's file, for people.
pub fn short_name(name: &str) -> String {
    Path::new(name)
        .file_name()
        .map_or_else(|| name.into(), |file| file.to_string_lossy().into_owned())
}
