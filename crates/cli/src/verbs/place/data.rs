//! The data part of `place`: pages of a profile in, nodes out, and the words about it.

use super::{Application, Args};
use crate::said::say;
use anyhow::{bail, ensure};
use placement::{
    DataPolicy, DataRow, JointRequest, Placement, Plan, PlanData, PlanObject, PlanRange,
    PolicyKind, Request, place, place_at, plan_jointly,
};
use std::fmt::Write as _;
use topology::{Costs, Topology};
use types::numbers::fine_percent;

/// Objects of a plan that are named one by one.
const NAMED: usize = 12;

/// How data is to be placed, if it is: as asked for, or together with the threads where the pages
/// of a single program were recorded.
pub fn wanted(args: &Args, applications: &[Application]) -> anyhow::Result<Option<DataPolicy>> {
    let [application] = applications else {
        ensure!(
            args.data.is_none(),
            "--data is for one program; leave it out, or plan each program alone"
        );
        if applications.iter().any(|one| one.usage.is_some()) {
            say(
                "note: data of several programs is not planned; to place it, too, plan each program alone",
            );
        }
        return Ok(None);
    };
    ensure!(
        args.data.is_none() || !args.kind.is_some_and(analysis::MatrixKind::is_shared),
        "--kind {} counts bytes, which cannot be weighed against accesses to memory; leave it out, or \
         leave out --data",
        args.kind.map_or("shared", analysis::MatrixKind::name)
    );
    let unbound = args.policy == Some(PolicyKind::Os);
    match (args.data, &application.usage) {
        (Some(_), None) if application.together => bail!(
            "pages of several processes are not planned together; for one of them, name its profile in the \
             folder processes/ of '{}', or leave out --data",
            args.inputs[0].display()
        ),
        (Some(_), None) => bail!(
            "'{}' does not say who uses which page, so --data has nothing to place; record again \
             with --pages, or leave it out",
            args.inputs[0].display()
        ),
        (Some(_), _) if unbound => {
            bail!("--data needs threads that stay where they are; choose another --policy than os")
        }
        (data, Some(_)) if !unbound => Ok(Some(data.unwrap_or(DataPolicy::Auto))),
        _ => Ok(None),
    }
}

/// Threads and data of one program.
pub fn joint(
    application: &Application,
    data: DataPolicy,
    policy: Option<PolicyKind>,
    (machine, costs): (&Topology, &Costs),
    request: &Request,
) -> Result<(Placement, Option<PlanData>), placement::PlaceError> {
    let Some(usage) = &application.usage else {
        return Ok((place(&application.tasks, machine, costs, request)?, None));
    };
    let Request { seed, effort, jobs, .. } = *request;
    let wanted = JointRequest { policy, data, seed, effort, jobs };
    let plan = plan_jointly(&application.tasks, usage, machine, costs, &wanted)?;
    let placement = place_at(&application.tasks, machine, costs, request, &plan.pu_logical)?;
    Ok((placement, Some(PlanData::new(&plan, usage, machine, costs))))
}

/// The name of the policy for threads in a plan with data.
pub fn threads(policy: Option<PolicyKind>, data: DataPolicy) -> String {
    match (policy, data) {
        (None, DataPolicy::Auto) => "joint".into(),
        (policy, _) => policy.unwrap_or_default().name().into(),
    }
}

/// Whether the text about data says what the plan saves, with communication.
pub fn judges_all(plan: &Plan) -> bool {
    plan.data.as_ref().is_some_and(|data| data.nodes.len() > 1 && data.unplaced.is_some())
}

/// What is said about data.
pub fn text(plan: &Plan, costs: &Costs) -> String {
    let Some(data) = &plan.data else { return String::new() };
    let mut out = String::new();
    let pages = data.page_bytes / 1024;
    let _ = writeln!(out, "\ndata by {} ({pages} KiB pages)", data.policy);
    for note in &data.notes {
        let _ = writeln!(out, "{note}");
    }
    if data.nodes.len() == 1 {
        out.push_str("There is only one NUMA node, so where data lies makes no difference.\n");
        return out;
    }
    out.push_str(&policies(plan, data, costs));
    out.push_str(&against_the_system(data));
    out.push_str(&standing(data));
    out.push_str(&objects(data));
    out
}

/// The policies side by side.
fn policies(plan: &Plan, data: &PlanData, costs: &Costs) -> String {
    let own = DataRow {
        policy: "this plan".into(),
        threads: plan.policy.clone(),
        locality: data.locality,
        local: data.local,
        balance: data.balance,
        cost: data.cost.clone(),
    };
    let unit = if costs.unit.is_empty() { String::new() } else { format!(", {}", costs.unit) };
    let mut out = format!(
        "predicted cost of communication, memory and controllers{unit}, each data policy with the \
         threads that suit it best:\n"
    );
    let _ = writeln!(
        out,
        "  {:<19}  {:<17}  {:>8}  {:>7}  {:>8}  {:>14}  {:>14}",
        "data", "threads", "locality", "local", "balance", "of memory", "cost"
    );
    for row in [&own].into_iter().chain(&data.policies) {
        let _ = writeln!(
            out,
            "  {:<19}  {:<17}  {:>8}  {:>7}  {:>8}  {:>14.0}  {:>14.0}",
            row.policy,
            row.threads,
            fine_percent(row.locality),
            fine_percent(row.local),
            format!("{:.0} %", row.balance),
            row.cost.memory + row.cost.controllers,
            row.cost.total
        );
    }
    let _ = writeln!(
        out,
        "  {:<19}  {:<17}  {:>8}  {:>7}  {:>8}  {:>14}  {:>14.0}",
        "bound", "", "", "", "", "", data.lower_bound
    );
    out.push_str(
        "locality: accesses to pages on the node that uses them most; local: served by the thread's \
         own node; balance: 0 % when all nodes serve as many.\n",
    );
    out
}

/// What threads and data save together where the operating system would place both.
fn against_the_system(data: &PlanData) -> String {
    let Some(unplaced) = data.unplaced.as_ref().filter(|cost| cost.total > 0.0) else {
        return String::new();
    };
    let saved = 1.0 - data.cost.total / unplaced.total;
    match saved {
        ..-0.0005 => {
            "It is expected to cost more than the operating system's placement with first touch.\n"
                .into()
        }
        ..0.0005 => {
            "It costs as much as the operating system's placement with first touch on average.\n"
                .into()
        }
        _ => format!(
            "It saves {:.1} % of what the operating system's placement with first touch costs on \
             average.\n",
            saved * 100.0
        ),
    }
}

/// What the plan saves, against first touch alone and against what is possible.
fn standing(data: &PlanData) -> String {
    let first = data.policies.iter().find(|row| row.policy == DataPolicy::FirstTouch.name());
    let Some(first) = first.filter(|row| row.cost.total > 0.0) else { return String::new() };
    let saved = 1.0 - data.cost.total / first.cost.total;
    let possible = 1.0 - data.lower_bound / first.cost.total;
    match saved {
        ..-0.0005 => {
            "It is expected to cost more than first touch with the threads best for that.\n".into()
        }
        ..0.0005 => "It costs as much as first touch with the threads best for that.\n".into(),
        _ => format!(
            "It saves {:.1} % of what first touch costs with the threads best for that; no plan saves \
             more than {:.1} %.\n",
            saved * 100.0,
            possible * 100.0
        ),
    }
}

/// Where objects go.
fn objects(data: &PlanData) -> String {
    let mut out = String::new();
    if data.rest_share > 0.0005 {
        let goes = match data.rest {
            placement::RestOfMemory::FirstTouch => "stays where it is touched first",
            _ => "is interleaved",
        };
        let _ = writeln!(
            out,
            "Memory that no plan can name ({} of the accesses) {goes}.",
            fine_percent(data.rest_share)
        );
    }
    if data.objects.is_empty() {
        return out;
    }
    let bytes = |object: &PlanObject| object.ranges.iter().map(|r| r.bytes).sum::<u64>();
    let mut sorted: Vec<&PlanObject> = data.objects.iter().collect();
    sorted.sort_by_key(|object| std::cmp::Reverse(bytes(object)));
    out.push_str("data that does not stay where it is touched first:\n");
    for object in sorted.iter().take(NAMED) {
        let kib = bytes(object) / 1024;
        let _ = writeln!(out, "  {} ({kib} KiB): {}", name(object), places(object));
    }
    if sorted.len() > NAMED {
        let _ = writeln!(out, "  and {} more, all of them in the plan", sorted.len() - NAMED);
    }
    out
}

fn name(object: &PlanObject) -> String {
    let identity = &object.identity;
    let named = [&identity.name, &identity.function, &identity.code];
    let name = named.into_iter().find(|name| !name.is_empty()).map_or("", String::as_str);
    let (what, one) = match identity.region.as_str() {
        "heap" => ("heap", "block"),
        "anonymous" => ("mapping made", "mapping"),
        region => (region, ""),
    };
    let number = object.ordinal.filter(|ordinal| !one.is_empty() && *ordinal > 0);
    let number = number.map_or(String::new(), |ordinal| format!(", {one} {ordinal}"));
    format!("{what} {name}{number}")
}

fn places(object: &PlanObject) -> String {
    let place = |range: &PlanRange| match range.node {
        Some(node) => format!("+{:#x} node P#{node}", range.offset),
        None if range.weights.is_empty() => format!("+{:#x} interleaved", range.offset),
        None => format!("+{:#x} interleaved by bandwidth", range.offset),
    };
    let mut all: Vec<String> = object.ranges.iter().take(8).map(place).collect();
    if object.ranges.len() > all.len() {
        all.push(format!("{} more ranges", object.ranges.len() - all.len()));
    }
    all.join(", ")
}
