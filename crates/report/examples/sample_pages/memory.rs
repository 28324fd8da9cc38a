//! A profile with many pages: arrays that the initial thread has touched first and that groups of
//! threads use, and many small objects.

use profile::{
    AccessRow, ObjectRow, PAGE_BYTES, PageRow, PageTables, PageUse, Profile, SiteRow, SliceRow,
    TouchedRow,
};
use types::ThreadId;

/// Pages of the arrays, and objects of one page each.
const ARRAYS: [(&str, u64); 3] = [("grid", 60_000), ("table", 8_000), ("halo", 64)];
const SMALL: u32 = 20_000;

/// Fills the tables of pages of a profile with 16 threads.
pub(super) fn paged(mut profile: Profile) -> Profile {
    profile.slices = (0..4)
        .map(|n| SliceRow { start_ns: n * 10_000_000, end_ns: (n + 1) * 10_000_000 })
        .collect();
    profile.meta.parameters.slice_ns = 10_000_000;
    let site = SiteRow { address: 0x1139, function: "setup".into(), ..SiteRow::default() };
    profile.sites = vec![SiteRow::default(), SiteRow { file: "app.c".into(), line: 7, ..site }];
    profile.objects = vec![ObjectRow::default()];
    let mut tables = PageTables::default();
    let mut address = 0x7f00_0000_0000;
    for (name, pages) in ARRAYS {
        object(&mut profile, "static", &format!("{name} (app)"));
        for page in 0..pages {
            add(&mut tables, profile.objects.len() as u32 - 1, &mut address, page);
            uses(&mut tables, name, page, pages);
        }
    }
    for number in 0..SMALL {
        object(&mut profile, "static", &format!("counter{number} (app)"));
        add(&mut tables, profile.objects.len() as u32 - 1, &mut address, 0);
        access(&mut tables, 1, number % 16, 40, 10);
    }
    profile.pages = tables;
    profile.meta.page_use = Some(PageUse { estimated: false, private_bytes: 0, lost: 0 });
    profile
}

fn object(profile: &mut Profile, region: &str, name: &str) {
    let (region, name) = (region.into(), name.into());
    profile.objects.push(ObjectRow { region, name, ..ObjectRow::default() });
}

fn add(tables: &mut PageTables, object: u32, address: &mut u64, page: u64) {
    tables.pages.push(PageRow {
        address: *address,
        object,
        offset: page * PAGE_BYTES,
        touched_by: Some(ThreadId(0)),
        touched_site: 1,
        ..PageRow::default()
    });
    *address += PAGE_BYTES;
}

fn uses(tables: &mut PageTables, name: &str, page: u64, pages: u64) {
    access(tables, 0, 0, 0, 512);
    match name {
        // A part for each thread.
        "grid" => access(tables, 1, (page * 16 / pages) as u32, 2000, 1000),
        // Read by all.
        "table" => (0..16).for_each(|thread| access(tables, 2, thread, 300, 0)),
        // Written by all.
        _ => (0..16).for_each(|thread| access(tables, 3, thread, 9000, 9000)),
    }
}

fn access(tables: &mut PageTables, slice: u32, thread: u32, reads: u64, writes: u64) {
    let page = tables.pages.len() as u32 - 1;
    let (thread, total) = (ThreadId(thread), reads + writes);
    let row = AccessRow {
        page,
        slice,
        thread,
        reads,
        writes,
        low: total,
        high: total,
        hits: 0,
        missed: None,
        ..AccessRow::default()
    };
    tables.accesses.push(row);
    match tables.touched.last_mut().filter(|last| (last.page, last.thread) == (page, thread)) {
        Some(_) => {}
        None => tables.touched.push(TouchedRow { page, thread, lines: u64::MAX, written: 0 }),
    }
}
