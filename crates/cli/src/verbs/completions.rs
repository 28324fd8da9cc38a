//! `threadtalk completions`: completions of verbs, options and values for shells.

use crate::output::{Output, print};
use clap::{Command, ValueEnum};
use clap_complete::{aot, generate};

/// Print completions for a shell
///
/// 'make install' puts them where the shells look for them. Without it:
///
///   bash: threadtalk completions bash > ~/.local/share/bash-completion/completions/threadtalk
///
///   zsh:  threadtalk completions zsh > FOLDER/_threadtalk, with FOLDER in $fpath
///
///   fish: threadtalk completions fish > ~/.config/fish/completions/threadtalk.fish
#[derive(clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Runs the verb; returns the process's exit code.
pub fn run(args: Args, mut command: Command) -> anyhow::Result<i32> {
    let shell = match args.shell {
        Shell::Bash => aot::Shell::Bash,
        Shell::Zsh => aot::Shell::Zsh,
        Shell::Fish => aot::Shell::Fish,
    };
    let mut text = Vec::new();
    generate(shell, &mut command, "threadtalk", &mut text);
    print(Output::stdout(), &String::from_utf8_lossy(&text))?;
    Ok(0)
}
