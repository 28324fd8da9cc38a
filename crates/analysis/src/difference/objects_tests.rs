use super::*;
use profile::{Windows, sample};
use types::{Evidence, ThreadId};

fn heap(name: &str, blocks: u64, bytes: u64) -> ObjectRow {
    let (region, name) = ("heap".into(), name.into());
    ObjectRow { region, name, blocks, bytes, ..ObjectRow::default() }
}

fn variable(name: &str) -> ObjectRow {
    ObjectRow { region: "static".into(), name: name.into(), ..ObjectRow::default() }
}

/// A profile with objects and their events, (true, false).
fn profile(objects: &[(ObjectRow, u64, u64)]) -> Profile {
    let mut profile = sample::profile(sample::threads(3), vec![]);
    profile.meta.parameters.counted = Counted::Detail;
    for (number, (row, truly, falsely)) in (1..).zip(objects) {
        profile.objects.push(row.clone());
        for (sharing, count) in [(Sharing::True, *truly), (Sharing::False, *falsely)] {
            profile.events.push(EventRow {
                line: u64::from(number) * 64,
                from: ThreadId(1),
                to: ThreadId(2),
                kind: CommKind::Raw,
                sharing,
                from_site: 0,
                to_site: 0,
                count,
                from_bytes: 1,
                to_bytes: 1,
                hits: 0,
                evidence: Evidence::Exact,
                object: number,
                gap: None,
                streamed: 0,
            });
        }
    }
    profile.events.retain(|event| event.count > 0);
    profile
}

/// The same from samples: a hit stands for 1000 events.
fn sampled(objects: &[(ObjectRow, u64, u64)]) -> Profile {
    let mut profile = profile(objects);
    profile.meta.mode = Mode::Sampled;
    for event in &mut profile.events {
        (event.hits, event.count) = (event.count, event.count * 1000);
        let (low, high) = poisson(event.hits);
        let whole = profile::CommRow::whole(event.from, event.to, event.kind, event.count);
        let end = |hits: f64| (hits * 1000.0).round() as u64;
        let sampled = profile::Sampled { hits: event.hits, low: end(low), high: end(high) };
        profile.comm.push(profile::CommRow { sampled: Some(sampled), ..whole });
    }
    profile
}

fn said(a: &Profile, b: &Profile) -> Vec<(String, Change, Change)> {
    let found = object_changes(a, b).unwrap();
    found.list.into_iter().map(|o| (o.name, o.change, o.false_change)).collect()
}

#[test]
fn a_fix_at_another_line_with_another_size_is_the_same_object() {
    let old = heap("in setup at app.c:30", 1, 320);
    let new = heap("in setup at app.c:33", 1, 512);
    let a = profile(&[(old, 10, 9000), (variable("queue (old)"), 500, 0)]);
    let b = profile(&[(variable("queue (new)"), 510, 0), (new, 12, 0)]);
    let expected = [
        ("in setup at app.c:33".into(), Change::Gone, Change::Gone),
        ("queue (new)".into(), Change::Same, Change::Nothing),
    ];
    assert_eq!(said(&a, &b), expected);
}

#[test]
fn sites_in_one_function_keep_apart_by_line_and_by_size() {
    let small = |line: u32| heap(&format!("in f at a.c:{line}"), 10, 400);
    let large = |line: u32| heap(&format!("in f at a.c:{line}"), 1, 9000);
    let a = profile(&[(small(7), 0, 1000), (large(9), 2000, 0)]);
    let b = profile(&[(large(8), 2000, 0), (small(6), 0, 1000)]);
    assert!(said(&a, &b).iter().all(|(_, change, _)| *change == Change::Same));
    // A site that moved to where another one was.
    let b = profile(&[(small(9), 0, 1000), (large(11), 2000, 0)]);
    assert!(said(&a, &b).iter().all(|(_, change, _)| *change == Change::Same));
}

#[test]
fn what_is_on_one_side_only_is_gone_or_new() {
    let a = profile(&[(variable("a (app)"), 0, 1000)]);
    let b = profile(&[(variable("b (app)"), 0, 1000), (variable("c (app)"), 0, 20)]);
    let expected = [
        ("a (app)".into(), Change::Gone, Change::Gone),
        ("b (app)".into(), Change::New, Change::New),
        ("c (app)".into(), Change::NotEnough, Change::NotEnough),
    ];
    assert_eq!(said(&a, &b), expected);
}

#[test]
fn few_samples_do_not_tell() {
    let object = || variable("a (app)");
    let change =
        |a: u64, b: u64| said(&sampled(&[(object(), 0, a)]), &sampled(&[(object(), 0, b)]))[0].2;
    assert_eq!(change(2, 1), Change::NotEnough);
    assert_eq!(change(20, 12), Change::NotEnough);
    assert_eq!(change(1000, 1010), Change::Same);
    assert_eq!(change(30, 2), Change::Less);
    assert_eq!(change(1000, 10), Change::Gone);
    assert_eq!(change(10, 1000), Change::New);
}

#[test]
fn no_hit_in_b_is_no_proof_after_a_few_in_a() {
    let other = || (variable("b (app)"), 300, 0);
    let b = sampled(&[other()]);
    let of = |hits: u64| {
        let a = sampled(&[(variable("a (app)"), 0, hits), other()]);
        let found = object_changes(&a, &b).unwrap();
        found.list.into_iter().find(|o| o.name.starts_with('a')).unwrap().false_change
    };
    assert_eq!(of(3), Change::NotEnough);
    assert_eq!(of(20), Change::Less);
    assert_eq!(of(200), Change::Gone);
}

#[test]
fn other_ways_of_recording_do_not_compare() {
    let rows = [(variable("a (app)"), 0, 1000)];
    let found = object_changes(&profile(&rows), &sampled(&rows)).unwrap();
    assert_eq!(found.incomparable, Some(Incomparable::Modes));
    assert_eq!(found.list[0].change, Change::NotEnough);
    let matrix = sample::profile(sample::threads(2), vec![]);
    assert_eq!(object_changes(&matrix, &profile(&rows)), None);
}

#[test]
fn runs_whose_threads_never_met_do_not_compare() {
    let on = |pus: [u32; 2]| {
        let mut profile = profile(&[(variable("a (app)"), 0, 1000)]);
        let (cpu_ns, waited_ns) = match pus[0] == pus[1] {
            true => (500_000_000, 500_000_000),
            false => (1_000_000_000, 0),
        };
        let row = |thread: u32| profile::RunningRow {
            slice: 0,
            thread: types::ThreadId(thread),
            pu: pus[thread as usize],
            cpu_ns,
            waited_ns,
        };
        profile.running = vec![row(0), row(1)];
        profile
    };
    let (at_once, in_turn) = (on([0, 1]), on([0, 0]));
    let found = object_changes(&at_once, &in_turn).unwrap();
    assert!(matches!(found.incomparable, Some(Incomparable::Apart([1.0, 0.0]))), "{found:?}");
    assert_eq!(found.list[0].change, Change::NotEnough);
    // What is gone though threads ran at once is gone.
    let mended = Profile { events: Vec::new(), ..at_once.clone() };
    let gone = |a: &Profile, b: &Profile| object_changes(a, b).unwrap().list[0].change;
    assert_eq!(gone(&in_turn, &mended), Change::Gone);
    let mended_in_turn = Profile { events: Vec::new(), ..in_turn.clone() };
    assert_eq!(gone(&at_once, &mended_in_turn), Change::NotEnough);
    assert_eq!(gone(&mended_in_turn, &at_once), Change::NotEnough);
    assert_eq!(object_changes(&at_once, &at_once).unwrap().incomparable, None);
    assert_eq!(object_changes(&in_turn, &in_turn).unwrap().incomparable, None);
}

#[test]
fn too_few_windows_do_not_compare() {
    let of = |events, too_short, whole| {
        let mut profile = sampled(&[(variable("a (app)"), 0, events)]);
        profile.meta.mode = Mode::Windows;
        profile.meta.windows = Some(Windows {
            asked: "2x".into(),
            windows: 9,
            too_short,
            observed: 0.6,
            whole,
            warm_up_ns: 1_000_000,
            missed: 0.0,
            alike: 0.0,
            false_share: None,
        });
        profile
    };
    let of_both = |a: &Profile, b: &Profile| object_changes(a, b).unwrap();
    let few = of_both(&of(1000, false, 0.0), &of(100, true, 0.1));
    assert_eq!(few.incomparable, Some(Incomparable::FewWindows));
    assert_eq!(few.list[0].change, Change::NotEnough);
    let mostly_whole = of_both(&of(1000, false, 0.0), &of(100, true, 0.55));
    assert_eq!(mostly_whole.incomparable, None);
    assert_eq!(mostly_whole.list[0].change, Change::Less);
}

#[test]
fn without_objects_the_names_of_lines_do() {
    let name = |text| row_of_line(("static", text)).name;
    assert_eq!(name("a+0x40..0x80 (app): [8], [9]; b (app)"), "a (app)");
    assert_eq!(name("counters (app)"), "counters (app)");
    let mut a = profile(&[(variable("a (app)"), 0, 1000)]);
    a.events[0].object = 0;
    let (region, object) = ("static".into(), "a+0x0..0x40 (app)".into());
    a.lines = vec![profile::LineRow { region, object, ..profile::LineRow::of(&a.events) }];
    let found = object_changes(&a, &profile(&[])).unwrap();
    assert_eq!((found.list[0].name.as_str(), found.unknown), ("a (app)", [0.0; 2]));
}
