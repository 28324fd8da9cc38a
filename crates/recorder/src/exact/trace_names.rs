//! Names for a trace, so that it tells without its profile which code the accesses come from.
//!
//! Neighbours: `trace` asks; `naming/places` names.

use crate::error::RecorderError;
use crate::frames::{Step, file_name};
use crate::places::Places;
use crate::processes::Processes;
use profile::SiteRow;
use simulation::TracedSite;
use std::sync::atomic::Ordering::Relaxed;

/// The sites of a process, by its number, that are wanted and can be named; `wanted` by number.
///
/// # Errors
/// Fails when the session cannot be read.
pub fn sites(
    processes: &Processes,
    process: u32,
    wanted: &[bool],
) -> Result<Vec<TracedSite>, RecorderError> {
    let (session, found) = (processes.session().of_segment(process), processes.found());
    let mapping = session.header()?;
    let header = &mapping.records()[0];
    let threads = session.threads(header.threads.load(Relaxed) as usize)?;
    let modules = session.modules(header.modules.load(Relaxed) as usize)?;
    let addresses = session.sites(header.sites.load(Relaxed) as usize + 1)?;
    let places = Places::new(&modules, &threads, None, &found.resolver);
    let named = |(site, (&address, _)): (usize, (&u64, &bool))| {
        Some(TracedSite { site: site as u32, name: name(&places.site(address))? })
    };
    let known = addresses.iter().zip(wanted).enumerate();
    Ok(known
        .filter(|(_, (address, wanted))| **address != 0 && **wanted)
        .filter_map(named)
        .collect())
}

/// The innermost function and its line; of libraries, and where lines are not known, the function.
fn name(site: &SiteRow) -> Option<String> {
    let step = Step::all(site).into_iter().next()?;
    let has_line = !site.file.is_empty() && !step.is_library;
    Some(match has_line || site.function.is_empty() {
        true => step.text(),
        false => format!("{} in {}", site.function, file_name(&site.module)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_libraries_is_named_by_function() {
        let site = |module: &str, function: &str, file: &str| SiteRow {
            address: 0x7010,
            module: module.into(),
            offset: 0x10,
            function: function.into(),
            file: file.into(),
            line: if file.is_empty() { 0 } else { 7 },
            inlined: String::new(),
        };
        for (module, function, file, expected) in [
            ("/home/app", "solve", "/home/s.c", "solve at s.c:7"),
            ("/home/app", "solve", "", "solve in app"),
            ("/home/app", "", "", "app+0x10"),
            ("/usr/lib/libc.so.6", "memset", "memset.S", "memset in libc.so.6"),
        ] {
            assert_eq!(name(&site(module, function, file)).as_deref(), Some(expected));
        }
    }
}
