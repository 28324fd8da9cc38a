//! Misses against those of Cachegrind, on the same stream: lackey's. Skipped without Valgrind.

use crate::coherence::{Caches, Source};
use crate::{Access, Job, Machine, Options, Pages, Rule, What, read_text, simulate};
use std::process::Command;
use topology::Topology;

/// Cachegrind's D1, I1 and LL as caches of two PUs: data are the first one's, code the second's.
const MACHINE: &str = "l2:1(size=256KiB) core:2 l1d:1(size=32KiB) pu:1";
const SIZES: [&str; 3] = ["--D1=32768,8,64", "--I1=32768,8,64", "--LL=262144,8,64"];

fn valgrind(tool: &[&str], program: &[&str], log: &std::path::Path) -> bool {
    let mut command = Command::new("setarch");
    command.args(["-R", "valgrind"]).args(tool);
    command.arg(format!("--log-file={}", log.display())).args(program);
    command.env_clear().env("PATH", "/usr/bin:/bin").stdout(std::process::Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// `D1 misses` and `LL misses` of data: from a line like `D1  misses:  4,103 ( 3,211 rd + …)`.
fn misses(log: &str, of: &str) -> u64 {
    let line = log.lines().find(|line| line.contains(of)).expect("Cachegrind prints it");
    let number = line.split(':').nth(1).unwrap().split('(').next().unwrap();
    number.replace(',', "").trim().parse().unwrap()
}

struct Ours {
    d1: u64,
    ll: u64,
    lines: u64,
}

fn ours(machine: &Machine, log: &str) -> Ours {
    let mut caches = Caches::new(machine);
    let mut ours = Ours { d1: 0, ll: 0, lines: 0 };
    for line in log.lines() {
        let Some((kind, rest)) = line.split_at_checked(3) else { continue };
        let pu = match kind {
            "I  " => 1,
            " L " | " S " | " M " => 0,
            _ => continue,
        };
        let (address, bytes) = rest.trim().split_once(',').unwrap();
        let address = u64::from_str_radix(address, 16).unwrap();
        let last = address + bytes.parse::<u64>().unwrap() - 1;
        let (mut missed, mut missed_all) = (false, false);
        for line in address >> 6..=last >> 6 {
            let source = caches.access(pu, line, kind != " L " && pu == 0).source;
            missed |= source != Source::Cache(1);
            missed_all |= !matches!(source, Source::Cache(_));
            ours.lines += u64::from(source != Source::Cache(1) && pu == 0);
        }
        if pu == 0 {
            ours.d1 += u64::from(missed);
            ours.ll += u64::from(missed_all);
        }
    }
    ours
}

/// The same stream with all that is prepared: lines that L1 did not have.
fn prepared(machine: &Machine, log: &str) -> u64 {
    let mut list: Vec<Access> = Vec::new();
    read_text(&mut log.as_bytes(), "lackey's text", &mut |access| list.push(*access)).unwrap();
    let job = Job { machine, pus: vec![0], pages: Pages::by(Rule::FirstTouch) };
    let options = Options { prefetch: false, tlb: false, ..Options::default() };
    let found = simulate(&mut list.iter().copied(), &[], &[job], options, 1).unwrap().remove(0);
    assert!(list.iter().all(|access| access.what != What::Forget));
    found.total.misses(1)
}

#[test]
fn misses_are_those_of_cachegrind() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: Valgrind is not installed");
        return;
    }
    let machine = Machine::new(&Topology::from_synthetic(MACHINE).unwrap(), "it").unwrap();
    let scratch = test_support::Scratch::new();
    let programs: [&[&str]; 3] = [
        &["/bin/ls", "/usr/bin"],
        &["/usr/bin/sort", "/etc/services"],
        &["/bin/sed", "s/a/bb/g", "/etc/services"],
    ];
    for program in programs {
        let (lackey, grind) = (scratch.path().join("lackey"), scratch.path().join("cachegrind"));
        let grind_options = [
            &["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"],
            &SIZES[..],
        ]
        .concat();
        let ran = valgrind(&["--tool=lackey", "--trace-mem=yes"], program, &lackey)
            && valgrind(&grind_options, program, &grind);
        assert!(ran, "{program:?}");
        let trace = std::fs::read_to_string(&lackey).unwrap();
        let log = std::fs::read_to_string(&grind).unwrap();
        let ours = ours(&machine, &trace);
        let (d1, ll) = (misses(&log, "D1  misses"), misses(&log, "LLd misses"));
        println!("{program:?}: D1 {d1}, ours {}; LL {ll}, ours {}", ours.d1, ours.ll);
        assert_eq!(ours.d1, d1, "{program:?}");
        // Cachegrind's LL forgets what D1 writes back, ours takes it in.
        assert!(ours.ll <= ll && ll - ours.ll <= ll / 50, "{program:?}: {ll}, ours {}", ours.ll);
        assert_eq!(prepared(&machine, &trace), ours.lines, "{program:?}");
    }
}
