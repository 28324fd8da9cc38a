//! The user's cache folder: what is kept there saves time, and can be removed at any time.
//!
//! Any user who can write there can have code run by whatever is recorded next. So folder and files
//! must belong to the user, and no other user may write into them.
//!
//! Neighbours: `code_store`, `known_names`, `machine`, `probed` and `transfer_time` keep their
//! files there.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Files that have not been used for so long are removed.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);
/// A file's time of use is written down again after so long.
const USE_NOTED: Duration = Duration::from_secs(3600);

/// Why nothing is kept there or used from there.
#[derive(Debug)]
pub(crate) enum NoCache {
    /// It would not be safe: others may write to the folder, or own it.
    Unsafe { folder: PathBuf, foreign: bool },
    /// It cannot be there, or not be read.
    Unusable,
}

impl From<io::Error> for NoCache {
    fn from(_: io::Error) -> Self {
        NoCache::Unusable
    }
}

/// `$XDG_CACHE_HOME/threadtalk`, which may not be there yet.
pub(crate) fn folder() -> Result<PathBuf, NoCache> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    base.map(|base| base.join("threadtalk")).ok_or(NoCache::Unusable)
}

/// Makes the folder if need be.
pub(crate) fn prepare(folder: &Path) -> Result<(), NoCache> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    check_owner(folder, &fs::metadata(folder)?)
}

/// Opens a file in the folder, which is made if it may be written.
pub(crate) fn open(path: &Path, write: bool) -> Result<File, NoCache> {
    let file = OpenOptions::new()
        .read(true)
        .write(write)
        .create(write)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)?;
    check_owner(path, &file.metadata()?)?;
    Ok(file)
}

/// Replaces a file in the folder by the given pieces, one behind the other; others find the old
/// one, the new one or, for a moment, none. The old one goes first: ext4 writes out at once what is
/// renamed over another file, for which a program once had to wait 11 seconds to begin.
pub(crate) fn replace(path: &Path, pieces: &[&[u8]]) -> Result<(), NoCache> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(NoCache::Unusable);
    };
    prepare(folder)?;
    let new = folder.join(format!("{}.{}", name.to_string_lossy(), std::process::id()));
    let mut file = open(&new, true)?;
    let written = crate::memory::without_size_signal(|| {
        file.set_len(0)?;
        pieces.iter().try_for_each(|piece| file.write_all(piece))?;
        let _ = fs::remove_file(path);
        fs::rename(&new, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    Ok(written?)
}

/// Writes down that a file is in use, as its time of modification.
pub(crate) fn note_use(file: &File) {
    let used = file.metadata().and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    if SystemTime::now().duration_since(used).unwrap_or_default() > USE_NOTED {
        let _ = file.set_modified(SystemTime::now());
    }
}

/// Removes, of the files beside `path` whose names begin alike, those that have not been used for
/// long, and more if they have more than `most` bytes; the file itself stays, and does not count.
pub(crate) fn remove_unused(path: &Path, prefix: &str, most: u64) {
    let Some(Ok(entries)) = path.parent().map(fs::read_dir) else { return };
    let mut others: Vec<(Duration, u64, PathBuf)> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .filter_map(|entry| {
            let data = entry.metadata().ok()?;
            let ago = SystemTime::now().duration_since(data.modified().ok()?);
            Some((ago.unwrap_or_default(), data.len(), entry.path()))
        })
        .filter(|(.., other)| other != path)
        .collect();
    others.sort();
    let mut bytes = 0;
    for (ago, length, path) in others {
        bytes += length;
        if ago > UNUSED || bytes > most {
            let _ = fs::remove_file(path);
        }
    }
}

/// It must not belong to another user, and other users must not be able to write into it.
fn check_owner(path: &Path, data: &fs::Metadata) -> Result<(), NoCache> {
    // SAFETY: no arguments, cannot fail.
    let is_ours = data.uid() == unsafe { libc::geteuid() };
    match is_ours && data.mode() & 0o022 == 0 {
        true => Ok(()),
        false => Err(NoCache::Unsafe { folder: path.to_owned(), foreign: !is_ours }),
    }
}
