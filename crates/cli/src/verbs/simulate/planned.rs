//! The data part of a plan, for the pages of a stream.
//!
//! Neighbours: `placement::Applied` recognises objects; the end of a trace says which pages belong
//! to them.

use super::OnMachine;
use anyhow::{Context, ensure};
use placement::{Applied, PlanData, RestOfMemory};
use simulation::{Pages, Rule, TraceEnd, Usage};
use std::sync::Arc;
use types::numbers::grouped;

/// Where a plan, by its name, puts the pages; and a sentence about how many those are.
pub fn pages(
    (name, plan): (&str, &PlanData),
    on: &OnMachine,
    usage: &Usage,
    end: &TraceEnd,
) -> anyhow::Result<(Pages, String)> {
    ensure!(
        !end.pages.is_empty(),
        "the plan '{name}' places data, but the trace does not tell which objects lie on which \
         pages; record one with 'threadtalk record --trace', or choose --policy and --data"
    );
    let index = |os: u32| {
        let node = plan.nodes.iter().find(|node| node.os == os);
        let logical = node.map(|node| node.logical);
        let found = on.machine.nodes.iter().position(|node| Some(*node) == logical);
        found.with_context(|| {
            format!(
                "the plan '{name}' puts data on node P#{os}, which {} does not have; make one for \
                 it with 'threadtalk place --on'",
                on.machine.name
            )
        })
    };
    let applied = Applied::new(plan, &end.objects);
    let mut planned: Vec<Option<u16>> = Vec::new();
    for page in usage.lives() {
        let object = end.object(page);
        let node = object.and_then(|(object, block, at)| applied.node(object, block, at));
        planned.push(node.map(index).transpose()?.map(|node| node as u16));
    }
    let rest = match plan.rest {
        RestOfMemory::FirstTouch => Rule::FirstTouch,
        RestOfMemory::Interleave | RestOfMemory::WeightedInterleave => {
            let is_weighted = plan.rest == RestOfMemory::WeightedInterleave;
            let mut turns = Vec::new();
            for node in &plan.nodes {
                let weight = if is_weighted { node.weight.max(1) } else { 1 };
                turns.extend(std::iter::repeat_n(index(node.os)?, weight as usize));
            }
            Rule::Turns(turns)
        }
    };
    let note = note(name, plan, &planned, applied.pages_not_found());
    Ok((Pages::planned(Arc::new(planned), rest), note))
}

/// How many pages a plan places.
fn note(name: &str, plan: &PlanData, planned: &[Option<u16>], not_found: u64) -> String {
    let placed = planned.iter().filter(|node| node.is_some()).count();
    let others = match plan.rest {
        RestOfMemory::FirstTouch => "stay where they are touched first",
        _ => "go in turns over the nodes",
    };
    let missing = match not_found {
        0 => String::new(),
        count => format!(
            " {} pages of its data were not found in this run, and lie where they are touched first.",
            grouped(count)
        ),
    };
    format!(
        "The plan '{name}' places {} of the {} pages that the program accesses; the others {others}.\
         {missing}",
        grouped(placed as u64),
        grouped(planned.len() as u64),
    )
}
