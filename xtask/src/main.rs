//! Checks of the tree itself, run by `make check`: `cargo xtask check`.
//! `cargo xtask wrap` mends the width of comments.
//!
//! * [`layering`]: the dependencies between our crates against the table of what may use what;
//! * [`comments`]: no line of a comment beyond the width of code;
//! * [`licences`]: licences and sources of the libraries;
//! * [`cycles`]: no large cycle of modules within a crate ([`imports`]);
//! * [`sizes`]: no source file beyond 600 lines without a reason;
//! * [`documents`]: links, paths and the table of crates in documents against the tree;
//! * [`words`]: no retired phrase in documents, help and report texts.

mod comments;
mod cycles;
mod documents;
mod imports;
mod layering;
mod licences;
mod markdown;
mod sizes;
mod strings;
mod tree;
mod words;

use serde::de::DeserializeOwned;
use std::path::Path;
use std::process::Command;

fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("check") => check(),
        Some("wrap") => comments::wrap(root(), &tree::files(root())?),
        _ => anyhow::bail!("usage: cargo xtask check, or cargo xtask wrap"),
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

fn check() -> anyhow::Result<()> {
    let root = root();
    let arrows = layering::arrows(&metadata(root, &["--no-deps"])?);
    let mut complaints = layering::complaints(&arrows, layering::TABLE);
    // Libraries of other platforms may not have been downloaded.
    let libraries = metadata(root, &["--filter-platform", "x86_64-unknown-linux-gnu"])?;
    complaints.extend(licences::complaints(&libraries, &root.to_string_lossy()));
    let files = tree::files(root)?;
    complaints.extend(cycles::complaints(root, &files)?);
    complaints.extend(sizes::complaints(root, &files)?);
    complaints.extend(comments::complaints(root, &files)?);
    complaints.extend(documents::complaints(root, &files, layering::TABLE)?);
    complaints.extend(words::complaints(root, &files)?);
    for complaint in &complaints {
        eprintln!("xtask: {complaint}");
    }
    anyhow::ensure!(complaints.is_empty(), "{} problem(s) in the tree", complaints.len());
    println!(
        "xtask: layering, cycles, licences, file sizes, comments, documents and words are in order"
    );
    Ok(())
}

/// What `cargo metadata` says, with these options.
fn metadata<T: DeserializeOwned>(root: &Path, options: &[&str]) -> anyhow::Result<T> {
    let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(options)
        .current_dir(root)
        .output()?;
    anyhow::ensure!(
        output.status.success(),
        "cargo metadata failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}
