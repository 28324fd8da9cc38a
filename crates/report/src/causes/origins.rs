//! Where the code of a profile's events is, by site and thread.
//!
//! Problem: one site may be reached on several ways, by different threads, and each has a caller of
//! its own to be named. Approach: paths that lead from the function in which a thread starts are
//! that thread's. Pure. Neighbours: `code` makes an origin of a site, `group` joins events by them.

use crate::causes::code::{Origin, leads_from};
use profile::{Profile, SiteRow};
use std::collections::{BTreeMap, HashMap};

/// The origins of a profile's sites, equal ones once.
pub(super) struct Origins {
    pub list: Vec<Origin>,
    of_site: Vec<u32>,
    /// Of a site and a thread, where threads came there on different ways.
    of_thread: HashMap<(u32, u32), u32>,
}

impl Origins {
    pub(super) fn of(profile: &Profile, paths: &HashMap<u32, Vec<&str>>) -> Self {
        let mut known: BTreeMap<Origin, u32> = BTreeMap::new();
        let mut list = Vec::new();
        let files = files(profile);
        let mut number = |site: &SiteRow, paths: &[&str]| {
            let mut origin = Origin::of(site, paths);
            if let Some(Some(whole)) = files.get(origin.place.file.as_str()) {
                origin.place.file = (*whole).to_owned();
            }
            // A place is one side of a finding, although it may have several callers.
            let callers = std::mem::take(&mut origin.callers);
            *known.entry(origin.clone()).or_insert_with(|| {
                list.push(Origin { callers, ..origin });
                list.len() as u32 - 1
            })
        };
        let starts = starts(profile);
        let (mut of_site, mut of_thread) = (Vec::new(), HashMap::new());
        for (site, row) in (0_u32..).zip(&profile.sites) {
            let paths = paths.get(&site).map_or(&[][..], Vec::as_slice);
            of_site.push(number(row, paths));
            if paths.len() < 2 {
                continue;
            }
            for (&start, threads) in &starts {
                let own = number(row, &paths_from(start, paths, &starts));
                if of_site.last() != Some(&own) {
                    of_thread.extend(threads.iter().map(|thread| ((site, *thread), own)));
                }
            }
        }
        Self { list, of_site, of_thread }
    }

    /// The origin of an access at a site by a thread.
    pub(super) fn of_access(&self, site: u32, thread: u32) -> u32 {
        let of_site = || self.of_site.get(site as usize).copied();
        self.of_thread.get(&(site, thread)).copied().or_else(of_site).unwrap_or(0)
    }

    pub(super) fn get(&self, origin: u32) -> &Origin {
        &self.list[origin as usize]
    }
}

/// Whole names of files by their last parts, which is all that frames of callers have; `None`:
/// there are several.
fn files(profile: &Profile) -> HashMap<&str, Option<&str>> {
    let mut files: HashMap<&str, Option<&str>> = HashMap::new();
    for whole in profile.sites.iter().map(|site| site.file.as_str()) {
        let Some((_, last)) = whole.rsplit_once('/') else { continue };
        let known = files.entry(last).or_insert(Some(whole));
        *known = known.filter(|known| *known == whole);
    }
    files
}

/// Threads by the function in which they start.
fn starts(profile: &Profile) -> BTreeMap<&str, Vec<u32>> {
    let mut starts: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for row in &profile.threads {
        let start = if row.identity.parent.is_none() { "main" } else { &row.start_symbol };
        starts.entry(start).or_default().push(row.id.0);
    }
    starts
}

/// Those of the paths to a site that a thread with this start may have taken: one lock is taken by
/// several functions, and each has threads of its own.
fn paths_from<'a>(
    start: &str,
    paths: &[&'a str],
    starts: &BTreeMap<&str, Vec<u32>>,
) -> Vec<&'a str> {
    let of = |is: &dyn Fn(&str) -> bool| -> Vec<&'a str> {
        paths.iter().copied().filter(|path| is(path)).collect()
    };
    let own = of(&|path| leads_from(path, start));
    if !own.is_empty() {
        return own;
    }
    let others = || starts.keys().filter(|other| **other != start);
    let free = of(&|path| !others().any(|other| leads_from(path, other)));
    if free.is_empty() { paths.to_vec() } else { free }
}
