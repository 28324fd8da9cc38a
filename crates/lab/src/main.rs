//! Runs a command in the virtual NUMA machine by hand; `--help` says how.

use clap::Parser;
use lab::{Guest, Machine};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Runs a command, or a script, in a virtual NUMA machine
///
/// Output and exit code are the command's. What it leaves in /out is copied to the folder of --out.
#[derive(Parser)]
#[command(name = "threadtalk-lab")]
struct Arguments {
    /// NUMA nodes
    #[arg(long, default_value_t = 2)]
    nodes: u32,
    /// Processors of each node
    #[arg(long, default_value_t = 2)]
    cpus: u32,
    /// MiB of memory of each node
    #[arg(long, default_value_t = 256)]
    memory: u32,
    /// Distances between the nodes: rows with commas, separated by semicolons
    #[arg(long, value_name = "10,20;20,10")]
    distances: Option<String>,
    /// Last-level caches in each node
    #[arg(long)]
    caches: Option<u32>,
    /// Pages of 2 MiB that are reserved on each node
    #[arg(long, default_value_t = 0)]
    huge_pages: u32,
    /// More words for the kernel's command line
    #[arg(long, default_value = "")]
    kernel: String,
    /// Brings the built threadtalk with its libraries as /usr/bin/threadtalk
    #[arg(long)]
    threadtalk: bool,
    /// Brings a file, with the shared libraries of a program, under the same or another name
    #[arg(long = "with", value_name = "FILE[:NAME]")]
    files: Vec<String>,
    /// Where the files in the guest's /out go
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Seconds after which the machine is stopped
    #[arg(long, default_value_t = 120)]
    timeout: u64,
    /// Says how long it took, and what the kernel printed
    #[arg(long)]
    verbose: bool,
    /// Runs this script with busybox's shell instead of a command
    #[arg(long)]
    script: Option<PathBuf>,
    /// The command; if it is a file here, it is brought with its libraries
    #[arg(last = true)]
    command: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("threadtalk-lab: {error}");
            ExitCode::from(125)
        }
    }
}

fn run(arguments: &Arguments) -> Result<u8, Box<dyn std::error::Error>> {
    let mut machine = Machine::even(arguments.nodes, arguments.cpus).memory_mib(arguments.memory);
    machine = machine.huge_pages(arguments.huge_pages).kernel_options(&arguments.kernel);
    if let Some(text) = &arguments.distances {
        let row =
            |row: &str| row.split(',').map(|d| d.trim().parse()).collect::<Result<Vec<u8>, _>>();
        machine = machine.distances(text.split(';').map(row).collect::<Result<_, _>>()?);
    }
    if let Some(caches) = arguments.caches {
        machine = machine.caches_per_node(caches);
    }
    let mut guest = Guest::new(machine).timeout(Duration::from_secs(arguments.timeout));
    if arguments.threadtalk {
        guest = guest.threadtalk();
    }
    for file in &arguments.files {
        let (from, name) = file.split_once(':').unwrap_or((file, file));
        guest = guest.program_at(std::path::absolute(from)?, std::path::absolute(name)?);
    }
    if let Some(folder) = &arguments.out {
        std::fs::create_dir_all(folder)?;
        guest = guest.out(folder);
    }
    let mut command = arguments.command.clone();
    if let Some(first) = command.first_mut().filter(|first| PathBuf::from(first.as_str()).is_file())
    {
        let program = std::path::absolute(&first)?;
        *first = program.display().to_string();
        guest = guest.program(program);
    }
    let script = match &arguments.script {
        Some(script) => std::fs::read_to_string(script)
            .map_err(|error| format!("cannot read '{}': {error}", script.display()))?,
        None if command.is_empty() => return Err("name a command after --, or a script".into()),
        None => lab::quoted(&command),
    };
    let ended = guest.run(&script)?;
    print!("{}", ended.stdout);
    eprint!("{}", ended.stderr);
    if arguments.verbose {
        let (up, wall, mib) =
            (ended.up.as_secs_f64(), ended.wall.as_secs_f64(), ended.files_bytes >> 20);
        eprintln!("threadtalk-lab: {wall:.1} s, {up:.1} s in the guest, {mib} MiB of files");
        eprint!("{}", ended.console);
    }
    Ok(u8::try_from(ended.exit_code).unwrap_or(u8::MAX))
}
