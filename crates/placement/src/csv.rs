//! Reads a communication matrix from CSV: square, non-negative integers, row = from, column = to.
//!
//! Cells are separated by commas (or, in a file without any, by white space); spaces, empty lines,
//! a byte-order mark and Windows line ends are tolerated. The diagonal is ignored.

use types::{CommMatrix, ThreadId};

/// Events up to which costs are exact in double precision.
const MAX_EVENTS: u128 = 1 << 53;

/// Why a text is not a communication matrix. Lines and columns count from 1.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum CsvError {
    #[error("the matrix is empty; give one line of non-negative integers per thread")]
    Empty,
    #[error(
        "line {line} has {found} cell{}, but the first row has {expected}; a communication matrix \
         is square",
        if *found == 1 { "" } else { "s" }
    )]
    Ragged { line: usize, found: usize, expected: usize },
    #[error("the matrix has {rows} rows of {columns} cells; it must be square")]
    NotSquare { rows: usize, columns: usize },
    #[error("line {line}, column {column}: {text} is negative; counts are 0 or more")]
    Negative { line: usize, column: usize, text: String },
    #[error("line {line}, column {column}: '{text}' is not a non-negative integer")]
    NotANumber { line: usize, column: usize, text: String },
    #[error("line {line}, column {column}: the cell is empty; write 0 for no communication")]
    EmptyCell { line: usize, column: usize },
    #[error(
        "the counts add up to more than 2^53, beyond which costs are not exact; scale them down"
    )]
    TooLarge,
}

/// The matrix in `text`.
///
/// # Errors
/// Fails when a row has another length than there are rows, or a cell is no count.
pub fn matrix_from_csv(text: &str) -> Result<CommMatrix, CsvError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let commas = text.contains(',');
    let mut rows: Vec<Vec<u64>> = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let row = row(line.trim(), commas, number + 1)?;
        let expected = rows.first().map_or(row.len(), Vec::len);
        if row.len() != expected {
            return Err(CsvError::Ragged { line: number + 1, found: row.len(), expected });
        }
        rows.push(row);
    }
    let columns = rows.first().ok_or(CsvError::Empty)?.len();
    if columns != rows.len() {
        return Err(CsvError::NotSquare { rows: rows.len(), columns });
    }
    if rows.iter().flatten().map(|&count| u128::from(count)).sum::<u128>() > MAX_EVENTS {
        return Err(CsvError::TooLarge);
    }
    let mut matrix = CommMatrix::new(columns);
    for (from, row) in rows.iter().enumerate() {
        for (to, &count) in row.iter().enumerate() {
            matrix.add(ThreadId(from as u32), ThreadId(to as u32), count);
        }
    }
    Ok(matrix)
}

fn row(line: &str, commas: bool, number: usize) -> Result<Vec<u64>, CsvError> {
    let cells: Vec<&str> = match commas {
        true => line.split(',').collect(),
        false => line.split_whitespace().collect(),
    };
    let parsed = cells.iter().enumerate().map(|(index, cell)| cell_value(cell, number, index + 1));
    parsed.collect()
}

fn cell_value(cell: &str, line: usize, column: usize) -> Result<u64, CsvError> {
    let cell = cell.trim();
    if cell.is_empty() {
        return Err(CsvError::EmptyCell { line, column });
    }
    if let Ok(count) = cell.parse::<u64>() {
        return Ok(count);
    }
    let text: String = cell.chars().take(24).collect();
    match cell.strip_prefix('-') {
        Some(size)
            if size.parse::<f64>().is_ok_and(|size| size >= 0.0) && !size.starts_with('-') =>
        {
            Err(CsvError::Negative { line, column, text })
        }
        _ if cell.bytes().all(|b| b.is_ascii_digit()) => Err(CsvError::TooLarge),
        _ => Err(CsvError::NotANumber { line, column, text }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_line_ends_and_asymmetry_are_fine() {
        for text in ["0,1\n2,0", " 0 , 1 \r\n\r\n2,0\r\n", "\u{feff}0,1\n2,9\n", "0 1\n2\t0\n"] {
            let matrix = matrix_from_csv(text).unwrap();
            assert_eq!(matrix.to_dense(), [0, 1, 2, 0], "{text:?}");
        }
        assert_eq!(matrix_from_csv("0").unwrap().threads(), 1);
        assert_eq!(matrix_from_csv("0,0\n0,0\n").unwrap().threads(), 2);
    }

    #[test]
    fn errors_say_where() {
        let error = |text: &str| matrix_from_csv(text).unwrap_err();
        assert_eq!(error(""), CsvError::Empty);
        assert_eq!(error("\n \n"), CsvError::Empty);
        assert_eq!(error("0,1\n1\n"), CsvError::Ragged { line: 2, found: 1, expected: 2 });
        assert_eq!(error("0,1\n1,0\n0,0"), CsvError::NotSquare { rows: 3, columns: 2 });
        assert_eq!(error("0,1\n\n1,"), CsvError::EmptyCell { line: 3, column: 2 });
        let text = "-3".to_string();
        assert_eq!(error("0,-3\n1,0"), CsvError::Negative { line: 1, column: 2, text });
        for bad in ["x", "1.5", "0x10", "--1", "nan"] {
            let text = bad.to_string();
            let expected = CsvError::NotANumber { line: 2, column: 1, text };
            assert_eq!(error(&format!("0,1\n{bad},0")), expected);
        }
        assert_eq!(error("0,99999999999999999999999\n0,0"), CsvError::TooLarge);
        assert_eq!(error("0,9007199254740993\n0,0"), CsvError::TooLarge);
    }
}
