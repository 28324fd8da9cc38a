//! Files that sampled processes run, kept open where no path leads to them (any more).
//!
//! Names are looked up when sampling is over. By then a process may be gone, and with it the only
//! way to a file that was replaced or deleted, that never had a name, or that a container alone can
//! see. Such files are opened when they are first met and read through our own descriptors. Few
//! are: others are read by their paths.
//!
//! Neighbours: `process` meets them, `places` reads them.

use crate::session::ModuleFile;
use perf::Mapping;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Most files that are kept open; beyond, they have no names.
const MAX: usize = 256;

/// The files of all processes of a recording. What was opened stays open as long as one of the
/// clones, so a path handed out means the same file all the time.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// By device and inode.
    open: Arc<Mutex<HashMap<(u64, u64), File>>>,
}

impl Files {
    /// Where the file that process `pid` has mapped can be read; whether that is its path, if the
    /// caller has just looked.
    pub fn find(&self, pid: u32, mapping: &Mapping<'_>, is_at_path: Option<bool>) -> ModuleFile {
        let name = Path::new(mapping.name());
        // Who does not say which file it is means the path.
        if mapping.inode == 0 || is_at_path.unwrap_or_else(|| mapping.is_at(name)) {
            // Modules are known by text, which a path need not be.
            return match name.to_str() {
                Some(_) => ModuleFile::AtPath,
                None => ModuleFile::At(name.into()),
            };
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let which = (mapping.device, mapping.inode);
        if let Some(file) = open.get(&which) {
            return ModuleFile::At(path_of(file));
        }
        match mapping.open(pid).filter(|_| open.len() < MAX) {
            Some(file) => ModuleFile::At(path_of(open.entry(which).or_insert(file))),
            None => ModuleFile::Unreachable,
        }
    }
}

fn path_of(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;
    use test_support::Scratch;

    fn mapping<'a>(path: &'a Path, file: &Path) -> Mapping<'a> {
        let meta = fs::metadata(file).expect("it is there");
        let (device, inode) = (meta.dev(), meta.ino());
        Mapping {
            start: 0,
            end: 4096,
            executable: true,
            offset: 0,
            device,
            inode,
            path: path.as_os_str(),
        }
    }

    #[test]
    fn a_file_is_opened_once_and_only_where_its_path_is_anothers() {
        let (files, pid) = (Files::default(), std::process::id());
        let exe = std::env::current_exe().expect("we are a file");
        assert_eq!(files.find(pid, &mapping(&exe, &exe), None), ModuleFile::AtPath);
        assert!(files.open.lock().unwrap().is_empty());
        // As after an upgrade: the path now is another file's.
        let replaced = mapping("/etc/passwd".as_ref(), &exe);
        let ModuleFile::At(found) = files.find(pid, &replaced, None) else { panic!("not found") };
        assert_eq!(fs::metadata(&found).expect("open").ino(), replaced.inode);
        let deleted = mapping("/opt/gone (deleted)".as_ref(), &exe);
        assert_eq!(files.clone().find(u32::MAX, &deleted, None), ModuleFile::At(found));
        assert_eq!(files.open.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_path_that_is_no_text_leads_to_its_file_when_the_process_is_gone() {
        let folder = Scratch::new();
        let path = folder.join("x").with_file_name(OsStr::from_bytes(b"caf\xe9"));
        fs::write(&path, "code").expect("a file");
        let found = Files::default().find(u32::MAX, &mapping(&path, &path), None);
        assert_eq!(found, ModuleFile::At(path));
    }

    #[test]
    fn what_nothing_leads_to_is_not_taken_for_what_has_its_path_now() {
        let folder = std::env::current_dir().expect("we are somewhere");
        let mapping = Mapping { inode: 1, ..mapping("/etc/passwd".as_ref(), &folder) };
        let found = Files::default().find(std::process::id(), &mapping, None);
        assert_eq!(found, ModuleFile::Unreachable);
    }
}
