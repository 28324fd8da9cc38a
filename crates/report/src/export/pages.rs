//! The tables of page use as text, also at larger page sizes, and numalize's form of them.
//!
//! numalize (Diener, thesis 2015, section 2.3) writes one line for each page: its number, who
//! allocated and who first touched it from where, the structure on it, and the accesses of each
//! thread. Neighbours: `rows` writes rows, `analysis::PageSize` has the sizes.

use super::rows::{Field, Rows, quoted};
use crate::lines::base_name;
use analysis::{PageSize, pages_by_address};
use profile::{Profile, SiteRow};
use std::io::{self, Write};

/// Columns of `profile::schema::PAGES`.
pub(super) const PAGES: [&str; 10] = [
    "page",
    "address",
    "object",
    "ordinal",
    "offset",
    "blocks",
    "allocated_by",
    "touched_by",
    "touched_site",
    "node",
];
/// Columns of `profile::schema::ACCESSES`.
pub(super) const ACCESSES: [&str; 12] = [
    "page", "slice", "thread", "reads", "writes", "low", "high", "hits", "missed", "node", "local",
    "remote",
];
/// Columns of `profile::schema::TOUCHED`.
pub(super) const TOUCHED: [&str; 4] = ["page", "thread", "lines", "written"];

pub(super) fn pages(profile: &Profile, rows: &mut Rows<'_>) -> io::Result<()> {
    for (number, row) in (0u32..).zip(&profile.pages.pages) {
        rows.row(&[
            number.into(),
            format!("{:#x}", row.address).into(),
            row.object.into(),
            row.ordinal.into(),
            row.offset.into(),
            row.blocks.into(),
            row.allocated_by.map(|thread| thread.0).into(),
            row.touched_by.map(|thread| thread.0).into(),
            row.touched_site.into(),
            row.node.into(),
        ])?;
    }
    Ok(())
}

pub(super) fn accesses(profile: &Profile, rows: &mut Rows<'_>) -> io::Result<()> {
    for row in &profile.pages.accesses {
        rows.row(&[
            row.page.into(),
            row.slice.into(),
            row.thread.0.into(),
            row.reads.into(),
            row.writes.into(),
            row.low.into(),
            row.high.into(),
            row.hits.into(),
            row.missed.map_or(Field::Nothing, Field::from),
            row.node.into(),
            row.seen.map_or(Field::Nothing, |seen| seen.local.into()),
            row.seen.map_or(Field::Nothing, |seen| seen.remote.into()),
        ])?;
    }
    Ok(())
}

pub(super) fn touched(profile: &Profile, rows: &mut Rows<'_>) -> io::Result<()> {
    for row in &profile.pages.touched {
        rows.row(&[
            row.page.into(),
            row.thread.0.into(),
            format!("{:#x}", row.lines).into(),
            format!("{:#x}", row.written).into(),
        ])?;
    }
    Ok(())
}

/// Writes the use of pages of this size as numalize does, ordered by page number (address divided
/// by the size). What is not known is empty. All that ever lay at an address is one page.
///
/// # Errors
/// Those of `out`.
pub fn write_numalize_pages(
    profile: &Profile,
    size: PageSize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let tables = pages_by_address(&profile.pages, size);
    let threads = profile.threads.len();
    write!(
        out,
        "page.address,alloc.thread,alloc.location,firsttouch.thread,firsttouch.location,\
         structure.name"
    )?;
    (0..threads).try_for_each(|thread| write!(out, ",T{thread}"))?;
    writeln!(out)?;
    let number =
        |thread: Option<types::ThreadId>| thread.map_or(String::new(), |t| t.0.to_string());
    let site = |site: u32| profile.sites.get(site as usize).map_or(String::new(), location);
    let mut counts = vec![0_u64; threads];
    let mut rows = tables.accesses.iter().peekable();
    for (page, row) in (0u32..).zip(&tables.pages) {
        counts.fill(0);
        while let Some(access) = rows.next_if(|access| access.page == page) {
            let count = &mut counts[access.thread.index()];
            *count = count.saturating_add(access.total());
        }
        let object = profile.objects.get(row.object as usize);
        let fields = [
            (row.address >> size.shift()).to_string(),
            number(row.allocated_by),
            site(object.map_or(0, |object| object.site)),
            number(row.touched_by),
            site(row.touched_site),
            object.map_or(String::new(), |object| object.name.clone()),
        ];
        let fields = fields.map(|field| quoted(&field).into_owned());
        write!(out, "{}", fields.join(","))?;
        counts.iter().try_for_each(|count| write!(out, ",{count}"))?;
        writeln!(out)?;
    }
    out.flush()
}

/// `a.c:12`, or the function or file where no line is known.
fn location(site: &SiteRow) -> String {
    match (site.file.as_str(), site.function.as_str(), site.module.as_str()) {
        ("", "", "") => String::new(),
        ("", "", module) => format!("{}+{:#x}", base_name(module), site.offset),
        ("", function, _) => function.into(),
        (file, ..) => format!("{}:{}", base_name(file), site.line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::paged;

    #[test]
    fn numalizes_form_word_for_word() {
        let mut profile = paged();
        profile.objects[1].name = "table, \"quoted\"".into();
        let mut out = Vec::new();
        write_numalize_pages(&profile, PageSize::K4, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "page.address,alloc.thread,alloc.location,firsttouch.thread,firsttouch.location,\
             structure.name,T0,T1,T2,T3,T4\n\
             64,0,,0,a.c:31,\"table, \"\"quoted\"\"\",576,0,0,0,0\n\
             65,0,,0,a.c:31,\"table, \"\"quoted\"\"\",512,1000,50,0,0\n"
        );
        let mut out = Vec::new();
        write_numalize_pages(&profile, PageSize::K64, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().nth(1).unwrap().split(',').next(), Some("4"));
        assert!(text.lines().nth(1).unwrap().ends_with(",1088,1000,50,0,0"), "{text}");
    }
}
