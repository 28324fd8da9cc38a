//! The `threadtalk` binary: arguments, wiring, exit codes. One file per verb in `verbs/`.

mod choice;
mod family;
mod input;
mod kind;
mod output;
mod progress;
mod said;
mod traces;
mod verbs;

use clap::{CommandFactory, Parser, Subcommand};

/// Exit code for Threadtalk's own failures, as `env` and `timeout` do it.
pub const EXIT_OWN_FAILURE: i32 = 125;

#[derive(Parser)]
#[command(name = "threadtalk", version, about, max_term_width = 100, after_help = FIRST_STEPS)]
#[command(after_long_help = format!("{FIRST_STEPS}\n\n{COMMON}"))]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Record(verbs::record::Args),
    Report(verbs::report::Args),
    Tune(verbs::tune::Args),
    Place(verbs::place::Args),
    Run(verbs::run::Args),
    Auto(verbs::auto::Args),
    Simulate(verbs::simulate::Args),
    Top(verbs::top::Args),
    Diff(verbs::diff::Args),
    Export(verbs::export::Args),
    Calibrate(verbs::calibrate::Args),
    Topo(verbs::topo::Args),
    Doctor(verbs::doctor::Args),
    Completions(verbs::completions::Args),
    Man(verbs::man::Args),
}

/// What `threadtalk -h` ends with.
const FIRST_STEPS: &str = "\
First steps:
  threadtalk record -- ./app 4       writes app.tt
  threadtalk report app.tt           shows which threads communicate
  threadtalk tune -- ./app 4         measures whether placement helps";
/// What `threadtalk --help` says besides.
const COMMON: &str = "\
Where a verb has them, --json prints the result as JSON, -o/--output names the
file or folder that is written, and --force replaces it if it exists.";

fn main() {
    let cli = Cli::try_parse().unwrap_or_else(|error| {
        // Help and version are no failures; clap knows where each is to be printed.
        let _ = error.print();
        std::process::exit(if error.use_stderr() { EXIT_OWN_FAILURE } else { 0 });
    });
    let result = match cli.verb {
        Verb::Record(args) => verbs::record::run(args),
        Verb::Report(args) => verbs::report::run(args),
        Verb::Export(args) => verbs::export::run(args),
        Verb::Place(args) => verbs::place::run(args),
        Verb::Run(args) => verbs::run::run(args),
        Verb::Simulate(args) => verbs::simulate::run(args),
        Verb::Diff(args) => verbs::diff::run(args),
        Verb::Calibrate(args) => verbs::calibrate::run(args),
        Verb::Tune(args) => verbs::tune::run(args),
        Verb::Auto(args) => verbs::auto::run(args),
        Verb::Top(args) => verbs::top::run(args),
        Verb::Topo(args) => verbs::topo::run(args),
        Verb::Doctor(args) => verbs::doctor::run(args),
        Verb::Completions(args) => verbs::completions::run(args, Cli::command()),
        Verb::Man(args) => verbs::man::run(args, Cli::command()),
    };
    let code = result.unwrap_or_else(|error| {
        said::say(&one_sentence(&error));
        EXIT_OWN_FAILURE
    });
    std::process::exit(code);
}

/// The error and its causes, joined by colons; a cause that its error tells already is not
/// repeated.
fn one_sentence(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| match told.as_str() {
        "" => cause,
        _ if told.ends_with(&cause) => told,
        _ => format!("{told}: {cause}"),
    })
}

#[cfg(test)]
mod tests {
    use super::one_sentence;
    use anyhow::anyhow;

    #[test]
    fn causes_are_told_once() {
        let error = anyhow!("no space").context("cannot write x: no space").context("saving");
        assert_eq!(one_sentence(&error), "saving: cannot write x: no space");
        assert_eq!(one_sentence(&anyhow!("b").context("a")), "a: b");
    }
}
