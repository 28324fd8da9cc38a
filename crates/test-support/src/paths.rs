//! Where things lie in the source tree and in the build folder.

use std::path::{Path, PathBuf};

/// Root of the source tree.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders up").to_owned()
}

/// Cargo's build folder.
pub fn build() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The built binary and its injected libraries.
pub fn release() -> PathBuf {
    build().join("release")
}
