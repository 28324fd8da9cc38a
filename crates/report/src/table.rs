//! Columns of text aligned for a terminal.

use std::fmt;

/// Which side of a column is even.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A heading, rows, every column as wide as its widest cell, indented by two.
pub(crate) struct Table {
    align: Vec<Align>,
    rows: Vec<Vec<String>>,
}

/// Longer cells are cut; C++ symbols can be thousands of characters long.
const CELL: usize = 48;

impl Table {
    pub(crate) fn new(columns: &[(&str, Align)]) -> Self {
        let heading = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        Self { align: columns.iter().map(|(_, align)| *align).collect(), rows: vec![heading] }
    }

    /// Adds a row with as many cells as there are columns.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.align.len());
        self.rows.push(cells.into_iter().map(cut).collect());
    }
}

fn cut(cell: String) -> String {
    match cell.chars().count() {
        n if n <= CELL => cell,
        _ => cell.chars().take(CELL - 1).chain(['…']).collect(),
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> =
            (0..self.align.len()).map(|column| width(column).unwrap_or(0)).collect();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, align), width) in row.iter().zip(&self.align).zip(&widths) {
                match align {
                    Align::Left => line.push_str(&format!("  {cell:<width$}")),
                    Align::Right => line.push_str(&format!("  {cell:>width$}")),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_even() {
        let mut table = Table::new(&[("name", Align::Left), ("é", Align::Right)]);
        table.row(vec!["a".into(), "1".into()]);
        table.row(vec!["longer".into(), "200".into()]);
        assert_eq!(table.to_string(), "  name      é\n  a         1\n  longer  200\n");
    }

    #[test]
    fn long_cells_are_cut() {
        let mut table = Table::new(&[("x", Align::Left)]);
        table.row(vec!["ä".repeat(100)]);
        assert_eq!(table.to_string().lines().nth(1), Some(&*format!("  {}…", "ä".repeat(47))));
    }
}
