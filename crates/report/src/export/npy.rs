//! NumPy's array file, format 1.0 (NEP 1): magic, version, length and text of a header, data.

use super::dense::for_each_row;
use std::io::{self, Write};
use types::CommMatrix;

/// The data must start at a multiple of this.
const ALIGNMENT: usize = 64;

pub(super) fn write(matrix: &CommMatrix, out: &mut dyn Write) -> io::Result<()> {
    let n = matrix.threads();
    let mut header = format!("{{'descr': '<u8', 'fortran_order': False, 'shape': ({n}, {n}), }}");
    let unpadded = 10 + header.len() + 1;
    header.push_str(&" ".repeat(unpadded.next_multiple_of(ALIGNMENT) - unpadded));
    header.push('\n');
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&(header.len() as u16).to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    let mut bytes = Vec::with_capacity(n * 8);
    for_each_row(matrix, |row| {
        bytes.clear();
        row.iter().for_each(|count| bytes.extend_from_slice(&count.to_le_bytes()));
        out.write_all(&bytes)
    })
}
