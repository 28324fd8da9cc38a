//! Which site of a plan a chain of calls means in this run, and in this build of the program.
//!
//! A chain is put into words exactly as a recording does it; how well sites fit it,
//! `placement::DataIdentity` says. A site is given to one chain only: places that look the same are
//! told apart by the order in which they appear, as in the recording.

use super::tables::PlannedSite;
use crate::frames::Allocation;
use crate::frames::file_name;
use placement::{DataIdentity, Fit};
use profile::SiteRow;
use std::collections::HashSet;
use wire::data::{DIGITS, MIN_LARGE, OF_MAPPING, caller};

/// Binary digits of sizes from which on blocks of other sizes than in the recording are placed.
const MIN_DIGITS: u32 = MIN_LARGE.ilog2() + 1;
/// How many digits more or fewer they may have.
const MAX_APART: u32 = 5;

/// The sizes of blocks, in binary digits, that a site with these may be of use for.
pub fn served(digits: u32) -> impl Iterator<Item = u32> {
    let (own, kind) = (digits & DIGITS, digits & OF_MAPPING);
    let near = own.saturating_sub(MAX_APART).max(MIN_DIGITS)..=(own + MAX_APART).min(u64::BITS);
    let near = near.filter(move |_| own >= MIN_DIGITS);
    std::iter::once(own).chain(near).map(move |digits| digits | kind)
}

/// Sites, and those that chains have been given, with the digits of their blocks.
pub struct Naming<'a> {
    sites: &'a [PlannedSite],
    given: HashSet<(usize, u32)>,
    /// The loosest fit so far.
    pub loosest: Option<Fit>,
}

impl<'a> Naming<'a> {
    pub fn new(sites: &'a [PlannedSite]) -> Self {
        Self { sites, given: HashSet::new(), loosest: None }
    }

    /// The program was replaced by another: everything appears anew.
    pub fn begin(&mut self) {
        self.given.clear();
    }

    /// What a plan may mean by a caller: one of [`caller`].
    pub fn caller(&self, site: &SiteRow) -> u32 {
        let code = code(site);
        let may = |identity: &DataIdentity| match site.function.is_empty() {
            true => identity.code == code,
            false => identity.function == site.function || identity.code == code,
        };
        if self.sites.iter().any(|planned| may(&planned.identity)) {
            return caller::MAYBE;
        }
        match crate::places::allocates(&site.function) {
            true => caller::PASSES_ON,
            false => caller::NO,
        }
    }

    /// The site of a chain of calls that allocates. `digits`: see [`PlannedSite::digits`]. With
    /// another input, blocks may be of sizes that the recording did not have: the nearest one
    /// counts.
    pub fn site(&mut self, found: &Allocation, digits: u32) -> Option<usize> {
        let found = identity(found, digits & OF_MAPPING != 0);
        let fitting = |(number, planned): (usize, &PlannedSite)| {
            let serves = served(planned.digits).any(|served| served == digits);
            let fit = serves.then(|| planned.identity.fit(&found)).flatten()?;
            Some((fit, planned.digits.abs_diff(digits), number))
        };
        let mut all: Vec<_> = self.sites.iter().enumerate().filter_map(fitting).collect();
        // Of this size, the recording had blocks from there.
        let was_recorded = all
            .iter()
            .any(|(_, apart, number)| *apart == 0 || self.sites[*number].left.contains(&digits));
        all.retain(|(_, apart, number)| {
            (*apart == 0 || !was_recorded) && !self.given.contains(&(*number, digits))
        });
        // The first of those that fit best.
        let best = all.into_iter().max_by_key(|(fit, apart, number)| {
            (*fit, std::cmp::Reverse(*apart), std::cmp::Reverse(*number))
        });
        let (fit, _, number) = best?;
        self.given.insert((number, digits));
        self.loosest = Some(self.loosest.map_or(fit, |known| known.min(fit)));
        Some(number)
    }
}

/// How a call stands in plans: module and offset.
fn code(site: &SiteRow) -> String {
    match site.module.is_empty() {
        true => String::new(),
        false => format!("{}+{:#x}", file_name(&site.module), site.offset),
    }
}

/// A chain of calls as it stands in plans.
fn identity(found: &Allocation, is_mapping: bool) -> DataIdentity {
    let site = &found.site;
    DataIdentity {
        region: if is_mapping { "anonymous" } else { "heap" }.into(),
        name: found.name.clone(),
        function: site.function.clone(),
        file: site.file.clone(),
        line: site.line,
        code: code(site),
        callers: found.callers.clone(),
        thread: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::data::NONE;

    fn allocation(line: u32, offset: u64, callers: &str) -> Allocation {
        let site = SiteRow {
            module: "/home/user/app".into(),
            offset,
            function: "make".into(),
            file: "src/a.c".into(),
            line,
            ..SiteRow::default()
        };
        Allocation { name: format!("in make at a.c:{line}"), callers: callers.into(), site }
    }

    fn planned(line: u32, offset: u64, callers: &str) -> PlannedSite {
        let Allocation { name, callers, site } = allocation(line, offset, callers);
        let identity = DataIdentity {
            region: "heap".into(),
            name,
            function: site.function.clone(),
            file: site.file.clone(),
            line: site.line,
            code: code(&site),
            callers,
            thread: None,
        };
        PlannedSite { identity, first: 0, count: 0, others: NONE, digits: 20, left: Vec::new() }
    }

    #[test]
    fn the_same_build_goes_by_code() {
        let sites = [planned(7, 0x10, "main at a.c:20"), planned(7, 0x30, "main at a.c:20")];
        let mut naming = Naming::new(&sites);
        assert_eq!(naming.site(&allocation(7, 0x30, "main at a.c:20"), 20), Some(1));
        assert_eq!(naming.site(&allocation(7, 0x10, "main at a.c:20"), 20), Some(0));
        assert_eq!(naming.loosest, Some(Fit::Code));
    }

    #[test]
    fn another_build_goes_by_words_and_in_order() {
        let sites = [planned(7, 0x10, "main at a.c:20"), planned(7, 0x30, "main at a.c:20")];
        let mut naming = Naming::new(&sites);
        assert_eq!(naming.site(&allocation(7, 0x50, "main at a.c:20"), 12), None);
        assert_eq!(naming.site(&allocation(7, 0x50, "main at a.c:20"), 20), Some(0));
        assert_eq!(naming.site(&allocation(7, 0x90, "main at a.c:20"), 20), Some(1));
        assert_eq!(naming.site(&allocation(7, 0xb0, "main at a.c:20"), 20), None);
        assert_eq!(naming.loosest, Some(Fit::Words));
    }

    #[test]
    fn blocks_of_sizes_that_were_not_recorded_go_like_the_nearest() {
        let of = |offset, digits, left: &[u32]| {
            let site = planned(7, offset, "main at a.c:20");
            PlannedSite { digits, left: left.to_vec(), ..site }
        };
        let sites = [of(0x10, 20, &[18]), of(0x30, 20, &[]), of(0x10, 24, &[18])];
        let mut naming = Naming::new(&sites);
        let mut site =
            |offset, digits| naming.site(&allocation(7, offset, "main at a.c:20"), digits);
        // Each of two places that look the same, and the nearer size.
        assert_eq!([site(0x10, 21), site(0x30, 21)], [Some(0), Some(1)]);
        assert_eq!((site(0x10, 23), site(0x10, 20)), (Some(2), Some(0)));
        // The recording had blocks of this size, which need no place.
        assert_eq!(site(0x10, 18), None);
        // Too far apart, or small.
        assert_eq!((site(0x30, 30), site(0x30, 16)), (None, None));
    }

    #[test]
    fn source_that_has_moved_goes_by_functions_of_the_whole_chain() {
        let sites =
            [planned(7, 0x10, "one at a.c:20; main at a.c:3"), planned(9, 0x30, "two at a.c:30")];
        let mut naming = Naming::new(&sites);
        assert_eq!(naming.site(&allocation(12, 0x50, "two at a.c:35"), 20), Some(1));
        assert_eq!(naming.site(&allocation(12, 0x50, "three at a.c:35"), 20), None);
        assert_eq!(naming.site(&allocation(10, 0x50, "one at a.c:25; main at a.c:3"), 20), Some(0));
        assert_eq!(naming.loosest, Some(Fit::Functions));
    }

    #[test]
    fn callers_are_told_by_function_or_code() {
        let sites = [planned(7, 0x10, "main at a.c:20")];
        let naming = Naming::new(&sites);
        let site = |function: &str, offset: u64| SiteRow {
            module: "/opt/app".into(),
            offset,
            function: function.into(),
            ..SiteRow::default()
        };
        assert_eq!(naming.caller(&site("make", 0x999)), caller::MAYBE);
        assert_eq!(naming.caller(&site("", 0x10)), caller::MAYBE);
        assert_eq!(naming.caller(&site("", 0x11)), caller::NO);
        assert_eq!(naming.caller(&site("other", 0x999)), caller::NO);
        assert_eq!(naming.caller(&site("operator new(unsigned long)", 0x9)), caller::PASSES_ON);
    }
}
