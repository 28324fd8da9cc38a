//! `threadtalk record`: run a program under the exact engine and keep its profile.

use crate::said::{grouped, refuse, say, several};
use anyhow::Context;
use profile::Profile;
use recorder::record::{Recording, record};
use recorder::session::SessionOptions;
use recorder::{RecorderError, Streams, Target};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use topology::Topology;

/// Run a program and record which of its threads talk to each other
#[derive(clap::Args)]
pub struct Args {
    /// See every memory access, by translating the program as it runs (the only mode so far)
    #[arg(long)]
    exact: bool,
    /// Folder for the profile [default: the program's name with .tt]
    #[arg(short, long, value_name = "NAME.tt")]
    output: Option<PathBuf>,
    /// Memory block in which communication is counted, bytes, a power of two
    /// [default: the machine's cache line]
    #[arg(long, value_name = "BYTES")]
    block: Option<u64>,
    /// Run child processes natively instead of recording each into a profile of its own
    #[arg(long)]
    no_follow: bool,
    /// Replace an existing profile
    #[arg(long)]
    force: bool,
    /// The program and its arguments, after --
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the verb; returns the process's exit code.
pub fn run(args: Args) -> anyhow::Result<i32> {
    let target = match Target::resolve(&args.command) {
        Ok(target) => target,
        Err(error) => return Ok(refuse(&error)),
    };
    let path = args.output.unwrap_or_else(|| format!("{}.tt", target.name()).into());
    check_output(&path, args.force)?;
    let recording = match record_here(&target, args.block, !args.no_follow, Streams::Inherited) {
        Ok(recording) => recording,
        Err(error) => return Ok(refuse(&error)),
    };
    if !args.exact {
        say("recorded in mode --exact, the only one so far; name it to silence this");
    }
    save(&recording, &path, args.force)?;
    tell(&recording.profile, &path);
    Ok(recording.ended.ending.shell_code())
}

/// Fails now rather than after the program has run: the profile must not exist and its folder must
/// take one.
pub fn check_output(path: &Path, force: bool) -> anyhow::Result<()> {
    profile::check_destination(path, force)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let probe = path.with_file_name(format!(".{name}.{}.probe", std::process::id()));
    std::fs::create_dir(&probe)
        .and_then(|()| std::fs::remove_dir(&probe))
        .with_context(|| format!("cannot write the profile {}", path.display()))
}

/// Records on this machine. The environment may hold settings for benchmarks and tests of the
/// engine: `THREADTALK_DISABLE` (bit set of optimisations to switch off) and `THREADTALK_COUNT=0`
/// (translate only).
pub fn record_here(
    target: &Target,
    block: Option<u64>,
    follow: bool,
    streams: Streams,
) -> Result<Recording, RecorderError> {
    let machine = Topology::discover();
    let line = machine.as_ref().map_or(64, |machine| u64::from(machine.line_bytes()));
    let setting = |name| std::env::var(name).ok().and_then(|value| value.parse::<u32>().ok());
    let options = SessionOptions {
        block_bytes: block.unwrap_or(line),
        disable: setting("THREADTALK_DISABLE").unwrap_or(0),
        count: setting("THREADTALK_COUNT") != Some(0),
        follow,
    };
    // A machine that hwloc and /sys say nothing about can still be recorded on.
    let xml = machine.map(|machine| machine.to_xml().to_string()).unwrap_or_default();
    record(target, options, xml, streams)
}

/// Saves the profile; a failure names the program's status, which is lost otherwise.
pub fn save(recording: &Recording, path: &Path, force: bool) -> anyhow::Result<()> {
    recording.profile.save(path, force).with_context(|| {
        format!(
            "the program {}, but its profile could not be saved",
            recording.ended.ending.in_words()
        )
    })
}

/// One line about the profile and one for each of its warnings.
pub fn tell(profile: &Profile, path: &Path) {
    let totals = &profile.meta.totals;
    say(&format!(
        "recorded {} in {:.2} s: {} reads of what another thread wrote; profile in {}",
        several(profile.threads.len(), "thread"),
        profile.meta.wall_seconds,
        grouped(totals.raw),
        path.display()
    ));
    for warning in &profile.meta.warnings {
        say(&format!("note: {warning}"));
    }
}
