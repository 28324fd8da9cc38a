//! Compares a recording with an exact one of the same program.

use crate::placed::{self, Machine};
use benches::statistics::{correlation, spread, variation};
use profile::{CommRow, LineRow, Profile, Sampled, Windows};
use std::collections::BTreeMap;
use std::path::Path;
use types::{CommKind, CommMatrix, ThreadId};

/// Pairs with a coefficient of variation below this are alike: nothing can correlate.
const DIFFERENT: f64 = 0.3;
const HOTTEST: usize = 10;
/// A line is as hot as another one that has at most so much more.
const AS_HOT: f64 = 1.15;

/// What is compared, and between which values it should be.
const MEASURES: [(&str, f64, f64); 7] = [
    ("volume", 0.8, 1.2),
    ("correlation", 0.95, 1.0),
    ("off", 0.0, 0.15),
    ("held", 0.9, 1.0),
    ("false", 0.0, 5.0),
    ("lines", 9.0, 10.0),
    ("placed", 0.0, 1.05),
];
const CELLS_OFF: usize = 2;

/// What is looked at of a recording: cache-line transfers.
pub struct Recorded {
    cells: BTreeMap<(ThreadId, ThreadId), Cell>,
    matrix: CommMatrix,
    /// Share of false sharing, per cent.
    false_share: f64,
    /// Transfers by line.
    lines: BTreeMap<u64, u64>,
    pub windows: Option<Windows>,
}

struct Cell {
    count: u64,
    /// None if it was counted.
    interval: Option<Sampled>,
}

impl Recorded {
    pub fn read(profile: &Path) -> anyhow::Result<Self> {
        let profile = Profile::load(profile)?;
        let transfers = |row: &&CommRow| matches!(row.kind, CommKind::Raw | CommKind::Waw);
        let mut of_cell: BTreeMap<_, Vec<CommRow>> = BTreeMap::new();
        let mut matrix = CommMatrix::new(profile.threads.len());
        for row in profile.comm.iter().filter(transfers) {
            of_cell.entry((row.from, row.to)).or_default().push(*row);
            matrix.add(row.from, row.to, row.count);
        }
        let cell = |rows: Vec<CommRow>| Cell {
            count: rows.iter().map(|row| row.count).sum(),
            interval: profile.how_well(rows.iter()),
        };
        Ok(Self {
            cells: of_cell.into_iter().map(|(key, rows)| (key, cell(rows))).collect(),
            matrix,
            false_share: 100.0 * profile.false_share().unwrap_or_default(),
            lines: profile.lines.iter().map(|line| (line.line, transfers_of(line))).collect(),
            windows: profile.meta.windows,
        })
    }

    fn count(&self, from: ThreadId, to: ThreadId) -> u64 {
        self.cells.get(&(from, to)).map_or(0, |cell| cell.count)
    }

    fn volume(&self) -> f64 {
        self.cells.values().map(|cell| cell.count as f64).sum()
    }

    /// Transfers of each pair of the first `threads` threads, in both directions.
    fn pairs(&self, threads: usize) -> Vec<f64> {
        let id = |thread: usize| ThreadId(thread as u32);
        let both = |(a, b)| (self.count(id(a), id(b)) + self.count(id(b), id(a))) as f64;
        (0..threads).flat_map(|a| (0..a).map(move |b| (a, b))).map(both).collect()
    }

    fn hottest(&self) -> Vec<u64> {
        let mut lines: Vec<(u64, u64)> = self.lines.iter().map(|(l, count)| (*count, *l)).collect();
        lines.sort_unstable_by_key(|(count, line)| (std::cmp::Reverse(*count), *line));
        lines.into_iter().take(HOTTEST).map(|(_, line)| line).collect()
    }
}

fn transfers_of(line: &LineRow) -> u64 {
    let raw = line.raw_true + line.raw_false + line.raw_any;
    raw + line.waw_true + line.waw_false + line.waw_any
}

/// How near a recording is.
pub struct Compared {
    /// As [`MEASURES`]; NaN where there is nothing to compare.
    values: [f64; MEASURES.len()],
    /// Coefficient of variation of the exact pairs.
    variation: f64,
}

impl Compared {
    pub fn of(exact: &Recorded, found: &Recorded, machines: &[Machine]) -> anyhow::Result<Self> {
        let threads = exact.matrix.threads().max(found.matrix.threads());
        let (wanted, got) = (exact.pairs(threads), found.pairs(threads));
        let variation = variation(&wanted);
        let different = variation >= DIFFERENT;
        let placed = match exact.matrix.threads() == found.matrix.threads() {
            true => placed::ratio(&exact.matrix, &found.matrix, machines)?,
            false => f64::NAN,
        };
        let values = [
            found.volume() / exact.volume(),
            if different { correlation(&wanted, &got) } else { f64::NAN },
            cells_off(exact, found),
            held(exact, found),
            (found.false_share - exact.false_share).abs(),
            lines_found(exact, found),
            placed,
        ];
        Ok(Self { values, variation })
    }

    pub fn targets() -> String {
        let target = |(name, least, most): &(&str, f64, f64)| match *least > 0.0 {
            true => format!("{name} {least} to {most}"),
            false => format!("{name} at most {most}"),
        };
        MEASURES.iter().map(target).collect::<Vec<_>>().join(", ")
    }

    pub fn heading() -> String {
        MEASURES.iter().map(|(name, ..)| format!("{name:>12}")).collect()
    }

    pub fn medians(all: &[Self]) -> [f64; MEASURES.len()] {
        std::array::from_fn(|k| median(all.iter().map(|one| one.values[k])))
    }

    pub fn line(values: &[f64]) -> String {
        let value = |value: &f64| match value.is_finite() {
            true => format!("{value:>12.3}"),
            false => format!("{:>12}", "-"),
        };
        values.iter().map(value).collect()
    }

    /// By which part cells differ.
    pub fn differs(all: &[Self]) -> f64 {
        Self::medians(all)[CELLS_OFF]
    }

    /// Targets that the medians miss, as phrases, but for those that exact recordings miss, too.
    pub fn missed(all: &[Self], exact: &[Self]) -> Vec<String> {
        let each = MEASURES.iter().zip(Self::medians(all)).zip(Self::medians(exact));
        let misses = |least: &f64, most: &f64, value: f64| value < *least || value > *most;
        each.filter(|(((_, least, most), value), exact)| {
            misses(least, most, *value) && !misses(least, most, *exact)
        })
        .map(|(((name, ..), value), _)| format!("{name} {value:.3}"))
        .collect()
    }
}

/// How much pairs differ from each other and from run to run.
pub fn describe(exact: &[Compared]) -> String {
    format!(
        "pairs vary by {:.2}, exact cells differ by {:.1} % from run to run",
        median(exact.iter().map(|one| one.variation)),
        100.0 * Compared::differs(exact)
    )
}

/// Median relative error of the cells.
fn cells_off(exact: &Recorded, found: &Recorded) -> f64 {
    median(
        exact.cells.iter().filter(|(_, cell)| cell.count > 0).map(|((from, to), cell)| {
            (found.count(*from, *to) as f64 / cell.count as f64 - 1.0).abs()
        }),
    )
}

/// Share of the cells found whose interval holds the exact count.
fn held(exact: &Recorded, found: &Recorded) -> f64 {
    let interval = |cell: &Cell| cell.interval.filter(|_| found.windows.is_some());
    let with = found.cells.iter().filter_map(|(key, cell)| Some((key, interval(cell)?)));
    let (all, held) = with.fold((0, 0), |(all, held), ((from, to), interval)| {
        let count = exact.count(*from, *to);
        (all + 1, held + usize::from((interval.low..=interval.high).contains(&count)))
    });
    held as f64 / all as f64
}

/// How many of the lines that a recording calls hottest are. Lines that are about as hot as the
/// last one of these may be found in its place.
fn lines_found(exact: &Recorded, found: &Recorded) -> f64 {
    let last = exact.hottest().last().and_then(|line| exact.lines.get(line)).copied();
    let least = last.unwrap_or(0) as f64 / AS_HOT;
    let is_hot = |line: &&u64| exact.lines.get(*line).is_some_and(|count| *count as f64 >= least);
    let lines = exact.lines.len().min(HOTTEST);
    if lines == 0 {
        return f64::NAN;
    }
    found.hottest().iter().filter(is_hot).count() as f64 * HOTTEST as f64 / lines as f64
}

/// Of the values that are numbers; NaN without any.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    if values.is_empty() { f64::NAN } else { spread(values.into_iter()).median }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cells from thread 0 to 1, 2, 3, …, each with its interval; lines from address 0 on.
    fn recorded(cells: &[[u64; 3]], lines: &[u64]) -> Recorded {
        let mut matrix = CommMatrix::new(cells.len() + 1);
        let cell = |(to, &[low, count, high]): (u32, &[u64; 3])| {
            let key = (ThreadId(0), ThreadId(to));
            matrix.add(key.0, key.1, count);
            (key, Cell { count, interval: Some(Sampled { hits: 1, low, high }) })
        };
        let cells = (1..).zip(cells).map(cell).collect();
        let lines = (0..).step_by(64).zip(lines.iter().copied()).collect();
        let windows = profile::Windows {
            asked: "5%".into(),
            windows: 30,
            too_short: false,
            observed: 0.05,
            whole: 0.0,
            warm_up_ns: 1,
            missed: 0.0,
            alike: 0.0,
            false_share: None,
        };
        Recorded { cells, matrix, false_share: 0.0, lines, windows: Some(windows) }
    }

    #[test]
    fn cells_are_compared_with_the_exact_ones() {
        let exact = recorded(&[[100; 3], [200; 3], [1000; 3]], &[]);
        let found = recorded(&[[80, 90, 101], [50, 100, 150], [1000; 3]], &[]);
        assert!((cells_off(&exact, &found) - 0.1).abs() < 1e-12);
        assert!((held(&exact, &found) - 2.0 / 3.0).abs() < 1e-12);
        let compared = Compared::of(&exact, &found, &placed::machines().unwrap()).unwrap();
        let [volume, correlation, .., placed] = compared.values;
        assert!((volume - 1190.0 / 1300.0).abs() < 1e-12 && correlation > 0.95);
        assert!((1.0..1.05).contains(&placed), "{placed}");
    }

    #[test]
    fn lines_as_hot_as_the_tenth_may_stand_for_it() {
        let hot: Vec<u64> = (0..20).map(|line| if line < 12 { 1000 } else { 10 }).collect();
        let exact = recorded(&[[1; 3]], &hot);
        let mut found = hot.clone();
        found[0] = 0;
        assert_eq!(lines_found(&exact, &recorded(&[[1; 3]], &found)), 10.0);
        found[1..12].fill(1);
        assert_eq!(lines_found(&exact, &recorded(&[[1; 3]], &found)), 2.0);
    }

    #[test]
    fn what_cannot_be_compared_is_not_missed() {
        let values = [1.0, f64::NAN, 0.1, f64::NAN, 0.0, 10.0, 1.0];
        let one = |values| [Compared { values, variation: 0.0 }];
        let exact = one([1.0, 1.0, 0.0, f64::NAN, 0.0, 3.0, 1.0]);
        assert_eq!(Compared::missed(&one(values), &exact), Vec::<String>::new());
        // Exact recordings find other lines, too.
        let wrong = [1.3, values[1], 0.16, values[3], 0.0, 4.0, 1.0];
        assert_eq!(Compared::missed(&one(wrong), &exact), ["volume 1.300", "off 0.160"]);
    }
}
