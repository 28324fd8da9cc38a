//! A placement for each phase: whether it is worth it, and the words about it.

use super::Application;
use crate::said::several;
use placement::{
    PhaseInput, Phased, Placement, Plan, PlanPhases, PolicyKind, Request, place_by_phase,
};
use report::RunPhases;
use std::fmt::Write as _;
use topology::{Costs, DataNodes, Topology};

/// Threads whose moves are listed one by one.
const LISTED: usize = 8;

/// The plan with a placement for each phase, if that is cheaper, and what is said about it.
pub(super) fn with_phases(
    plan: Plan,
    placement: &Placement,
    applications: &[Application],
    (machine, costs): (&Topology, &Costs),
    request: &Request,
) -> anyhow::Result<(Plan, String)> {
    let found = match applications {
        [application] if request.policy == PolicyKind::Locality => application.phases.as_ref(),
        _ => None,
    };
    let Some(found) = found else { return Ok((plan, String::new())) };
    if plan.data.is_some() && DataNodes::new(machine, costs).len() > 1 {
        let text = "\nThe communication changes from phase to phase. Data is placed once, so the \
                    threads are, too.\n";
        return Ok((plan, text.into()));
    }
    Ok(match by_phase(found, placement, (machine, costs), request)? {
        Phased::One => (plan, String::new()),
        Phased::Unmarked(saves) => {
            let text = format!(
                "\nThe communication changes from phase to phase: a placement for each would save \
                 {:.0} %. But no code runs in one phase only, so no run could tell when it begins; \
                 the plan has one placement.\n",
                saves * 100.0
            );
            (plan, text)
        }
        Phased::Several(phases) => {
            let text = text(&phases, &plan, costs);
            (plan.with_phases(phases), text)
        }
    })
}

/// Placements for the phases of a run, if they are cheaper than `placement` for all of it.
pub fn by_phase(
    found: &RunPhases,
    placement: &Placement,
    (machine, costs): (&Topology, &Costs),
    request: &Request,
) -> anyhow::Result<Phased> {
    let mark = |kinds: &[usize]| found.mark(kinds);
    let input = PhaseInput { kinds: &found.kinds, order: &found.order, mark: &mark };
    Ok(place_by_phase(&input, placement, machine, costs, request)?)
}

/// `plan` has the placement for the whole run.
fn text(found: &PlanPhases, plan: &Plan, costs: &Costs) -> String {
    let mut out = format!(
        "\nThe plan has {} placements, since the communication changes from phase to phase: predicted \
         cost {:.0} {unit} with {} ({:.0} {unit} for moving threads), {:.0} % less than with the one \
         above\n",
        found.phases.len(),
        found.cost,
        several(found.switches, "change"),
        found.moving,
        (1.0 - found.cost / found.one) * 100.0,
        unit = costs.unit
    );
    for (number, phase) in found.phases.iter().enumerate() {
        let begins = match &phase.begins {
            Some(mark) if number == 0 => format!("from the start, and at {mark}"),
            Some(mark) => format!("begins at {mark}"),
            None => "from the start".into(),
        };
        let part = types::numbers::fine_percent(phase.part);
        let _ = writeln!(out, "  phase {number} ({part} of the events), {begins}:");
        let first = &found.phases[0].pus;
        let moved = plan.slots.iter().zip(&phase.pus).zip(first);
        let places: Vec<String> = moved
            .filter(|((_, pu), first)| number == 0 || pu != first)
            .map(|((slot, pu), _)| format!("T{} on P#{}", slot.thread, pu.pu_os))
            .collect();
        let more = places.len().saturating_sub(LISTED);
        let listed = places[..places.len() - more].join(", ");
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = writeln!(out, "    {listed}{rest}");
    }
    out
}
