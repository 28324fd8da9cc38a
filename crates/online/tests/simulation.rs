//! The decider at work on simulated programs and machines.

mod simulated;

use online::{Decider, Line, Note, Policy, Proof, Settings, Why, read_log, replay};
use simulated::{Program, Run, machine, run};

fn pairs(task: u32, _: u64, _: &mut simulated::Random) -> u32 {
    (task + 2) % 4
}

const PAIRS: Program<'static> = Program {
    tasks: 4,
    partner: &pairs,
    shared: 0.8,
    blocks: 1024,
    slowdown: 0.5,
    tells_work: true,
    crowded: 1.0,
    others: false,
};

fn notes(run: &Run) -> Vec<&Note> {
    run.decisions.iter().flat_map(|(_, decision)| &decision.notes).collect()
}

/// Whether all pairs share a processor's part of the machine, as far as `cost` allows.
fn together(run: &Run, machine: &online::Machine, partner: impl Fn(u32) -> u32, most: f64) -> bool {
    !run.cpus.is_empty()
        && run.cpus.iter().all(|(task, cpu)| {
            let other = run.cpus.get(&partner(*task));
            other.is_some_and(|other| machine.cost(*cpu, *other) <= most)
        })
}

#[test]
fn pairs_come_together_and_that_is_proved() {
    let machine = machine("core:2 pu:1");
    let mut decider = Decider::new(Settings::default(), machine.clone());
    let run = run(&PAIRS, &mut decider, &machine, 6000, 25);
    assert!(together(&run, &machine, |task| (task + 2) % 4, 0.0), "{:?}", run.decisions);
    let placed = run.decisions.iter().find(|(_, d)| !d.actions.is_empty()).unwrap().0;
    assert!(placed <= 3000, "placed after {placed} ms");
    assert!(notes(&run).iter().any(|note| matches!(note, Note::Kept { low, .. } if *low > 1.0)));
}

/// Partners that change every 5 s.
fn swapping(task: u32, ms: u64, _: &mut simulated::Random) -> u32 {
    if (ms / 5000).is_multiple_of(2) { (task + 2) % 4 } else { task ^ 1 }
}

#[test]
fn partners_that_change_are_followed_within_a_second() {
    let machine = machine("core:2 pu:1");
    // With a third of the samples, it takes somewhat longer to be sure.
    for (tells_work, samples, most_ms) in
        [(true, 25, 1000), (false, 25, 1000), (true, 8, 1500), (false, 8, 1500)]
    {
        let program = Program { partner: &swapping, tells_work, ..PAIRS };
        let mut decider = Decider::new(Settings::default(), machine.clone());
        let run = run(&program, &mut decider, &machine, 40_000, samples);
        // Looks come every 50 ms. The first stretch goes by until a placement is proved.
        for stretch in run.near.chunks(100).skip(1) {
            // Until it is known how, threads are not held where they no longer belong.
            let held = stretch.iter().take_while(|(near, bound)| *bound && !*near).count();
            assert!(held * 50 <= most_ms * 2 / 3, "{held} looks: {:?}", notes(&run));
            let followed = stretch.iter().position(|(near, bound)| *near && *bound);
            let ms = followed.map(|looks| looks * 50);
            let name = format!("{tells_work} {samples}: {ms:?}");
            assert!(ms.is_some_and(|ms| ms <= most_ms), "{name} {:?}", notes(&run));
            let stay = stretch[followed.unwrap()..].iter().all(|(near, _)| *near);
            assert!(stay, "{name}: {:?}", notes(&run));
        }
        // 4 at first and after each of the changes, and what the first trial costs.
        assert!(run.binds <= 4 + 7 * 4 + 8, "{}", run.binds);
    }
}

#[test]
fn without_a_measure_of_work_it_is_said_to_be_unproven() {
    let machine = machine("core:2 pu:1");
    let program = Program { tells_work: false, ..PAIRS };
    let mut decider = Decider::new(Settings::default(), machine.clone());
    let run = run(&program, &mut decider, &machine, 4000, 25);
    assert!(together(&run, &machine, |task| (task + 2) % 4, 0.0), "{:?}", run.decisions);
    assert!(notes(&run).iter().any(|note| matches!(note, Note::Placed { proof: Proof::None, .. })));
}

#[test]
fn an_unproven_placement_that_leaves_processors_idle_is_undone() {
    let machine = machine("core:2 pu:1");
    let program = Program { tells_work: false, crowded: 0.5, ..PAIRS };
    let mut decider = Decider::new(Settings::default(), machine.clone());
    let run = run(&program, &mut decider, &machine, 5000, 25);
    assert!(notes(&run).iter().any(|note| matches!(note, Note::Idle { .. })), "{:?}", notes(&run));
    assert!(run.cpus.is_empty());
}

#[test]
fn what_other_programs_take_is_no_reason_to_undo() {
    let machine = machine("core:2 pu:1");
    let program = Program { tells_work: false, crowded: 0.5, others: true, ..PAIRS };
    let mut decider = Decider::new(Settings::default(), machine.clone());
    let run = run(&program, &mut decider, &machine, 10_000, 25);
    assert!(together(&run, &machine, |task| (task + 2) % 4, 0.0), "{:?}", notes(&run));
}

#[test]
fn what_does_not_help_is_undone() {
    let machine = machine("core:2 pu:1");
    // It works the better, the farther away its partner is.
    let program = Program { slowdown: -0.3, ..PAIRS };
    let mut decider = Decider::new(Settings::default(), machine.clone());
    let run = run(&program, &mut decider, &machine, 6000, 25);
    let undone = |note: &&&Note| matches!(note, Note::Undone { high, .. } if *high < 1.0);
    assert_eq!(notes(&run).iter().filter(undone).count(), 1, "{:?}", run.decisions);
    assert!(run.cpus.is_empty() && decider.placement().is_empty());
}

#[test]
fn programs_with_nothing_to_gain_are_left_alone() {
    let machine = machine("pack:2 core:4 pu:1");
    let even = |task: u32, _: u64, random: &mut simulated::Random| {
        let other = random.below(7) as u32;
        other + u32::from(other >= task)
    };
    let alone = |task: u32, _: u64, _: &mut simulated::Random| task;
    let cases: [(&str, Program); 3] = [
        ("even", Program { tasks: 8, partner: &even, blocks: 4, ..PAIRS }),
        ("private", Program { tasks: 8, partner: &alone, ..PAIRS }),
        ("quiet", Program { tasks: 8, shared: 0.02, blocks: 8, ..PAIRS }),
    ];
    for (name, program) in cases {
        let mut decider = Decider::new(Settings::default(), machine.clone());
        let run = run(&program, &mut decider, &machine, 20_000, 25);
        assert_eq!(run.binds, 0, "{name}: {:?}", notes(&run));
        assert!(run.closer < 10, "{name}: looked closer {} times", run.closer);
        assert!(notes(&run).iter().any(|note| matches!(note, Note::Left { .. })), "{name}");
    }
}

#[test]
fn a_log_replays_to_the_same_decisions() {
    let machine = machine("numa:2 core:4 pu:2");
    let settings = Settings::default();
    let mut decider = Decider::new(settings.clone(), machine.clone());
    let run = run(&PAIRS, &mut decider, &machine, 3000, 10);
    let mut lines = vec![Line::begin("pairs", "simulated", &settings, &machine)];
    let mut decisions = run.decisions.iter().peekable();
    for seen in &run.observations {
        lines.push(Line::Saw(Box::new(seen.clone())));
        if let Some((_, did)) = decisions.next_if(|(ms, _)| ms * 1_000_000 == seen.at_ns) {
            lines.push(Line::Did(did.clone()));
        }
    }
    lines.push(Line::End { at_ns: u64::MAX });
    let json = |line: &Line| serde_json::to_string(line).unwrap();
    let mut text = lines.iter().map(json).collect::<Vec<_>>().join("\n");
    let read = read_log(text.as_bytes()).unwrap();
    assert_eq!(read.len(), lines.len());
    let replayed = replay(&read).unwrap();
    assert_eq!((&replayed.difference, replayed.complete), (&None, Some(true)));
    assert_eq!(replayed.decisions.len(), run.decisions.len());
    // A decision that is another one is found, and so is a line that is cut off.
    let at = lines.iter().position(|line| matches!(line, Line::Did(_))).unwrap();
    lines.remove(at);
    assert!(replay(&lines).unwrap().difference.is_some());
    text.truncate(text.len() - 10);
    let cut = replay(&read_log(text.as_bytes()).unwrap()).unwrap();
    assert_eq!((cut.difference, cut.complete), (None, Some(false)));
    let older = text.replacen("\"version\":4", "\"version\":3", 1);
    assert_eq!(replay(&read_log(older.as_bytes()).unwrap()).unwrap().complete, None);
    let broken = text.replacen("saw", "sew", 1);
    assert!(read_log(broken.as_bytes()).is_err() && read_log(&b"no log"[..]).is_err());
    assert!(replay(&[]).is_err());
}

#[test]
fn the_papers_policies_place_without_a_trial() {
    let machine = machine("numa:4 core:4 pu:1");
    let partner = |task: u32, _: u64, _: &mut simulated::Random| task ^ 8;
    let program = Program { tasks: 16, partner: &partner, ..PAIRS };
    for policy in [Policy::Cdsm, Policy::Kmaf] {
        let mut decider = Decider::new(Settings::of(policy), machine.clone());
        let run = run(&program, &mut decider, &machine, 3000, 10);
        let one_node = machine.cost(0, 1);
        assert!(together(&run, &machine, |task| task ^ 8, one_node), "{policy:?}");
        assert!(!notes(&run).iter().any(|note| matches!(note, Note::Kept { .. })));
    }
}

/// Normalised as in the thesis (3.1.4): the largest cell is 100.
fn mse(found: &[f64], exact: &[f64]) -> f64 {
    let scaled = |cells: &[f64]| {
        let most = cells.iter().copied().fold(1e-9, f64::max);
        cells.iter().map(|cell| cell / most * 100.0).collect::<Vec<_>>()
    };
    let (found, exact) = (scaled(found), scaled(exact));
    found.iter().zip(&exact).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / found.len() as f64
}

#[test]
fn the_matrix_of_64_tasks_is_right_after_two_seconds() {
    let machine = machine("pack:4 core:16 pu:1");
    // The nearest neighbours in a ring.
    let partner = |task: u32, _: u64, random: &mut simulated::Random| match random.below(2) {
        0 => (task + 1) % 64,
        _ => (task + 63) % 64,
    };
    let program = Program { tasks: 64, partner: &partner, ..PAIRS };
    let mut decider = Decider::new(Settings::default(), machine.clone());
    run(&program, &mut decider, &machine, 2000, 20);
    let tasks: Vec<u32> = (0..64).collect();
    let near = |a: i32, b: i32| [1, 63].contains(&(a - b).abs());
    let exact: Vec<f64> =
        (0..64 * 64).map(|cell| f64::from(u8::from(near(cell / 64, cell % 64)))).collect();
    let error = mse(&decider.communication(&tasks), &exact);
    assert!(error <= 200.0, "MSE {error:.0}");
}

#[test]
fn a_thousand_tasks_on_sixteen_nodes_are_placed() {
    let machine = machine("numa:16 core:32 pu:2");
    let partner = |task: u32, _: u64, _: &mut simulated::Random| task ^ 1;
    let program = Program { tasks: 1024, partner: &partner, tells_work: false, ..PAIRS };
    let mut decider = Decider::new(Settings::default(), machine.clone());
    let run = run(&program, &mut decider, &machine, 2000, 8);
    let near = machine.cost(0, 2);
    assert!(together(&run, &machine, |task| task ^ 1, near), "{:?}", notes(&run));
    println!("slowest step: {:.1} ms of processor time", run.slowest_s * 1e3);
}

#[test]
fn tasks_of_several_programs_share_one_plan() {
    let machine = machine("pack:2 core:4 pu:1");
    // Two programs of four tasks in a ring of their own.
    let partner = |task: u32, _: u64, random: &mut simulated::Random| match random.below(2) {
        0 => task / 4 * 4 + (task + 1) % 4,
        _ => task / 4 * 4 + (task + 3) % 4,
    };
    let program = Program { tasks: 8, partner: &partner, ..PAIRS };
    // Nothing is taken back for a comparison.
    let mut settings = Settings::default();
    settings.set("guard=false").unwrap();
    let mut decider = Decider::new(settings, machine.clone());
    let run = run(&program, &mut decider, &machine, 6000, 25);
    let package = |cpu: u32| cpu / 4;
    let of = |task: u32| package(run.cpus[&task]);
    assert!((0..4).all(|task| of(task) == of(0)) && (4..8).all(|task| of(task) == of(4)));
    assert_ne!(of(0), of(4));
}

#[test]
fn nothing_is_decided_where_nothing_is_seen() {
    let machine = machine("core:2 pu:1");
    let mut decider = Decider::new(Settings::default(), machine.clone());
    let run = run(&PAIRS, &mut decider, &machine, 5000, 0);
    let whys: Vec<_> = notes(&run);
    assert!(matches!(whys[..], [Note::Left { why: Why::NoSense }]), "{whys:?}");
}
