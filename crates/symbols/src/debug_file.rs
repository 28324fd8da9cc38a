//! Where a stripped program's symbols and DWARF are: the places that gdb looks in (its manual,
//! section "Debugging Information in Separate Files").
//!
//! By build id `/usr/lib/debug/.build-id/ab/cdef….debug`; by `.gnu_debuglink` beside the program,
//! in `.debug/` there, and under `/usr/lib/debug`. A file that is not the program's own is not
//! used.

use crate::elf::{DebugLink, Elf};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The folder of debug files.
const GLOBAL: &str = "/usr/lib/debug";

/// The debug file that belongs to the program at `path`.
pub(crate) fn find(path: &Path, link: &DebugLink) -> Option<Elf> {
    find_under(Path::new(GLOBAL), path, link)
}

/// Where it is looked for.
pub(crate) fn places(path: &Path, link: &DebugLink) -> Vec<PathBuf> {
    candidates(Path::new(GLOBAL), path, link)
}

/// The same with another folder of debug files.
fn find_under(global: &Path, path: &Path, link: &DebugLink) -> Option<Elf> {
    candidates(global, path, link).into_iter().filter(|candidate| candidate != path).find_map(
        |candidate| {
            let elf = Elf::open(&candidate).ok()?;
            belongs(&elf, link).then_some(elf)
        },
    )
}

/// The file with what the debug file at `path` has in common with others.
pub(crate) fn find_alternative(path: &Path, link: &DebugLink) -> Option<PathBuf> {
    let (_, id) = link.alternative.as_ref()?;
    alternatives(path, link).into_iter().find(|candidate| {
        let elf = Elf::open(candidate);
        elf.is_ok_and(|elf| elf.has_dwarf && elf.link.build_id.as_ref().is_none_or(|b| b == id))
    })
}

/// Where that is looked for.
pub(crate) fn alternatives(path: &Path, link: &DebugLink) -> Vec<PathBuf> {
    let Some((name, id)) = &link.alternative else { return Vec::new() };
    let beside = path.parent().unwrap_or(Path::new("/")).join(name);
    [Some(beside), by_build_id(Path::new(GLOBAL), id)].into_iter().flatten().collect()
}

fn candidates(global: &Path, path: &Path, link: &DebugLink) -> Vec<PathBuf> {
    let mut list = Vec::new();
    list.extend(link.build_id.as_deref().and_then(|id| by_build_id(global, id)));
    if let Some((name, _)) = &link.link {
        let path = real_path(path);
        let folder = path.parent().unwrap_or(Path::new("/"));
        let below_root = folder.strip_prefix("/").unwrap_or(folder);
        list.push(folder.join(name));
        list.push(folder.join(".debug").join(name));
        list.push(global.join(below_root).join(name));
    }
    list
}

/// Where the file is, or was before it was deleted, if it is reached through a descriptor.
fn real_path(path: &Path) -> PathBuf {
    let was = || {
        let target = std::fs::read_link(path).ok()?;
        Some(PathBuf::from(target.to_str()?.strip_suffix(" (deleted)")?))
    };
    path.canonicalize().ok().or_else(was).unwrap_or_else(|| path.to_path_buf())
}

fn by_build_id(global: &Path, id: &[u8]) -> Option<PathBuf> {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (folder, file) = hex.split_at_checked(2)?;
    Some(global.join(".build-id").join(folder).join(format!("{file}.debug")))
}

/// Whether a debug file is that of the program with `link`.
fn belongs(elf: &Elf, link: &DebugLink) -> bool {
    match (&elf.link.build_id, &link.build_id, &link.link) {
        (Some(theirs), Some(ours), _) => theirs == ours,
        (_, _, Some((_, crc))) => checksum(&elf.path).is_some_and(|found| found == *crc),
        _ => false,
    }
}

fn checksum(path: &Path) -> Option<u32> {
    let mut file = std::fs::File::open(path).ok()?;
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(hasher.finalize()),
            bytes => hasher.update(&buffer[..bytes]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_are_those_of_gdb() {
        let link = DebugLink {
            build_id: Some(vec![0xab, 0xcd, 0x01]),
            link: Some(("app.debug".into(), 7)),
            alternative: None,
        };
        let places = candidates(Path::new("/usr/lib/debug"), Path::new("/opt/x/app"), &link);
        let expected = [
            "/usr/lib/debug/.build-id/ab/cd01.debug",
            "/opt/x/app.debug",
            "/opt/x/.debug/app.debug",
            "/usr/lib/debug/opt/x/app.debug",
        ];
        assert_eq!(places, expected.map(PathBuf::from));
        assert_eq!(candidates(Path::new("/d"), Path::new("app"), &DebugLink::default()).len(), 0);
    }
}
