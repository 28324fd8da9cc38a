//! Machines with several NUMA nodes, emulated: what is bound, where pages lie, and what recordings
//! and reports say of it, against what the programs themselves ask the kernel.
//!
//! A boot takes seconds, so each machine is booted once, and several tests look at what came out of
//! it.

use lab::{Guest, Machine, Node, can_boot};
use profile::{AccessRow, PageRow, Profile};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use test_support::{Compiler, Scratch, Target, probe};

/// Threads of `shares` besides the initial one, and pages of each of its arrays.
const THREADS: usize = 4;
const PAGES: u64 = 32;

fn shares() -> PathBuf {
    let program = Target::new(Compiler::Gcc, "tests/programs/nodes/shares.c");
    program.flags(&["-O2", "-g", "-pthread"]).build().unwrap()
}

/// What came out of a guest.
struct Left {
    scratch: Scratch,
    stderr: String,
}

impl Left {
    fn text(&self, name: &str) -> String {
        let file = self.scratch.join(name);
        std::fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{name}: {error}\n{}", self.stderr))
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(name)).unwrap()
    }

    fn profile(&self, name: &str) -> Profile {
        Profile::load(&self.scratch.join(name)).unwrap()
    }
}

/// Four nodes in two groups, two processors each.
fn four_nodes(test: &str) -> Option<&'static Left> {
    static LEFT: OnceLock<Option<Left>> = OnceLock::new();
    LEFT.get_or_init(|| can_boot(test).then(boot_four_nodes)).as_ref()
}

fn boot_four_nodes() -> Left {
    let scratch = Scratch::new();
    let program = shares();
    let script = format!(
        "set -e
         shares={}
         threadtalk topo --json >/out/topo.json
         threadtalk topo >/out/topo.txt
         threadtalk record --exact --pages -o /out/exact.tt -- $shares {THREADS} 20 bind >/out/exact.txt
         threadtalk report --json /out/exact.tt >/out/exact.json
         threadtalk place /out/exact.tt --policy scatter -o /out/plan.json >/dev/null
         threadtalk run --plan /out/plan.json -o /out/run.json -- $shares {THREADS} 200 >/out/run.txt
         threadtalk record --sample --rate 2000 -o /out/sampled.tt -- $shares {THREADS} 12000 bind >/out/sampled.txt
         threadtalk report --json /out/sampled.tt >/out/sampled.json",
        program.display()
    );
    // Otherwise the kernel moves pages to their users, and a huge page may bring `given` where the
    // program's other variables were touched, before it has bound itself.
    let options = "numa_balancing=disable transparent_hugepage=never";
    let machine = Machine::even(4, 2).kernel_options(options);
    let guest = Guest::new(machine).threadtalk().program(program).out(scratch.path());
    let ended = guest.run(&script).unwrap_or_else(|error| panic!("{error}"));
    let ended = ended.expect_code(0);
    Left { scratch, stderr: ended.stderr }
}

/// What `shares` has printed.
#[derive(Debug)]
struct Truth {
    /// By thread, without the initial one.
    node: Vec<u32>,
    /// By kind, thread and node.
    pages: BTreeMap<(String, usize, u32), u64>,
}

impl Truth {
    fn of(text: &str) -> Self {
        let mut truth = Self { node: Vec::new(), pages: BTreeMap::new() };
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<u32>().unwrap();
            match words.as_slice() {
                ["thread", _, "node", _] => truth.node.push(number(3)),
                ["own" | "given", ..] => {
                    let key = (words[0].to_owned(), number(1) as usize, number(2));
                    truth.pages.insert(key, u64::from(number(3)));
                }
                _ => panic!("{text}"),
            }
        }
        assert_eq!(truth.node.len(), THREADS, "{text}");
        truth
    }

    /// Asserts that all pages of a kind lie on the node that is given for their thread.
    #[track_caller]
    fn all_on(&self, kind: &str, node: impl Fn(usize) -> u32) {
        for thread in 0..THREADS {
            let found = self.pages.get(&(kind.to_owned(), thread, node(thread)));
            assert_eq!(found, Some(&PAGES), "{kind} {thread}: {self:?}");
        }
    }
}

#[test]
fn the_machine_has_the_nodes_and_distances_of_its_firmware() {
    let Some(left) = four_nodes("topo with four nodes") else { return };
    let topo = left.json("topo.json");
    let expected = json!([[10, 12, 21, 21], [12, 10, 21, 21], [21, 21, 10, 12], [21, 21, 12, 10]]);
    assert_eq!(topo["numa_distances"], expected, "{topo}");
    assert_eq!(topo["numa_nodes"].as_array().unwrap().len(), 4);
    let place = |pu: usize| topo["pus"][pu]["place"].as_str().unwrap();
    assert!((0..8).all(|pu| place(pu).contains(&format!("NUMA node {},", pu / 2))), "{topo}");
    let between = |level: usize| topo["costs"]["levels"][level]["between"].as_str().unwrap();
    assert_eq!([0, 1, 2].map(between), ["groups", "packages", "cores"]);
    let text = left.text("topo.txt");
    assert!(text.contains("\n  L#2  21  21  10  12\n"), "{text}");
}

#[test]
fn a_plan_puts_threads_and_so_their_pages_on_nodes() {
    let Some(left) = four_nodes("a plan for four nodes") else { return };
    let (plan, run) = (left.json("plan.json"), left.json("run.json"));
    let bindings = run["bindings"].as_array().unwrap();
    assert!(bindings.iter().all(|binding| binding["outcome"] == "as planned"), "{run}");
    // Sections of libraries are in the plan, but left out; all else is where it should be.
    assert_eq!(run["data"]["pages"]["elsewhere"], 0, "{run}");
    assert!(run["data"]["pages"]["as_planned"].as_u64() >= Some(THREADS as u64), "{run}");
    // Two processors each.
    let planned = |thread: usize| plan["slots"][thread]["pu_os"].as_u64().unwrap() as u32 / 2;
    let truth = Truth::of(&left.text("run.txt"));
    let nodes: Vec<u32> = (0..THREADS).map(|thread| planned(thread + 1)).collect();
    let mut different = nodes.clone();
    different.sort_unstable();
    different.dedup();
    assert!(different.len() > 2, "scattered threads are on several nodes: {nodes:?}");
    assert_eq!(truth.node, nodes);
    truth.all_on("own", |thread| nodes[thread]);
}

#[test]
fn pages_of_an_exact_recording_lie_where_they_were_touched_first() {
    let Some(left) = four_nodes("pages on four nodes") else { return };
    let truth = Truth::of(&left.text("exact.txt"));
    assert_eq!(truth.node, [0, 1, 2, 3]);
    truth.all_on("own", |thread| thread as u32);
    truth.all_on("given", |_| 0);
    let report = left.json("exact.json");
    if report["memory"]["nowhere"] != 0 {
        // The report says so, and leaves the accesses out.
        let why = "the host is too busy: nobody has seen where some threads ran";
        return probe::skip("pages of an exact recording", why);
    }
    // The initial thread binds itself, which looks from time to time may have missed, but it is on
    // one node, and a quarter of the accesses are by the thread there.
    let given = object(&report, "given (shares");
    let held = given["held"].as_array().unwrap();
    assert_eq!(held.iter().filter(|pages| **pages == json!(PAGES * THREADS as u64)).count(), 1);
    let local = |object: &Value| object["metrics"]["local"].as_f64().unwrap();
    assert!((local(given) - 0.25).abs() < 0.02, "{given}");
    // All accesses of the other half, which are to the threads' own pages, are local.
    let all = report["memory"]["metrics"]["local"].as_f64().unwrap();
    assert!((all - 0.625).abs() < 0.05, "{all}");
}

#[test]
fn sampled_pages_lie_where_the_kernel_says() {
    let Some(left) = four_nodes("sampled pages on four nodes") else { return };
    let truth = Truth::of(&left.text("sampled.txt"));
    truth.all_on("given", |_| 0);
    let profile = left.profile("sampled.tt");
    let given = given(&profile);
    let pages = profile.pages.pages.iter().filter(|page| page.object as usize == given);
    let nodes: Vec<Option<u32>> = pages.map(|page: &PageRow| page.node).collect();
    let known = nodes.iter().flatten().count();
    assert!(nodes.len() > 50 && known > 20, "{known} of {}", nodes.len());
    assert!(nodes.iter().flatten().all(|node| *node == 0), "{nodes:?}");
}

#[test]
fn samples_tell_local_from_remote_accesses() {
    let Some(left) = four_nodes("local and remote accesses") else { return };
    let profile = left.profile("sampled.tt");
    let (given, mut known) = (given(&profile), [0, 0]);
    // A thread touches its stack before it has moved to its processor, but `given` only afterwards.
    let of_given =
        |row: &&AccessRow| profile.pages.pages[row.page as usize].object as usize == given;
    let others = profile.pages.accesses.iter().filter(|row| row.thread.index() > 0);
    for row in others.filter(of_given) {
        // Thread T1 is on node 0, as the initial thread that has filled the pages.
        let node = row.thread.0 - 1;
        assert_eq!(row.node, Some(node), "{row:?}");
        let seen = row.seen.unwrap();
        let wrong = if node == 0 { seen.remote } else { seen.local };
        assert_eq!(wrong, 0, "{row:?}");
        known[usize::from(node != 0)] += seen.all();
    }
    let report = left.json("sampled.json");
    let seen = &report["memory"]["seen"];
    if known.contains(&0) {
        return probe::skip("local and remote accesses", &format!("the host is too busy: {seen}"));
    }
    let number = |name: &str| seen[name].as_f64().unwrap();
    assert!(number("local") > 0.0 && number("remote") > 0.0, "{seen}");
    assert!(number("low") < number("share") && number("share") < number("high"), "{seen}");
}

#[test]
fn latency_and_bandwidth_are_measured_between_nodes() {
    if !can_boot("measuring between nodes") {
        return;
    }
    // The last node has processors only.
    let machine = Machine::even(3, 1).node(2, Node { cpus: 1, memory_mib: 0 });
    let scratch = Scratch::new();
    let script = "set -e
         threadtalk topo --measure --json -o /out/measured.json >/out/topo.json
         threadtalk topo --costs measured:/out/measured.json >/dev/null";
    let guest = Guest::new(machine).threadtalk().out(scratch.path());
    let ended = guest.run(script).unwrap_or_else(|error| panic!("{error}"));
    if ended.stderr.contains("the machine is too busy") {
        return probe::skip("measuring between nodes", "the machine is too busy");
    }
    ended.expect_code(0);
    let text = std::fs::read_to_string(scratch.join("measured.json")).unwrap();
    let measured: Value = serde_json::from_str(&text).unwrap();
    let memory = &measured["memory"];
    assert_eq!(memory["unmeasured"], json!([]), "{memory}");
    let accesses = memory["accesses"].as_array().unwrap();
    let pairs: Vec<[u64; 2]> = accesses
        .iter()
        .map(|access| [access["from_os"].as_u64().unwrap(), access["to_os"].as_u64().unwrap()])
        .collect();
    assert_eq!(pairs, [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]);
    for access in accesses {
        let number = |name: &str| access[name].as_f64().unwrap();
        assert!(number("latency_ns") > 0.0 && number("bandwidth") > 0.0, "{access}");
    }
    let topo: Value =
        serde_json::from_str(&std::fs::read_to_string(scratch.join("topo.json")).unwrap()).unwrap();
    assert!(topo["measured"]["numa_factor"].as_f64().unwrap() > 0.0, "{topo}");
}

/// The number of the object whose pages the initial thread has filled.
fn given(profile: &Profile) -> usize {
    profile.objects.iter().position(|object| object.name.starts_with("given (")).unwrap()
}

/// The object of the report's memory section whose name begins so.
fn object<'a>(report: &'a Value, name: &str) -> &'a Value {
    let objects = report["memory"]["objects"].as_array().unwrap();
    let is_it = |object: &&Value| object["name"].as_str().unwrap().starts_with(name);
    let found = objects.iter().find(is_it);
    found.unwrap_or_else(|| panic!("{name} is not among {:?}", &objects[..objects.len().min(4)]))
}
