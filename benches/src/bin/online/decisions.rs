//! Processor time that decisions take: a million pages that are known are judged, and told to move.

use online::{
    Access, Decider, Machine, Observation, PageSeen, PageState, PageTable, Place, Policy, Settings,
    TaskSeen,
};
use topology::Topology;

/// Pages, and those of one look.
const PAGES: u64 = 1_000_000;
const LOOK: u64 = 10_000;
/// What judging a million may take.
const MAX_SECONDS: f64 = 0.1;
/// A machine, its nodes, and tasks that fill it.
const MACHINE: &str = "numa:4 core:16 pu:1";
const NODES: usize = 4;
const TASKS: u32 = 64;
/// Each page was accessed so often before it is judged.
const BEFORE: u32 = 3;

/// The table, and what was missed.
pub fn run() -> Vec<String> {
    println!("\ndecisions: processor time of the decider for a million pages");
    let mut missed = Vec::new();
    for policy in [Policy::Integrated, Policy::Kmaf, Policy::Carrefour] {
        let name = policy.name();
        let (seconds, moved) = judged(policy);
        let ms = 1000.0 * seconds;
        println!("  judged by {name:<11} {ms:6.0} ms, {moved} told to move (target 100 ms)");
        missed.extend((seconds > MAX_SECONDS).then(|| format!("a million pages by {name}")));
        let ms = 1000.0 * seen(policy);
        println!(
            "  seen and judged        {ms:6.0} ms, with samples, tasks and what was asked of pages"
        );
    }
    missed
}

fn settings(policy: Policy) -> Settings {
    let preset = Settings::of(policy);
    let (threads, max_mib_per_second) = (false, 1e6);
    Settings {
        threads,
        priced: false,
        min_accesses: 0,
        page_rest_ms: 0,
        max_mib_per_second,
        ..preset
    }
}

/// Time to judge pages that one node alone uses, from which they are far; and those told to move.
fn judged(policy: Policy) -> (f64, usize) {
    let mut pages = PageTable::new(&settings(policy), NODES, 0.3);
    let (mut seconds, mut moved) = (0.0, 0);
    for turn in 0..=BEFORE {
        for look in 0..PAGES / LOOK {
            let now_ns = (u64::from(turn) * PAGES / LOOK + look) * 20_000_000;
            let now_ms = (now_ns / 1_000_000) as u32;
            let start = cpu_seconds();
            for page in look * LOOK..(look + 1) * LOOK {
                let from = page as usize % NODES;
                let place =
                    Place { process: 9, at: page << 12, bytes: 4096, node: (from + 1) % NODES };
                // Before, it was not known where they are, but for Carrefour's view of the machine.
                let known = turn == BEFORE || page % 100 == 0;
                pages.access((9, page << 12), from, known.then_some(place), 1_000_000, now_ms);
            }
            let taken = pages.take(now_ns, LOOK as usize).len();
            if turn == BEFORE {
                seconds += cpu_seconds() - start;
                moved += taken;
            }
        }
    }
    (seconds, moved)
}

/// Time of whole steps that see each of these pages once.
fn seen(policy: Policy) -> f64 {
    let topology = Topology::from_synthetic(MACHINE).expect("a machine");
    let machine = Machine::new(topology).expect("its costs");
    let mut decider = Decider::new(settings(policy), machine);
    let mut seconds = 0.0;
    for turn in 0..PAGES / LOOK {
        let seen = look(turn * LOOK);
        let start = cpu_seconds();
        decider.step(&seen);
        seconds += cpu_seconds() - start;
    }
    seconds
}

fn look(first: u64) -> Observation {
    let task = |task| TaskSeen { task, process: 9, cpu: task, ran_ns: 1000, ..TaskSeen::default() };
    let access = |page: u64| {
        // Pages are sampled in no order.
        let cpu = (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 % TASKS;
        Access { task: cpu, space: 9, address: page << 12, cpu }
    };
    let place = |page: u64| PageSeen {
        process: 9,
        space: 9,
        address: page << 12,
        at: page << 12,
        bytes: 4096,
        state: PageState::On((page % NODES as u64) as u32),
    };
    Observation {
        at_ns: first * 5000,
        tasks: (0..TASKS).map(task).collect(),
        accesses: (first..first + LOOK).map(access).collect(),
        pages: (first..first + LOOK).map(place).collect(),
        samples: LOOK,
        sample_ns: 1_000_000,
        ..Observation::default()
    }
}

/// Processor time of this thread.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    ns.unwrap_or(0.0) / 1e9
}
