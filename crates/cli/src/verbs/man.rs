//! `threadtalk man`: man pages, made from the definitions of the arguments. For `make install`.

use crate::output::{OUTPUT, Output, print};
use anyhow::Context;
use clap::Command;
use clap_mangen::Man;
use std::path::PathBuf;

/// Write man pages: one for threadtalk and one for each verb
#[derive(clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// Folder for the man pages
    #[arg(short, long, value_name = "DIR", help_heading = OUTPUT)]
    output: PathBuf,
    /// Replace man pages that exist
    #[arg(long, help_heading = OUTPUT)]
    force: bool,
}

/// Runs the verb; returns the process's exit code.
pub fn run(args: Args, mut command: Command) -> anyhow::Result<i32> {
    std::fs::create_dir_all(&args.output)
        .with_context(|| format!("cannot make the folder {}", args.output.display()))?;
    // `help` would get pages of its own.
    command = command.disable_help_subcommand(true);
    command.build();
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    let pages: Vec<Command> = std::iter::once(command.clone()).chain(verbs).collect();
    for page in pages {
        let man = Man::new(page);
        let name = man.get_filename();
        let mut text = Vec::new();
        man.render(&mut text).context("cannot make a man page")?;
        let out = Output::file(&args.output.join(name), args.force)?;
        print(out, &String::from_utf8_lossy(&text))?;
    }
    Ok(0)
}
