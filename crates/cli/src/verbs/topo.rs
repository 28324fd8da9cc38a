//! `threadtalk topo`: the machine as the tool sees it; `measure.rs` measures it, `nodes.rs` shows
//! distances.

mod measure;
mod nodes;

use crate::choice::CostNames;
use crate::output::{OUTPUT, Output};
use anyhow::Context;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use topology::{CostModel, Costs, Hierarchy, ObjectId, ObjectKind, Source, Topology};
use types::numbers::size;

/// Show the machine as threadtalk sees it
#[derive(clap::Args)]
pub struct Args {
    /// Machine to show: an hwloc XML file or a synthetic description ('pack:2 core:8 pu:2')
    /// [default: this machine]
    #[arg(long, value_name = "MACHINE")]
    on: Option<String>,
    /// Costs of communication: latency, complace, measured:FILE (from 'topo --measure -o FILE'), or
    /// a number for each branching level, from the root down (100,10)
    #[arg(long, default_value = "latency", value_name = "COSTS", value_parser = CostNames, hide_possible_values = true, allow_hyphen_values = true)]
    costs: String,
    /// Measure how long a cache-line transfer takes between PUs, and latency and bandwidth between
    /// memory nodes, and show where that differs from what the firmware says; the machine should be
    /// idle
    #[arg(long, conflicts_with = "on")]
    measure: bool,
    /// Maximum number of PU pairs to measure [default: 8128, all pairs of 128 PUs]
    #[arg(long, requires = "measure", value_name = "N")]
    pairs: Option<usize>,
    /// Write the measured latencies to this file, for --costs measured:FILE
    #[arg(short, long, requires = "measure", value_name = "FILE", help_heading = OUTPUT)]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output", help_heading = OUTPUT)]
    force: bool,
    /// Print the result as JSON
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

/// Runs the verb; returns the process's exit code.
pub fn run(args: Args) -> anyhow::Result<i32> {
    let machine = machine(args.on.as_deref())?;
    let costs = costs(&args.costs, &machine)?;
    let measured = match args.measure {
        true => Some(measured(&args, &machine)?),
        false => None,
    };
    let mut json = as_json(&machine, &costs);
    if let Some(measured) = &measured {
        json["measured"] = measured.json();
    }
    let text = match args.json {
        true => format!("{json:#}\n"),
        false => as_text(&machine, &costs) + &measured.map_or(String::new(), |m| m.text()),
    };
    print(&text)?;
    if let Some(path) = args.output.as_ref().filter(|_| !args.json) {
        print(&format!("\nlatencies written to {}\n", path.display()))?;
    }
    Ok(0)
}

/// Measures, and writes the file if one is wanted. That it exists is noticed before.
fn measured(args: &Args, machine: &Topology) -> anyhow::Result<measure::Measurement> {
    let file = args.output.as_ref().map(|path| Output::file(path, args.force)).transpose()?;
    let measurement = measure::measure(machine, args.pairs)?;
    if let Some(mut file) = file {
        let name = file.name();
        file.write_all(measurement.measured.to_json().as_bytes())
            .with_context(|| format!("cannot write {name}"))?;
        file.finish()?;
    }
    Ok(measurement)
}

/// The machine that `--on` names, or this one.
pub fn machine(on: Option<&str>) -> anyhow::Result<Topology> {
    Ok(match on {
        Some(spec) => Topology::from_spec(spec)?,
        None => Topology::discover()?,
    })
}

/// The costs that `--costs` names, on this machine.
pub fn costs(text: &str, machine: &Topology) -> anyhow::Result<Costs> {
    let model: CostModel = text.parse().context("--costs")?;
    Costs::new(&model, machine).context("--costs")
}

/// Writes to stdout; a reader that went away (`| head`) is no error.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to stdout")
        }
        _ => Ok(()),
    }
}

fn as_text(machine: &Topology, costs: &Costs) -> String {
    let mut out = String::new();
    let source = match machine.source {
        Source::Hwloc => "this machine, as hwloc sees it",
        Source::Sysfs => "this machine, as /sys shows it (hwloc found nothing)",
        Source::Xml => "from hwloc XML",
        Source::Synthetic => "synthetic",
    };
    let _ = writeln!(out, "{} ({source})\n", machine.describe());
    tree(&mut out, machine, ObjectId(0), 0);
    let (allowed, all) = (machine.allowed(), machine.pus.len());
    let _ = writeln!(out, "\nallowed PUs   P# {allowed} ({} of {all})", allowed.len());
    let _ = writeln!(out, "cache line    {} bytes", machine.line_bytes());
    out.push_str(&nodes::text(machine));
    let _ = writeln!(out, "cost of communication ({})", costs.name);
    let levels = Hierarchy::new(machine).levels;
    if levels.is_empty() {
        let _ = writeln!(out, "  none: there is only one PU");
    }
    for (level, cost) in levels.iter().zip(&costs.per_level) {
        let shared = shared_words(level.shared);
        let cost = format!("{cost:.1} {}", costs.unit);
        let between = format!("between {}", level.between);
        let _ = writeln!(out, "  {between:<20} {:>9}  ({shared})", cost.trim_end());
    }
    out
}

fn shared_words(shared: ObjectKind) -> String {
    match shared {
        ObjectKind::Machine => "different packages".into(),
        ObjectKind::Package | ObjectKind::Group | ObjectKind::Die => {
            format!("same {shared}, no common cache")
        }
        _ => format!("same {shared}"),
    }
}

/// One line per object; chains of only children share a line.
fn tree(out: &mut String, machine: &Topology, id: ObjectId, indent: usize) {
    let mut words = vec![words(machine, id)];
    let mut at = machine.object(id);
    while let ([only], true) = (at.children.as_slice(), at.numa.is_empty()) {
        words.push(self::words(machine, *only));
        at = machine.object(*only);
    }
    let _ = writeln!(out, "{:indent$}{}", "", words.join(" + "));
    for &node in &at.numa {
        let node = &machine.numa_nodes[node];
        let known = [
            (node.bytes > 0).then(|| size(node.bytes)),
            node.latency_ns.map(|ns| format!("{ns} ns")),
            node.bandwidth_mib.map(|mib| format!("{}/s", size(mib << 20))),
        ];
        let known: Vec<String> = known.into_iter().flatten().collect();
        let known =
            if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) };
        let _ = writeln!(out, "{:indent$}  NUMA node L#{} P#{}{known}", "", node.logical, node.os);
    }
    for &child in &at.children {
        tree(out, machine, child, indent + 2);
    }
}

fn words(machine: &Topology, id: ObjectId) -> String {
    let object = machine.object(id);
    let mut text = format!("{} L#{}", object.kind, object.logical);
    if let Some(os) = object.os {
        let _ = write!(text, " P#{os}");
    }
    if object.cache_bytes > 0 {
        let _ = write!(text, " ({})", size(object.cache_bytes));
    }
    let pu = &machine.pus.get(object.first_pu as usize);
    if object.kind == ObjectKind::Pu && pu.is_some_and(|pu| !pu.allowed) {
        text.push_str(" (not allowed)");
    }
    text
}

fn as_json(machine: &Topology, costs: &Costs) -> Value {
    let levels: Vec<Value> = Hierarchy::new(machine)
        .levels
        .iter()
        .zip(&costs.per_level)
        .map(|(level, cost)| {
            json!({ "between": level.between, "shared": level.shared.to_string(), "cost": cost })
        })
        .collect();
    let pus: Vec<Value> = machine
        .pus
        .iter()
        .map(|pu| {
            json!({
                "pu_logical": pu.logical,
                "pu_os": pu.os,
                "allowed": pu.allowed,
                "place": machine.place_of(pu.logical),
            })
        })
        .collect();
    let nodes: Vec<Value> = machine
        .numa_nodes
        .iter()
        .map(|n| {
            json!({
                "logical": n.logical,
                "os": n.os,
                "bytes": n.bytes,
                "latency_ns": n.latency_ns,
                "bandwidth_mib": n.bandwidth_mib,
            })
        })
        .collect();
    json!({
        "machine": machine.describe(),
        "this_machine": machine.is_this_machine(),
        "line_bytes": machine.line_bytes(),
        "allowed": machine.allowed().to_string(),
        "costs": { "model": costs.name, "unit": costs.unit, "levels": levels },
        "pus": pus,
        "numa_nodes": nodes,
        "numa_distances": nodes::json(machine),
        "tree": object_json(machine, ObjectId(0)),
    })
}

fn object_json(machine: &Topology, id: ObjectId) -> Value {
    let object = machine.object(id);
    let children: Vec<Value> =
        object.children.iter().map(|&child| object_json(machine, child)).collect();
    json!({
        "kind": object.kind.to_string(),
        "logical": object.logical,
        "os": object.os,
        "cache_bytes": object.cache_bytes,
        "numa_nodes": object.numa,
        "children": children,
    })
}
