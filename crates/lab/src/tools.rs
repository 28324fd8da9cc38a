//! What the lab needs of the machine that it runs on, all of it from `make lab`.

use std::path::PathBuf;
use test_support::{Run, paths, probe};

/// QEMU's multi-threaded emulation is unreliable with many processors before this version.
const MIN_QEMU: u32 = 10;

const QEMU: &str = "qemu-system-x86_64";

/// Where the tools are.
#[derive(Clone, Debug)]
pub struct Tools {
    pub qemu: PathBuf,
    /// An unpacked kernel.
    pub kernel: PathBuf,
    /// A static busybox.
    pub busybox: PathBuf,
}

/// Why there is no lab here.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    #[error("{QEMU} is not installed ('make lab' installs it where it can)")]
    Qemu,
    #[error(
        "QEMU {0} is too old: {MIN_QEMU} or newer is needed ('make lab' installs it where it can)"
    )]
    OldQemu(u32),
    #[error("{} is missing ('make lab' fetches it where it can)", .0.display())]
    Kernel(PathBuf),
    #[error(
        "busybox is not installed, or not the static one ('make lab' installs it where it can)"
    )]
    Busybox,
    #[error("the virtual machine is one with an x86-64 processor, and this one has another")]
    Processor,
}

impl Tools {
    /// Finds them.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn find() -> Result<Self, Missing> {
        if !cfg!(target_arch = "x86_64") {
            return Err(Missing::Processor);
        }
        let qemu = probe::command(QEMU).ok_or(Missing::Qemu)?;
        let said = Run::new(&qemu).arg("--version").run().stdout_text();
        let version = major(&said).ok_or(Missing::Qemu)?;
        if version < MIN_QEMU {
            return Err(Missing::OldQemu(version));
        }
        let kernel = paths::root().join("target/lab/vmlinux");
        if !kernel.exists() {
            return Err(Missing::Kernel(kernel));
        }
        let busybox =
            probe::command("busybox").filter(|file| is_static(file)).ok_or(Missing::Busybox)?;
        Ok(Self { qemu, kernel, busybox })
    }
}

/// `QEMU emulator version 10.0.2 (Debian …)` has 10.
fn major(said: &str) -> Option<u32> {
    let version = said.split_once(" version ")?.1;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn is_static(program: &std::path::Path) -> bool {
    crate::guest::libraries(program).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qemus_version_is_read() {
        assert_eq!(
            major("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright"),
            Some(10)
        );
        assert_eq!(major("QEMU emulator version 7.2.17"), Some(7));
        assert_eq!(major(""), None);
    }
}
