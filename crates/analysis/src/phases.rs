//! Phases and dynamicity C_D: when the structure of the communication changes.
//!
//! Equations 3.9 and 3.10 of Diener's thesis: a phase starts when the average heterogeneity of the
//! last n time slices differs from that of the n before by at least a share `diff_min` of the
//! former. Where the recent average is 0 the quotient has no value: that ends no phase by itself. A
//! change keeps the condition true for as long as the windows straddle it; so the phase is taken to
//! start at the slice in the recent window that splits the two best, and comparing starts anew from
//! there. A phase therefore has at least n slices, 500 ms with the thesis' values. Neighbours:
//! `heterogeneity` makes the values, `slices` goes through a profile.

/// How phases are told apart.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PhaseRule {
    /// Slices in a window.
    pub window: usize,
    /// Least change, as a share of the recent average.
    pub diff_min: f64,
}

/// The least length of a phase, and the most slices in it that are looked at.
pub(crate) const WINDOW_NS: u64 = 500_000_000;
const WINDOW: usize = 50;
/// Fewer slices have no average.
const MIN_WINDOW: usize = 5;

impl PhaseRule {
    /// The thesis' values: n = 50, diff_min = 0.2.
    pub const THESIS: PhaseRule = PhaseRule { window: WINDOW, diff_min: 0.2 };

    /// The rule for slices of this length: as many slices as make 500 ms, which is the thesis' n
    /// for its slices of 10 ms; at most that many, and at least 5.
    pub fn for_slices_of(slice_ns: u64) -> Self {
        let fitting = WINDOW_NS.checked_div(slice_ns).unwrap_or(u64::MAX);
        let window = usize::try_from(fitting).unwrap_or(WINDOW).clamp(MIN_WINDOW, WINDOW);
        Self { window, ..Self::THESIS }
    }
}

/// The slices at which phases start, but for the first, which starts at 0. `heterogeneity` is C_H
/// of each slice.
pub fn phases(heterogeneity: &[f64], rule: PhaseRule) -> Vec<usize> {
    let mut sums = vec![0.0; heterogeneity.len() + 1];
    for (slice, value) in heterogeneity.iter().enumerate() {
        sums[slice + 1] = sums[slice] + if value.is_finite() { *value } else { 0.0 };
    }
    let average = |from: usize, to: usize| (sums[to] - sums[from]) / (to - from) as f64;
    let n = rule.window.max(1);
    let (mut starts, mut begin) = (Vec::new(), 0);
    let mut t = 2 * n;
    while t <= heterogeneity.len() {
        let (recent, before) = (average(t - n, t), average(t - 2 * n, t - n));
        if recent > 0.0 && (recent - before).abs() / recent >= rule.diff_min {
            let from = begin.max(t - 2 * n);
            let step = |at: &usize| step(average(from, *at), average(*at, t), at - from, t - at);
            let candidates = t - n..t;
            begin = candidates.max_by(|a, b| step(a).total_cmp(&step(b))).unwrap_or(t - n);
            starts.push(begin);
            t = begin + 2 * n;
        } else {
            t += 1;
        }
    }
    starts
}

/// How well a slice splits two stretches: what the split explains of their variance, but for a
/// factor.
fn step(before: f64, after: f64, slices_before: usize, slices_after: usize) -> f64 {
    let (a, b) = (slices_before as f64, slices_after as f64);
    (before - after).powi(2) * a * b / (a + b)
}

/// C_D in changes per second; `None` without time. `changes` counts what [`phases`] finds: a
/// program that never changes has a C_D of 0.
pub fn dynamicity(changes: usize, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| changes as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretches(of: &[(f64, usize)]) -> Vec<f64> {
        of.iter().flat_map(|&(value, slices)| std::iter::repeat_n(value, slices)).collect()
    }

    const RULE: PhaseRule = PhaseRule::THESIS;

    #[test]
    fn a_change_starts_one_phase_where_it_happens() {
        assert_eq!(phases(&stretches(&[(10.0, 120), (20.0, 130)]), RULE), [120]);
        assert_eq!(phases(&stretches(&[(20.0, 120), (10.0, 130)]), RULE), [120]);
        let values = stretches(&[(10.0, 150), (20.0, 150), (10.0, 150)]);
        assert_eq!(phases(&values, RULE), [150, 300]);
    }

    #[test]
    fn small_changes_and_steady_runs_are_one_phase() {
        assert_eq!(phases(&stretches(&[(10.0, 500)]), RULE), [0; 0]);
        // 2 of 12: 0.167 of the recent average; 2 of 10: exactly 0.2.
        assert_eq!(phases(&stretches(&[(10.0, 200), (12.0, 200)]), RULE), [0; 0]);
        assert_eq!(phases(&stretches(&[(12.0, 200), (10.0, 200)]), RULE), [200]);
    }

    #[test]
    fn quickly_varying_values_are_averaged() {
        let values: Vec<f64> = (0..600).map(|slice| [3.0, 70.0][slice % 2]).collect();
        assert_eq!(phases(&values, RULE), [0; 0]);
    }

    #[test]
    fn silence_itself_ends_no_phase() {
        assert_eq!(phases(&[0.0; 400], RULE), [0; 0]);
        // With windows of one slice the recent average of silence is 0: no quotient.
        let rule = PhaseRule { window: 1, diff_min: 0.2 };
        assert_eq!(phases(&[5.0, 5.0, 0.0, 0.0], rule), [0; 0]);
        assert_eq!(phases(&[0.0, 0.0, 5.0, 5.0], rule), [2]);
    }

    #[test]
    fn runs_shorter_than_two_windows_have_one_phase() {
        assert_eq!(phases(&stretches(&[(1.0, 50), (9.0, 49)]), RULE), [0; 0]);
        assert_eq!(phases(&stretches(&[(1.0, 50), (9.0, 50)]), RULE), [50]);
        assert_eq!(phases(&[], RULE), [0; 0]);
        assert_eq!(phases(&[f64::NAN; 300], RULE), [0; 0]);
    }

    #[test]
    fn windows_last_half_a_second() {
        let window = |ms: u64| PhaseRule::for_slices_of(ms * 1_000_000).window;
        assert_eq!([10, 20, 40, 100, 1000].map(window), [50, 25, 12, 5, 5]);
        assert_eq!([0, 1].map(window), [50, 50]);
    }

    #[test]
    fn dynamicity_is_changes_per_second() {
        assert_eq!(dynamicity(3, 2.0), Some(1.5));
        assert_eq!(dynamicity(3, 0.0), None);
    }
}
