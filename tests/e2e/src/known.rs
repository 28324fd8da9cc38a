//! The programs with known truth of `tests/programs/known/`.

use std::path::PathBuf;
use test_support::target::TargetError;
use test_support::{Compiler, Target};

/// A program that runs the patterns of `patterns.h`, by the threads it uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Runtime {
    Pthreads,
    C11,
    Cxx,
    GnuOpenMp,
    LlvmOpenMp,
    FortranOpenMp,
}

/// Most events that starting threads and waiting for each other may add to a cell.
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    /// In cells of the initial thread, which creates and awaits the others.
    pub with_initial: u64,
    /// In cells between the other threads.
    pub between: u64,
}

impl Noise {
    pub fn of(self, from: usize, to: usize) -> u64 {
        if from == 0 || to == 0 { self.with_initial } else { self.between }
    }
}

impl Runtime {
    /// The program, compiled with `flags`.
    pub fn target(self, flags: &[&str]) -> Target {
        let (compiler, source, own): (_, _, &[&str]) = match self {
            Runtime::Pthreads => (Compiler::Gcc, "pthreads.c", &["-pthread"]),
            Runtime::C11 => (Compiler::Gcc, "c11.c", &["-pthread"]),
            Runtime::Cxx => (Compiler::Gxx, "cxx.cpp", &["-pthread"]),
            Runtime::GnuOpenMp => (Compiler::Gcc, "openmp.c", &["-fopenmp"]),
            Runtime::LlvmOpenMp => (Compiler::Clang, "openmp.c", &["-fopenmp"]),
            Runtime::FortranOpenMp => (Compiler::Gfortran, "openmp.f90", &["-fopenmp"]),
        };
        Target::new(compiler, &format!("tests/programs/known/{source}")).flags(flags).flags(own)
    }

    /// What the runtime adds when it passes `barriers` barriers.
    ///
    /// A start or an end touches the new thread's control block, stack and start-up data: a dozen
    /// lines with its creator, one or two (glibc's count of threads) with the others. A barrier on
    /// eventfds shares nothing; one made of a mutex, a condition variable or OpenMP's own words
    /// bounces a few lines, seldom more than five times for each pair of threads.
    pub fn noise(self, barriers: u64) -> Noise {
        match self {
            Runtime::Pthreads => Noise { with_initial: 32, between: 6 },
            _ => Noise { with_initial: 160 + 8 * barriers, between: 24 + 8 * barriers },
        }
    }
}

/// A program of its own in `known/`: `stencil2d`, `false_sharing`, `queue`.
pub fn program(name: &str, flags: &[&str]) -> PathBuf {
    Target::new(Compiler::Gcc, &format!("tests/programs/known/{name}.c"))
        .flags(flags)
        .flags(&["-pthread"])
        .build()
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Programs whose threads take turns, so that every event in their data is the same in each run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Serial {
    C,
    CByClang,
    Cxx,
    Fortran,
}

impl Serial {
    /// The program compiled with `flags`; `None` where there is no compiler for it.
    pub fn build(self, flags: &[&str]) -> Option<PathBuf> {
        let (compiler, source, own) = match self {
            Serial::C => (Compiler::Gcc, "serial.c", "-pthread"),
            Serial::CByClang => (Compiler::Clang, "serial.c", "-pthread"),
            Serial::Cxx => (Compiler::Gxx, "serial_cxx.cpp", "-pthread"),
            Serial::Fortran => (Compiler::Gfortran, "serial_fortran.f90", "-fopenmp"),
        };
        let target = Target::new(compiler, &format!("tests/programs/known/{source}"));
        match target.flags(flags).flags(&[own]).build() {
            Ok(binary) => Some(binary),
            Err(TargetError::NoCompiler(_)) => None,
            Err(error) => panic!("{error}"),
        }
    }
}

/// The library that the program `traps` loads.
pub fn traps_library() -> PathBuf {
    Target::new(Compiler::Gcc, "tests/programs/known/traps_library.c")
        .flags(&["-O2", "-shared", "-fPIC"])
        .build()
        .unwrap_or_else(|error| panic!("{error}"))
}
