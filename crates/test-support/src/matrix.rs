//! Communication matrices as tests see them, and the counts that a target says it must cause.
//!
//! Targets with known truth print lines `expect KIND FROM TO COUNT`: the exact number of events
//! between the lines of their *data*. What they cannot know is the small traffic of the runtime
//! underneath (start of threads, barriers): each test gives the most that this may add to a cell.

use std::collections::BTreeMap;

/// Dense counts, row = from, column = to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Matrix {
    pub threads: usize,
    cells: Vec<u64>,
}

impl Matrix {
    /// Reads a square CSV of non-negative integers without a header.
    ///
    /// # Errors
    /// Says what is wrong, and gives the text.
    pub fn from_csv(text: &str) -> Result<Self, String> {
        let rows: Vec<Vec<u64>> = text
            .lines()
            .map(|line| line.split(',').map(|cell| cell.trim().parse::<u64>()).collect())
            .collect::<Result<_, _>>()
            .map_err(|error| format!("{error} in:\n{text}"))?;
        let threads = rows.len();
        if rows.iter().any(|row| row.len() != threads) {
            return Err(format!("not square:\n{text}"));
        }
        Ok(Self { threads, cells: rows.concat() })
    }

    /// Events from `from` to `to`; 0 beyond the matrix.
    pub fn get(&self, from: usize, to: usize) -> u64 {
        if from.max(to) < self.threads { self.cells[from * self.threads + to] } else { 0 }
    }

    /// One sentence for each cell that lies outside `expected ..= expected + noise(from, to)`.
    pub fn complaints(
        &self,
        expected: &Expected,
        noise: impl Fn(usize, usize) -> u64,
    ) -> Vec<String> {
        let threads = self.threads.max(expected.threads());
        let mut complaints = Vec::new();
        for (from, to) in (0..threads).flat_map(|f| (0..threads).map(move |t| (f, t))) {
            let (is, least) = (self.get(from, to), expected.get(from, to));
            let most = least + if from == to { 0 } else { noise(from, to) };
            if is < least || is > most {
                complaints.push(format!("{from} -> {to}: {is}, not in {least}..={most}"));
            }
        }
        complaints
    }
}

/// The data's part of a matrix, by (from, to).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Expected {
    cells: BTreeMap<(usize, usize), u64>,
}

impl Expected {
    /// The `expect` lines of one kind in a target's output.
    ///
    /// # Errors
    /// Says which line is wrong.
    pub fn from_output(stdout: &str, kind: &str) -> Result<Self, String> {
        let mut cells = BTreeMap::new();
        for line in stdout.lines().filter(|line| line.starts_with("expect ")) {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let [_, of, from, to, count] = words[..] else {
                return Err(format!("'{line}' is not 'expect KIND FROM TO COUNT'"));
            };
            if of == kind {
                let number = |word: &str| word.parse::<u64>().map_err(|e| format!("{line}: {e}"));
                *cells.entry((number(from)? as usize, number(to)? as usize)).or_insert(0) +=
                    number(count)?;
            }
        }
        Ok(Self { cells })
    }

    pub fn get(&self, from: usize, to: usize) -> u64 {
        self.cells.get(&(from, to)).copied().unwrap_or(0)
    }

    /// Sum over all cells.
    pub fn total(&self) -> u64 {
        self.cells.values().sum()
    }

    fn threads(&self) -> usize {
        self.cells.keys().map(|(from, to)| from.max(to) + 1).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_must_lie_between_truth_and_truth_plus_noise() {
        let output = "expect raw 0 1 100\nexpect waw 1 0 7\nother\nexpect raw 2 0 5\n";
        let expected = Expected::from_output(output, "raw").unwrap();
        assert_eq!(expected.total(), 105);
        let complaints = |csv: &str| Matrix::from_csv(csv).unwrap().complaints(&expected, |_, _| 3);
        assert_eq!(complaints("0,103,3\n0,0,0\n5,0,0\n"), [""; 0]);
        assert_eq!(complaints("0,99,0\n0,0,0\n5,0,0"), ["0 -> 1: 99, not in 100..=103"]);
        assert_eq!(complaints("0,104,0\n0,0,0\n5,0,0"), ["0 -> 1: 104, not in 100..=103"]);
        assert_eq!(complaints("0,100,0\n0,1,0\n5,0,0"), ["1 -> 1: 1, not in 0..=0"]);
        // A thread that is missing from the matrix has lost its counts.
        assert_eq!(complaints("0,100\n0,0"), ["2 -> 0: 0, not in 5..=8"]);
    }

    #[test]
    fn what_is_not_a_matrix_is_refused() {
        assert!(Matrix::from_csv("1,2\n3").is_err());
        assert!(Matrix::from_csv("1,-2\n3,4").is_err());
        assert!(Expected::from_output("expect raw 0 1", "raw").is_err());
    }
}
