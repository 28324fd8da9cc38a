//! The kernels of `benches/kernels/suites/`: our own, short, with the memory and synchronisation of
//! programs of NAS, LULESH, Splash-3 and PARSEC, which the literature measures. Each by two
//! compilers or options.

use crate::kernels::Kernel;
use crate::rows::{Row, Work};
use test_support::{Compiler, Target};

/// How the threads of a kernel are made, and so by what it is compiled the second time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Threads {
    Posix,
    OpenMp,
}
use Threads::{OpenMp, Posix};

/// File, threads, and the reason it is there.
const SUITES: &[(&str, Threads, &str)] = &[
    ("is.c", OpenMp, "buckets counted and filled by all"),
    ("cg.c", OpenMp, "sparse rows, sums"),
    ("mg.f90", OpenMp, "grids of all sizes"),
    ("ft.c", OpenMp, "transposed by all"),
    ("sp.f90", OpenMp, "lines in all directions"),
    ("wavefront.c", Posix, "planes in order, flags"),
    ("lulesh.cpp", OpenMp, "gathered by number, short loops"),
    ("radix.c", Posix, "permuted writes"),
    ("ocean.c", Posix, "red-black, barriers"),
    ("water.c", Posix, "pairs, a lock for each molecule"),
    ("barnes.c", Posix, "tree built by all, walks"),
    ("radiosity.c", Posix, "tasks stolen, trees, lists"),
    ("cholesky.c", Posix, "queue of panels"),
    ("raytrace.c", Posix, "tiles, a scene that is read only"),
    ("blackscholes.c", Posix, "arithmetic"),
    ("canneal.cpp", Posix, "atomic pointers"),
    ("dedup.c", Posix, "pipeline, hash table"),
    ("fluidanimate.c", Posix, "a lock for each cell"),
    ("streamcluster.cpp", Posix, "barriers"),
    ("swaptions.c", Posix, "private memory, allocation"),
];

/// All of them in both variants.
pub fn rows(threads: usize, scale: usize) -> Vec<Row> {
    let both = |(file, made, why): &(&str, Threads, &'static str)| {
        let compiler = compiler_of(file);
        let second = match (compiler, made) {
            (Compiler::Gcc, Posix) => ("clang", Compiler::Clang, &["-O2"][..]),
            _ => ("O3", compiler, &["-O3", "-march=native"][..]),
        };
        [("O2", compiler, &["-O2"][..]), second].map(|(variant, compiler, flags)| {
            row(file, variant, compiler, flags, why, [threads, scale])
        })
    };
    SUITES.iter().flat_map(both).collect()
}

fn compiler_of(file: &str) -> Compiler {
    match file.rsplit_once('.') {
        Some((_, "cpp")) => Compiler::Gxx,
        Some((_, "f90")) => Compiler::Gfortran,
        _ => Compiler::Gcc,
    }
}

fn row(
    file: &str,
    variant: &str,
    compiler: Compiler,
    flags: &[&str],
    why: &'static str,
    arguments: [usize; 2],
) -> Row {
    let source = format!("benches/kernels/suites/{file}");
    let libraries = match compiler {
        Compiler::Clang => &["-pthread", "-lm"][..],
        _ => &["-fopenmp", "-pthread", "-lm"][..],
    };
    let target = Target::new(compiler, &source).flags(flags).flags(libraries);
    let stem = file.split('.').next().expect("a name");
    let kernel = Kernel::new(target, arguments).waiting_passively();
    Row { name: format!("{stem}-{variant}"), why, repeat: 1, work: Work::Kernel(kernel) }
}
