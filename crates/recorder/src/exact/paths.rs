//! Call paths of code sites: what the agent sampled (`wire::paths`), as rows of the profile.
//!
//! Neighbours: `session` has the records, `places` names addresses, `tables` asks.

use crate::error::RecorderError;
use crate::frames::Step;
use crate::places::Places;
use crate::session::Session;
use profile::{CallRow, SiteRow};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::atomic::Ordering::Acquire;
use wire::paths::{MAX_PATHS, PATH_FRAMES, Path};
use wire::session::{Header, PATHS_OFFSET};

/// Most paths of a site that are kept, the commonest.
const MAX_OF_SITE: usize = 64;

/// A path as the agent left it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawPath {
    /// Return addresses, innermost first; 0 = no more are known.
    pub frames: [u64; PATH_FRAMES],
    pub count: u64,
    /// The session's number of the site.
    pub site: u32,
}

impl RawPath {
    /// From the words of a record.
    fn of(words: &[u64]) -> Self {
        Self {
            frames: std::array::from_fn(|k| words[k]),
            count: words[offset_of!(Path, count) / 8],
            site: words[offset_of!(Path, site) / 8] as u32,
        }
    }
}

/// The paths that a process has left.
pub fn read(session: &Session, header: &Header) -> Result<Vec<RawPath>, RecorderError> {
    let bytes = size_of::<Path>() / 8;
    let count = (header.paths.load(Acquire) as usize).min(MAX_PATHS);
    let words = session.words(PATHS_OFFSET, count * bytes)?;
    Ok(words.chunks_exact(bytes).map(RawPath::of).filter(|path| path.count > 0).collect())
}

/// The table of paths of the `sites`; `addresses` are those of the session's sites, to which the
/// paths refer.
pub fn name(
    paths: &[RawPath],
    addresses: &[u64],
    sites: &[SiteRow],
    places: &Places<'_>,
) -> Vec<CallRow> {
    let rows: HashMap<u64, u32> = sites
        .iter()
        .map(|site| site.address)
        .zip(0..)
        .filter(|(address, _)| *address != 0)
        .collect();
    let mut sums = Sums::default();
    sums.add(
        paths,
        |site| addresses.get(site as usize).and_then(|address| rows.get(address)).copied(),
        places,
    );
    sums.rows()
}

/// How often sites were come to by each path.
#[derive(Default)]
pub struct Sums(HashMap<(u32, String), u64>);

impl Sums {
    /// Adds the paths of a process; `row_of` tells the row of a site that has one.
    pub fn add(
        &mut self,
        paths: &[RawPath],
        row_of: impl Fn(u32) -> Option<u32>,
        places: &Places<'_>,
    ) {
        let mut steps: HashMap<u64, Vec<Step>> = HashMap::new();
        for path in paths {
            let Some(row) = row_of(path.site) else { continue };
            for frame in path.frames.iter().take_while(|frame| **frame != 0) {
                // A call may end its function: what it returns to is then another's.
                steps.entry(*frame).or_insert_with(|| Step::all(&places.site(frame - 1)));
            }
            let of_path = path.frames.iter().filter_map(|frame| steps.get(frame)).flatten();
            *self.0.entry((row, text(of_path))).or_default() += path.count;
        }
    }

    /// By site, the commonest first.
    pub fn rows(self) -> Vec<CallRow> {
        let sums = self.0.into_iter();
        let mut calls: Vec<CallRow> =
            sums.map(|((site, path), count)| CallRow { site, path, count }).collect();
        calls.sort_unstable_by(|a, b| {
            let key = |row: &CallRow| (row.site, Reverse(row.count));
            key(a).cmp(&key(b)).then_with(|| a.path.cmp(&b.path))
        });
        let of_sites = calls.chunk_by(|a, b| a.site == b.site);
        of_sites.flat_map(|paths| paths.iter().take(MAX_OF_SITE)).cloned().collect()
    }
}

/// `f at a.c:10; g at a.c:20`, without what started the program or thread.
fn text<'a>(steps: impl Iterator<Item = &'a Step>) -> String {
    let steps: Vec<&Step> = steps.collect();
    let end = |is_told: &dyn Fn(&Step) -> bool| steps.iter().rposition(|step| is_told(step));
    let own = end(&|step| !step.is_library && !step.starts_program());
    let told = own.or_else(|| end(&|step| !step.starts_program())).map_or(0, |k| k + 1);
    let texts: Vec<String> = steps[..told].iter().map(|step| step.text()).collect();
    texts.join("; ")
}
