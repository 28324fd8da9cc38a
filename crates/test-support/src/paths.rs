//! Where things lie in the source tree and in the build folder.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Root of the source tree.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders up").to_owned()
}

/// Cargo's build folder.
pub fn build() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A folder for the program's caches, kept by all tests of this process, apart from the user's.
pub fn cache() -> PathBuf {
    static CACHE: OnceLock<PathBuf> = OnceLock::new();
    CACHE.get_or_init(make_cache).clone()
}

/// Also removes those of processes that are gone.
fn make_cache() -> PathBuf {
    let caches = build().join("scratch").join("caches");
    for entry in std::fs::read_dir(&caches).into_iter().flatten().flatten() {
        if !Path::new("/proc").join(entry.file_name()).exists() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    let own = caches.join(std::process::id().to_string());
    std::fs::create_dir_all(&own).unwrap_or_else(|error| panic!("creating {own:?}: {error}"));
    own
}

/// The built binary and its injected libraries.
pub fn release() -> PathBuf {
    build().join("release")
}
