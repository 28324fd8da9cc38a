use super::*;

fn access(thread: u32, what: What, address: u64) -> Access {
    Access::new(thread, what, address, 8, 1)
}

fn steps(accesses: &[Access]) -> (Vec<Step>, Preparation) {
    let mut preparation = Preparation::new(64, 64);
    let mut batch = Batch::default();
    accesses.iter().for_each(|access| preparation.access(access, &mut batch));
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

#[test]
fn an_access_across_lines_is_one_access() {
    let mut preparation = Preparation::new(64, 64);
    let mut batch = Batch::default();
    preparation.access(&Access { bytes: 16, ..access(0, What::Read, 56) }, &mut batch);
    preparation.access(&Access { bytes: 256, ..access(0, What::Read, 4096) }, &mut batch);
    let kinds: Vec<bool> = batch.steps.iter().map(|step| step.kind.begins()).collect();
    assert_eq!(kinds, [true, false, true, true, true, true]);
    assert_eq!(preparation.accesses, [5]);
}
