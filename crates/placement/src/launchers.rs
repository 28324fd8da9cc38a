//! Plans in the words of other launchers, for programs that Threadtalk does not start itself.
//!
//! One file for each launcher behind one trait. Each file says what its launcher can express:
//! whether it tells threads apart or has one mask for the whole process, how it counts threads, and
//! what it does with helper threads and the initial one. What a launcher cannot express also
//! stands, for this very plan, in a comment of what is written.
//!
//! | file | launcher | threads |
//! | --- | --- | --- |
//! | `omp.rs`, `gomp.rs`, `kmp.rs` | OpenMP runtimes, by environment variables | by OpenMP number |
//! | `likwid.rs` | `likwid-pin` | by order of creation |
//! | `taskset.rs`, `numactl.rs`, `hwloc.rs`, `systemd.rs` | one mask for a process | not told apart |
//! | `srun.rs`, `rankfile.rs` | Slurm, Open MPI | processes: ranks, or all threads of one |
//!
//! `who.rs` finds out which threads a launcher means. Neighbours: `plan.rs` is what comes in; the
//! verbs `export` and `run --via omp` write these.

mod gomp;
mod hwloc;
mod kmp;
mod likwid;
mod numactl;
mod omp;
mod rankfile;
mod srun;
mod systemd;
mod taskset;
#[cfg(test)]
mod testing;
mod who;

use crate::plan::Plan;

/// A plan that a launcher has no words for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum LauncherError {
    #[error(
        "the plan does not place thread {thread}, but {launcher} counts threads from the initial one \
         on without gaps; place all threads"
    )]
    Gap { launcher: &'static str, thread: u32 },
    #[error(
        "none of the plan's threads was started by an OpenMP runtime (libgomp, libomp, libiomp5), so \
         {launcher} would not reach them; use 'threadtalk run --plan', or another launcher"
    )]
    NoTeam { launcher: &'static str },
    #[error(
        "likwid-pin uses each PU once and then starts over, which puts thread {thread} on P#{would} \
         instead of P#{planned}; use 'threadtalk run --plan', or plan for as many threads as PUs"
    )]
    InTurns { thread: usize, planned: u32, would: u32 },
}

/// What starts programs in place of Threadtalk.
pub(crate) trait Launcher {
    /// The plan as this launcher reads it: a whole file, with comments.
    fn write(&self, plan: &Plan) -> Result<String, LauncherError>;
}

/// The launchers by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LauncherKind {
    /// The OpenMP standard's variables (`OMP_PLACES`).
    Omp,
    /// GNU's OpenMP runtime (`GOMP_CPU_AFFINITY`).
    Gomp,
    /// LLVM's and Intel's OpenMP runtimes (`KMP_AFFINITY`).
    Kmp,
    /// `likwid-pin`.
    Likwid,
    /// `taskset`.
    Taskset,
    /// `numactl`.
    Numactl,
    /// `hwloc-bind`.
    Hwloc,
    /// Slurm's `srun`.
    Srun,
    /// A rank file of Open MPI.
    Rankfile,
    /// Properties of a systemd unit.
    Systemd,
}

impl LauncherKind {
    /// All launchers.
    pub const ALL: [LauncherKind; 10] = [
        LauncherKind::Omp,
        LauncherKind::Gomp,
        LauncherKind::Kmp,
        LauncherKind::Likwid,
        LauncherKind::Taskset,
        LauncherKind::Numactl,
        LauncherKind::Hwloc,
        LauncherKind::Srun,
        LauncherKind::Rankfile,
        LauncherKind::Systemd,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            LauncherKind::Omp => "omp",
            LauncherKind::Gomp => "gomp",
            LauncherKind::Kmp => "kmp",
            LauncherKind::Likwid => "likwid-pin",
            LauncherKind::Taskset => "taskset",
            LauncherKind::Numactl => "numactl",
            LauncherKind::Hwloc => "hwloc-bind",
            LauncherKind::Srun => "srun",
            LauncherKind::Rankfile => "rankfile",
            LauncherKind::Systemd => "systemd",
        }
    }

    /// What is written for it, as a phrase.
    pub fn summary(self) -> &'static str {
        match self {
            LauncherKind::Omp => "of a plan: OMP_PLACES and OMP_PROC_BIND, for all OpenMP runtimes",
            LauncherKind::Gomp => {
                "of a plan: GOMP_CPU_AFFINITY, for GNU's and LLVM's OpenMP runtimes"
            }
            LauncherKind::Kmp => "of a plan: KMP_AFFINITY, for LLVM's and Intel's OpenMP runtimes",
            LauncherKind::Likwid => "of a plan: likwid-pin, threads in the order of their creation",
            LauncherKind::Taskset => "of a plan: taskset, one mask for the process",
            LauncherKind::Numactl => "of a plan: numactl, one mask for the process",
            LauncherKind::Hwloc => "of a plan: hwloc-bind, one mask for the process",
            LauncherKind::Srun => "of a plan: Slurm's srun, for tasks",
            LauncherKind::Rankfile => "of a plan: Open MPI's rankfile (1.7 to 4.1), for ranks",
            LauncherKind::Systemd => "of a plan: a drop-in for a systemd service",
        }
    }

    /// The plan in this launcher's words.
    ///
    /// # Errors
    /// When the launcher would put threads elsewhere than the plan, without a way to say so.
    pub fn write(self, plan: &Plan) -> Result<String, LauncherError> {
        self.launcher().write(plan)
    }

    fn launcher(self) -> &'static dyn Launcher {
        match self {
            LauncherKind::Omp => &omp::Omp,
            LauncherKind::Gomp => &gomp::Gomp,
            LauncherKind::Kmp => &kmp::Kmp,
            LauncherKind::Likwid => &likwid::Likwid,
            LauncherKind::Taskset => &taskset::Taskset,
            LauncherKind::Numactl => &numactl::Numactl,
            LauncherKind::Hwloc => &hwloc::Hwloc,
            LauncherKind::Srun => &srun::Srun,
            LauncherKind::Rankfile => &rankfile::Rankfile,
            LauncherKind::Systemd => &systemd::Systemd,
        }
    }
}

/// The variables that tell an OpenMP runtime this plan, with their values.
///
/// # Errors
/// When the plan has no initial thread, or none of its threads is an OpenMP runtime's.
pub fn openmp_environment(plan: &Plan) -> Result<[(&'static str, String); 2], LauncherError> {
    omp::environment(plan)
}

/// Variables that would keep an OpenMP runtime from following [`openmp_environment`]: LLVM's looks
/// at the first two before `OMP_PLACES`.
pub const OPENMP_RIVALS: [&str; 2] = ["KMP_AFFINITY", "GOMP_CPU_AFFINITY"];

/// Lines as comments of shell scripts, systemd units and rankfiles alike.
fn comments<S: AsRef<str>>(lines: impl IntoIterator<Item = S>) -> String {
    lines.into_iter().map(|line| format!("# {}\n", printable(line.as_ref()))).collect()
}

/// Without line breaks and other control characters, which a machine's description may hold.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// What stands at the head of every file.
fn heading(plan: &Plan) -> String {
    format!(
        "Plan by {} for {} on {}; PUs are P#.",
        plan.policy,
        who::threads(plan.slots.len()),
        plan.machine
    )
}

/// A shell script that starts its arguments with `launcher` before them.
fn wrapper<S: AsRef<str>>(comment: impl IntoIterator<Item = S>, launcher: &str) -> String {
    format!("#!/bin/sh\n{}exec {launcher} \"$@\"\n", comments(comment))
}
