//! Findings of which different threads use different instances, blocks or parts.

use super::*;

const LINE: u64 = 0x40_40c0;

/// Adds an event like the first one: from, to, kind, line, and the bytes written and taken.
fn event(
    (from, to, kind): (u32, u32, CommKind),
    line: u64,
    (written, taken): (u64, u64),
    of: &EventRow,
) -> EventRow {
    let (from, to) = (ThreadId(from), ThreadId(to));
    EventRow { from, to, kind, line, from_bytes: written, to_bytes: taken, ..*of }
}

fn in_order(mut profile: Profile) -> Profile {
    profile.events.sort_by_key(EventRow::key);
    profile.lines = profile.events.chunk_by(|a, b| a.line == b.line).map(LineRow::of).collect();
    profile
}

#[test]
fn fields_on_other_lines_are_named_for_the_threads_that_use_them() {
    let waw = CommKind::Waw;
    let mut profile =
        of_fields(&[(1, 2, waw, Sharing::False, 0, 1), (2, 1, waw, Sharing::False, 1, 0)]);
    let object = profile.blocks[0].object;
    profile.blocks[0].bytes = 128;
    for (offset, name) in [(64, "other.head"), (72, "other.tail")] {
        profile.fields.push(profile::FieldRow { object, offset, bytes: 8, name: name.into() });
    }
    let first = profile.events[0];
    let next = LINE + 64;
    profile.events.extend([
        event((3, 4, waw), next, (0xff, 0xff00), &first),
        event((4, 3, waw), next, (0xff00, 0xff), &first),
    ]);
    profile.events.iter_mut().filter(|event| event.line == LINE).for_each(|event| event.count *= 2);
    let cause = &found(&in_order(profile))[0];
    for name in ["'head'", "'tail'", "'other.head'"] {
        assert!(cause.evidence.contains(name), "{name}: {}", cause.evidence);
    }
}

/// Each of two threads fills ten lines, which a third one reads: what readers would keep a copy of
/// is handed on once.
#[test]
fn buffers_of_several_writers_are_handed_on() {
    let mut profile = of_fields(&[(1, 4, CommKind::Raw, Sharing::True, 0, 0)]);
    profile.fields.clear();
    profile.blocks[0].bytes = 64 * 20;
    let first = profile.events.remove(0);
    let of_line = |k: u64| {
        let writer = 1 + k as u32 % 2;
        event((writer, 4, CommKind::Raw), LINE + 64 * k, (0xff, 0xff), &first)
    };
    profile.events.extend((0..20).map(of_line));
    assert_eq!(found(&in_order(profile))[0].kind, CauseKind::Transferred);
}

#[test]
fn data_of_each_thread_has_one_writer() {
    let mut profile = of_fields(&[(1, 4, CommKind::Raw, Sharing::True, 0, 0)]);
    (profile.blocks, profile.fields) = Default::default();
    let first = profile.events[0];
    let mine = |thread: u32| ObjectRow {
        region: "thread-local".into(),
        name: format!("mine (app) of T{thread}"),
        ..ObjectRow::default()
    };
    let object = profile.objects.len() as u32;
    profile.objects.extend([mine(1), mine(2)]);
    profile.events[0].object = object;
    let second = event((2, 4, CommKind::Raw), LINE + 64, (0xff, 0xff), &first);
    profile.events.push(EventRow { object: object + 1, ..second });
    let cause = &found(&in_order(profile))[0];
    assert_eq!(cause.kind, CauseKind::OneWriter);
    let title = "One thread each writes and others read mine (app) of several threads";
    assert_eq!(cause.title, title);
}

#[test]
fn bytes_of_a_block_beside_it_are_said_to_be_of_that() {
    let waw = CommKind::Waw;
    let mut profile =
        of_fields(&[(1, 2, waw, Sharing::False, 0, 2), (2, 1, waw, Sharing::False, 2, 0)]);
    profile.fields.clear();
    profile.blocks[0].bytes = 16;
    let name = "in other at b.c:9".into();
    profile.objects.push(ObjectRow { name, ..made(48) });
    let beside = profile.objects.len() as u32 - 1;
    let start = LINE + 16;
    profile.blocks.push(profile::BlockRow {
        object: beside,
        start,
        bytes: 48,
        ..profile.blocks[0]
    });
    // Code of its own.
    let site = profile.sites.len() as u32;
    profile.sites.push(SiteRow { function: "g".into(), line: 70, ..profile.sites[1].clone() });
    for event in profile.events.iter_mut() {
        match event.from.0 {
            2 => event.from_site = site,
            _ => event.to_site = site,
        }
    }
    let cause = &found(&in_order(profile))[0];
    assert!(cause.evidence.contains("of a block beside it"), "{}", cause.evidence);
}

#[test]
fn parts_of_an_array_in_a_struct_have_their_own_stride() {
    let waw = CommKind::Waw;
    let mut profile = of_fields(&[(1, 2, waw, Sharing::False, 0, 1)]);
    let (object, first) = (profile.blocks[0].object, profile.events[0]);
    profile.blocks[0].bytes = 200;
    let row = &mut profile.objects[object as usize];
    (row.element, row.stride, row.bytes) = ("struct stats".into(), 200, 200);
    let name = "lat".into();
    profile.fields = vec![profile::FieldRow { object, offset: 8, bytes: 192, name }];
    let bits = |first: u32, count: u32| ((1_u64 << count) - 1) << first;
    // Rows of 48 bytes, of which the last eight bytes are not used: at 8, 56 and 104.
    profile.events = vec![
        event((1, 2, waw), LINE, (bits(8, 40), bits(56, 8)), &first),
        event((2, 1, waw), LINE, (bits(56, 8), bits(8, 40)), &first),
        event((2, 3, waw), LINE + 64, (bits(0, 32), bits(40, 24)), &first),
        event((3, 2, waw), LINE + 64, (bits(40, 24), bits(0, 32)), &first),
    ];
    let cause = &found(&in_order(profile))[0];
    let advice = "Stride 48 → 64 bytes: pad the part of 'lat' that one thread uses";
    assert!(cause.advice.starts_with(advice), "{}", cause.advice);
}

#[test]
fn what_threads_look_at_is_no_count() {
    let (raw, waw) = (CommKind::Raw, CommKind::Waw);
    let advice = |reads: u64| {
        let mut profile =
            of_fields(&[(1, 2, waw, Sharing::True, 0, 0), (2, 1, waw, Sharing::True, 0, 0)]);
        let site = profile.sites.len() as u32;
        profile.sites.push(SiteRow { function: "g".into(), line: 70, ..profile.sites[1].clone() });
        let first = profile.events[0];
        let look = event((1, 2, raw), LINE, (0xff, 0xff), &first);
        profile.events.push(EventRow { to_site: site, count: first.count * reads / 10, ..look });
        let list = found(&in_order(profile));
        assert_eq!(list[0].kind, CauseKind::Contended, "{list:#?}");
        list[0].advice.clone()
    };
    assert!(advice(1).contains("add the copies up"), "{}", advice(1));
    assert!(advice(10).contains("more than a count"), "{}", advice(10));
}

#[test]
fn bytes_of_threads_on_other_lines_are_told_with_the_same_names() {
    let waw = CommKind::Waw;
    let mut profile = of_fields(&[(1, 2, waw, Sharing::False, 0, 1)]);
    let (object, first) = (profile.blocks[0].object, profile.events[0]);
    profile.blocks[0].bytes = 128;
    let row = &mut profile.objects[object as usize];
    (row.element, row.stride, row.bytes) = ("struct ends".into(), 16, 128);
    profile.fields.truncate(2);
    let [one, two] = [0xffff, 0xffff_0000];
    profile.events = vec![
        event((1, 2, waw), LINE, (one, two), &first),
        event((2, 1, waw), LINE, (two, one), &first),
        event((3, 4, waw), LINE + 64, (one, two), &first),
        event((4, 3, waw), LINE + 64, (two, one), &first),
    ];
    let cause = &found(&in_order(profile))[0];
    let bytes = "'head' and 'tail' (bytes T1 0–15, T2 16–31, T3 64–79, T4 80–95)";
    assert!(cause.evidence.contains(bytes), "{}", cause.evidence);
}

/// 'tail' is used least, by other code of the thread that uses 'limit'. Behind it, the alignment
/// would leave it with 'head'.
#[test]
fn what_is_used_by_other_code_of_a_thread_moves_along() {
    let (waw, apart) = (CommKind::Waw, Sharing::False);
    let mut profile = of_fields(&[(1, 2, waw, apart, 0, 2), (2, 1, waw, apart, 2, 0)]);
    let [mine, its, rarely] = [1, 4, 3];
    for event in &mut profile.events {
        let sites = if event.from == ThreadId(1) { [mine, its] } else { [its, mine] };
        [event.from_site, event.to_site] = sites;
    }
    let first = profile.events[0];
    let seldom = event((2, 1, CommKind::Raw), LINE, (0xff00, 0xff), &first);
    let (from_site, to_site, count) = (rarely, mine, 300);
    profile.events.push(EventRow { from_site, to_site, count, ..seldom });
    let cause = &found(&in_order(profile))[0];
    assert!(cause.advice.contains("_Alignas(64) before 'tail'"), "{}", cause.advice);
}

/// 20 lines of an array of 1 MB or of 1 KB are shared falsely, 8 bytes by each thread.
#[test]
fn elements_of_large_arrays_are_not_padded() {
    let advice = |bytes: u64| {
        let (waw, apart) = (CommKind::Waw, Sharing::False);
        let mut profile = of_fields(&[(1, 2, waw, apart, 0, 1), (2, 1, waw, apart, 1, 0)]);
        profile.fields.clear();
        profile.blocks[0].bytes = bytes;
        profile.objects[profile.blocks[0].object as usize].stride = 8;
        let first = profile.events.clone();
        let on = |k: u64| first.iter().map(move |event| EventRow { line: LINE + 64 * k, ..*event });
        profile.events.extend((1..20).flat_map(on));
        found(&in_order(profile))[0].advice.clone()
    };
    assert!(advice(1 << 10).starts_with("Stride 8 → 64 bytes"), "{}", advice(1 << 10));
    assert!(advice(1 << 20).starts_with("Do not pad its elements"), "{}", advice(1 << 20));
}

/// Elements of 48 bytes, whose code is that of mutexes: the first event is between two of them.
#[test]
fn locks_of_each_thread_that_share_a_line_are_false_sharing() {
    let (waw, apart) = (CommKind::Waw, Sharing::False);
    let cause_of = |list: &[(u32, u32, u64, u64)]| {
        let mut profile = locking();
        let site = profile.sites.len() as u32 - 1;
        let (from_site, to_site, count) = (site, site, 1000);
        let first = EventRow { from_site, to_site, count, ..profile.events[0] };
        let object = profile.objects.len() as u32;
        profile.objects.push(ObjectRow { stride: 48, bytes: 96, ..made(96) });
        let (start, bytes, thread, lifetime_ns) = (LINE, 96, None, None);
        profile.blocks =
            vec![profile::BlockRow { object, start, ordinal: 0, bytes, thread, lifetime_ns }];
        let event = |&(from, to, from_bytes, to_bytes): &(u32, u32, u64, u64)| {
            let sharing = if from_bytes == to_bytes { Sharing::True } else { apart };
            let row = event((from, to, waw), LINE, (from_bytes, to_bytes), &first);
            EventRow { object, sharing, ..row }
        };
        profile.events = list.iter().map(event).collect();
        found(&in_order(profile)).remove(0)
    };
    let (one, other) = (0xff, 0xff << 48);
    let own = [(1, 2, one, other), (2, 1, other, one)];
    let cause = cause_of(&own);
    assert_eq!(cause.kind, CauseKind::FalseSharing);
    assert!(cause.advice.starts_with("Stride 48 → 64 bytes"), "{}", cause.advice);
    let taken_by_all = [(1, 2, one, one), (2, 1, other, other)];
    let cause = cause_of(&[own, taken_by_all].concat());
    assert_eq!(cause.kind, CauseKind::Synchronization);
}

/// Four blocks of data, of which two threads change any, in code that takes a lock.
#[test]
fn data_that_a_lock_guards_is_told_with_the_lock() {
    let causes_of = |function: &str, users: [[u32; 2]; 2]| {
        let mut profile = locking();
        let lock = profile.sites.len() as u32 - 1;
        profile.sites[lock as usize] = SiteRow {
            function: "std::mutex::lock()".into(),
            file: "/usr/include/c++/12/bits/std_mutex.h".into(),
            inlined: "touch at a.c:5".into(),
            ..profile.sites[1].clone()
        };
        let place = SiteRow { function: function.into(), line: 6, ..profile.sites[1].clone() };
        profile.sites.push(SiteRow { inlined: String::new(), ..place });
        let first = profile.events[0];
        let (objects, lines) = (profile.objects.len() as u32, LINE + 64);
        profile.objects.extend([made(40), made(16)]);
        let of_lock = |(from, to)| {
            let row = event((from, to, CommKind::Waw), LINE, (0xff, 0xff), &first);
            let (from_site, to_site, object) = (lock, lock, objects);
            EventRow { from_site, to_site, object, sharing: Sharing::True, count: 100, ..row }
        };
        let of_data = |(k, line): (usize, u64)| {
            let [from, to] = users[k % 2];
            let row = event((from, to, CommKind::Waw), line, (0xff, 0xff << 16), &first);
            let (from_site, to_site, object) = (lock + 1, lock + 1, objects + 1);
            EventRow { from_site, to_site, object, sharing: Sharing::False, count: 1000, ..row }
        };
        let line = |k: usize| lines + 64 * (k as u64 / 2);
        profile.events = (0..8).map(|k| of_data((k, line(k)))).collect();
        profile.events.extend([(1, 2), (2, 1)].map(of_lock));
        let block = |k: u64| profile::BlockRow {
            object: objects + 1,
            start: lines + 64 * (k / 2) + 16 * (k % 2),
            ordinal: k,
            bytes: 16,
            thread: None,
            lifetime_ns: None,
        };
        profile.blocks = (0..8).map(block).collect();
        causes(&in_order(profile), None)
    };
    let all = causes_of("touch", [[1, 2], [2, 1]]);
    let [cause] = &all.list[..] else { panic!("{:#?}", all.list) };
    assert_eq!((cause.kind, cause.events), (CauseKind::Synchronization, 8200));
    assert!(cause.evidence.contains("98 % of this is data that it guards"), "{}", cause.evidence);
    assert!(cause.advice.contains("a part of the data (shard)"), "{}", cause.advice);
    assert_eq!(all.synchronization, Some(200.0 / 8200.0));
    // Code that takes no lock.
    let all = causes_of("elsewhere", [[1, 2], [2, 1]]);
    assert_eq!(all.list[0].kind, CauseKind::FalseSharing);
    // Each thread has blocks of its own.
    let all = causes_of("touch", [[1, 2], [1, 2]]);
    assert_eq!(all.list[0].kind, CauseKind::FalseSharing);
}

/// A counter of all threads, and 20 lines that one thread wrote at the start.
#[test]
fn lines_that_are_used_once_make_no_array() {
    let waw = CommKind::Waw;
    let mut profile =
        of_fields(&[(1, 2, waw, Sharing::True, 0, 0), (2, 1, waw, Sharing::True, 0, 0)]);
    profile.fields.clear();
    profile.blocks[0].bytes = 64 * 21;
    let first = profile.events[0];
    let once = |k: u64| EventRow {
        count: 1,
        ..event((1, 2, CommKind::Raw), LINE + 64 * k, (0xff, 0xff), &first)
    };
    profile.events.extend((1..21).map(once));
    let cause = &found(&in_order(profile))[0];
    assert_eq!((cause.kind, cause.lines), (CauseKind::Contended, 21));
}

/// The threads' visits to one of two lines were sampled.
#[test]
fn lines_without_visits_count_as_those_with_them() {
    let bound = |times: u64| {
        let mut profile = in_turns(100, 1);
        let other =
            |event: &EventRow| EventRow { line: LINE + 64, count: event.count * times, ..*event };
        let others: Vec<EventRow> = profile.events.iter().map(other).collect();
        profile.events.extend(others);
        let list = found(&in_order(profile));
        list.first().and_then(|cause| cause.cost.at_most).map(|most| most.events)
    };
    let (one, two) = (bound(0).unwrap(), bound(1).unwrap());
    assert!(two.abs_diff(2 * one) <= 2, "{one} {two}");
    assert_eq!(bound(2), None, "most of them are not known");
}

/// T1 writes 'head' and 'tail', T2 writes 'limit', and both read all of them.
#[test]
fn what_one_thread_writes_is_named_together() {
    let (raw, waw) = (CommKind::Raw, CommKind::Waw);
    let [same, apart] = [Sharing::True, Sharing::False];
    let mut profile = of_fields(&[
        (1, 2, raw, same, 0, 0),
        (1, 2, raw, same, 1, 1),
        (2, 1, raw, same, 2, 2),
        (2, 1, waw, apart, 2, 0),
        (2, 1, waw, apart, 2, 1),
        (1, 2, waw, apart, 0, 2),
    ]);
    profile.events.iter_mut().for_each(|event| event.from_site = event.to_site);
    let cause = &found(&in_order(profile))[0];
    assert!(cause.advice.contains("'head' and 'tail'; 'limit'"), "{}", cause.advice);
}

/// Many lines of an object are handed on, and one is falsely shared elsewhere in the code: in a
/// block it is the same change, in a mapping it is another object.
#[test]
fn what_lies_elsewhere_in_a_mapping_is_told_apart() {
    let kinds = |region: &str| -> Vec<CauseKind> {
        let mut profile = of_fields(&[(1, 4, CommKind::Raw, Sharing::True, 0, 0)]);
        profile.fields.clear();
        profile.blocks[0].bytes = 64 * 30;
        profile.objects.last_mut().unwrap().region = region.into();
        let first = profile.events.remove(0);
        let of_line = |k: u64| event((1, 4, CommKind::Raw), LINE + 64 * k, (0xff, 0xff), &first);
        profile.events.extend((0..20).map(of_line));
        let site = profile.sites.len() as u32;
        let place = SiteRow { function: "elsewhere".into(), line: 77, ..profile.sites[1].clone() };
        profile.sites.push(SiteRow { address: place.address + 0x1000, ..place });
        let of_both = [(2, 3, (0xff, 0xff00)), (3, 2, (0xff00, 0xff))].map(|(from, to, bytes)| {
            let one = event((from, to, CommKind::Waw), LINE + 64 * 25, bytes, &first);
            EventRow { sharing: Sharing::False, from_site: site, to_site: site, ..one }
        });
        profile.events.extend(of_both.map(|one| EventRow { count: 500, ..one }));
        found(&in_order(profile)).iter().map(|cause| cause.kind).collect()
    };
    assert_eq!(kinds("heap").len(), 1);
    let mut of_mapping = kinds("anonymous");
    of_mapping.sort();
    assert_eq!(of_mapping, [CauseKind::FalseSharing, CauseKind::Transferred]);
}
