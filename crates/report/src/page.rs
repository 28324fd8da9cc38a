//! The report as one self-contained HTML file.
//!
//! The page's looks and behaviour are built in `web/` into a single file that is embedded here;
//! this module puts the data of one profile into it: the findings, matrices and activity by time
//! (`page/time.rs`) the events of the hot lines (`page/hot.rs`) and the pages of memory
//! (`page/map.rs`), all bounded; or what simulated placements came to (`page/simulated.rs`).
//! Neighbours: `web/src/model/data.ts` decodes what [`PageData`] encodes; its TypeScript types are
//! generated from it (`page/typescript.rs`).

mod hot;
mod map;
mod simulated;
mod time;
#[cfg(test)]
mod typescript;
mod varints;

pub use simulated::{
    SimulatedLink, SimulatedMachine, SimulatedPlan, SimulatedServed, SimulatedStall,
    SimulatedValue, SimulationPage, simulation_page,
};

use crate::compare::Setting;
use crate::findings::Findings;
use hot::Hot;
use map::PageMap;
use profile::Profile;
use serde::Serialize;
use time::Time;
use ts_rs::TS;

/// Built by `npm run build` in `web/`; `build.rs` says so when it is missing.
const TEMPLATE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/dist/report.html"));
/// Stands in the template where the data go.
const PLACEHOLDER: &str = "__THREADTALK_DATA__";
/// The page computes pairs from the matrix; the list is only needed for its first sentences.
const PAIRS_IN_PAGE: usize = 10;

#[derive(Serialize, TS)]
struct PageData<'a> {
    findings: &'a Findings,
    time: Time,
    hot: Hot,
    /// `None` for a recording without pages.
    pages: Option<PageMap>,
}

/// The whole page; `setting` is what the findings were computed for.
pub fn page(findings: &Findings, profile: &Profile, setting: &Setting<'_>) -> String {
    let mut findings = findings.clone();
    findings.pairs.truncate(PAIRS_IN_PAGE);
    let mut listed = 0;
    if let Some(lines) = &mut findings.lines {
        listed = lines.list.len();
        // The page sums these up itself, from the events.
        lines.list.iter_mut().for_each(|line| line.accesses.clear());
        lines.list.iter_mut().for_each(|line| line.threads.clear());
    }
    if let Some(code) = &mut findings.code {
        code.list.clear();
    }
    // As many stretches as the page has bins of time.
    let slices = &mut findings.communication.slices;
    *slices = analysis::averaged(slices, time::MAX_BINS);
    let (time, hot) = (Time::new(profile), Hot::new(profile, listed));
    let mapped = findings.memory.as_ref().map_or(0, |memory| memory.objects.len());
    let pages = PageMap::new(profile, setting, mapped);
    let data = serde_json::to_string(&PageData { findings: &findings, time, hot, pages })
        .expect("findings have only string keys and finite numbers");
    filled(&data)
}

/// The template with data, which are JSON.
fn filled(data: &str) -> String {
    // In JSON, '<' stands only inside strings; escaped, no name can close the script element.
    let data = data.replace('<', "\\u003c");
    let (head, tail) = TEMPLATE.split_once(PLACEHOLDER).expect("checked by a test");
    [head, &data, tail].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::sample;

    #[test]
    fn the_template_has_one_place_for_the_data() {
        assert_eq!(TEMPLATE.matches(PLACEHOLDER).count(), 1);
        assert!(TEMPLATE.contains("<script id=\"threadtalk-data\" type=\"application/json\">"));
    }

    #[test]
    fn the_template_is_self_contained() {
        for outside in ["src=\"http", "href=\"http", "src=\"/", "href=\"/", "@import", "url(http"] {
            assert!(!TEMPLATE.contains(outside), "{outside}");
        }
    }

    #[test]
    fn data_come_back_from_the_page() {
        let mut profile = sample(3, &[(0, 2, 0x0102_0304_0506_0708), (2, 1, 7)]).profile();
        profile.threads[1].identity.name = "</script><!--".into();
        let page = page(&Findings::new(&profile, None, 10), &profile, &Setting::default());
        assert!(!page.contains("</script><!--"));
        let start = page.find("id=\"threadtalk-data\"").unwrap();
        let data = &page[start + page[start..].find('>').unwrap() + 1..];
        let data = &data[..data.find("</script>").unwrap()];
        let value: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(value["findings"]["threads"][1]["name"], "</script><!--");
        let cells = value["time"]["layers"][0]["cells"].as_str().unwrap();
        // Cell 0 · 3 + 2 has one bin, the first; cell 2 · 3 + 1 the same.
        assert_eq!(varints::decode(cells), [2, 1, 0, 0x0102_0304_0506_0708, 5, 1, 0, 7]);
    }
}
