//! `threadtalk topo`.

/// Under construction.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the verb; returns the process's exit code.
pub fn run(_args: Args) -> anyhow::Result<i32> {
    anyhow::bail!("under construction")
}
