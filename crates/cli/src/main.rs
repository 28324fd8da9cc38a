//! The `threadtalk` binary: arguments, wiring, exit codes. One file per verb in `verbs/`.

mod output;
mod said;
mod verbs;

use clap::{Parser, Subcommand};

/// Exit code for Threadtalk's own failures, as `env` and `timeout` do it.
pub const EXIT_OWN_FAILURE: i32 = 125;

#[derive(Parser)]
#[command(name = "threadtalk", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Record(verbs::record::Args),
    Report(verbs::report::Args),
    Export(verbs::export::Args),
    Place(verbs::place::Args),
    Run(verbs::run::Args),
    Tune(verbs::tune::Args),
    Topo(verbs::topo::Args),
}

fn main() {
    let result = match Cli::parse().verb {
        Verb::Record(args) => verbs::record::run(args),
        Verb::Report(args) => verbs::report::run(args),
        Verb::Export(args) => verbs::export::run(args),
        Verb::Place(args) => verbs::place::run(args),
        Verb::Run(args) => verbs::run::run(args),
        Verb::Tune(args) => verbs::tune::run(args),
        Verb::Topo(args) => verbs::topo::run(args),
    };
    let code = result.unwrap_or_else(|error| {
        eprintln!("threadtalk: {error:#}");
        EXIT_OWN_FAILURE
    });
    std::process::exit(code);
}
