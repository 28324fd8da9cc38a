//! Checks of the tree itself, run by `make check`: `cargo xtask check`.
//! `cargo xtask wrap` mends the width of comments.
//!
//! * [`layering`]: the dependencies between our crates against the table of what may use what;
//! * [`comments`]: no line of a comment beyond the width of code;
//! * [`sizes`]: no source file beyond 600 lines without a reason;
//! * [`documents`]: links, paths and the table of crates in documents against the tree;
//! * [`words`]: no retired phrase in documents, help and report texts.

mod comments;
mod documents;
mod layering;
mod markdown;
mod sizes;
mod strings;
mod tree;
mod words;

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
    let mut complaints = layering::complaints(&workspace_arrows(root)?, layering::TABLE);
    let files = tree::files(root)?;
    complaints.extend(sizes::complaints(root, &files)?);
    complaints.extend(comments::complaints(root, &files)?);
    complaints.extend(documents::complaints(root, &files, layering::TABLE)?);
    complaints.extend(words::complaints(root, &files)?);
    for complaint in &complaints {
        eprintln!("xtask: {complaint}");
    }
    anyhow::ensure!(complaints.is_empty(), "{} problem(s) in the tree", complaints.len());
    println!("xtask: layering, file sizes, comments, documents and words are in order");
    Ok(())
}

/// The dependencies between our own crates, as cargo sees them.
fn workspace_arrows(root: &Path) -> anyhow::Result<Vec<layering::Arrow>> {
    let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()?;
    anyhow::ensure!(
        output.status.success(),
        "cargo metadata failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(layering::arrows(&serde_json::from_slice(&output.stdout)?))
}
