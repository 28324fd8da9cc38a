//! What this machine has. A test that needs more says so on the terminal, past the capture of the
//! test harness, and returns.

use std::io::Write;
use std::path::PathBuf;

/// The command's full path, if it is on the PATH.
pub fn command(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Number of CPUs this process may use.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Number of the first processor that this process may use.
#[must_use]
pub fn first_cpu() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.unwrap_or("0").trim().chars().take_while(char::is_ascii_digit).collect()
}

/// Whether the test runs as root (who may read and write anything).
pub fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Whether memory policies may be set and pages asked for.
pub fn memory_policies() -> bool {
    let page = [0_u8; 8192];
    let start = (page.as_ptr() as usize).next_multiple_of(4096);
    let (mut status, nodes) = (0_i32, std::ptr::null::<i32>());
    // SAFETY: the default policy changes nothing, asking for a page neither; the status is a word.
    unsafe {
        libc::syscall(libc::SYS_mbind, start, 4096, 0, nodes, 0, 0) == 0
            && libc::syscall(libc::SYS_move_pages, 0, 1, &raw const start, nodes, &mut status, 0)
                == 0
    }
}

/// Whether the processor runs code compiled for x86-64-v3 (AVX2, BMI2, FMA).
pub fn has_v3() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("bmi2")
        && std::arch::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Says on the terminal that a test, or a part of it, was left out, and why.
pub fn skip(what: &str, reason: &str) {
    // `eprintln!` would be captured by the test harness and never seen.
    let _ = writeln!(std::io::stderr(), "SKIPPED {what}: {reason}");
}
