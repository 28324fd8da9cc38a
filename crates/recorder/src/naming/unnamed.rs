//! What could not be named, and why.
//!
//! Neighbours: `places` names what it can; `exact` and `sampled` add the note to the profile.

use crate::frames::file_name;
use crate::session::RawModule;
use profile::{Note, SiteRow};
use std::collections::BTreeMap;

/// A note if files which `sites` lie in cannot be read (`needs_root`: root could), or no source
/// line is known.
pub fn what_lacks_names(
    modules: &[RawModule],
    sites: &[SiteRow],
    needs_root: bool,
) -> Option<Note> {
    without_names(modules, sites, needs_root).or_else(|| without_lines(sites))
}

fn without_names(modules: &[RawModule], sites: &[SiteRow], needs_root: bool) -> Option<Note> {
    let met = |module: &&RawModule| {
        module.readable().is_none() && sites.iter().any(|site| site.module == module.path)
    };
    let mut names: Vec<&str> = modules.iter().filter(met).map(|m| file_name(&m.path)).collect();
    names.sort_unstable();
    names.dedup();
    let (file, more) = ((*names.first()?).to_owned(), names.len() as u64 - 1);
    Some(Note::CodeWithoutNames { file, more, needs_root })
}

/// Files of the C library, whose debug symbols may be installed where the program's are not.
const C_LIBRARY: [&str; 3] = ["libc.so", "libpthread.so", "ld-linux"];

/// A note if no source line is known for any of these places outside the C library.
fn without_lines(sites: &[SiteRow]) -> Option<Note> {
    let of_program = |site: &&SiteRow| {
        let file = file_name(&site.module);
        !file.is_empty() && !C_LIBRARY.iter().any(|name| file.starts_with(name))
    };
    let mut number: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for site in sites.iter().filter(of_program) {
        if site.line > 0 {
            return None;
        }
        let (sites, named) = number.entry(&site.module).or_default();
        (*sites, *named) = (*sites + 1, *named + usize::from(!site.function.is_empty()));
    }
    let (file, (sites, named)) = number.into_iter().max_by_key(|(_, (sites, _))| *sites)?;
    // Even a stripped file names what it calls in others.
    let named = 2 * named > sites;
    Some(Note::NoLines { file: file_name(file).to_owned(), named })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(module: &str, function: &str, line: u32) -> SiteRow {
        SiteRow {
            address: 1,
            module: module.into(),
            offset: 1,
            function: function.into(),
            file: String::new(),
            line,
            inlined: String::new(),
        }
    }

    #[test]
    fn that_no_line_is_known_is_noted() {
        let mut sites = vec![site("/lib/libc.so.6", "free", 0), site("/bin/app", "", 0)];
        sites.push(site("/bin/app", "", 0));
        sites.push(site("", "", 0));
        let note = |named| Some(Note::NoLines { file: "app".into(), named });
        assert_eq!(without_lines(&sites), note(false));
        sites[1].function = "main".into();
        assert_eq!(without_lines(&sites), note(false), "half of them");
        sites[2].function = "main".into();
        assert_eq!(without_lines(&sites), note(true));
        sites[0].line = 7;
        assert_eq!(without_lines(&sites), note(true), "only the C library's");
        assert_eq!(without_lines(&sites[..1]), None);
        sites[2].line = 7;
        assert_eq!(without_lines(&sites), None);
    }
}
