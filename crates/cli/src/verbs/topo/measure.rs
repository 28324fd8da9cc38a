//! `threadtalk topo --measure`: latencies between PUs, measured, as a matrix, by level, and where
//! they differ from what the firmware says; then between memory nodes (`nodes.rs` shows them).

use crate::progress::Steps;
use crate::said::several;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Mutex;
use topology::{
    Comparison, CostModel, Costs, LatencyLevel, Measured, MeasuredMemory, Topology, compare,
};

/// Matrices of more PUs do not fit the eye; they are in the file and in the JSON.
const SHOWN_PUS: usize = 32;
/// Pairs without a result that are named one by one.
const NAMED: usize = 4;
/// Groups of a level that are named one by one.
const NAMED_GROUPS: usize = 8;

/// Said of virtual machines.
const VIRTUAL: &str = "\nThis is a virtual machine: its host may run its PUs elsewhere at another time, \
                       with\nother latencies. Measure more than once before relying on them.\n";

/// What was measured, and what it means.
pub struct Measurement {
    pub measured: Measured,
    pub comparison: Comparison,
    /// Cost of each level where nothing is measured, ns.
    usual: Vec<f64>,
    /// PUs that could have taken part.
    allowed: usize,
    /// Whether a hypervisor runs this machine: it may move PUs about, and latencies with them.
    virtual_machine: bool,
}

/// Measures this machine, at most `pairs` pairs of PUs.
pub fn measure(machine: &Topology, pairs: Option<usize>) -> anyhow::Result<Measurement> {
    let pairs = pairs.unwrap_or(latency::DEFAULT_PAIRS);
    let mut measured = with_steps("pairs of PUs", |steps| latency::measure(machine, pairs, steps))?;
    measured.memory =
        with_steps("pairs of memory nodes", |steps| latency::measure_memory(machine, steps))?;
    let comparison = compare(&measured, machine);
    let usual = Costs::new(&CostModel::Latency, machine)?.per_level;
    let virtual_machine =
        std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| is_virtual(&text));
    Ok(Measurement { measured, comparison, usual, allowed: machine.allowed_pus(), virtual_machine })
}

/// Measures, and shows how far it is: how many of how many.
fn with_steps<R>(
    of_what: &'static str,
    measure: impl FnOnce(&(dyn Fn(usize, usize) + Sync)) -> R,
) -> R {
    let steps = Mutex::new(Steps::new(of_what));
    measure(&|done, of| {
        steps.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).reached(done, of);
    })
}

/// Whether the processor says that a hypervisor stands between it and us.
fn is_virtual(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
}

impl Measurement {
    /// For people.
    pub fn text(&self) -> String {
        let mut out = String::from("\n");
        if self.measured.pus.len() < 2 {
            out.push_str(
                "There is only one PU that may be used, so there is nothing to measure.\n",
            );
            return out + &super::nodes::measured_text(self.measured.memory.as_ref());
        }
        self.matrix(&mut out);
        self.unmeasured(&mut out);
        self.levels(&mut out);
        self.groups(&mut out);
        out.push_str(&super::nodes::measured_text(self.measured.memory.as_ref()));
        if self.virtual_machine {
            out.push_str(VIRTUAL);
        }
        let disagreements = &self.comparison.disagreements;
        if disagreements.is_empty() {
            out.push_str("\nThe latencies agree with the levels that the firmware describes.\n");
        }
        for disagreement in disagreements {
            let _ = write!(out, "\nDifferent from the firmware's view: {disagreement}.\n");
        }
        out
    }

    fn matrix(&self, out: &mut String) {
        let pus = &self.measured.pus;
        let which = match pus.len() == self.allowed {
            true => format!("{} PUs", pus.len()),
            false => {
                let all = self.allowed;
                format!("{} of {all} PUs (--pairs {} for all)", pus.len(), all * (all - 1) / 2)
            }
        };
        let _ = writeln!(out, "measured latency between {which}, ns: half a round trip of a line,");
        let _ = writeln!(out, "median of batches, on a fresh page for each pair");
        if pus.len() > SHOWN_PUS {
            let _ = writeln!(out, "  (the matrix has {} rows; see --json or -o FILE)", pus.len());
            return;
        }
        let matrix = self.measured.matrix();
        let cell = |a: usize, b: usize| match matrix.get(a, b) {
            Some(ns) => format!("{ns:.0}"),
            None => if a == b { "." } else { "?" }.into(),
        };
        let name = |pu: &topology::MeasuredPu| format!("P#{}", pu.os);
        let cells = (0..pus.len()).flat_map(|a| (0..pus.len()).map(move |b| (a, b)));
        let longest = cells.map(|(a, b)| cell(a, b).len()).max().unwrap_or(0);
        let width = pus.iter().map(|pu| name(pu).len()).max().unwrap_or(0).max(longest);
        let heading: String = pus.iter().map(|pu| format!(" {:>width$}", name(pu))).collect();
        let _ = writeln!(out, "  {:>width$}{heading}", "");
        for (a, pu) in pus.iter().enumerate() {
            let row: String = (0..pus.len()).map(|b| format!(" {:>width$}", cell(a, b))).collect();
            let _ = writeln!(out, "  {:>width$}{row}", name(pu));
        }
    }

    fn unmeasured(&self, out: &mut String) {
        let missing = &self.measured.unmeasured;
        for pair in missing.iter().take(NAMED) {
            let [a, b] = pair.pus_os;
            let _ = writeln!(out, "P#{a} and P#{b} could not be measured: {}", pair.why);
        }
        if missing.len() > NAMED {
            let _ = writeln!(out, "… and {} more", several(missing.len() - NAMED, "pair"));
        }
    }

    /// The machine's levels with what was measured beside what is assumed otherwise.
    fn levels(&self, out: &mut String) {
        let _ =
            writeln!(out, "\nby level of the machine      measured  quartiles   pairs  published");
        for (level, usual) in self.comparison.levels.iter().zip(&self.usual) {
            let ns = |ns: f64| format!("{ns:.1} ns");
            let [low, high] = level.quartiles_ns.unwrap_or_default();
            let (measured, quartiles) = match level.latency_ns {
                Some(latency) => (ns(latency), format!("{low:.1}–{high:.1}")),
                None => ("unmeasured".into(), "-".into()),
            };
            let _ = writeln!(
                out,
                "  {:<22} {measured:>12}  {quartiles:<11} {:>5}  {:>9}",
                format!("between {}", level.between),
                level.pairs,
                ns(*usual)
            );
        }
    }

    /// The groups that the latencies show by themselves.
    fn groups(&self, out: &mut String) {
        for level in &self.comparison.found {
            let groups = members(&self.measured, level);
            let alone = groups.iter().all(|group| group.len() == 1);
            let between = match alone {
                true => "single PUs".into(),
                false => several(groups.len(), "group"),
            };
            let _ = write!(out, "\nlevel at {:.0} ns between {between}", level.latency_ns);
            if !alone && groups.len() <= NAMED_GROUPS {
                let names: Vec<String> =
                    groups.iter().map(|group| format!("P#{}", set(group))).collect();
                let _ = write!(out, ": {}", names.join("; "));
            }
        }
        out.push('\n');
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let levels: Vec<Value> = self
            .comparison
            .levels
            .iter()
            .zip(&self.usual)
            .map(|(level, usual)| {
                json!({
                    "between": level.between,
                    "latency_ns": level.latency_ns,
                    "quartiles_ns": level.quartiles_ns,
                    "pairs": level.pairs,
                    "published_ns": usual,
                })
            })
            .collect();
        let found: Vec<Value> = self
            .comparison
            .found
            .iter()
            .map(|level| {
                let groups = members(&self.measured, level);
                json!({ "latency_ns": level.latency_ns, "groups_os": groups })
            })
            .collect();
        let disagreements: Vec<String> =
            self.comparison.disagreements.iter().map(ToString::to_string).collect();
        json!({
            "latencies": self.measured,
            "virtual_machine": self.virtual_machine,
            "levels": levels,
            "found": found,
            "disagreements": disagreements,
            "numa_factor": self.measured.memory.as_ref().and_then(MeasuredMemory::numa_factor),
        })
    }
}

/// P# of the PUs in each part of a level.
fn members(measured: &Measured, level: &LatencyLevel) -> Vec<Vec<u32>> {
    let count = level.part.iter().max().map_or(0, |last| last + 1);
    let of = |part: u32| {
        let pus = measured.pus.iter().zip(&level.part).filter(|(_, p)| **p == part);
        pus.map(|(pu, _)| pu.os).collect()
    };
    (0..count).map(of).collect()
}

fn set(os: &[u32]) -> types::CpuSet {
    os.iter().map(|&os| os as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::{MeasuredPair, Unmeasured};

    /// A machine of two cores of two threads that really are two groups of other PUs.
    fn measurement() -> Measurement {
        let machine = Topology::from_synthetic("core:2 pu:2").unwrap();
        let mut measured = Measured::new(&machine, &[0, 1, 2, 3], 128);
        for a in 0..4u32 {
            for b in a + 1..4 {
                let latency_ns = if a % 2 == b % 2 { 8.25 } else { 45.0 };
                let quartiles_ns = [latency_ns - 1.0, latency_ns + 1.0];
                measured.pairs.push(MeasuredPair {
                    pus_os: [a, b],
                    latency_ns,
                    quartiles_ns,
                    batches: 31,
                });
            }
        }
        measured.pairs.pop();
        measured.unmeasured.push(Unmeasured { pus_os: [2, 3], why: "gone".into() });
        let comparison = compare(&measured, &machine);
        Measurement {
            measured,
            comparison,
            usual: vec![51.0, 2.3],
            allowed: 4,
            virtual_machine: true,
        }
    }

    #[test]
    fn the_text_has_matrix_levels_groups_and_differences() {
        let text = measurement().text();
        for part in [
            "      P#0 P#1 P#2 P#3\n  P#0   .  45   8  45\n",
            "  P#2   8  45   .   ?\n",
            "P#2 and P#3 could not be measured: gone\n",
            "  between cores               26.6 ns  8.2–45.0        4    51.0 ns\n",
            "  between PUs                 45.0 ns  45.0–45.0       1     2.3 ns\n",
            "level at 45 ns between 2 groups: P#0,2; P#1,3\nlevel at 8 ns between single PUs\n",
            "\nThis is a virtual machine: its host",
            "groups that the firmware does not: P#0,2; P#1,3 (8 ns within, 45 ns between them).\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn a_hypervisor_is_known_by_its_flag() {
        assert!(is_virtual("processor : 0\nflags\t\t: fpu hypervisor lahf_lm\n"));
        assert!(!is_virtual("model name: hypervisor\nflags\t\t: fpu nohypervisor\n"));
    }

    #[test]
    fn the_json_has_the_same() {
        let json = measurement().json();
        assert_eq!(json["found"][0]["groups_os"], json!([[0, 2], [1, 3]]));
        assert_eq!(json["levels"][1]["latency_ns"], 45.0);
        assert_eq!(json["latencies"]["pairs"].as_array().unwrap().len(), 5);
        let said = json["disagreements"].as_array().unwrap();
        assert!(!said.is_empty() && said.iter().all(Value::is_string));
    }
}
