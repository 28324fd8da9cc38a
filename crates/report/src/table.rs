//! Columns of text aligned for a terminal.

use std::fmt;

/// Which side of a column is even.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A heading, rows, every column as wide as its widest cell, two spaces before each. Where a table
/// would be wider than it may be, cells on the left side of columns are cut, the longest first.
pub(crate) struct Table {
    align: Vec<Align>,
    rows: Vec<Vec<String>>,
    width: usize,
}

/// Longer cells are cut; C++ symbols can be thousands of characters long.
const CELL: usize = 48;
/// Columns are not cut below this.
const MIN: usize = 8;

impl Table {
    pub(crate) fn new(columns: &[(&str, Align)]) -> Self {
        let heading = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        let align = columns.iter().map(|(_, align)| *align).collect();
        Self { align, rows: vec![heading], width: usize::MAX }
    }

    /// The table no wider than this, columns of the terminal, as far as cutting text makes it so.
    pub(crate) fn within(mut self, width: usize) -> Self {
        self.width = width;
        self
    }

    /// How wide the table would be if nothing were cut.
    pub(crate) fn natural_width(&self) -> usize {
        self.total(&self.natural_widths())
    }

    fn natural_widths(&self) -> Vec<usize> {
        let widest = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max();
        (0..self.align.len()).map(|column| widest(column).unwrap_or(0)).collect()
    }

    /// Widths of the columns as they are printed.
    fn widths(&self) -> Vec<usize> {
        let mut widths = self.natural_widths();
        while self.total(&widths) > self.width {
            let texts = (0..widths.len()).filter(|&column| self.align[column] == Align::Left);
            match texts.max_by_key(|&column| widths[column]) {
                Some(column) if widths[column] > MIN => widths[column] -= 1,
                _ => break,
            }
        }
        widths
    }

    fn total(&self, widths: &[usize]) -> usize {
        widths.iter().map(|width| width + 2).sum()
    }

    /// Adds a row with as many cells as there are columns.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.align.len());
        self.rows.push(cells.into_iter().map(|cell| cut(&cell, CELL)).collect());
    }
}

/// The first characters of a text that is longer than `most`.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.chars().count() {
        n if n <= most => text.into(),
        _ => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, align), &width) in row.iter().zip(&self.align).zip(&widths) {
                let cell = cut(cell, width);
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
    fn texts_give_way_to_the_width() {
        let mut table = Table::new(&[("a", Align::Left), ("b", Align::Left), ("n", Align::Right)]);
        table.row(vec!["short".into(), "0123456789".into(), "1234567890".into()]);
        let wide = table.to_string();
        assert_eq!(wide.lines().map(str::len).max(), Some(31));
        let narrow = table.within(30);
        assert_eq!(narrow.to_string().lines().nth(1), Some("  short  01234567…  1234567890"));
        let hopeless = narrow.within(10);
        assert_eq!(hopeless.to_string().lines().nth(1), Some("  short  0123456…  1234567890"));
    }

    #[test]
    fn long_cells_are_cut() {
        let mut table = Table::new(&[("x", Align::Left)]);
        table.row(vec!["ä".repeat(100)]);
        assert_eq!(table.to_string().lines().nth(1), Some(&*format!("  {}…", "ä".repeat(47))));
    }
}
