mod instances;

use super::*;
use crate::samples::shared;
use profile::{EventRow, LineRow, Mode, ObjectRow, ReturnRow, RunningRow, Sampled, SiteRow};
use types::{CommKind, Sharing, ThreadId};

fn found(profile: &Profile) -> Vec<Cause> {
    causes(profile, None).list
}

fn share(profile: &mut Profile, line: u64, sharing: Sharing) {
    for event in profile.events.iter_mut().filter(|event| event.line == line) {
        event.sharing = sharing;
    }
}

fn titles(profile: &Profile) -> Vec<String> {
    found(profile).into_iter().map(|cause| cause.title).collect()
}

#[test]
fn reads_and_overwrites_of_one_fight_are_one_finding() {
    let found = found(&shared());
    assert_eq!(found.len(), 2, "{found:#?}");
    let cause = &found[0];
    assert_eq!((cause.kind, cause.events, cause.lines), (CauseKind::FalseSharing, 4400, 1));
    assert_eq!((cause.share, cause.hottest.as_str()), (4400.0 / 5125.0, "0x4040c0"));
    assert_eq!(cause.title, "False sharing on counters+0x40..0x80 (app)");
    assert_eq!(
        cause.evidence,
        "T1–T4 update bytes of their own (T1 0–7, T2 8–15, T3 16–23, T4 24–31) in bump(long*) at \
         a.c:31, called from worker(int) at a.c:40"
    );
    assert!(cause.advice.starts_with("Stride 8 → 64 bytes"), "{}", cause.advice);
    assert!(cause.cost.worth && cause.cost.cpu_share.is_some());
    let other = &found[1];
    assert_eq!((other.kind, other.sides.len()), (CauseKind::OneWriter, 2));
    assert!(other.sides.iter().any(|side| side.only_gives && side.threads == [0]));
    assert!(other.advice.starts_with("Padding won't help"), "{}", other.advice);
}

#[test]
fn a_line_that_all_really_share_is_contended() {
    let mut profile = shared();
    share(&mut profile, 0x40_40c0, Sharing::True);
    let cause = &found(&profile)[0];
    assert_eq!((cause.kind, cause.falsely), (CauseKind::Contended, 0));
    assert!(cause.advice.contains("Padding won't help"), "{}", cause.advice);
    assert!(cause.advice.contains("a copy"), "{}", cause.advice);
}

/// A heap block.
fn made(bytes: u64) -> ObjectRow {
    let (region, name) = ("heap".into(), "in make at a.c:7".into());
    ObjectRow { region, name, blocks: 1, bytes, ..ObjectRow::default() }
}

#[test]
fn an_array_is_one_finding_and_little_of_it_is_not_worth_a_change() {
    let mut profile = shared();
    profile.objects.push(made(40_000));
    profile.events.retain(|event| event.line == 0x40_40c0);
    let first = profile.events.clone();
    profile.events = (0..3)
        .flat_map(|i| {
            first.iter().map(move |e| EventRow { line: 0x40_40c0 + 64 * i, object: 1, ..*e })
        })
        .collect();
    profile.lines = profile.events.chunk_by(|a, b| a.line == b.line).map(LineRow::of).collect();
    let [cause] = &found(&profile)[..] else { panic!() };
    assert_eq!((cause.lines, cause.events, cause.object_row), (3, 13_200, Some(1)));
    assert_eq!(cause.object, "heap block of 40,000 bytes allocated in make at a.c:7");
    for thread in &mut profile.threads {
        thread.instructions = 1_000_000_000;
    }
    let [cause] = &found(&profile)[..] else { panic!() };
    assert!(!cause.cost.worth && !cause.leads(), "{:?}", cause.cost);
}

/// A recording in which threads meet only in the mutex functions of the C library.
fn locking() -> Profile {
    let mut profile = shared();
    let lock = |function: &str| SiteRow {
        address: 0x7f00_0000_0100,
        module: "/lib/libc.so.6".into(),
        offset: 0x100,
        function: function.into(),
        ..SiteRow::default()
    };
    profile.sites.extend([lock("pthread_mutex_lock"), lock("pthread_mutex_unlock")]);
    let (one, two) = (profile.sites.len() as u32 - 2, profile.sites.len() as u32 - 1);
    for event in profile.events.iter_mut().filter(|event| event.line == 0x40_40c0) {
        (event.from_site, event.to_site) = (two, one);
    }
    profile
}

#[test]
fn a_mutex_is_synchronization_and_no_false_sharing() {
    let causes = causes(&locking(), None);
    let cause = causes.list.iter().find(|c| c.kind == CauseKind::Synchronization).unwrap();
    assert_eq!((cause.synchronization, cause.events), (Some(Sync::Mutex), 4400));
    assert!(cause.advice.contains("use several locks"), "{}", cause.advice);
    assert!(causes.list.iter().all(|c| c.kind != CauseKind::FalseSharing));
    assert_eq!(causes.synchronization, Some(4400.0 / 5125.0));
}

#[test]
fn locks_that_are_many_need_not_be_more() {
    let mut profile = locking();
    profile.objects.push(ObjectRow { bytes: 40_000, blocks: 1, ..ObjectRow::default() });
    profile.events.retain(|event| event.line == 0x40_40c0);
    let first = profile.events.clone();
    profile.events = (0..8)
        .flat_map(|i| {
            first.iter().map(move |e| EventRow { line: 0x40_40c0 + 64 * i, object: 1, ..*e })
        })
        .collect();
    profile.lines = profile.events.chunk_by(|a, b| a.line == b.line).map(LineRow::of).collect();
    let [cause] = &found(&profile)[..] else { panic!() };
    assert_eq!((cause.synchronization, cause.lines), (Some(Sync::Mutex), 8));
    assert!(cause.advice.contains("many of them already"), "{}", cause.advice);
}

#[test]
fn data_beside_a_lock_is_named_as_such() {
    let mut profile = shared();
    profile.sites.push(SiteRow {
        module: "/lib/libc.so.6".into(),
        function: "pthread_mutex_lock".into(),
        ..SiteRow::default()
    });
    let lock = profile.sites.len() as u32 - 1;
    for event in profile.events.iter_mut().filter(|event| event.line == 0x40_40c0) {
        event.from_site = lock;
    }
    let cause = &found(&profile)[0];
    assert_eq!(cause.kind, CauseKind::FalseSharing);
    assert!(cause.advice.contains("takes the lock takes the line"), "{}", cause.advice);
}

/// A hundredth of the events of [`shared`] on the line of the counters, to which each of four
/// threads comes once in so many of ten million instructions, on so many processors.
fn in_turns(instructions: u64, processors: u32) -> Profile {
    let mut profile = shared();
    let line = 0x40_40c0;
    profile.events.retain(|event| event.line == line);
    profile.events.iter_mut().for_each(|event| event.count = event.count.div_ceil(100));
    let (cpu_ns, waited_ns) = (200_000_000, 800_000_000);
    for (thread, row) in (0..).zip(&mut profile.threads) {
        (row.instructions, row.loads, row.stores) = (10_000_000, 1_000_000, 100_000);
        let (slice, thread, pu) = (0, ThreadId(thread), thread % processors);
        profile.running.push(RunningRow { slice, thread, pu, cpu_ns, waited_ns });
    }
    let row = |thread| {
        let (thread, instructions) = (ThreadId(thread), 64 * instructions);
        ReturnRow { line, thread, returns: 64, writes: 64, instructions }
    };
    profile.returns = (1..5).map(row).collect();
    profile
}

#[test]
fn threads_that_take_turns_are_told_by_how_often_they_come() {
    let of_counters = |profile: &Profile| -> Option<Cause> {
        let is_theirs = |cause: &Cause| cause.hottest == "0x4040c0";
        found(profile).into_iter().find(is_theirs)
    };
    let cause = of_counters(&in_turns(100, 1)).unwrap();
    assert_eq!((cause.kind, cause.events < MIN_EVENTS), (CauseKind::FalseSharing, true));
    assert!(cause.cost.not_known && cause.leads());
    let most = cause.cost.at_most.unwrap();
    // Each of four threads comes 100,000 times, and may find the line taken each time.
    assert!((399_000..=400_000).contains(&most.events), "{most:?}");
    assert!(most.cpu_share.unwrap() > 0.1);
    assert!(cause.text.contains("they come here often enough for up to"), "{}", cause.text);
    let mut bursts = in_turns(100, 1);
    bursts.threads.iter_mut().for_each(|row| row.loads = 0);
    bursts.threads.iter_mut().for_each(|row| row.stores = 25_000);
    let most = of_counters(&bursts).unwrap().cost.at_most.unwrap();
    assert!((99_000..=100_000).contains(&most.events), "no more than they access: {most:?}");
    assert_eq!(of_counters(&in_turns(5_000_000, 1)), None, "they hardly ever come");
    assert_eq!(of_counters(&in_turns(100, 5)), None, "they ran at once and made few events");
    let mut unknown = in_turns(100, 1);
    unknown.returns.retain(|row| row.thread == ThreadId(1));
    assert_eq!(of_counters(&unknown), None, "one thread alone makes none");
}

#[test]
fn locks_may_be_fought_over_but_barriers_are_to_wait() {
    let most = |function: &str| {
        let mut profile = in_turns(100, 1);
        profile.sites.push(library(function, ""));
        let site = profile.sites.len() as u32 - 1;
        profile.events.iter_mut().for_each(|e| (e.from_site, e.to_site) = (site, site));
        found(&profile).first().and_then(|cause| cause.cost.at_most)
    };
    assert!(most("pthread_mutex_lock").is_some_and(|most| most.events > 1_000));
    assert_eq!(most("pthread_barrier_wait"), None);
}

#[test]
fn members_of_one_struct_that_different_code_uses_are_moved_apart() {
    let mut profile = shared();
    for event in profile.events.iter_mut().filter(|event| event.line == 0x40_4100) {
        (event.sharing, event.from_bytes, event.to_bytes) = (Sharing::False, 0xff, 0xff00);
    }
    let found = found(&profile);
    let cause = found.iter().find(|cause| cause.hottest == "0x404100").unwrap();
    assert_eq!((cause.kind, cause.sides.len()), (CauseKind::FalseSharing, 2));
    assert!(
        cause.advice.starts_with("Move what lies in bytes 0–7 away from what lies in bytes 8–15"),
        "{}",
        cause.advice
    );
}

#[test]
fn a_file_with_and_without_its_folder_is_one() {
    let mut profile = shared();
    let sides = |profile: &Profile| -> Vec<usize> {
        found(profile).iter().map(|cause| cause.sides.len()).collect()
    };
    let all = sides(&profile);
    // Each site twice, of which the copy has no folder.
    let count = profile.sites.len() as u32;
    let last = |site: &SiteRow| {
        let file = site.file.rsplit('/').next().unwrap_or_default().into();
        SiteRow { file, ..site.clone() }
    };
    let copies: Vec<_> = profile.sites.iter().map(last).collect();
    profile.sites.extend(copies);
    let mut copied = profile.events.clone();
    copied.iter_mut().for_each(|event| event.to_site += count);
    profile.events.extend(copied);
    assert_eq!(sides(&profile), all);
    assert_eq!(found(&profile)[0].sides[0].file, "/home/user/src/a.c");
}

#[test]
fn hits_of_few_windows_leave_costs_uncertain() {
    let high = |independent: u64| {
        let mut profile = shared();
        profile.meta.mode = Mode::Windows;
        profile.events.iter_mut().for_each(|event| event.hits = event.count);
        let all = profile.comm.len() as u64;
        for row in &mut profile.comm {
            let (low, high) = (0, 2 * row.count);
            row.sampled = Some(Sampled { hits: independent / all, low, high });
        }
        found(&profile)[0].cost.high.unwrap()
    };
    assert!(high(30) > 1.05 * high(3000), "{} {}", high(30), high(3000));
}

#[test]
fn few_events_and_few_samples_are_no_finding() {
    let mut profile = shared();
    profile.events.iter_mut().for_each(|event| event.count = event.count.min(40));
    assert_eq!(titles(&profile), [""; 0]);
    let mut sampled = crate::samples::sampled();
    assert!(!found(&sampled).is_empty());
    sampled.events.iter_mut().for_each(|event| event.hits = 1);
    assert_eq!(titles(&sampled), [""; 0], "8 and 2 hits");
}

#[test]
fn code_that_meets_on_many_lines_transfers_it() {
    let mut profile = shared();
    let hand = profile.events.iter().find(|event| event.line == 0x40_4100).copied().unwrap();
    let spread = (0..1000).map(|i| EventRow { line: 0x7f10_0000_0000 + 64 * i, count: 4, ..hand });
    profile.events.extend(spread);
    let found = found(&profile);
    let cause = found.iter().find(|cause| cause.kind == CauseKind::Transferred).unwrap();
    assert!(cause.lines >= 1000);
    let details = crate::Findings::new(&profile, None, 0).verdict.details;
    assert!(details.iter().all(|text| !text.contains("Threads transfer")), "others come first");
}

#[test]
fn bytes_that_all_threads_update_at_random_are_contended() {
    let mut profile = shared();
    for event in profile.events.iter_mut().filter(|event| event.line == 0x40_40c0) {
        (event.from_bytes, event.to_bytes) = (u64::MAX, u64::MAX);
    }
    // Without any event about the same bytes, elements may be handed out anew from time to time.
    assert_eq!(found(&profile)[0].kind, CauseKind::FalseSharing);
    let line = 0x40_40c0;
    profile.events.iter_mut().find(|event| event.line == line).unwrap().sharing = Sharing::True;
    let cause = &found(&profile)[0];
    assert_eq!((cause.kind, cause.falsely), (CauseKind::Contended, 3400));
    assert!(cause.advice.contains("Give each thread a copy"), "{}", cause.advice);
    assert!(!cause.advice.contains("false sharing"), "{}", cause.advice);
    assert!(cause.cost.words().contains("without the time of atomic"), "{}", cause.cost.words());
    // A large histogram, too.
    let first: Vec<EventRow> =
        profile.events.iter().filter(|event| event.line == line).copied().collect();
    let spread =
        (1..20).flat_map(|i| first.iter().map(move |e| EventRow { line: line + 64 * i, ..*e }));
    profile.events.retain(|event| event.line == line);
    profile.events.extend(spread);
    profile.lines = profile.events.chunk_by(|a, b| a.line == b.line).map(LineRow::of).collect();
    let many = &found(&profile)[0];
    assert_eq!((many.kind, many.lines), (CauseKind::Contended, 20));
}

/// A site of the C library's or C++'s.
fn library(function: &str, inlined: &str) -> SiteRow {
    SiteRow {
        module: if inlined.is_empty() { "/lib/libc.so.6" } else { "/home/user/app" }.into(),
        function: function.into(),
        inlined: inlined.into(),
        ..SiteRow::default()
    }
}

/// Puts the profile's main line on the object `box`, and the other one, too.
fn in_one_object(profile: &mut Profile) {
    profile.objects.push(ObjectRow {
        region: "static".into(),
        name: "box (app)".into(),
        ..ObjectRow::default()
    });
    let row = profile.objects.len() as u32 - 1;
    let events = profile.events.iter_mut();
    events.filter(|event| matches!(event.line, 0x40_40c0 | 0x40_4100)).for_each(|e| e.object = row);
}

#[test]
fn a_lock_and_what_it_guards_are_one_finding() {
    let mut profile = shared();
    in_one_object(&mut profile);
    profile.sites.extend([library("pthread_mutex_lock", ""), library("pthread_cond_signal", "")]);
    let lock = profile.sites.len() as u32 - 2;
    for event in profile.events.iter_mut().filter(|event| event.line == 0x40_40c0) {
        let sync = if event.kind == types::CommKind::Raw { lock } else { lock + 1 };
        (event.from_site, event.to_site) = (sync, sync);
    }
    let [cause] = &found(&profile)[..] else { panic!("{:#?}", titles(&profile)) };
    assert_eq!(
        (cause.kind, cause.synchronization),
        (CauseKind::Synchronization, Some(Sync::Mutex))
    );
    assert_eq!(cause.events, 4400 + 700);
    // More data than locking is a finding of its own.
    let data = profile.events.iter_mut().find(|event| event.line == 0x40_4100).unwrap();
    data.count = 9000;
    assert_eq!(found(&profile).len(), 2);
}

#[test]
fn both_directions_of_a_reference_count_are_one_finding() {
    let mut profile = shared();
    let count = "std::_Sp_counted_base<2>::_M_release()";
    profile.sites.extend([
        library(count, "serve at sp.cpp:26; run at sp.cpp:40"),
        library(count, "serve at sp.cpp:30; run at sp.cpp:40"),
    ]);
    let (one, two) = (profile.sites.len() as u32 - 2, profile.sites.len() as u32 - 1);
    for event in profile.events.iter_mut().filter(|event| event.line == 0x40_40c0) {
        let forth = event.from < event.to;
        (event.from_site, event.to_site) = if forth { (one, two) } else { (two, one) };
    }
    let counted = |cause: &&Cause| cause.synchronization == Some(Sync::References);
    let all = found(&profile);
    let [cause] = &all.iter().filter(counted).collect::<Vec<_>>()[..] else { panic!("{all:#?}") };
    // Both places are in one function.
    assert_eq!((cause.events, cause.sides.len()), (4400, 1));
    assert_eq!(cause.cost.without, "the time of atomic instructions");
}

#[test]
fn variables_of_one_line_are_one_finding() {
    let mut profile = shared();
    for name in ["m (app)", "c (app)"] {
        let (region, name) = ("static".into(), name.into());
        profile.objects.push(ObjectRow { region, name, ..ObjectRow::default() });
    }
    for event in profile.events.iter_mut().filter(|event| event.line == 0x40_40c0) {
        event.object = profile.objects.len() as u32 - 1 - event.to.0 % 2;
    }
    profile.events.sort_by_key(|event| (event.line, event.object));
    let falsely = |cause: &&Cause| cause.kind == CauseKind::FalseSharing;
    let all = found(&profile);
    let [cause] = &all.iter().filter(falsely).collect::<Vec<_>>()[..] else { panic!("{all:#?}") };
    assert_eq!(cause.events, 4400);
}

#[test]
fn what_may_be_changed_comes_before_what_must_be_transferred() {
    let mut profile = shared();
    let hand = profile.events.iter().find(|event| event.line == 0x40_4100).copied().unwrap();
    let spread = (0..1000).map(|i| EventRow { line: 0x7f10_0000_0000 + 64 * i, count: 99, ..hand });
    profile.events.extend(spread);
    // So much work that the false sharing is not worth a change by itself, but may be.
    for thread in &mut profile.threads {
        thread.instructions = 30_000_000;
    }
    let all = found(&profile);
    let at = |kind: CauseKind| all.iter().position(|cause| cause.kind == kind).unwrap();
    let (falsely, transferred) = (at(CauseKind::FalseSharing), at(CauseKind::Transferred));
    assert!(!all[falsely].cost.worth && all[falsely].cost.may_be_worth());
    assert!(all[transferred].cost.worth && falsely < transferred, "{all:#?}");
}

#[test]
fn threads_that_ran_in_turn_leave_the_cost_open() {
    let mut profile = shared();
    profile.running = (1..5)
        .map(|thread| profile::RunningRow {
            slice: 0,
            thread: types::ThreadId(thread),
            pu: 3,
            cpu_ns: 500_000_000,
            waited_ns: 1_500_000_000,
        })
        .collect();
    for thread in &mut profile.threads {
        thread.instructions = 1_000_000_000;
    }
    let cause = &found(&profile)[0];
    assert!(cause.cost.not_known && !cause.cost.worth && cause.leads(), "{:?}", cause.cost);
    assert!(cause.text.contains("hardly ever ran at the same time"), "{}", cause.text);
    let text = crate::text(
        &crate::Findings::new(&profile, None, 0),
        &profile,
        crate::TextStyle { colour: false, width: 1000, lines: None },
    );
    assert!(
        text.contains("not known") && !text.contains("counters+0x40..0x80 (app), one line: 86")
    );
}

#[test]
fn numbers_of_fortran_get_a_first_dimension() {
    let mut profile = shared();
    for site in &mut profile.sites {
        site.file = site.file.replace("a.c", "a.f90");
    }
    let advice = &found(&profile)[0].advice;
    assert!(advice.contains("add a first dimension of 8"), "{advice}");
}

/// A block with the fields 'head', 'tail' and 'limit' of 8 bytes each, which threads take from each
/// other in one function: from, to, kind, sharing, and which field was written and taken.
fn of_fields(events: &[(u32, u32, CommKind, Sharing, u32, u32)]) -> Profile {
    let mut profile = shared();
    let line = 0x40_40c0;
    let object = profile.objects.len().max(1) as u32;
    profile.objects.resize(object as usize, ObjectRow::default());
    profile.objects.push(made(64));
    profile.blocks = vec![profile::BlockRow {
        object,
        start: line,
        ordinal: 0,
        bytes: 64,
        thread: None,
        lifetime_ns: None,
    }];
    profile.fields = (0..)
        .zip(["head", "tail", "limit"])
        .map(|(k, name)| profile::FieldRow { object, offset: 8 * k, bytes: 8, name: name.into() })
        .collect();
    let base = profile.events.iter().find(|event| event.line == line).copied().unwrap();
    let field = |k: u32| 0xff << (8 * k);
    profile.events = events
        .iter()
        .map(|&(from, to, kind, sharing, written, taken)| EventRow {
            from: ThreadId(from),
            to: ThreadId(to),
            kind,
            sharing,
            from_bytes: field(written),
            to_bytes: field(taken),
            to_site: base.from_site,
            count: 1000,
            object,
            ..base
        })
        .collect();
    profile.events.sort_by_key(EventRow::key);
    profile.lines = profile.events.chunk_by(|a, b| a.line == b.line).map(LineRow::of).collect();
    profile
}

#[test]
fn what_a_line_of_code_only_reads_is_told_apart_from_what_it_writes() {
    let (raw, waw) = (CommKind::Raw, CommKind::Waw);
    let [all, reads] = [Sharing::True, Sharing::False];
    let pairs = [(1, 2), (2, 1)];
    let profile = of_fields(
        &pairs
            .iter()
            .flat_map(|&(a, b)| [(a, b, waw, all, 0, 0), (a, b, raw, reads, 0, 2)])
            .collect::<Vec<_>>(),
    );
    let cause = &found(&profile)[0];
    assert_eq!(cause.kind, CauseKind::Contended);
    let evidence = "T1 and T2 write 'head' (bytes 0–7) and read 'limit' (bytes 16–23) in";
    assert!(cause.evidence.starts_with(evidence), "{}", cause.evidence);
    let advice =
        "move 'head' away from 'limit', which is only read: put _Alignas(64) before 'limit'";
    assert!(cause.advice.contains(advice), "{}", cause.advice);
}

#[test]
fn fields_that_one_thread_writes_each_get_lines_of_their_own() {
    let (raw, waw) = (CommKind::Raw, CommKind::Waw);
    let ends = |sharing| {
        of_fields(&[
            (1, 2, raw, Sharing::True, 0, 0),
            (2, 1, raw, Sharing::True, 1, 1),
            (1, 2, waw, sharing, 0, 1),
            (2, 1, waw, sharing, 1, 0),
        ])
    };
    let cause = &found(&ends(Sharing::False))[0];
    let advice = "Put 'head' and 'tail' on lines of their own (_Alignas(64))";
    assert!(cause.advice.starts_with(advice), "{}", cause.advice);
}

#[test]
fn of_threads_that_are_in_hardly_any_event_nothing_is_said() {
    let (raw, of) = (CommKind::Raw, Sharing::True);
    let mut profile = of_fields(&[(1, 2, raw, of, 0, 0), (1, 3, raw, of, 0, 0)]);
    profile.events[0].count = 1_000_000;
    let all = found(&profile);
    assert!(all[0].evidence.starts_with("T1 and T2 "), "{}", all[0].evidence);
}

/// The advice for two threads that each overwrite the other's bytes in one function, fields 0 and
/// 1, in a block of which this is known.
fn advice_for(change: impl Fn(&mut Profile, u32)) -> String {
    let (waw, apart) = (CommKind::Waw, Sharing::False);
    let mut profile = of_fields(&[(1, 2, waw, apart, 0, 1), (2, 1, waw, apart, 1, 0)]);
    let object = profile.blocks[0].object;
    change(&mut profile, object);
    profile.blocks.sort_unstable();
    let cause = found(&profile).swap_remove(0);
    assert_eq!(cause.kind, CauseKind::FalseSharing);
    cause.advice
}

#[test]
fn how_bytes_lie_in_elements_decides_what_is_advised() {
    let stride = |bytes| {
        move |profile: &mut Profile, object: u32| {
            profile.objects[object as usize].stride = bytes;
            if bytes < 64 {
                profile.fields.clear();
            }
        }
    };
    let fields = advice_for(stride(64));
    // The later one: before 'head', it would move both.
    let apart = "Move 'head' away from 'tail': put _Alignas(64) before 'tail', so";
    assert!(fields.starts_with(apart), "{fields}");
    let counters = advice_for(stride(8));
    assert!(counters.starts_with("Stride 8 → 64 bytes"), "{counters}");
    let rows = advice_for(stride(4));
    assert!(rows.starts_with("The parts of different threads meet"), "{rows}");
}

#[test]
fn members_that_alternate_are_put_in_order() {
    let (waw, apart) = (CommKind::Waw, Sharing::False);
    let ends = |field| [(1, 2, waw, apart, field, 1), (2, 1, waw, apart, 1, field)];
    let events = [ends(0), ends(2)].concat();
    let advice = &found(&of_fields(&events))[0].advice;
    let order = "declare 'head' and 'limit' first, then 'tail', and put _Alignas(64) before 'tail'";
    assert!(advice.contains(order), "{advice}");
}

#[test]
fn what_lay_there_before_or_beside_is_not_blamed() {
    let with = |start: u64, bytes: u64| {
        advice_for(move |profile, object| {
            profile.objects[object as usize].stride = 8;
            profile.fields.clear();
            profile.blocks[0].bytes = 16;
            profile.objects.push(made(bytes));
            let other = profile.objects.len() as u32 - 1;
            let start = profile.blocks[0].start + start;
            profile.blocks.push(profile::BlockRow {
                object: other,
                start,
                bytes,
                ..profile.blocks[0]
            });
        })
    };
    // Another block on the line, and a smaller one at the same place.
    assert!(with(16, 8000).starts_with("Stride 8 → 64 bytes"), "{}", with(16, 8000));
    assert!(with(0, 8).starts_with("Stride 8 → 64 bytes"), "{}", with(0, 8));
}
