//! Invariants of the tables of pages: they name threads, slices, objects, sites and pages that are
//! there, and hold no row twice.

use crate::{AccessRow, PAGE_BYTES, PageRow, Profile, TouchedRow};

pub(super) fn check(profile: &Profile) -> Result<(), String> {
    let tables = &profile.pages;
    let threads = profile.threads.len();
    for (number, page) in tables.pages.iter().enumerate() {
        check_page(profile, number, page)?;
    }
    for row in &tables.accesses {
        let AccessRow { page, slice, thread, low, high, hits, missed, seen, .. } = *row;
        if page as usize >= tables.pages.len() || thread.index() >= threads {
            return Err(format!("accesses of {thread} to page {page}: one of them is none"));
        }
        super::check_slice(slice, profile.slices.len())?;
        let total = row.total();
        let counted = hits > 0 || low == total && high == total;
        let too_many = missed > Some(total) || seen.is_some_and(|seen| seen.all() > hits);
        if total == 0 || !counted || !(low..=high).contains(&total) || too_many {
            return Err(format!("the accesses of {thread} to page {page} do not agree"));
        }
    }
    for TouchedRow { page, thread, lines, written } in &tables.touched {
        if *page as usize >= tables.pages.len() || thread.index() >= threads {
            return Err(format!(
                "lines of page {page} that {thread} accessed: one of them is none"
            ));
        }
        if *lines == 0 || written & !lines != 0 {
            return Err(format!("{thread} wrote to other lines of page {page} than it accessed"));
        }
    }
    let accesses = tables.accesses.windows(2).find(|pair| pair[0].key() >= pair[1].key());
    let touched = tables.touched.windows(2).find(|pair| pair[0].key() >= pair[1].key());
    match accesses.map(|pair| pair[1].page).or(touched.map(|pair| pair[1].page)) {
        Some(page) => Err(format!("the accesses to page {page} are out of order")),
        None => Ok(()),
    }
}

fn check_page(profile: &Profile, number: usize, page: &PageRow) -> Result<(), String> {
    if !page.address.is_multiple_of(PAGE_BYTES) || !page.offset.is_multiple_of(PAGE_BYTES) {
        return Err(format!("page {number} at {:#x} begins between two pages", page.address));
    }
    if page.object as usize >= profile.objects.len() {
        return Err(format!("page {number} is of an object that is none"));
    }
    if page.touched_site as usize >= profile.sites.len() {
        return Err(format!("page {number} was touched at a site that is none"));
    }
    let threads = [page.allocated_by, page.touched_by];
    match threads.iter().flatten().find(|thread| thread.index() >= profile.threads.len()) {
        Some(thread) => Err(format!("page {number} is by {thread}, which is none")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::NodesSeen;
    use crate::check::tests::reason;
    use types::ThreadId;

    #[test]
    fn every_invariant_is_checked() {
        let t9 = Some(ThreadId(9));
        let cases = [
            (
                reason(|p| p.pages.pages[1].address += 8),
                "page 1 at 0x41008 begins between two pages",
            ),
            (reason(|p| p.pages.pages[0].object = 2), "page 0 is of an object that is none"),
            (
                reason(|p| p.pages.pages[0].touched_site = 3),
                "page 0 was touched at a site that is none",
            ),
            (reason(|p| p.pages.pages[0].touched_by = t9), "page 0 is by T9, which is none"),
            (
                reason(|p| p.pages.accesses[0].page = 2),
                "accesses of T0 to page 2: one of them is none",
            ),
            (
                reason(|p| p.pages.accesses[0].reads += 1),
                "the accesses of T0 to page 0 do not agree",
            ),
            (
                reason(|p| p.pages.accesses[0].missed = Some(u64::MAX)),
                "the accesses of T0 to page 0 do not agree",
            ),
            (
                reason(|p| p.pages.accesses[0].seen = Some(NodesSeen { local: 0, remote: 1 })),
                "the accesses of T0 to page 0 do not agree",
            ),
            (reason(|p| p.pages.accesses.swap(0, 1)), "the accesses to page 0 are out of order"),
            (
                reason(|p| p.pages.touched[0].lines = 1),
                "T0 wrote to other lines of page 0 than it accessed",
            ),
            (reason(|p| p.pages.touched.swap(0, 1)), "the accesses to page 0 are out of order"),
            (
                reason(|p| p.pages.touched[0].page = 7),
                "lines of page 7 that T0 accessed: one of them is none",
            ),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected);
        }
    }
}
