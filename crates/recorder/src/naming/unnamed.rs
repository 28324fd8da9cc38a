//! What could not be named, and why.
//!
//! Neighbours: `places` names what it can; `exact` and `sampled` add the note to the profile.

use crate::frames::file_name;
use crate::session::RawModule;
use profile::{Note, SiteRow};

/// That files which `sites` lie in cannot be read. `needs_root`: root could.
pub fn without_names(modules: &[RawModule], sites: &[SiteRow], needs_root: bool) -> Option<Note> {
    let met = |module: &&RawModule| {
        module.readable().is_none() && sites.iter().any(|site| site.module == module.path)
    };
    let mut names: Vec<&str> = modules.iter().filter(met).map(|m| file_name(&m.path)).collect();
    names.sort_unstable();
    names.dedup();
    let (file, more) = ((*names.first()?).to_owned(), names.len() as u64 - 1);
    Some(Note::CodeWithoutNames { file, more, needs_root })
}
