//! Finding the injected libraries and handing them to a program through LD_PRELOAD.

use crate::error::RecorderError;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The exact engine, in the file system.
pub const AGENT: &str = "libthreadtalk_agent.so";
/// The launch shim, in the file system.
pub const SHIM: &str = "libthreadtalk_shim.so";
/// The loader's own list of libraries.
pub const PRELOAD: &str = "LD_PRELOAD";
/// Environment variable naming the folder of both, for odd installations and tests.
pub const LIB_DIR_ENV: &str = "THREADTALK_LIB_DIR";

/// The absolute path of library `name`: in `$THREADTALK_LIB_DIR`, else beside our executable, else
/// in `../lib/threadtalk` from there.
///
/// # Errors
/// Fails when no such file exists, or `LD_PRELOAD` cannot carry its path.
pub fn find_library(name: &'static str) -> Result<PathBuf, RecorderError> {
    let candidates: Vec<PathBuf> = match std::env::var_os(LIB_DIR_ENV).filter(|d| !d.is_empty()) {
        Some(folder) => vec![PathBuf::from(folder)],
        None => {
            let own = std::env::current_exe().map_err(RecorderError::NoProc)?;
            let bin = own.parent().unwrap_or(Path::new("/"));
            vec![bin.to_path_buf(), bin.join("../lib/threadtalk")]
        }
    };
    let found = candidates.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    let Some(path) = found else {
        let places: Vec<_> = candidates.iter().map(|p| p.display().to_string()).collect();
        return Err(RecorderError::LibraryMissing { name, places: places.join(", ") });
    };
    let path = path.canonicalize().unwrap_or(path);
    // The loader splits LD_PRELOAD at both.
    if path.as_os_str().as_bytes().iter().any(|b| b" :".contains(b)) {
        return Err(RecorderError::LibraryPath { path });
    }
    Ok(path)
}

/// The value of LD_PRELOAD with `library` first and whatever was there after it, be it empty.
pub fn preload(library: &Path, existing: Option<&OsStr>) -> OsString {
    let mut value = library.as_os_str().to_os_string();
    if let Some(rest) = existing {
        value.push(":");
        value.push(rest);
    }
    value
}

/// glibc's own settings.
pub const TUNABLES: &str = "GLIBC_TUNABLES";

/// The value of [`TUNABLES`] that keeps glibc from registering restartable sequences, which the
/// kernel could not restart in a code cache; the agent takes it out again.
pub fn without_rseq(existing: Option<&OsStr>) -> OsString {
    let mut value = existing.unwrap_or_default().to_os_string();
    if existing.is_some() {
        value.push(":");
    }
    value.push("glibc.pthread.rseq=0");
    value
}

/// `variables` of an injected library, and `even` if the library would take an odd number of them
/// out again (see `injected::environment`): all but those that the user has set, which get their
/// values back.
pub fn even_out(
    mut variables: Vec<(&'static str, OsString)>,
    even: &'static str,
) -> Vec<(&'static str, OsString)> {
    let users = |name: &str| name == PRELOAD || name == TUNABLES;
    let stays = |name: &str| users(name) && std::env::var_os(name).is_some();
    if variables.iter().filter(|(name, _)| !stays(name)).count() % 2 != 0 {
        variables.push((even, OsString::new()));
    }
    variables
}

/// The variables of a program that gets `library`, whose own variable is `own`, beside those
/// `others` that another library of ours needs.
pub fn with_library(
    library: &Path,
    own: (&'static str, OsString),
    even: &'static str,
    mut others: Vec<(&'static str, OsString)>,
) -> Vec<(&'static str, OsString)> {
    match others.iter_mut().find(|(name, _)| *name == PRELOAD) {
        // The last one of the list is initialised first, and takes an even number out again; the
        // other one takes out the list.
        Some((_, list)) => {
            let (first, rest) = split(list);
            *list = preload(Path::new(&first), Some(&preload(library, rest.as_deref())));
            others.extend([own, (even, OsString::new())]);
            others
        }
        None => {
            let preload = preload(library, std::env::var_os(PRELOAD).as_deref());
            even_out(vec![(PRELOAD, preload), own], even)
        }
    }
}

/// The first library of a list, and the rest of it.
fn split(list: &OsString) -> (OsString, Option<OsString>) {
    let text = list.to_string_lossy();
    match text.split_once(':') {
        Some((first, rest)) => (first.into(), Some(rest.into())),
        None => (list.clone(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_goes_before_what_is_preloaded_already() {
        let library = Path::new("/opt/lib/a.so");
        assert_eq!(preload(library, None), "/opt/lib/a.so");
        assert_eq!(preload(library, Some("".as_ref())), "/opt/lib/a.so:");
        assert_eq!(preload(library, Some("b.so c.so".as_ref())), "/opt/lib/a.so:b.so c.so");
    }

    #[test]
    fn a_missing_library_names_the_places_that_were_searched() {
        let error = find_library("libthreadtalk_not_there.so").unwrap_err().to_string();
        assert!(
            error.starts_with("cannot find libthreadtalk_not_there.so: looked in /"),
            "{error}"
        );
        assert!(error.contains("../lib/threadtalk; build it with 'make build'"), "{error}");
    }
}
