//! How far sampling, or recording in windows, is from exact recording of the same program, and what
//! of it can be trusted.
//!
//! Both are runs of their own: threads that race alternate differently, and exact recording slows
//! the program down while they do. So amounts may differ for two reasons, and the shape of the
//! matrix says more. Neighbours: `difference` matches threads and compares any two runs; `mse`.

use crate::difference::matched;
use crate::mse::{self, MseError};
use profile::{CommRow, Mode, Profile};
use serde::Serialize;
use types::{CommKind, CommMatrix, ThreadId};

/// Hits from which the shape says something, and from which the share of false sharing does.
const SOME_HITS: u64 = 100;
const ENOUGH_HITS: u64 = 600;
/// Mean squared errors, as parts of the most there can be, up to which the shape is right, or
/// nearly.
const SMALL_ERROR: f64 = 0.01;
const FAIR_ERROR: f64 = 0.05;
/// The same for the part of the sampled events between pairs that exact recording does not know.
const FEW_STRANGERS: f64 = 0.01;
const SOME_STRANGERS: f64 = 0.05;
/// Differences of amounts: a tenth is right, a factor of two nearly.
const CLOSE: f64 = 1.1;
const NEAR: f64 = 2.0;
/// Differences of the share of false sharing.
const CLOSE_SHARE: f64 = 0.05;
const NEAR_SHARE: f64 = 0.1;

/// Amounts of one of the two: events in which a thread reads or overwrites what another wrote (RAW,
/// WAW).
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Amount {
    /// Events, RAW and WAW; of the sampled run an estimate.
    pub events: u64,
    /// Part of them that is false sharing, 0 to 1; `None` where that was not told.
    pub false_share: Option<f64>,
}

/// Pairs of threads that only one of the two has found.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct OneSided {
    /// How many there are.
    pub pairs: usize,
    /// Part of its events that lie there, 0 to 1.
    pub share: f64,
}

/// How far something can be trusted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// It cannot be trusted.
    No,
    /// It is roughly right.
    Roughly,
    /// It can be trusted.
    Yes,
}

impl Trust {
    /// The word in tables.
    pub fn word(self) -> &'static str {
        match self {
            Trust::No => "no",
            Trust::Roughly => "roughly",
            Trust::Yes => "yes",
        }
    }
}

/// Whether something can be trusted, and the numbers behind that as a sentence.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Verdict {
    /// How far it can be trusted.
    pub trust: Trust,
    /// The numbers behind that, as a sentence.
    pub reason: String,
}

/// What was compared.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Calibration {
    /// Threads that are in both.
    pub threads: usize,
    /// The exact recording's amount.
    pub exact: Amount,
    /// The sampled recording's amount, or that of one in windows.
    pub sampled: Amount,
    /// Samples that showed communication, or the clusters that windows saw.
    pub hits: u64,
    /// Sampled by exact events; `None` without exact ones.
    pub ratio: Option<f64>,
    /// What chance may do to the sampled amount, as a part of it (95 %).
    pub chance: Option<f64>,
    /// Mean squared error between the matrices, each normalised to 100 (thesis, 3.1), and the most
    /// there can be.
    pub mse: f64,
    /// The largest MSE that two matrices of this size can have.
    pub mse_most: f64,
    /// Pearson's coefficient over the pairs of threads; `None` with fewer than three, or all alike.
    pub correlation: Option<f64>,
    /// Pairs of threads that only sampling, or only exact recording, has found.
    pub strangers: OneSided,
    /// Pairs that only the exact recording has.
    pub missed: OneSided,
    /// Whether the matrix shows who communicates with whom.
    pub shape: Verdict,
    /// Whether the amount is right.
    pub volume: Verdict,
    /// Whether true and false sharing are told apart.
    pub sharing: Verdict,
}

/// Compares an exact recording of a command with a sampled one, or one in windows.
///
/// # Errors
/// When they have no thread in common.
pub fn calibration(exact: &Profile, sampled: &Profile) -> Result<Calibration, MseError> {
    let pairs = threads_in_both(exact, sampled);
    let (a, b) = (matrix(exact, &pairs, |p| p.0), matrix(sampled, &pairs, |p| p.1));
    let hits = sampled.comm.iter().filter_map(|row| row.sampled).map(|s| s.hits).sum();
    let in_windows = sampled.meta.mode == Mode::Windows;
    let amounts = [(exact, &a), (sampled, &b)].map(|(profile, matrix)| Amount {
        events: matrix.total(),
        false_share: profile.false_share(),
    });
    let (mse, mse_most) = (mse::mse(&a, &b)?, mse::most(a.threads()));
    let (first, second) = (a.to_symmetric_dense(), b.to_symmetric_dense());
    let threads = a.threads();
    let upper: Vec<(f64, f64)> = (0..threads)
        .flat_map(|i| (0..i).map(move |j| i * threads + j))
        .map(|cell| (first[cell] as f64, second[cell] as f64))
        .collect();
    let swapped: Vec<(f64, f64)> = upper.iter().map(|&(exact, sampled)| (sampled, exact)).collect();
    let found = Found {
        hits,
        chance: if in_windows { of_windows(sampled) } else { of_hits(hits) },
        in_windows,
        amounts,
        ratio: (a.total() > 0).then(|| b.total() as f64 / a.total() as f64),
        error: if mse_most > 0.0 { mse / mse_most } else { 0.0 },
        correlation: correlation(&upper),
        strangers: one_sided(&swapped),
    };
    Ok(Calibration {
        threads: pairs.len(),
        exact: found.amounts[0],
        sampled: found.amounts[1],
        hits,
        ratio: found.ratio,
        chance: found.chance,
        mse,
        mse_most,
        correlation: found.correlation,
        strangers: found.strangers,
        missed: one_sided(&upper),
        shape: found.shape(),
        volume: found.volume(),
        sharing: found.sharing(),
    })
}

/// By number where both have as many threads, since the same command starts them in the same order;
/// else by what the threads are.
fn threads_in_both(exact: &Profile, sampled: &Profile) -> Vec<(usize, usize)> {
    match exact.threads.len() == sampled.threads.len() {
        true => (0..exact.threads.len()).map(|thread| (thread, thread)).collect(),
        false => matched(&exact.threads, &sampled.threads),
    }
}

/// RAW and WAW of the threads in both, renumbered.
fn matrix(
    profile: &Profile,
    pairs: &[(usize, usize)],
    number: impl Fn(&(usize, usize)) -> usize,
) -> CommMatrix {
    let mut place = vec![None; profile.threads.len()];
    pairs.iter().zip(0..).for_each(|(pair, new)| place[number(pair)] = Some(ThreadId(new)));
    let all = profile.matrix_where(|row| matches!(row.kind, CommKind::Raw | CommKind::Waw));
    let mut matrix = CommMatrix::new(pairs.len());
    for (from, to, count) in all.iter() {
        if let (Some(from), Some(to)) = (place[from.index()], place[to.index()]) {
            matrix.add(from, to, count);
        }
    }
    matrix
}

/// Pairs with events on the first side only.
fn one_sided(pairs: &[(f64, f64)]) -> OneSided {
    let total = pairs.iter().fold(0.0, |sum, pair| sum + pair.0);
    let only = || pairs.iter().filter(|pair| pair.0 > 0.0 && pair.1 == 0.0);
    let events = only().fold(0.0, |sum, pair| sum + pair.0);
    OneSided { pairs: only().count(), share: if total > 0.0 { events / total } else { 0.0 } }
}

/// Pearson's coefficient.
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    if pairs.len() < 3 {
        return None;
    }
    let mean = |side: fn(&(f64, f64)) -> f64| pairs.iter().map(side).sum::<f64>() / n;
    let (mx, my) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        (xy, xx, yy) =
            (xy + (x - mx) * (y - my), xx + (x - mx) * (x - mx), yy + (y - my) * (y - my));
    }
    (xx > 0.0 && yy > 0.0).then(|| xy / (xx * yy).sqrt())
}

/// Hits are rare and independent: their number is Poisson.
fn of_hits(hits: u64) -> Option<f64> {
    (hits > 0).then(|| 1.96 / (hits as f64).sqrt())
}

/// Half of the interval of what windows make of RAW and WAW together.
fn of_windows(profile: &Profile) -> Option<f64> {
    let rows = || profile.comm.iter().filter(|r| matches!(r.kind, CommKind::Raw | CommKind::Waw));
    let all = rows().map(|row: &CommRow| row.count).sum::<u64>() as f64;
    profile.how_well(rows()).map(|sum| (sum.high - sum.low) as f64 / 2.0 / all.max(1.0))
}

/// What verdicts are made of.
struct Found {
    hits: u64,
    chance: Option<f64>,
    in_windows: bool,
    amounts: [Amount; 2],
    ratio: Option<f64>,
    /// Part of the most there can be.
    error: f64,
    correlation: Option<f64>,
    strangers: OneSided,
}

impl Found {
    /// Nothing found in either: that is right, and nothing else is known.
    fn nothing(&self) -> Option<Verdict> {
        let verdict = |trust, reason: &str| Some(Verdict { trust, reason: reason.into() });
        match (self.amounts[0].events, self.hits) {
            (0, 0) => verdict(Trust::Yes, "there is no communication, and none was found"),
            (_, 0) if self.in_windows => {
                verdict(Trust::No, "no window saw communication; record longer")
            }
            (_, 0) => {
                verdict(Trust::No, "no sample showed communication; sample longer or more often")
            }
            _ => None,
        }
    }

    fn shape(&self) -> Verdict {
        if let Some(verdict) = self.nothing() {
            return verdict;
        }
        let trust = match (self.hits, self.error, self.strangers.share) {
            (..SOME_HITS, _, _) => Trust::No,
            (_, error, share) if error <= SMALL_ERROR && share <= FEW_STRANGERS => Trust::Yes,
            (_, error, share) if error <= FAIR_ERROR && share <= SOME_STRANGERS => Trust::Roughly,
            _ => Trust::No,
        };
        let correlated = match self.correlation {
            Some(r) => format!(", pairs correlate with {r:.2}"),
            None => String::new(),
        };
        let reason = format!(
            "the error is {:.1} % of the most there can be{correlated}, {:.1} % of the {} events \
             are between pairs that exact recording does not know; {} hits{}",
            100.0 * self.error,
            100.0 * self.strangers.share,
            if self.in_windows { "estimated" } else { "sampled" },
            self.hits,
            if self.hits < SOME_HITS { format!(", fewer than {SOME_HITS}") } else { String::new() }
        );
        Verdict { trust, reason }
    }

    fn volume(&self) -> Verdict {
        if let Some(verdict) = self.nothing() {
            return verdict;
        }
        let chance = 100.0 * self.chance.unwrap_or(1.0);
        let Some(ratio) = self.ratio else {
            let reason = "it found communication that exact recording did not".into();
            return Verdict { trust: Trust::No, reason };
        };
        let trust = match ratio.max(1.0 / ratio.max(f64::MIN_POSITIVE)) {
            far if far <= CLOSE => Trust::Yes,
            far if far <= NEAR => Trust::Roughly,
            _ => Trust::No,
        };
        let reason = format!(
            "{ratio:.2} times the exact amount, of which chance makes ±{chance:.0} %; exact recording slows \
             threads down, so they may alternate more or less often than {}",
            if self.in_windows { "in windows" } else { "when sampled" }
        );
        Verdict { trust, reason }
    }

    fn sharing(&self) -> Verdict {
        if let Some(verdict) = self.nothing() {
            return verdict;
        }
        let [exact, sampled] = self.amounts.map(|amount| amount.false_share);
        let (Some(exact), Some(sampled)) = (exact, sampled) else {
            let reason = "one of the recordings does not tell true from false sharing".into();
            return Verdict { trust: Trust::No, reason };
        };
        let apart = (exact - sampled).abs();
        let trust = match self.hits {
            ENOUGH_HITS.. if apart <= CLOSE_SHARE => Trust::Yes,
            SOME_HITS.. if apart <= NEAR_SHARE => Trust::Roughly,
            _ => Trust::No,
        };
        let few = match self.hits {
            ENOUGH_HITS.. => String::new(),
            hits => format!("; {hits} hits, {ENOUGH_HITS} would be enough"),
        };
        let reason = format!(
            "{:.1} % false sharing instead of {:.1} %{few}",
            100.0 * sampled,
            100.0 * exact
        );
        Verdict { trust, reason }
    }
}

#[cfg(test)]
mod tests;
