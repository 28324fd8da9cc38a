//! The program to start: found through PATH, and checked before anything runs.
//!
//! Both injected libraries enter through LD_PRELOAD, so the program must be a dynamically linked
//! x86-64 glibc program that the loader does not treat as privileged. Scripts are checked by their
//! interpreter.

use crate::error::RecorderError;
use crate::sanitizers;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache, ReadRef};
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Nested `#!` interpreters that Linux follows.
const MAX_INTERPRETERS: usize = 5;
/// File name of the glibc loader for x86-64.
const GLIBC_LOADER: &str = "ld-linux-x86-64.so.2";

/// A command that can be started with a library injected.
#[derive(Clone, Debug)]
pub struct Target {
    /// File to execute.
    pub path: PathBuf,
    /// `argv`, the name as it was typed first.
    pub argv: Vec<OsString>,
    /// The ELF file that runs: `path`, or the interpreter when that is a script.
    pub program: PathBuf,
}

impl Target {
    /// Finds `command[0]` as the shell would and checks that a library can be injected into it.
    ///
    /// # Errors
    /// Fails when there is no such program, it cannot be executed, or nothing can be injected into
    /// it.
    pub fn resolve(command: &[OsString]) -> Result<Self, RecorderError> {
        let target = Self::resolve_any(command)?;
        check_elf(&target.program)?;
        check_privileges(&target.program)?;
        sanitizers::check_injection(&target.program)?;
        Ok(target)
    }

    /// Finds `command[0]` as the shell would; nothing is to be injected, so the kernel decides what
    /// it executes.
    ///
    /// # Errors
    /// Fails when there is no such program or it cannot be executed.
    pub fn resolve_any(command: &[OsString]) -> Result<Self, RecorderError> {
        let name = command.first().filter(|n| !n.is_empty()).ok_or(RecorderError::NoCommand)?;
        let path = find(name)?;
        let mut program = path.clone();
        for _ in 0..MAX_INTERPRETERS {
            match interpreter(&program)? {
                Some(next) => program = next,
                None => break,
            }
        }
        Ok(Self { path, argv: command.to_vec(), program })
    }

    /// Whether a library can be injected into it.
    pub fn takes_libraries(&self) -> bool {
        check_elf(&self.program).is_ok()
            && check_privileges(&self.program).is_ok()
            && sanitizers::check_injection(&self.program).is_ok()
    }

    /// The program's name for messages and default file names: without folders.
    pub fn name(&self) -> String {
        let typed = Path::new(&self.argv[0]);
        typed.file_name().unwrap_or(typed.as_os_str()).to_string_lossy().into_owned()
    }
}

fn not_executable(path: &Path, reason: impl Into<String>) -> RecorderError {
    RecorderError::NotExecutable { path: path.to_path_buf(), reason: reason.into() }
}

fn unsupported(path: &Path, reason: impl Into<String>) -> RecorderError {
    RecorderError::Unsupported {
        path: path.to_path_buf(),
        reason: reason.into(),
        can_sample: false,
    }
}

/// Nothing can be injected into it, but the kernel samples it as any other.
fn closed(path: &Path, reason: impl Into<String>) -> RecorderError {
    RecorderError::Unsupported { path: path.to_path_buf(), reason: reason.into(), can_sample: true }
}

/// `execvp`'s search: a name with a slash is a path, any other is looked for in PATH.
fn find(name: &OsStr) -> Result<PathBuf, RecorderError> {
    let not_found = |hint: &str| RecorderError::NotFound {
        command: name.to_string_lossy().into_owned(),
        hint: hint.into(),
    };
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match executable(&path) {
            Err(RecorderError::NotFound { .. }) => Err(not_found("")),
            other => other.map(|()| path),
        };
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut refused = None;
    for folder in std::env::split_paths(&folders) {
        let path = if folder.as_os_str().is_empty() {
            Path::new(".").join(name)
        } else {
            folder.join(name)
        };
        match executable(&path) {
            Ok(()) => return Ok(path),
            Err(RecorderError::NotFound { .. }) => {}
            // As execvp does: go on looking, but remember that there was one.
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    let here = executable(&Path::new(".").join(name)).is_ok();
    let hint = format!("; did you mean ./{}?", name.to_string_lossy());
    Err(refused.unwrap_or_else(|| not_found(if here { &hint } else { "" })))
}

/// Whether `path` is a file that we may execute.
fn executable(path: &Path) -> Result<(), RecorderError> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(not_executable(path, "no permission to look into its folder"));
        }
        Err(_) => {
            return Err(RecorderError::NotFound {
                command: path.display().to_string(),
                hint: String::new(),
            });
        }
    };
    if metadata.is_dir() {
        return Err(not_executable(path, "it is a folder"));
    }
    // Opening a pipe would wait for a writer.
    if !metadata.is_file() {
        return Err(not_executable(path, "it is a pipe, a socket or a device"));
    }
    let c_path = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| not_executable(path, "its name contains a NUL byte"))?;
    // SAFETY: a NUL-terminated path.
    if unsafe { libc::access(c_path.as_ptr(), libc::X_OK) } == 0 {
        return Ok(());
    }
    let reason = if metadata.permissions().mode() & 0o111 == 0 {
        "no execute permission; allow it with 'chmod +x'"
    } else {
        "permission denied (file mode, or a file system mounted noexec)"
    };
    Err(not_executable(path, reason))
}

/// The interpreter of a script; `None` for a file that does not start with `#!`.
fn interpreter(path: &Path) -> Result<Option<PathBuf>, RecorderError> {
    let mut head = [0u8; 256];
    let mut length = 0;
    let mut file = File::open(path)
        .map_err(|error| not_executable(path, format!("it cannot be read to check it: {error}")))?;
    while length < head.len() {
        match file.read(&mut head[length..]) {
            Ok(0) => break,
            Ok(n) => length += n,
            Err(error) => return Err(not_executable(path, format!("it cannot be read: {error}"))),
        }
    }
    let head = &head[..length];
    if !head.starts_with(b"#!") {
        return Ok(None);
    }
    let line = head[2..].split(|&b| b == b'\n').next().unwrap_or(&[]);
    let word = line.split(|b| b" \t\r".contains(b)).find(|word| !word.is_empty());
    let Some(word) = word else {
        return Err(not_executable(path, "its #! line names no interpreter"));
    };
    let interpreter = PathBuf::from(OsString::from_vec(word.to_vec()));
    match executable(&interpreter) {
        Ok(()) => Ok(Some(interpreter)),
        Err(_) => Err(not_executable(
            path,
            format!("its interpreter {} is missing or not executable", interpreter.display()),
        )),
    }
}

/// Refuses what the loader would not inject into.
fn check_elf(path: &Path) -> Result<(), RecorderError> {
    let file = File::open(path)
        .map_err(|error| not_executable(path, format!("it cannot be read: {error}")))?;
    let data = ReadCache::new(file);
    if data.read_bytes_at(0, 4) != Ok(&elf::ELFMAG) {
        let reason = "it is neither an ELF program nor a script with a #! line";
        return Err(not_executable(path, reason));
    }
    let Ok(ident) = data.read_bytes_at(0, 20) else {
        return Err(not_executable(path, "it is a truncated ELF file"));
    };
    let machine = match ident[5] {
        elf::ELFDATA2MSB => u16::from_be_bytes([ident[18], ident[19]]),
        _ => u16::from_le_bytes([ident[18], ident[19]]),
    };
    if machine == elf::EM_386 {
        return Err(unsupported(
            path,
            "is a 32-bit program; Threadtalk works on x86-64 programs, rebuild it with -m64",
        ));
    }
    if machine != elf::EM_X86_64 {
        return Err(unsupported(
            path,
            format!(
                "is a program for {}; Threadtalk works on x86-64 programs",
                machine_name(machine)
            ),
        ));
    }
    if ident[4] == elf::ELFCLASS32 {
        return Err(unsupported(path, "is an x32 program (32-bit pointers); rebuild it with -m64"));
    }
    check_program_headers(path, &data)
}

fn check_program_headers(path: &Path, data: &ReadCache<File>) -> Result<(), RecorderError> {
    let damaged = |error: object::Error| not_executable(path, format!("damaged ELF file: {error}"));
    let header = elf::FileHeader64::<Endianness>::parse(data).map_err(damaged)?;
    let endian = header.endian().map_err(damaged)?;
    match header.e_type(endian) {
        elf::ET_EXEC | elf::ET_DYN => {}
        elf::ET_REL => return Err(not_executable(path, "it is an object file; link it first")),
        elf::ET_CORE => return Err(not_executable(path, "it is a core dump")),
        other => return Err(not_executable(path, format!("unknown kind of ELF file ({other})"))),
    }
    let segments = header.program_headers(endian, data).map_err(damaged)?;
    let mut loader = None;
    for segment in segments {
        if let Some(bytes) = segment.interpreter(endian, data).map_err(damaged)? {
            loader = Some(PathBuf::from(OsStr::from_bytes(bytes)));
        }
    }
    let Some(loader) = loader else {
        return Err(closed(
            path,
            "is statically linked (or a library), so nothing can be injected; link it dynamically, \
             that is without -static",
        ));
    };
    let file_name = loader.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if file_name.starts_with("ld-musl") {
        return Err(closed(
            path,
            "is linked with musl; Threadtalk injects into glibc programs only",
        ));
    }
    if file_name != GLIBC_LOADER {
        let reason = format!("uses the loader {}, not glibc's {GLIBC_LOADER}", loader.display());
        return Err(closed(path, reason));
    }
    if !loader.exists() {
        return Err(not_executable(path, format!("its loader {} is missing", loader.display())));
    }
    Ok(())
}

fn machine_name(machine: u16) -> String {
    match machine {
        elf::EM_AARCH64 => "64-bit ARM (aarch64)".into(),
        elf::EM_ARM => "32-bit ARM".into(),
        elf::EM_PPC64 => "POWER (ppc64)".into(),
        elf::EM_S390 => "s390x".into(),
        elf::EM_RISCV => "RISC-V".into(),
        elf::EM_LOONGARCH => "LoongArch".into(),
        elf::EM_MIPS => "MIPS".into(),
        elf::EM_SPARCV9 => "SPARC".into(),
        other => format!("another processor (ELF machine {other})"),
    }
}

/// Refuses programs that start with more rights than we have: the loader then ignores LD_PRELOAD.
fn check_privileges(path: &Path) -> Result<(), RecorderError> {
    let metadata = fs::metadata(path)
        .map_err(|error| not_executable(path, format!("it cannot be inspected: {error}")))?;
    // SAFETY: these calls have no preconditions.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let mode = metadata.permissions().mode();
    let remedy = "the loader injects nothing into such programs; run Threadtalk on a copy ('cp' \
                  drops the bit) or as the user the program switches to";
    if mode & libc::S_ISUID != 0 && metadata.uid() != uid {
        return Err(unsupported(path, format!("is setuid; {remedy}")));
    }
    let setgid = mode & libc::S_ISGID != 0 && mode & libc::S_IXGRP != 0;
    if setgid && metadata.gid() != gid {
        return Err(unsupported(path, format!("is setgid; {remedy}")));
    }
    if uid != 0 && has_capabilities(path) {
        return Err(unsupported(path, format!("has file capabilities; {remedy}")));
    }
    Ok(())
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: NUL-terminated strings; a null buffer of length 0 asks for the size only.
    let size = unsafe {
        libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0)
    };
    size > 0
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
