//! Verdicts of pairs of recordings with known differences.

use super::*;
use crate::golden::near;
use profile::{CommRow, Sampled, sample};
use types::{Evidence, Sharing};

/// (from, to, count, hits, sharing).
type Row = (u32, u32, u64, u64, Sharing);

fn profile(threads: u32, rows: &[Row]) -> Profile {
    let row = |&(from, to, count, hits, sharing): &Row| CommRow {
        sharing,
        sampled: (hits > 0).then_some(Sampled { hits, low: 1, high: 2 * count }),
        evidence: if hits > 0 { Evidence::Sampled } else { Evidence::Exact },
        ..CommRow::whole(ThreadId(from), ThreadId(to), CommKind::Raw, count)
    };
    sample::profile(sample::threads(threads), rows.iter().map(row).collect())
}

const YES: Sharing = Sharing::True;
const FALSE: Sharing = Sharing::False;

fn exact() -> Profile {
    profile(4, &[(0, 1, 8000, 0, YES), (0, 1, 2000, 0, FALSE), (2, 3, 5000, 0, YES)])
}

fn trusts(found: &Calibration) -> [Trust; 3] {
    [found.shape.trust, found.volume.trust, found.sharing.trust]
}

#[test]
fn nearly_the_same_is_trusted() {
    let sampled =
        profile(4, &[(0, 1, 8100, 810, YES), (0, 1, 1900, 190, FALSE), (2, 3, 5100, 510, YES)]);
    let found = calibration(&exact(), &sampled).unwrap();
    assert_eq!(trusts(&found), [Trust::Yes; 3], "{found:?}");
    assert_eq!((found.hits, found.threads), (1510, 4));
    near(found.ratio.unwrap(), 15_100.0 / 15_000.0);
    near(found.exact.false_share.unwrap(), 2.0 / 15.0);
    // One of sixteen cells differs, by 1 of 100.
    near(found.mse, 1.0 / 16.0);
    assert!(found.correlation.unwrap() > 0.999);
    near(found.chance.unwrap(), 1.96 / 1510f64.sqrt());
}

#[test]
fn amounts_may_be_wrong_where_the_shape_is_right() {
    let sampled =
        profile(4, &[(0, 1, 32000, 300, YES), (0, 1, 8000, 80, FALSE), (2, 3, 20000, 200, YES)]);
    let found = calibration(&exact(), &sampled).unwrap();
    // 580 hits are not enough to be sure of the sharing.
    assert_eq!(trusts(&found), [Trust::Yes, Trust::No, Trust::Roughly], "{found:?}");
    assert!(found.volume.reason.starts_with("4.00 times the exact amount"), "{found:?}");
    assert!(found.sharing.reason.contains("600 would be enough"), "{found:?}");
}

#[test]
fn few_hits_are_not_trusted() {
    let sampled = profile(4, &[(0, 1, 10000, 10, YES), (2, 3, 5000, 5, YES)]);
    let found = calibration(&exact(), &sampled).unwrap();
    assert_eq!(trusts(&found), [Trust::No, Trust::Yes, Trust::No], "{found:?}");
    assert!(found.shape.reason.ends_with("15 hits, fewer than 100"), "{found:?}");
}

#[test]
fn pairs_that_do_not_talk_are_noticed() {
    let sampled = profile(4, &[(0, 1, 10000, 1000, YES), (1, 2, 2000, 200, YES)]);
    let found = calibration(&exact(), &sampled).unwrap();
    assert_eq!(found.shape.trust, Trust::No);
    assert_eq!((found.strangers.pairs, found.missed.pairs), (1, 1));
    near(found.strangers.share, 2.0 / 12.0);
    near(found.missed.share, 5.0 / 15.0);
}

#[test]
fn silence_is_right_only_where_there_is_silence() {
    let silent = profile(2, &[]);
    let found = calibration(&silent, &silent).unwrap();
    assert_eq!(trusts(&found), [Trust::Yes; 3]);
    assert_eq!((found.ratio, found.mse, found.chance), (None, 0.0, None));
    assert!(found.strangers.share.is_sign_positive());
    let found = calibration(&exact(), &profile(4, &[])).unwrap();
    assert_eq!(trusts(&found), [Trust::No; 3]);
    let talks = profile(2, &[(0, 1, 100, 100, YES)]);
    assert_eq!(calibration(&silent, &talks).unwrap().volume.trust, Trust::No);
}

#[test]
fn a_thread_more_is_left_out() {
    let sampled = profile(5, &[(0, 1, 10000, 1000, YES), (2, 3, 5000, 500, YES)]);
    let found = calibration(&exact(), &sampled).unwrap();
    assert_eq!((found.threads, found.mse), (4, 0.0));
}
