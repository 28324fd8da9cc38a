//! Compiles target programs: `tests/programs/` and `benches/kernels/`.
//!
//! A binary is kept in the build folder's `programs/` under a name that holds a hash of its
//! sources, the headers beside them, and the command line, so that it is compiled once per content.

use crate::{Run, paths, probe};
use std::ffi::CString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The compilers that targets are written for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compiler {
    Gcc,
    Gxx,
    Gfortran,
    /// LLVM's C compiler, for its OpenMP.
    Clang,
    Rustc,
}

impl Compiler {
    /// Commands to try, best first.
    fn commands(self) -> &'static [&'static str] {
        match self {
            Compiler::Gcc => &["gcc"],
            Compiler::Gxx => &["g++"],
            Compiler::Gfortran => &["gfortran"],
            Compiler::Clang => &["clang-14", "clang"],
            Compiler::Rustc => &["rustc"],
        }
    }
}

/// Why a target could not be made.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("no {0:?} on this machine; install what packages.txt lists for tests")]
    NoCompiler(Compiler),
    #[error("{0}")]
    Failed(String),
}

/// A target program to be compiled.
#[derive(Clone, Debug)]
pub struct Target {
    compiler: Compiler,
    sources: Vec<PathBuf>,
    flags: Vec<String>,
}

impl Target {
    /// A program from one source, a path from the root of the tree.
    pub fn new(compiler: Compiler, source: &str) -> Self {
        Self { compiler, sources: vec![paths::root().join(source)], flags: Vec::new() }
    }

    /// A further source.
    pub fn source(mut self, source: &str) -> Self {
        self.sources.push(paths::root().join(source));
        self
    }

    /// Compiler and linker flags, after the sources.
    pub fn flags(mut self, flags: &[&str]) -> Self {
        self.flags.extend(flags.iter().map(ToString::to_string));
        self
    }

    /// Compiles the program unless that was done before; returns the binary's path.
    ///
    /// # Errors
    /// Fails when the compiler is missing or refuses the program.
    pub fn build(&self) -> Result<PathBuf, TargetError> {
        let command = self.compiler.commands().iter().find_map(|name| probe::command(name));
        let command = command.ok_or(TargetError::NoCompiler(self.compiler))?;
        let stem = self.sources[0].file_stem().unwrap_or_default().to_string_lossy();
        let folder = paths::build().join("programs");
        let binary = folder.join(format!("{stem}-{:016x}", self.hash(&command)?));
        if binary.exists() {
            return Ok(binary);
        }
        std::fs::create_dir_all(&folder).map_err(|e| failed(&folder, &e))?;
        // Several tests may compile the same target at once: each to a name of its own. The first
        // one done stays, because it may run already, and names are read from its file.
        let thread = std::thread::current().id();
        let draft = binary.with_extension(format!("{}-{thread:?}", std::process::id()));
        let outcome = Run::new(&command)
            .arg("-o")
            .arg(&draft)
            .args(&self.sources)
            .args(&self.flags)
            // Fortran leaves its module files in the working directory otherwise.
            .directory(&folder)
            .timeout(Duration::from_secs(120))
            .run();
        if outcome.exit_code != Some(0) {
            return Err(TargetError::Failed(outcome.to_string()));
        }
        move_unless_there(&draft, &binary).map_err(|e| failed(&draft, &e))?;
        Ok(binary)
    }

    fn hash(&self, command: &Path) -> Result<u64, TargetError> {
        let mut hasher = DefaultHasher::new();
        command.hash(&mut hasher);
        self.flags.hash(&mut hasher);
        let mut inputs = self.sources.clone();
        for source in &self.sources {
            let folder = source.parent().expect("a source lies in a folder");
            let entries = std::fs::read_dir(folder).map_err(|e| failed(folder, &e))?;
            let headers = entries.flatten().map(|entry| entry.path());
            inputs.extend(headers.filter(|p| p.extension().is_some_and(|e| e == "h")));
        }
        inputs.sort();
        inputs.dedup();
        for input in inputs {
            input.hash(&mut hasher);
            std::fs::read(&input).map_err(|e| failed(&input, &e))?.hash(&mut hasher);
        }
        Ok(hasher.finish())
    }
}

/// Moves a file; where there is another one already, that one stays, and this one is removed.
fn move_unless_there(from: &Path, to: &Path) -> std::io::Result<()> {
    let [old, new] = [from, to].map(|path| CString::new(path.as_os_str().as_bytes()));
    let (old, new) = (old?, new?);
    let (here, flags) = (libc::AT_FDCWD, libc::RENAME_NOREPLACE);
    // SAFETY: two strings that end with NUL.
    if unsafe { libc::renameat2(here, old.as_ptr(), here, new.as_ptr(), flags) } == 0 {
        return Ok(());
    }
    match std::io::Error::last_os_error() {
        error if error.kind() == ErrorKind::AlreadyExists => std::fs::remove_file(from),
        error => Err(error),
    }
}

fn failed(path: &Path, error: &std::io::Error) -> TargetError {
    TargetError::Failed(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    #[test]
    fn a_change_of_flags_or_content_is_another_binary() {
        let scratch = Scratch::new();
        let source = scratch.join("hello.c");
        std::fs::write(&source, "int main(void) { return CODE; }").unwrap();
        let target = |flag| Target::new(Compiler::Gcc, source.to_str().unwrap()).flags(&[flag]);
        let three = target("-DCODE=3").build().unwrap();
        let four = target("-DCODE=4").build().unwrap();
        assert_ne!(three, four);
        Run::new(&three).run().expect_code(3);
        Run::new(&four).run().expect_code(4);
        assert_eq!(target("-DCODE=3").build().unwrap(), three);
        std::fs::write(&source, "int main(void) { return CODE + 5; }").unwrap();
        let eight = target("-DCODE=3").build().unwrap();
        Run::new(&eight).run().expect_code(8);
        for binary in [three, four, eight] {
            std::fs::remove_file(binary).unwrap();
        }
    }

    #[test]
    fn a_binary_that_is_there_is_not_replaced() {
        use std::os::unix::fs::MetadataExt;
        let scratch = Scratch::new();
        let [first, second, place] = ["first", "second", "place"].map(|name| scratch.join(name));
        std::fs::write(&first, "1").unwrap();
        std::fs::write(&second, "2").unwrap();
        let number = std::fs::metadata(&first).unwrap().ino();
        move_unless_there(&first, &place).unwrap();
        move_unless_there(&second, &place).unwrap();
        assert_eq!(std::fs::metadata(&place).unwrap().ino(), number);
        assert!(!first.exists() && !second.exists());
    }

    #[test]
    fn a_source_that_does_not_compile_says_what_the_compiler_said() {
        let scratch = Scratch::new();
        let source = scratch.join("broken.c");
        std::fs::write(&source, "int main(void) { return").unwrap();
        let error = Target::new(Compiler::Gcc, source.to_str().unwrap()).build().unwrap_err();
        assert!(error.to_string().contains("broken.c:1"), "{error}");
    }
}
