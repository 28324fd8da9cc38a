//! A folder of its own for each test: removed when the test passes, kept when it fails, with the
//! line that reruns the test.

use crate::paths;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that lives as long as its test.
pub struct Scratch {
    path: PathBuf,
    test: String,
}

impl Scratch {
    /// A new, empty folder for the running test.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // The test harness names each test's thread after the test.
        let test = std::thread::current().name().unwrap_or("test").to_owned();
        let unique = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{}-{unique}", test.replace("::", "-"), std::process::id());
        let path = paths::build().join("scratch").join(name);
        std::fs::create_dir_all(&path)
            .unwrap_or_else(|error| panic!("creating {}: {error}", path.display()));
        Self { path, test }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path inside the folder.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.path);
            return;
        }
        // The harness's own binary is named TARGET-HASH.
        let harness = std::env::args().next().unwrap_or_default();
        let target = Path::new(&harness).file_stem().unwrap_or_default().to_string_lossy();
        let target = target.rsplit_once('-').map_or(target.as_ref(), |(name, _)| name).to_owned();
        let package = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "threadtalk-e2e".into());
        let _ = writeln!(
            std::io::stderr(),
            "artefacts of {test} are kept in {path}\nrerun it with: \
             cargo test --release -p {package} --test {target} -- --exact --nocapture {test}",
            test = self.test,
            path = self.path.display(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_when_its_test_passes_and_stays_when_it_fails() {
        let gone = Scratch::new().path().to_owned();
        assert!(!gone.exists());
        let kept = std::thread::spawn(|| {
            let scratch = Scratch::new();
            let path = scratch.path().to_owned();
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                let _held = scratch;
                panic!("this failure is part of the test");
            }));
            assert!(result.is_err());
            path
        })
        .join()
        .unwrap();
        assert!(kept.exists());
        std::fs::remove_dir_all(kept).unwrap();
    }
}
