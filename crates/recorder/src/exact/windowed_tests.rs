//! Periods whose truth is known: 100 ns each, with late events counted from 20 on, a warm-up from
//! 40 on and a counting part from 50 to 60. Threads execute an instruction each nanosecond.

use super::*;
use profile::{EventRow, Sampled};
use std::time::Duration;

const PERIOD: u64 = 100;
/// Slices of a period: off, late events, warm-up, two halves of the counting part, off.
const SLICES: [(u64, Phase); 6] = [
    (0, Phase::Off),
    (20, Phase::Late),
    (40, Phase::WarmUp),
    (50, Phase::Counting),
    (55, Phase::Counting),
    (60, Phase::Off),
];

/// A run of two threads: slices that are recorded whole, as long as periods, then `periods`.
struct Run {
    parts: Vec<Part>,
    timeline: Timeline,
    samples: Vec<Sample>,
    end_ns: u64,
}

fn run(whole: u32, periods: u32) -> Run {
    let mut timeline = Timeline::new(0, Duration::ZERO);
    let (mut parts, mut starts) = (Vec::new(), Vec::new());
    for slice in 0..whole {
        parts.push(Part { period: 0, phase: Phase::Whole, checked: true, alone: false });
        starts.push(u64::from(slice) * PERIOD);
    }
    for period in 0..periods {
        for (offset, phase) in SLICES {
            parts.push(Part { period: 1 + period, phase, checked: true, alone: false });
            starts.push(u64::from(whole + period) * PERIOD + offset);
        }
    }
    let end_ns = u64::from(whole + periods) * PERIOD;
    starts[1..].iter().for_each(|start| assert!(timeline.begin(*start) > 0));
    let ends = starts[1..].iter().copied().chain([end_ns]);
    let sample = |(slice, (start, end)): (u32, (&u64, u64))| {
        [0, 1].map(|thread| Sample { slice, thread, executed: [end - start, 1, 1, 0] })
    };
    let samples = (0..).zip(starts.iter().zip(ends)).flat_map(sample).collect();
    Run { parts, timeline, samples, end_ns }
}

pub(super) fn row(slice: u32, to: u32, count: u64) -> CommRow {
    let row = CommRow::whole(ThreadId(0), ThreadId(to), CommKind::Raw, count);
    CommRow { slice, ..row }
}

fn event(line: u64, to: u32, count: u64) -> EventRow {
    EventRow {
        line,
        from: ThreadId(0),
        to: ThreadId(to),
        kind: CommKind::Raw,
        sharing: Sharing::Any,
        from_site: 1,
        to_site: 2,
        count,
        from_bytes: 1,
        to_bytes: 1,
        hits: count,
        evidence: types::Evidence::Exact,
        object: 0,
        gap: None,
        streamed: 0,
    }
}

/// The two counting slices of a period.
fn counting(whole: u32, period: u32) -> [u32; 2] {
    [3, 4].map(|slice| whole + period * SLICES.len() as u32 + slice)
}

fn estimated(run: &mut Run, comm: Vec<CommRow>, events: Vec<EventRow>) -> (Counts, Windowed) {
    let mut counts = Counts { comm, events, ..Counts::default() };
    let windowed = estimate_counts(run, &mut counts, 0);
    (counts, windowed)
}

fn estimate_counts(run: &mut Run, counts: &mut Counts, late_blocks: u64) -> Windowed {
    let Run { parts, timeline, samples, end_ns } = run;
    let switched = Switched { parts: parts.clone(), ..Switched::default() };
    estimate(counts, samples, timeline, (&switched, late_blocks), *end_ns)
}

/// Each window saw 300 transfers, and 64 accesses that stand for what may be missing, which each of
/// all transfers shares; what a short window with a period of its own saw does not count.
#[test]
fn what_may_be_missing_is_told_for_what_windows_stand_for() {
    let mut run = run(1, 40);
    let seen = |period| (period, Unwritten { window: 0, accesses: 64 });
    let unwritten = (1..=40).map(seen).collect();
    let switched = Switched { parts: run.parts.clone(), unwritten, ..Switched::default() };
    let comm = (0..40).flat_map(|period| counting(1, period)).map(|slice| row(slice, 1, 150));
    let comm: Vec<CommRow> = comm.chain([row(0, 1, 120_000)]).collect();
    let mut counts = Counts { comm, ..Counts::default() };
    let Run { timeline, samples, end_ns, .. } = &mut run;
    let windowed = estimate(&mut counts, samples, timeline, (&switched, 0), *end_ns);
    // 64 for 300, half of the transfers being estimates; one line in all windows says little.
    let likely = 64.0 / 300.0 / 2.0;
    assert!((likely..6.0 * likely).contains(&windowed.missed), "{windowed:?}");
}

/// Windows that saw no transfers may have missed as many.
#[test]
fn what_may_be_missing_is_told_for_all_transfers_where_windows_saw_none() {
    let missed = |unwritten: &[(u32, Unwritten)]| {
        let mut run = run(1, 40);
        let switched = Switched { parts: run.parts.clone(), ..Switched::default() };
        let switched = Switched { unwritten: unwritten.to_vec(), ..switched };
        let mut counts = Counts { comm: vec![row(0, 1, 120_000)], ..Counts::default() };
        let Run { timeline, samples, end_ns, .. } = &mut run;
        estimate(&mut counts, samples, timeline, (&switched, 0), *end_ns).missed
    };
    let seen: Vec<_> = (1..=40).map(|p| (p, Unwritten { window: 0, accesses: 64 })).collect();
    // Each window stands for ten.
    let likely = 64.0 * 40.0 * 10.0 / 120_000.0;
    assert!((likely..6.0 * likely).contains(&missed(&seen)), "{}", missed(&seen));
    assert_eq!(missed(&[]), 0.0);
}

/// The likely false share. Each window sees these numbers of events: true sharing whose writer took
/// the block inside, other true sharing, false sharing, and undecided ones. Before the windows,
/// 40,000 events were recorded whole; a quarter of them are false sharing.
fn false_share([truly, partly, falsely, undecided]: [u64; 4]) -> Option<f64> {
    let of = |sharing| move |row: CommRow| CommRow { sharing, ..row };
    let (mut comm, mut unsure) = (Vec::new(), Vec::new());
    for slice in (0..40).map(|period| counting(1, period)[0]) {
        comm.push(of(Sharing::True)(row(slice, 1, truly + partly)));
        comm.push(of(Sharing::False)(row(slice, 1, falsely)));
        comm.push(row(slice, 1, undecided));
        unsure.push(of(Sharing::True)(row(slice, 1, partly)));
    }
    comm.push(of(Sharing::True)(row(0, 1, 30_000)));
    comm.push(of(Sharing::False)(row(0, 1, 10_000)));
    comm.retain(|row| row.count > 0);
    let mut counts = Counts { comm, partly: unsure, ..Counts::default() };
    estimate_counts(&mut run(1, 40), &mut counts, 0).false_share
}

#[test]
fn undecided_events_are_false_sharing_as_often_as_others() {
    // Windows saw 4,000 events, which stand for ten times as many.
    assert!((false_share([25, 0, 75, 0]).unwrap() - 0.5).abs() < 0.01);
    // Of those whose writer took the block inside, three in four are; of 40 others, all could be.
    assert!((false_share([15, 10, 45, 30]).unwrap() - 0.5).abs() < 0.01);
    // Nothing of the kind was seen in windows, or too little to speak for the others.
    assert!((false_share([0, 0, 0, 0]).unwrap() - 0.25).abs() < 0.01);
    assert_eq!(false_share([1, 80, 1, 18]), None);
}

/// Twenty late events in each stretch, and ten in each window, which counts half as long.
fn late_rows() -> Vec<CommRow> {
    let of = |period: u32| {
        let counting = counting(0, period)[0];
        [row(counting - 2, 1, 20), row(counting, 1, 10)]
    };
    (0..40).flat_map(of).collect()
}

/// Each period counts thirty late events, each of a block of its own, or of the same few blocks.
#[test]
fn late_events_stand_for_all_blocks_and_are_less_sure_in_few_blocks() {
    let of = |blocks: u64| {
        let mut counts = Counts { late: late_rows(), ..Counts::default() };
        estimate_counts(&mut run(0, 40), &mut counts, blocks);
        assert!(counts.late.is_empty());
        let total: u64 = counts.comm.iter().map(|row| row.count).sum();
        let wanted = (1200 * TRACKED_OF * 10 / 3) as f64;
        let ratio = total as f64 / wanted;
        assert!((0.99..1.01).contains(&ratio), "{ratio}: 30 % of the time, one block of 64");
        counts.comm.iter().filter_map(|row| row.sampled).map(|sampled| sampled.hits).sum::<u64>()
    };
    assert!(of(1200) >= 4 * of(12), "{} {}", of(1200), of(12));
}

#[test]
fn late_events_of_a_line_are_its_own_and_those_of_lines_that_are_not_known() {
    let mut counts = Counts {
        late: late_rows(),
        late_events: vec![EventRow { hits: 1200, ..event(0x1000, 1, 1200) }],
        ..Counts::default()
    };
    estimate_counts(&mut run(0, 40), &mut counts, 800);
    let of = |line| counts.events.iter().find(|row| row.line == line).unwrap();
    let (own, rest) = (of(0x1000), of(0));
    let ratio = rest.count as f64 / own.count as f64;
    assert!((TRACKED_OF as f64 - 1.0 - ratio).abs() < 0.5, "{ratio}");
    assert_eq!((own.hits, rest.hits), (1199, 1));
}

/// Windows in which the program hardly gets on count next to nothing of what stretches do.
#[test]
fn late_events_of_stretches_count_where_windows_see_little() {
    let mut run = run(0, 40);
    let counting = |slice: u32| matches!(slice % SLICES.len() as u32, 3 | 4);
    for sample in run.samples.iter_mut().filter(|sample| counting(sample.slice)) {
        sample.executed[0] = 0;
    }
    // An instruction, so that each window has counted something.
    run.samples.iter_mut().filter(|s| s.slice % 6 == 3).for_each(|s| s.executed[0] = 1);
    run.samples.iter_mut().filter(|s| s.slice % 6 == 1).for_each(|s| s.executed[0] = 2000);
    let of = |period: u32| row(period * SLICES.len() as u32 + 1, 1, 1);
    let events = vec![EventRow { hits: 40, ..event(0x1000, 1, 40) }];
    let late = (0..40).map(of).collect();
    let mut counts = Counts { late, late_events: events, ..Counts::default() };
    estimate_counts(&mut run, &mut counts, 40);
    let total: u64 = counts.comm.iter().map(|row| row.count).sum();
    // Work of 4142, of which 4002 was seen.
    let wanted = 40.0 * TRACKED_OF as f64 * 4142.0 / 4002.0;
    assert!((0.99..1.01).contains(&(total as f64 / wanted)), "{total} instead of {wanted}");
    assert_eq!(counts.events.iter().map(|row| row.count).sum::<u64>(), total);
}

/// Tracked blocks were forgotten right before each window, and no stretch came after that.
#[test]
fn late_events_without_tracked_time_before_them_tell_nothing() {
    let mut run = run(0, 40);
    for part in &mut run.parts {
        if matches!(part.phase, Phase::Off | Phase::Late) {
            (part.phase, part.checked) = (Phase::Off, false);
        }
    }
    let late = (0..40).map(|period| row(counting(0, period)[0], 1, 20)).collect();
    let mut counts = Counts { late, ..Counts::default() };
    estimate_counts(&mut run, &mut counts, 800);
    assert_eq!((counts.comm, counts.late), (vec![], vec![]));
}

#[test]
fn a_group_is_a_period_or_a_slice_that_was_recorded_whole() {
    let run = run(2, 2);
    let groups = Groups::new(&run.parts);
    assert_eq!(groups.firsts, [0, 1, 2, 8]);
    assert_eq!(groups.whole, [true, true, false, false]);
    assert_eq!([0, 1, 2, 7, 8, 13, 99].map(|slice| groups.of(slice)), [0, 1, 2, 2, 3, 3, 3]);
    assert_eq!([1, 2, 3].map(|group| groups.slices(group)), [1..2, 2..8, 8..14]);
}

#[test]
fn a_window_has_the_times_and_the_work_of_its_period() {
    let run = run(1, 2);
    let parts = &run.parts;
    let groups = Groups::new(parts);
    let work = works(&run.samples, &groups, parts);
    let of = |group| window(&groups, group, parts, &run.timeline, run.end_ns, &work[group]);
    let each = |id| ThreadWork { thread: ThreadId(id), period: 100, warmed: 10, counted: 10 };
    let wanted = Window {
        start: 100,
        open: 140,
        count: 150,
        close: 160,
        end: 200,
        work: vec![each(0), each(1)],
    };
    assert_eq!((of(1), of(1).check()), (wanted, Ok(())));
    assert_eq!((of(2).start, of(2).end), (200, 300));
    // What was recorded whole is no window, and has no work that one might stand for.
    assert!(of(0).check().is_err() && of(0).work.is_empty());
}

#[test]
fn a_window_that_the_end_cuts_off_is_set_aside() {
    let mut run = run(0, 2);
    run.parts.truncate(SLICES.len() + 4);
    let parts = &run.parts;
    let groups = Groups::new(parts);
    let work = works(&run.samples, &groups, parts);
    let cut = window(&groups, 1, parts, &run.timeline, run.end_ns, &work[1]);
    assert!(cut.check().is_err() && cut.work.iter().all(|work| work.counted == 0));
}

#[test]
fn events_of_windows_stand_for_the_work_of_their_periods() {
    let (whole, periods) = (2, 30);
    let mut run = run(whole, periods);
    let mut comm = vec![row(0, 1, 700), row(1, 1, 300)];
    for period in 0..periods {
        let slices = counting(whole, period);
        comm.extend(slices.map(|slice| row(slice, 1, 50 + u64::from(period % 3))));
    }
    // Seen in one window only.
    comm.push(row(counting(whole, 7)[0], 0, 1));
    let windows: u64 = comm[2..].iter().filter(|row| row.to.0 == 1).map(|row| row.count).sum();
    // What was recorded whole was on one line, and what windows counted on another.
    let of_windows = EventRow { count: 10 * windows, ..event(128, 1, windows) };
    let events = vec![event(64, 1, 1000), of_windows, event(64, 0, 1)];
    let (counts, windowed) = estimated(&mut run, comm, events);

    assert_eq!((windowed.windows, windowed.too_short), (u64::from(periods), false));
    assert!((windowed.observed - (2.0 + 3.0) / 32.0).abs() < 1e-9, "{windowed:?}");
    let sum = |to: u32| -> u64 {
        counts.comm.iter().filter(|row| row.to.0 == to).map(|row| row.count).sum()
    };
    assert_eq!((sum(1), sum(0)), (1000 + windows * 10, 10));
    for row in &counts.comm {
        let Sampled { hits, low, high } = row.sampled.expect("each row tells how well it is known");
        assert!(hits > 0 && low <= row.count && row.count <= high, "{row:?}");
        assert_eq!(row.slice < whole, low == high, "{row:?}");
    }
    // One event is one cluster of what it stands for: Garwood's interval, and a little more, since
    // the variance between windows is itself uncertain.
    let rare = counts.comm.iter().find(|row| row.to.0 == 0).and_then(|row| row.sampled).unwrap();
    assert!(rare.hits == 1 && rare.low == 0 && (50..=62).contains(&rare.high), "{rare:?}");

    let of_events = |to: u32| counts.events.iter().filter(move |event| event.to.0 == to);
    assert_eq!(of_events(1).map(|event| event.count).collect::<Vec<_>>(), [1000, 10 * windows]);
    assert_eq!(of_events(0).map(|event| (event.count, event.hits)).collect::<Vec<_>>(), [(10, 1)]);
    assert_eq!(run.timeline.len() as u32, whole + periods);
    assert_eq!(run.samples.len() as u32, 2 * (whole + periods));
    assert!(run.samples.iter().all(|sample| sample.executed[0] == PERIOD));
}

#[test]
fn what_one_thread_does_alone_has_no_events_to_stand_for() {
    let periods = 30;
    let mut run = run(0, 2 * periods);
    // The windows of the second half stand for no more because there were none in the first.
    let half = periods as usize * SLICES.len();
    run.parts[..half].iter_mut().for_each(|part| part.alone = true);
    let comm = (periods..2 * periods).flat_map(|period| counting(0, period));
    let comm = comm.map(|slice| row(slice, 1, 50)).collect();
    let (counts, windowed) = estimated(&mut run, comm, Vec::new());
    let sum: u64 = counts.comm.iter().map(|row| row.count).sum();
    assert_eq!((windowed.windows, sum), (u64::from(periods), u64::from(periods) * 100 * 10));
    assert!((windowed.observed - 0.1).abs() < 1e-9 && windowed.whole == 0.0, "{windowed:?}");
}

/// Twenty slices of the first thread before it starts the second one: they were recorded whole, but
/// there was nothing to see in them.
#[test]
fn what_the_first_thread_does_before_others_start_makes_nothing_mostly_whole() {
    let (whole, periods) = (20, 3);
    let mut run = run(whole, periods);
    run.samples.retain(|sample| sample.slice >= whole || sample.thread == 0);
    let comm = || vec![row(counting(whole, 0)[0], 1, 6), row(counting(whole, 2)[1], 1, 4)];
    let (_, windowed) = estimated(&mut run, comm(), Vec::new());
    assert!(windowed.too_short && windowed.whole == 0.0, "{windowed:?}");
    assert!((windowed.observed - 0.1).abs() < 1e-9, "{windowed:?}");
    // A process of one thread communicates with others only.
    let mut single = self::run(whole, periods);
    single.samples.retain(|sample| sample.thread == 0);
    let (_, windowed) = estimated(&mut single, comm(), Vec::new());
    assert!((windowed.whole - 20.0 / 23.0).abs() < 1e-9, "{windowed:?}");
}

#[test]
fn with_too_few_windows_all_that_was_counted_stands_for_the_rest() {
    let (whole, periods) = (1, 3);
    let mut run = run(whole, periods);
    let comm =
        vec![row(0, 1, 100), row(counting(whole, 0)[0], 1, 6), row(counting(whole, 2)[1], 1, 4)];
    let (counts, windowed) = estimated(&mut run, comm, Vec::new());
    assert_eq!((windowed.windows, windowed.too_short), (3, true));
    // Work that was not recorded whole is ten times what windows counted.
    let sum: u64 = counts.comm.iter().map(|row| row.count).sum();
    assert_eq!(sum, 100 + 10 * 10);
}

#[test]
fn a_program_that_was_recorded_whole_has_its_counts() {
    let mut run = run(3, 0);
    let comm = vec![row(0, 1, 5), row(2, 1, 7)];
    let (counts, windowed) = estimated(&mut run, comm, vec![event(64, 1, 12)]);
    let all: Vec<(u64, Option<Sampled>)> =
        counts.comm.iter().map(|r| (r.count, r.sampled)).collect();
    let exact = |count| (count, Some(Sampled { hits: count, low: count, high: count }));
    assert_eq!(all, [exact(5), exact(7)]);
    assert_eq!(counts.events[0].count, 12);
    let whole = Windowed { observed: 1.0, whole: 1.0, ..Windowed::default() };
    assert_eq!(windowed, whole);
}

/// Cells whose events come in fives at random moments of the run, of which few lie in windows.
#[test]
fn cells_known_from_the_whole_start_only_may_have_had_more_since() {
    let (whole, cells) = (10, 400);
    for periods in [40, 6] {
        let mut run = run(whole, periods);
        let mut random = windows::Random::new(3);
        let (mut comm, mut truth) = (Vec::new(), vec![0; cells as usize + 2]);
        for to in 2..cells + 2 {
            for _ in 0..1 + to % 8 {
                let at = random.up_to(run.end_ns - 1);
                truth[to as usize] += 5;
                let (period, offset) = ((at / PERIOD) as u32, at % PERIOD);
                if period < whole {
                    comm.push(row(period, to, 5));
                } else if (50..60).contains(&offset) {
                    let half = usize::from(offset >= 55);
                    comm.push(row(counting(whole, period - whole)[half], to, 5));
                }
            }
        }
        comm.sort_by_key(CommRow::key);
        let (counts, windowed) = estimated(&mut run, comm, Vec::new());
        assert_eq!(windowed.too_short, periods < 20);
        let mut of_cell: BTreeMap<u32, Vec<CommRow>> = BTreeMap::new();
        counts.comm.iter().for_each(|row| of_cell.entry(row.to.0).or_default().push(*row));
        let only_whole = |rows: &Vec<CommRow>| rows.iter().all(|row| row.slice < whole);
        let known: Vec<_> = of_cell.iter().filter(|(_, rows)| only_whole(rows)).collect();
        let held = known.iter().filter(|(to, rows)| {
            let sum = Sampled::of_sum(rows.iter(), 0.0).unwrap();
            (sum.low..=sum.high).contains(&truth[**to as usize])
        });
        let (held, all) = (held.count(), known.len());
        println!("{periods} periods: {held} of {all} hold");
        assert!(all >= 80 && held * 100 >= all * 95, "{periods}: {held} of {all}");
    }
}

/// Reads and overwrites that come in the same windows: their sum is as uncertain as each of them,
/// not less.
#[test]
fn the_sum_of_kinds_that_come_together_is_as_uncertain_as_each() {
    let (whole, periods) = (2, 40);
    let widths = [&[CommKind::Raw][..], &[CommKind::Raw, CommKind::Waw]].map(|kinds| {
        let mut run = run(whole, periods);
        let rows = |period: u32| {
            let slice = counting(whole, period)[0];
            let count = if period.is_multiple_of(4) { 400 } else { 4 };
            kinds.iter().map(move |kind| CommRow { kind: *kind, ..row(slice, 1, count) })
        };
        let comm = (0..periods).flat_map(rows).collect();
        let (counts, _) = estimated(&mut run, comm, Vec::new());
        let sum = Sampled::of_sum(counts.comm.iter(), 0.0).unwrap();
        let count: u64 = counts.comm.iter().map(|row| row.count).sum();
        (sum.high - sum.low) as f64 / count as f64
    });
    assert!((widths[1] / widths[0] - 1.0).abs() < 0.1, "{widths:?}");
}

/// Of four pairs of threads, all have many events in the same windows, or each in others.
#[test]
fn pairs_that_have_events_in_the_same_windows_are_alike() {
    let (whole, periods) = (2, 40);
    let [same, others] = [1, 0].map(|same| {
        let mut run = run(whole, periods);
        let rows = |period: u32| {
            let slice = counting(whole, period)[0];
            let is_hot = move |to: u32| period % 4 == if same == 1 { 0 } else { to % 4 };
            (1..5).map(move |to| row(slice, to, if is_hot(to) { 400 } else { 4 }))
        };
        estimated(&mut run, (0..periods).flat_map(rows).collect(), Vec::new()).1.alike
    });
    assert!(same > 0.9 && others < 0.1, "{same}, {others}");
}

#[test]
fn without_any_window_the_rest_may_be_far_more() {
    let mut run = run(2, 1);
    // The program ends before the window opens.
    run.parts.truncate(3);
    let (counts, windowed) = estimated(&mut run, vec![row(0, 1, 100)], Vec::new());
    assert_eq!((windowed.windows, windowed.too_short, windowed.missed), (0, true, 0.0));
    let Sampled { low, high, .. } = Sampled::of_sum(counts.comm.iter(), 0.0).unwrap();
    // As much work again, half as much: 5.6 times what it would be.
    assert!(low == 100 && (300..=500).contains(&high), "{low} to {high}");
}
