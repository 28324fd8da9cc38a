//! Checks of the tree itself, run by `make check`: `cargo xtask check`.
//!
//! * [`layering`]: the dependencies between our crates against the table of what may use what;
//! * [`sizes`]: no source file beyond 600 lines without a reason.

mod layering;
mod sizes;

use std::path::Path;
use std::process::Command;

fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("check") => check(),
        _ => anyhow::bail!("usage: cargo xtask check"),
    }
}

fn check() -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
    let mut complaints = layering::complaints(&workspace_arrows(root)?, layering::TABLE);
    complaints.extend(sizes::complaints(root)?);
    for complaint in &complaints {
        eprintln!("xtask: {complaint}");
    }
    anyhow::ensure!(complaints.is_empty(), "{} problem(s) in the tree", complaints.len());
    println!("xtask: layering and file sizes are in order");
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
