//! What the verbs read besides profiles: communication matrices in CSV.
//!
//! Neighbours: the verbs `place` and `diff`.

use anyhow::Context;
use placement::matrix_from_csv;
use std::io::Read;
use std::path::Path;
use types::CommMatrix;

/// The matrix in a CSV file, or, for `-`, on standard input.
pub fn matrix(path: &Path) -> anyhow::Result<CommMatrix> {
    let from_stdin = path.as_os_str() == "-";
    let name = if from_stdin { "stdin".into() } else { format!("'{}'", path.display()) };
    let mut text = Vec::new();
    let read = match from_stdin {
        true => std::io::stdin().read_to_end(&mut text),
        false => std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut text)),
    };
    read.with_context(|| {
        format!("cannot read {name}; name a profile folder (NAME.tt) or a CSV matrix")
    })?;
    matrix_from_csv(&String::from_utf8_lossy(&text))
        .with_context(|| format!("{name} is not a communication matrix"))
}
