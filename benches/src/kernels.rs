//! The kernels of `benches/kernels/`, each at `-O2` and at `-O3 -march=x86-64-v3`.

use crate::rows::{Row, Work};
use std::path::{Path, PathBuf};
use test_support::target::TargetError;
use test_support::{Compiler, Target, probe};

/// The kernels in C, each with the reason it is there.
const KERNELS: &[(&str, &str)] = &[
    ("stencil", "streams, neighbours"),
    ("matmul", "dense inner loops"),
    ("spmv", "indirect reads"),
    ("lu", "shrinking loops, many barriers"),
    ("nbody", "arithmetic"),
    ("sort", "scattered writes"),
    ("hash", "random atomics"),
    ("prodcons", "queues, locks"),
    ("blocks", "small allocations"),
];

/// How they are compiled.
const VARIANTS: &[(&str, &[&str])] = &[("O2", &["-O2"]), ("O3v3", &["-O3", "-march=x86-64-v3"])];

/// A program to be compiled and run.
pub struct Kernel {
    target: Target,
    needs_v3: bool,
    binary: PathBuf,
    pub arguments: Vec<String>,
    /// A command that it is run by, recorded or not.
    pub wrapper: Vec<String>,
    /// What it finds in its environment, in all modes.
    pub environment: Vec<(&'static str, &'static str)>,
}

/// The kernels in all variants, and those of the programs' part: OpenMP by gfortran and by LLVM.
pub fn rows(threads: usize, scale: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for (kernel, why) in KERNELS {
        for (variant, flags) in VARIANTS {
            let source = format!("benches/kernels/{kernel}.c");
            rows.push(row(
                &format!("{kernel}-{variant}"),
                why,
                Compiler::Gcc,
                &source,
                flags,
                threads,
                scale,
            ));
        }
    }
    rows
}

/// Programs in other languages and with other runtimes.
pub fn openmp_rows(threads: usize, scale: usize) -> Vec<Row> {
    let flags = &["-O2"][..];
    let row = |name, why, compiler, source| row(name, why, compiler, source, flags, threads, scale);
    vec![
        row("gfortran OpenMP", "heat in a plate", Compiler::Gfortran, "benches/kernels/heat.f90"),
        row("LLVM OpenMP", "stencil by clang", Compiler::Clang, "benches/kernels/stencil.c"),
    ]
}

fn row(
    name: &str,
    why: &'static str,
    compiler: Compiler,
    source: &str,
    flags: &[&str],
    threads: usize,
    scale: usize,
) -> Row {
    let target = Target::new(compiler, source).flags(flags).flags(&["-fopenmp", "-pthread", "-lm"]);
    let mut kernel = Kernel::new(target, [threads, scale]);
    kernel.needs_v3 = flags.iter().any(|flag| flag.ends_with("v3"));
    Row { name: name.into(), why, repeat: 1, work: Work::Kernel(kernel) }
}

impl Kernel {
    /// A kernel whose arguments are the number of threads and the scale.
    pub fn new(target: Target, arguments: [usize; 2]) -> Self {
        let arguments = arguments.map(|n| n.to_string()).to_vec();
        let (binary, wrapper, environment) = (PathBuf::new(), Vec::new(), Vec::new());
        Self { target, needs_v3: false, binary, arguments, wrapper, environment }
    }

    /// The same, with threads of OpenMP that sleep while they wait: how long others keep a
    /// processor from them would be most of what is measured where they spin.
    pub fn waiting_passively(mut self) -> Self {
        self.environment.push(("OMP_WAIT_POLICY", "passive"));
        self
    }

    /// Compiles it, unless this machine cannot compile or run it.
    pub fn build(&mut self) -> anyhow::Result<Result<(), String>> {
        if self.needs_v3 && !probe::has_v3() {
            return Ok(Err("this processor is no x86-64-v3".into()));
        }
        match self.target.build() {
            Ok(binary) => self.binary = binary,
            Err(TargetError::NoCompiler(compiler)) => {
                return Ok(Err(format!("no {compiler:?} here")));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(Ok(()))
    }

    pub fn binary(&self) -> &Path {
        &self.binary
    }
}
