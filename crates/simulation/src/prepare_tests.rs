use super::*;

fn access(thread: u32, what: What, address: u64) -> Access {
    Access::new(thread, what, address, 8, 1)
}

fn steps(accesses: &[Access]) -> (Vec<Step>, Preparation) {
    let mut preparation = Preparation::new(64, 64);
    let mut batch = Batch::default();
    preparation.add(accesses, &mut batch);
    (batch.steps, preparation)
}

#[test]
fn what_a_cache_would_absorb_is_counted_only() {
    let reads: Vec<Access> = (0..16).map(|k| access(0, What::Read, k * 8)).collect();
    let (found, preparation) = steps(&reads);
    assert_eq!(found.iter().map(|s| (s.line, s.quiet)).collect::<Vec<_>>(), [(0, 0), (1, 7)]);
    assert_eq!(preparation.left_over().collect::<Vec<_>>(), [7]);
    // The first write to a line must be seen, another line of the set in between, too.
    let (found, _) = steps(&[
        access(0, What::Read, 0),
        access(0, What::Write, 0),
        access(0, What::Write, 0),
        access(0, What::Read, 64 * 64),
        access(0, What::Read, 0),
    ]);
    let kinds: Vec<_> = found.iter().map(|s| (s.kind, s.line, s.quiet)).collect();
    use StepKind::{Read, Write};
    assert_eq!(kinds, [(Read, 0, 0), (Write, 0, 0), (Read, 64, 1), (Read, 0, 0)]);
}

#[test]
fn a_read_waits_for_the_write_that_it_saw() {
    let (found, _) = steps(&[
        access(0, What::Write, 0),
        access(0, What::Write, 4096),
        access(1, What::Read, 4096),
        access(1, What::Read, 0),
        access(1, What::Read, 8),
    ]);
    let after: Vec<_> = found.iter().map(|step| step.after).collect();
    // The second read knows the writer to have come as far; the third is of another word.
    assert_eq!(after, [None, None, Some((0, 2)), None]);
}

#[test]
fn lines_that_change_hands_are_always_seen() {
    let turns: Vec<Access> =
        (0..20).map(|k| access(k % 2, What::Write, u64::from(k % 2) * 8)).collect();
    assert_eq!(steps(&turns).0.len(), 20);
    let mut long = turns.clone();
    long.extend((0..10).map(|_| access(0, What::Write, 0)));
    assert_eq!(steps(&long).0.len(), 30, "how often it would move depends on the interleaving");
}

#[test]
fn a_thread_that_reads_over_and_over_waits() {
    let mut accesses = vec![access(0, What::Write, 0)];
    accesses.extend((0..1000).map(|_| access(1, What::Read, 0)));
    accesses.push(access(0, What::Write, 0));
    accesses.push(access(1, What::Read, 0));
    let (found, preparation) = steps(&accesses);
    assert!(preparation.waiting[1] > 900, "{:?}", preparation.waiting);
    assert_eq!(found.last().unwrap().after, Some((0, 2)));
}

/// How many accesses thread 1 executes, quiet ones among them, and how many of it are waiting.
fn executed_by_1(accesses: &[Access]) -> (u64, u64) {
    let (found, preparation) = steps(accesses);
    let own = found.iter().filter(|step| step.thread == 1);
    let executed = own.map(|step| 1 + u64::from(step.quiet)).sum::<u64>();
    let rest = preparation.left_over().nth(1).unwrap();
    (executed + u64::from(rest), preparation.waiting[1])
}

/// It has written what it polls, or was the first to read it, and the other one comes late.
#[test]
fn a_thread_waits_for_a_late_partner() {
    let polls = vec![Access { site: 2, ..access(1, What::Read, 0) }; 1000];
    let answer = [access(0, What::Write, 0), polls[0], access(1, What::Read, 4096)];
    for ask in [access(1, What::Write, 0), access(1, What::Write, 8192)] {
        for turns in [1, 5] {
            let turn = [&[ask][..], &polls, &answer].concat();
            let (executed, waited) = executed_by_1(&turn.repeat(turns));
            let of_turn = (executed / turns as u64, waited / turns as u64);
            assert!(of_turn.0 < 80 && of_turn.1 > 920, "{of_turn:?} of {turns} after {ask:?}");
        }
    }
}

/// A stream has an access before it happens, so the last read may be there before the write.
#[test]
fn a_thread_may_have_read_the_answer_before_it_does_something_else() {
    let polls = vec![access(1, What::Read, 0); 1000];
    let ask = Access { site: 2, ..access(1, What::Write, 0) };
    let turn = [&[ask][..], &polls, &[access(0, What::Write, 0)]].concat();
    let (executed, waited) = executed_by_1(&[turn.repeat(5), vec![ask]].concat());
    assert!(executed < 5 * 80 && waited > 5 * 920, "{executed} {waited}");
}

#[test]
fn a_thread_that_reads_its_own_over_and_over_works() {
    let polls = vec![access(1, What::Read, 0); 1000];
    let turn = [access(0, What::Write, 8), access(1, What::Write, 0)];
    for turns in [0, 1, 5] {
        let before = [&turn.repeat(turns)[..], &[access(1, What::Write, 0)]].concat();
        let own = before.iter().filter(|access| access.thread == 1).count() as u64;
        let endless = [&before[..], &polls].concat();
        assert_eq!(executed_by_1(&endless), (own + 1000, 0), "to the end of the run");
        let ended = [&endless[..], &[access(1, What::Read, 4096), turn[0]]].concat();
        assert_eq!(executed_by_1(&ended), (own + 1001, 0), "until it does something else");
    }
}

#[test]
fn an_access_across_lines_is_one_access() {
    let mut preparation = Preparation::new(64, 64);
    let mut batch = Batch::default();
    preparation.add(&[Access { bytes: 16, ..access(0, What::Read, 56) }], &mut batch);
    preparation.add(&[Access { bytes: 256, ..access(0, What::Read, 4096) }], &mut batch);
    let kinds: Vec<bool> = batch.steps.iter().map(|step| step.kind.begins()).collect();
    assert_eq!(kinds, [true, false, true, true, true, true]);
    assert_eq!(preparation.accesses, [5]);
}

/// What the engine leaves out of the accesses of one thread, with a filter of one way
/// (`slow/filter.h`).
fn filtered(accesses: &[Access]) -> Vec<Access> {
    let (mut lines, mut pages) = ([(u64::MAX, false); 64], [u64::MAX; 16]);
    let (mut kept, mut skipped) = (Vec::new(), 0);
    for access in accesses {
        let (line, page) = (access.address >> 6, access.address >> 12);
        let writes = access.what == What::Write;
        let (last, written) = &mut lines[line as usize % 64];
        if *last == line && (*written || !writes) {
            skipped += 1;
            continue;
        }
        kept.push(Access { skipped: std::mem::take(&mut skipped), held: true, ..*access });
        (*last, *written) = (line, writes || *last == line && *written);
        let last_page = std::mem::replace(&mut pages[page as usize % 16], page);
        if last_page != page {
            let gone = lines.iter_mut().filter(|(line, _)| line >> 6 == last_page);
            gone.for_each(|line| *line = (u64::MAX, false));
        }
    }
    kept.push(Access { skipped, ..Access::new(0, What::Read, 0, 0, 0) });
    kept
}

#[test]
fn a_filtered_stream_makes_the_same_steps() {
    let mut next = test_support::random::numbers();
    let mut accesses = Vec::new();
    for k in 0..50_000u64 {
        let what = if next(3) == 0 { What::Write } else { What::Read };
        let address = match next(4) {
            0 => 0x1_0000 + k * 8 % 0x8000,
            1 => 0x9_0000 + next(1 << 18) / 8 * 8,
            2 => 0x50_0000 + next(64) * 8,
            _ => 0x60_0000 + k % 16 * 4096 * 3,
        };
        accesses.push(access(0, what, address));
    }
    let short = filtered(&accesses);
    assert!(short.len() < accesses.len() * 9 / 10, "{}", short.len());
    let (all, part) = (steps(&accesses), steps(&short));
    assert_eq!(all.0, part.0);
    assert_eq!(all.1.accesses, part.1.accesses);
    assert_eq!(all.1.left_over().collect::<Vec<_>>(), part.1.left_over().collect::<Vec<_>>());
}

#[test]
fn what_was_written_unseen_is_waited_for() {
    let held = |access| Access { held: true, ..access };
    let (found, _) = steps(&[
        held(access(0, What::Write, 0)),
        access(0, What::Write, 4096),
        // Of another word, which thread 0 may have written.
        held(access(1, What::Read, 8)),
    ]);
    assert_eq!(found[2].after, Some((0, 2)));
}

#[test]
fn what_a_filtered_stream_leaves_out_between_equal_reads_is_waiting() {
    let read = Access { skipped: 1000, held: true, ..access(1, What::Read, 0) };
    let first = [access(0, What::Write, 8), Access { skipped: 0, ..read }];
    let (found, preparation) = steps(&[first[0], first[1], access(0, What::Write, 0), read]);
    assert_eq!(preparation.waiting, [0, 1000]);
    assert_eq!(found.last().unwrap().quiet, 0);
    // It has written the word itself, and the other one answers there.
    let ask = Access { what: What::Write, skipped: 0, site: 2, ..read };
    let (_, preparation) = steps(&[ask, access(0, What::Write, 0), read]);
    assert_eq!(preparation.waiting, [0, 1000]);
    // Reads of the word would have been seen: it did something else.
    let seen = Access { held: false, ..ask };
    let (_, preparation) = steps(&[seen, access(0, What::Write, 0), read]);
    assert_eq!(preparation.waiting, [0, 0]);
    // It adds to a word of its own beside those of others.
    let add =
        |t, at| [What::Read, What::Write].map(|what| Access { held: true, ..access(t, what, at) });
    let again = Access { skipped: 1000, ..add(1, 0)[0] };
    let (_, preparation) = steps(&[&add(1, 0)[..], &add(2, 8), &add(3, 16), &[again]].concat());
    assert_eq!(preparation.waiting, [0; 4]);
    // Nobody has written: they were hits.
    let (_, preparation) = steps(&[first[0], first[1], Access { address: 4096, ..read }]);
    assert_eq!(preparation.waiting, [0, 0]);
}
