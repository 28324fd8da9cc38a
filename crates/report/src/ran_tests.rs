//! Threads whose places are known.

use super::*;
use crate::samples::{Sample, sample};
use crate::{Setting, compare};
use profile::{CommRow, RunningRow, SliceRow};
use types::CommKind;

/// Two packages of two cores with two PUs each; PUs of a core are next to each other.
const MACHINE: &str = "pack:2 numa:1 core:2 pu:2";

/// Three threads in two slices: T0 on P#0; T1 first on P#1 (the same core), then on P#2 (another
/// core) for three quarters of its time and on P#4 (another package); T2 is never seen. T0 gives T1
/// 100 events in each slice, and T2 200 in the first.
fn moving() -> Profile {
    let topology_xml = Topology::from_synthetic(MACHINE).unwrap().to_xml().to_owned();
    let mut profile = Sample { topology_xml, ..sample(3, &[]) }.profile();
    let second = 1_000_000_000;
    profile.slices = vec![
        SliceRow { start_ns: 0, end_ns: second },
        SliceRow { start_ns: second, end_ns: 2 * second },
    ];
    let row = |slice, to, count| CommRow {
        slice,
        ..CommRow::whole(ThreadId(0), ThreadId(to), CommKind::Raw, count)
    };
    profile.comm = vec![row(0, 1, 100), row(0, 2, 200), row(1, 1, 100)];
    profile.meta.totals = profile::Totals::of(&profile.threads, &profile.comm);
    let ran = |slice, thread, pu, cpu_ns| RunningRow {
        slice,
        thread: ThreadId(thread),
        pu,
        cpu_ns,
        waited_ns: 0,
    };
    profile.running = vec![ran(0, 0, 0, 50), ran(0, 1, 1, 9), ran(1, 1, 2, 75), ran(1, 1, 4, 25)];
    profile
}

fn by(profile: &Profile, by: GroupedBy) -> Grouped {
    by_place(profile, Choice::of_talk(profile), by).unwrap()
}

#[test]
fn events_meet_where_threads_ran() {
    let profile = moving();
    let placement = compare(&profile, &Setting::default()).unwrap().unwrap();
    let ran = placement.ran.unwrap();
    let shares: Vec<_> = ran.shares.iter().map(|s| (s.level.as_str(), s.events)).collect();
    let expected = [("between SMT siblings", 100), ("between cores", 75), ("between packages", 25)];
    assert_eq!(shares, expected);
    assert_eq!(ran.known, 0.5);
    // Twice what the known half costs.
    let cost: f64 = placement.level_costs.iter().zip([25.0, 75.0, 100.0]).map(|(a, b)| a * b).sum();
    assert!((ran.cost - 2.0 * cost).abs() < 1e-6 * cost, "{}", ran.cost);
}

#[test]
fn on_another_machine_nothing_ran() {
    let machine = Topology::from_synthetic(MACHINE).unwrap();
    let setting = Setting { machine: Some(&machine), ..Setting::default() };
    assert_eq!(compare(&moving(), &setting).unwrap().unwrap().ran, None);
    let mut unseen = moving();
    unseen.running.clear();
    assert_eq!(compare(&unseen, &Setting::default()).unwrap().unwrap().ran, None);
}

#[test]
fn matrices_by_place_have_what_stays_on_their_diagonal() {
    let mut profile = moving();
    let pus = by(&profile, GroupedBy::Pu);
    assert_eq!(pus.names, ["P#0", "P#1", "P#2", "P#3", "P#4", "P#5", "P#6", "P#7"]);
    assert_eq!(
        (pus.matrix.to_dense()[..8].to_vec(), pus.known),
        (vec![0, 100, 75, 0, 25, 0, 0, 0], 0.5)
    );
    let cores = by(&profile, GroupedBy::Core);
    assert_eq!(cores.names, ["core 0", "core 1", "core 2", "core 3"]);
    assert_eq!(cores.matrix.to_dense()[..4], [100, 75, 25, 0]);
    let nodes = by(&profile, GroupedBy::Node);
    assert_eq!((nodes.names.len(), nodes.matrix.to_dense()), (2, vec![175, 25, 0, 0]));
    // Without the machine, the PUs that were seen.
    profile.meta.topology_xml.clear();
    assert_eq!(by(&profile, GroupedBy::Pu).names, ["P#0", "P#1", "P#2", "P#4"]);
    let refused = by_place(&profile, Choice::of_talk(&profile), GroupedBy::Core);
    assert!(refused.unwrap_err().to_string().contains("by thread, process or pu"));
    profile.running.clear();
    let refused = by_place(&profile, Choice::of_talk(&profile), GroupedBy::Pu);
    assert!(refused.unwrap_err().to_string().contains("record again"));
}

#[test]
fn a_thread_that_waits_stays_where_it_was_seen() {
    let mut profile = moving();
    profile.running.retain(|row| row.slice == 0);
    let pus = by(&profile, GroupedBy::Pu);
    assert_eq!(pus.matrix.get(ThreadId(0), ThreadId(1)), 200);
    // Not seen until later: where it was then.
    profile = moving();
    profile.running.retain(|row| row.thread == ThreadId(0) || row.slice == 1);
    assert_eq!(by(&profile, GroupedBy::Pu).matrix.get(ThreadId(0), ThreadId(2)), 150);
}
